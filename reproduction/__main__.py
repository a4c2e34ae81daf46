"""`python -m reproduction run` trains the paper's experiments, `report` makes tables and pictures of the results."""

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .experiment import DATASETS, GRID, Experiment, Limits

app = typer.Typer(
    name="python -m reproduction",
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_MANY = "Several with commas."


@app.command()
def run(
    dataset: Annotated[str, typer.Option(help=f"HR, RR, SpO2, SCP1, SCP2, worms, speech, or a name. {_MANY}")] = "HR",
    model: Annotated[str, typer.Option(help=f"nrde, ncde, odernn, logncde, linear, oscillators. {_MANY}")] = "nrde",
    depth: Annotated[str | None, typer.Option(help=f"{_MANY} [2,3; for ours the data set's own]")] = None,
    step: Annotated[str | None, typer.Option(help=f"{_MANY} [512; for ours the data set's own]")] = None,
    seed: Annotated[str, typer.Option(help=_MANY)] = "111,222,333",
    protocol: Annotated[str, typer.Option(help=f"paper, adjoint, later, corrected, ours. {_MANY}")] = "paper",
    split: Annotated[str, typer.Option(help="paper, random, group (patient, speaker), folds.")] = "paper",
    budget: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes of training per run; none for no limit.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the protocol's.")] = None,
    grid: Annotated[bool, typer.Option("--grid", help="The appendix's 27 sizes instead of the chosen one.")] = False,
    results: Annotated[Path, typer.Option(help="The folder of the lines.")] = Path("results"),
    dry: Annotated[bool, typer.Option("--dry", help="Only list what would be run.")] = False,
) -> None:
    """Run experiments of the paper: bug for bug, corrected, or our way.

    Each run is a line in results/DATASET.jsonl and is not run again. An interrupted run resumes where it stopped, and
    one that ran out of its budget continues when given more.

        python -m reproduction run --dataset HR --model nrde --depth 3 --step 512
        python -m reproduction run --dataset HR,RR,SpO2 --protocol ours --budget 10
        python -m reproduction run --dataset HR --model oscillators --protocol ours --split group --seed 0,1,2,3,4
    """
    from .our_settings import settings_for
    from .run import run as run_one

    experiments = []
    for data, how, kind in itertools.product(_words(dataset), _words(protocol), _words(model)):
        name = DATASETS.get(data, data)
        ours = settings_for(name, kind)
        depths = _numbers("depth", depth, [ours.depth] if how == "ours" else [2, 3])
        steps = _numbers("step", step, [ours.step] if how == "ours" else [512])
        experiments += [
            Experiment(dataset=name, model=kind, depth=n, step=k, seed=s, protocol=how, split=split, sizes=sizes)
            for n in depths
            for k in steps
            for sizes in (GRID if grid else (None,))
            for s in _numbers("seed", seed, [])
        ]
    experiments = list(dict.fromkeys(experiments))  # a neural CDE has one depth: asked for at two, it is run once
    limits = Limits(budget=None if budget is None else 60 * budget, epochs=epochs)
    for number, experiment in enumerate(experiments, 1):
        if dry:
            print(experiment.name)
        else:
            say = lambda text, n=number: print(f"[{n}/{len(experiments)}] {text}", flush=True)
            run_one(experiment, limits=limits, folder=results, say=say)


@app.command()
def long(
    dataset: Annotated[str, typer.Option(help=f"EigenWorms, SCP1, SCP2, ..., or a name. {_MANY}")] = "EigenWorms",
    method: Annotated[str, typer.Option(help=f"logsig-ssm, defaults, paper. {_MANY}")] = "logsig-ssm,defaults,paper",
    seed: Annotated[str, typer.Option(help=_MANY)] = "2345,3456,4567,5678,6789",
    data: Annotated[Path | None, typer.Option(help="The folder with uea_NAME/NAME_TRAIN.ts and _TEST.ts.")] = None,
    every: Annotated[int | None, typer.Option(min=1, help="LogSig-SSM: steps between looks. [1000]")] = None,
    most: Annotated[int | None, typer.Option(min=1, help="LogSig-SSM: steps at most. [100000]")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="The paper's cells: instead of the protocol's.")] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes of training per run; none for no limit.")
    ] = None,
    results: Annotated[Path, typer.Option(help="The folder of the lines.")] = Path("results/long"),
    out: Annotated[Path, typer.Option(help="The folder of table and picture.")] = Path("runs/long"),
    dry: Annotated[bool, typer.Option("--dry", help="Only list what would be run.")] = False,
) -> None:
    """Long series of the UEA archive: LogSig-SSM's settings, our defaults, the paper's cells, and what is published.

    The data are those of the folder, or are downloaded, and are checked. Runs resume as those of `run` do.

        python -m reproduction long --dataset EigenWorms
        python -m reproduction long --dataset SCP1,SCP2 --method logsig-ssm --every 100 --most 2000
    """
    from . import long as runs
    from .results import read_results
    from .run import run as run_one

    if data is not None:
        os.environ["NEURALRDE_DATA"] = str(data.absolute())  # processes of runs see it, too
    limits = Limits(budget=None if budget is None else 60 * budget, epochs=epochs, every=every, most=most)
    for name in _words(dataset):
        experiments = runs.experiments(name, _words(method), _numbers("seed", seed, []))
        for number, experiment in enumerate(experiments, 1):
            if dry:
                print(experiment.name)
                continue
            place = f"[{number}/{len(experiments)}]"
            run_one(experiment, limits=limits, folder=results, say=lambda text, at=place: print(at, text, flush=True))
        if not dry:
            print(*runs.write(read_results(results), DATASETS.get(name, name), out), sep="\n")


@app.command()
def report(
    results: Annotated[Path, typer.Option(help="The folder of the lines.")] = Path("results"),
    html: Annotated[Path, typer.Option(help="The page to write, with its pictures inside.")] = Path("report.html"),
    markdown: Annotated[Path, typer.Option(help="The Markdown to write.")] = Path("docs/reproduction.md"),
    images: Annotated[Path, typer.Option(help="The folder for its pictures.")] = Path("docs/images"),
) -> None:
    """Tables and pictures of all runs, beside the published values.

    A self-contained HTML page, and Markdown with pictures beside it. Nothing is trained.
    """
    from .report import write_report

    write_report(results, html=html, markdown=markdown, images=images)
    print(f"{html}\n{markdown}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is one sentence on stderr."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name=app.info.name, standalone_mode=False)
        return 0
    except KeyboardInterrupt:
        print("Interrupted; the same command continues.", file=sys.stderr)
        return 130
    except Exception as error:
        wrong_use = hasattr(error, "format_message")  # Typer's own, of a wrong option
        if not wrong_use and not isinstance(error, ValueError | OSError | ImportError | RuntimeError):
            raise
        print(f"reproduction: {error.format_message() if wrong_use else error}", file=sys.stderr)  # type: ignore
        return 2 if wrong_use else 1


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(name: str, text: str | None, default: list[int]) -> list[int]:
    if text is None:
        return default
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise typer.BadParameter(f"Got --{name} {text}; expected whole numbers with commas, such as 2,3.") from None


if __name__ == "__main__":
    sys.exit(main())
