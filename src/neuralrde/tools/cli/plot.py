"""`neuralrde plot`: pictures of a training, of a model's predictions, and of windows."""

from pathlib import Path
from typing import Annotated

import typer

from . import flags
from .console import WRONG_USE, Refusal
from .flags import option

plot_app = typer.Typer(no_args_is_help=True, help="Draw learning curves, predictions against the truth, or windows.")
Out = Annotated[Path | None, option("The folder for the picture.", show_default=False)]


@plot_app.command()
def curves(run: Annotated[Path, typer.Argument(help="A run's folder.")], out: Out = None) -> None:
    """Draw the loss and the metric of a run, epoch by epoch."""
    from .report import draw_curves
    from .run_folder import RunFolder

    folder = RunFolder(run)
    if not folder.history.exists():
        raise Refusal(f"There is no history at {run}; expected the folder of a finished run of a neural model.")
    print(draw_curves(folder.read_history(), out or folder.pictures, blended=bool(folder.read_metrics().get("blend"))))


@plot_app.command()
@flags.with_table
def predictions(
    *,
    model: flags.Model,
    data: flags.OtherData = None,
    table: flags.Table,
    out: Out = None,
) -> None:
    """Draw the confusion matrix of a classifier, or predicted against true numbers.

    On the data of its own run, a model is judged on the test samples only.
    """
    from .evaluation import predictions_to_judge
    from .report import draw_predictions

    _, part, found = predictions_to_judge(model, data, table)
    print(draw_predictions(found, out or Path("."), note=None if part == "all" else f"{part} part"))


@plot_app.command()
@flags.with_table
def windows(
    *,
    data: flags.Data,
    model: Annotated[Path | None, option("Prepare and cut the series as this model does.", show_default=False)] = None,
    sample: Annotated[int, option("The number of the series, from 0.", min=0)] = 0,
    step: Annotated[int | None, option("Points per window. [about 32 windows]", min=1)] = None,
    depth: Annotated[int, option("The depth of the log-signatures.", min=1, max=6)] = 2,
    table: flags.Table,
    out: Out = None,
) -> None:
    """Draw a series, the boundaries of its windows, and the log-signature of every window."""
    from ...paths import Windows
    from ...plots import save, windows_over_series
    from ...transforms import Standard
    from .evaluation import is_classifier, load_model
    from .loading import open_data, open_for
    from .report import draw_windows, times_of
    from .settings import is_closed_form

    if model is None:
        estimator, dataset = None, open_data(data, table)
    else:
        estimator = load_model(model)
        dataset = open_for(model, data, table, classifier=is_classifier(estimator))
    if sample >= len(dataset):
        raise Refusal(f"Got --sample {sample}; expected one of the {len(dataset)} samples, from 0.", WRONG_USE)
    if is_closed_form(estimator):
        raise Refusal(f"{model} holds the closed form, whose windows are thousands; expected a neural model.")
    if estimator is not None:
        print(draw_windows(estimator, dataset[[sample]], out or Path(".")))
        return
    one = dataset[[sample]]
    prepared = Standard().fit(one.series)(one.series)
    picture = windows_over_series(
        prepared.values[0],
        step=step or Windows.step_for(prepared, Windows.count),
        depth=depth,
        channels=prepared.channels,
        times=times_of(one, len(prepared.values[0])),
    )
    print(save(picture, (out or Path(".")) / "windows.png"))
