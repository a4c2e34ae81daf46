"""`neuralrde fit`: train a model on data, into a run folder."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from . import flags
from .console import WRONG_USE, Refusal, going_on_unread, print_json
from .workers import ARGUMENTS, Worker, launch_of, supervise

PROGRESS = ("bar", "json", "none")
_MODEL: Any = {"rich_help_panel": "Model and training"}
_SEVERAL: Any = {"rich_help_panel": "Several processes"}


@flags.with_table
def fit(
    *,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="A file, a folder, a store, or a data set's name.", show_default=False),
    ] = None,
    table: flags.Table,
    task: flags.Task = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="closed-form, log-ncde, auto, ...; `neuralrde parts` lists them all.", **_MODEL
        ),
    ] = None,
    depth: Annotated[
        str | None, typer.Option(metavar="N|auto", help="The depth of the log-signatures. [2]", **_MODEL)
    ] = None,
    step: Annotated[
        str | None, typer.Option(metavar="N|auto", help="Points per window. [about 32 windows per series]", **_MODEL)
    ] = None,
    every: Annotated[
        float | None, typer.Option(metavar="TIME", help="Time per window, instead of --step.", **_MODEL)
    ] = None,
    loss: Annotated[
        str | None, typer.Option(metavar="NAME", help="huber, quantiles, histogram, ... [by the task]", **_MODEL)
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most N passes over the training set. [about 1000 steps]", **_MODEL),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(min=0.0, metavar="RATE", help="The peak learning rate. [0.003]", **_MODEL)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Series per training step. [32]", **_MODEL)
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(min=0.0, metavar="SECONDS", help="Stop training after this time.", **_MODEL)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any other setting, such as model.state=64; repeatable.", **_MODEL
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The seed of the split, the weights and the order. [0]")
    ] = None,
    divide: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="How to divide the data: auto, given, group, class, random or order (of time). [auto]"
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Test on every sample once, in N trainings, and then train on all."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder. [runs/NAME]", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file of settings; flags override it.")
    ] = None,
    plots: Annotated[bool, typer.Option(help="Draw pictures into the run folder.")] = True,
    progress: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="bar (a line per half minute in a log), json (a line per epoch on stderr) or none."
        ),
    ] = "bar",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files into the run folder.")] = False,
    json: flags.AsJson = False,
    processes: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto", help="Train in N processes; auto takes those that srun or mpirun start.", **_SEVERAL
        ),
    ] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="The address of process 0, if the processes are on several hosts.", **_SEVERAL
        ),
    ] = None,
    process_id: Annotated[
        int | None, typer.Option(metavar="I", help="The number of this process, from 0.", **_SEVERAL)
    ] = None,
) -> None:
    """Train a model, test it on data it has not seen, and say whether the result is good.

    Classes get a classifier, numbers a regressor. The first result comes within seconds, from the closed form (random
    log-signature features and ridge regression). A neural model should beat it; --model closed-form stops there.

    The run folder holds settings, versions, metrics, history, model and pictures. `--config RUN/settings.toml` repeats
    the run. A run that Ctrl-C or a time budget has stopped continues with --resume.

        neuralrde fit SelfRegulationSCP1 --depth 2 --step 28
        neuralrde fit hearts.csv --id patient --target ill --model closed-form
        neuralrde fit hearts.csv --id patient --target ill --depth auto
        neuralrde fit hearts.csv --id patient --target ill --model log-ncde --set model.state=64
        neuralrde fit hearts.csv --id patient --target ill --folds 5
        neuralrde fit --resume --out runs/hearts
    """
    worker = Worker.here()
    if worker is None and (launch := launch_of(processes, coordinator, process_id)) is not None:
        raise typer.Exit(supervise(launch, ARGUMENTS.get()))
    from .settings import assignments, settings_of, whole_or_auto

    # Settings: defaults, then the file, then flags.
    if resume and config is None and out is not None and (out / "settings.toml").exists():
        config = out / "settings.toml"
    given = {
        "model": model,
        "windows.depth": whole_or_auto(depth, "--depth"),
        "windows.step": whole_or_auto(step, "--step"),
        "windows.every": every,
        "loss": loss,
        "epochs": epochs,
        "optimizer.learning_rate": learning_rate,
        "batch_size": batch_size,
        "time_budget": time_budget,
    }
    reading = table if task is None else {**table, "task": task}
    top = {"data": data, "seed": seed, "divide": divide, "folds": folds}
    settings = settings_of(config, table=reading, estimator=given, assigned=assignments(set_ or []), **top)
    if resume and time_budget is None:
        settings.estimator.pop("time_budget", None)  # what stopped the run then is not to stop it now

    if progress not in PROGRESS:
        raise Refusal(f"Got --progress {progress}; expected one of {', '.join(PROGRESS)}.", WRONG_USE)
    if worker is not None:
        worker.join()
    from .run import train

    alone = worker is None or worker.number == 0
    with going_on_unread():
        result = train(
            settings,
            out,
            resume=resume,
            plots=plots,
            say=partial(print, flush=True) if alone and not json else lambda text: None,  # a log shows it now
            progress=progress if alone else "none",
            tensorboard=tensorboard,
            worker=worker,
        )
        if json and alone:
            print_json(result)
