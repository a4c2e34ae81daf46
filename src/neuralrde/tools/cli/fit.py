"""`neuralrde fit`: train a model on data, into a run folder."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from . import flags
from .console import WRONG_USE, Refusal, going_on_unread, print_json
from .flags import option

PROGRESS = ("bar", "json", "none")
_model = partial(option, panel="Model and training")


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
        str | None, _model("closed-form, log-ncde, ...; `neuralrde parts` lists them all.", "NAME")
    ] = None,
    depth: Annotated[int | None, _model("The depth of the log-signatures. [2]", "N", min=1)] = None,
    step: Annotated[int | None, _model("Points per window. [about 32 windows per series]", "N", min=1)] = None,
    every: Annotated[float | None, _model("Time per window, instead of --step.", "TIME")] = None,
    loss: Annotated[str | None, _model("huber, quantiles, histogram, ... [by the task]", "NAME")] = None,
    epochs: Annotated[
        int | None, _model("At most N passes over the training set. [about 1000 steps]", "N", min=1)
    ] = None,
    learning_rate: Annotated[float | None, _model("The peak learning rate. [0.003]", "RATE", min=0.0)] = None,
    batch_size: Annotated[int | None, _model("Series per training step. [32]", "N", min=1)] = None,
    time_budget: Annotated[float | None, _model("Stop training after this time.", "SECONDS", min=0.0)] = None,
    set_: Annotated[
        list[str] | None, _model("Any other setting, such as model.state=64; repeatable.", "NAME=VALUE", "--set")
    ] = None,
    forecast: Annotated[
        str | None, option("Fit a forecaster of all channels instead, this far ahead: 24h, or a number.", "TIME")
    ] = None,
    seed: Annotated[int | None, option("The seed of the split, the weights and the order. [0]", "N", min=0)] = None,
    divide: Annotated[
        str | None,
        option("How to divide the data: auto, given, group, class, random or order (of time). [auto]", "HOW"),
    ] = None,
    folds: Annotated[
        int | None, option("Test on every sample once, in N trainings, and then train on all.", "N", min=2)
    ] = None,
    out: Annotated[Path | None, option("The run's folder. [runs/NAME]", "FOLDER", show_default=False)] = None,
    resume: Annotated[bool, option("Continue the run in --out.", None, "--resume")] = False,
    config: Annotated[Path | None, option("A TOML file of settings; flags override it.", "FILE")] = None,
    plots: Annotated[bool, option("Draw pictures into the run folder.")] = True,
    progress: Annotated[
        str, option("bar (a line per half minute in a log), json (a line per epoch on stderr) or none.", "HOW")
    ] = "bar",
    json: flags.AsJson = False,
) -> None:
    """Train a model, test it on data it has not seen, and say whether the result is good.

    Classes get a classifier, numbers a regressor. The first result comes within seconds, from the closed form (random
    log-signature features and ridge regression). A neural model should beat it; --model closed-form stops there.

    The run folder holds settings, versions, metrics, history, model and pictures. `--config RUN/settings.toml` repeats
    the run. A run that Ctrl-C or a time budget has stopped continues with --resume.

        neuralrde fit SelfRegulationSCP1 --depth 2 --step 28
        neuralrde fit hearts.csv --id patient --target ill --model closed-form
        neuralrde fit hearts.csv --id patient --target ill --model log-ncde --set model.state=64
        neuralrde fit hearts.csv --id patient --target ill --folds 5
        neuralrde fit --resume --out runs/hearts
        neuralrde fit beds.csv --id ward --time date --forecast 24h --model neural --out runs/beds
    """
    from .settings import assignments, settings_of

    if progress not in PROGRESS:
        raise Refusal(f"Got --progress {progress}; expected one of {', '.join(PROGRESS)}.", WRONG_USE)
    if forecast is not None:
        from .forecast import fit_forecaster

        if data is None or model not in (None, "closed-form", "neural"):
            raise Refusal(f"Got --model {model} with --forecast; expected DATA, and closed-form or neural.", WRONG_USE)
        options = {"random_state": seed, "epochs": epochs, "batch_size": batch_size}
        options = {name: value for name, value in options.items() if value is not None}
        return fit_forecaster(data, table, forecast, neural=model == "neural", out=out, json=json, **options)
    # Settings: defaults, then the file, then flags.
    if resume and config is None and out is not None and (out / "settings.toml").exists():
        config = out / "settings.toml"
    given = {
        "model": model,
        "windows.depth": depth,
        "windows.step": step,
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

    from .run import QUIET, Output, train

    say = QUIET.say if json else partial(print, flush=True)  # a log shows it now
    output = Output(say, progress, plots=plots)
    with going_on_unread():
        result = train(settings, out, output, resume=resume)
        if json:
            print_json(result)
