"""`neuralrde plot`: pictures of a training, of a model's answers, and of windows."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..plots import save, windows_over_series
from . import flags
from .answers import answers, check_known, is_classifier, load_model, measures
from .errors import WRONG_USE, Refusal
from .loading import open_data, open_for
from .pictures import draw_answers, draw_curves, draw_windows
from .run_folder import RunFolder

plot_app = typer.Typer(no_args_is_help=True, help="Draw learning curves, answers against truth, or windows.")
Out = Annotated[Path | None, typer.Option(help="The folder for the picture.", show_default=False)]


@plot_app.command()
def curves(run: Annotated[Path, typer.Argument(help="A run's folder.")], out: Out = None) -> None:
    """Loss and metric of every epoch of a run."""
    folder = RunFolder(run)
    if not folder.history.exists():
        raise Refusal(f"There is no history at {run}; expected the folder of a finished run.")
    print(draw_curves(folder.read_history(), out or folder.pictures))


@plot_app.command()
def predictions(
    model: flags.Model,
    data: flags.OtherData = None,
    target: flags.Target = None,
    id: flags.Id = None,
    time_column: flags.Time = None,
    columns: flags.Columns = None,
    per_time: flags.PerTime = None,
    out: Out = None,
) -> None:
    """The confusion matrix of a classifier, or predicted against true numbers; of a run's data its test samples."""
    estimator = load_model(model)
    options = flags.table_options(target=target, id=id, time=time_column, columns=columns, per_time=per_time)
    dataset = open_for(model, data, options, classifier=is_classifier(estimator))
    rows = RunFolder(model).test_rows(dataset) if model.is_dir() else None
    found = answers(estimator, dataset if rows is None else dataset[rows])
    check_known(found)
    measures(found)
    print(draw_answers(found, out or Path(".")))


@plot_app.command()
def windows(
    data: flags.Data,
    model: Annotated[Path | None, typer.Option(help="Prepare and cut as this model does.", show_default=False)] = None,
    sample: Annotated[int, typer.Option(min=0, help="Which series.")] = 0,
    step: Annotated[int | None, typer.Option(min=1, help="Points in a window. [about 32 windows]")] = None,
    depth: Annotated[int, typer.Option(min=1, max=6, help="Of the log-signatures.")] = 2,
    target: flags.Target = None,
    id: flags.Id = None,
    time_column: flags.Time = None,
    columns: flags.Columns = None,
    per_time: flags.PerTime = None,
    out: Out = None,
) -> None:
    """A series, where it is cut, and the log-signature of every window."""
    options = flags.table_options(target=target, id=id, time=time_column, columns=columns, per_time=per_time)
    if model is None:
        estimator, dataset = None, open_data(data, options)
    else:
        estimator = load_model(model)
        dataset = open_for(model, data, options, classifier=is_classifier(estimator))
    if sample >= len(dataset):
        raise Refusal(f"Got --sample {sample}; expected one of the {len(dataset)} samples, from 0.", WRONG_USE)
    if estimator is not None:
        print(draw_windows(estimator, dataset.series[np.array([sample])], out or Path(".")))
        return
    from ..estimators.preparation import preparation, usual_step

    one = dataset.series[np.array([sample])]
    prepared = preparation(fill="forward").fit(one)(one)
    picture = windows_over_series(
        prepared.values[0], step=step or usual_step(prepared, 32), depth=depth, channels=prepared.channels
    )
    print(save(picture, (out or Path(".")) / "windows.png"))
