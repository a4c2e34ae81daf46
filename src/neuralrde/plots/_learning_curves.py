"""Learning curves: loss and metric of one training or several, epoch by epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

from .style import COLOURS, INK, figure

History = Sequence[Mapping[str, Any]]


def learning_curves(histories: History | Mapping[str, History], *, title: str = "Learning curves") -> Any:
    """Losses on the left; on the right the validation metric, if there is one. A dot marks the weights kept.

    Args:
        histories: the `history_` of an estimator; or several by name, one colour each. A name that several
            trainings share up to a "/" ("NRDE/0", "NRDE/1") shares the colour too.
        title: of the picture.

    >>> learning_curves([{"epoch": 1, "loss": 0.7, "validation_loss": 0.6, "validation_accuracy": 0.8}])
    <Figure size 1196x494 with 2 Axes>
    """
    runs = histories if isinstance(histories, Mapping) else {"": histories}
    runs = {name: history for name, history in runs.items() if len(history)}
    if not runs:
        raise ValueError("Got no epochs to draw; expected a history with a record for each epoch.")
    records = [record for history in runs.values() for record in history]
    metrics = [key for key in records[0] if key.startswith("validation_") and key != "validation_loss"]
    families = list(dict.fromkeys(name.partition("/")[0] for name in runs))

    with figure(9.2, 3.8) as picture:
        axes = picture.subplots(1, 1 + bool(metrics), squeeze=False)[0]
        for name, history in runs.items():
            family = name.partition("/")[0]
            colour = COLOURS[families.index(family) % len(COLOURS)]
            first = name == next(other for other in runs if other.partition("/")[0] == family)
            prefix = f"{family}: " if family else ""
            epochs = [record["epoch"] for record in history]
            line = {"color": colour, "linewidth": 1.5}
            axes[0].plot(
                epochs,
                [record["loss"] for record in history],
                **line | {"linewidth": 1.1, "linestyle": (0, (2, 1.5))},
                label=f"{prefix}training" if first else None,
            )
            monitored = [record["monitored"] if "monitored" in record else record["loss"] for record in history]
            best = min(range(len(history)), key=monitored.__getitem__)
            if "validation_loss" in history[0]:
                losses = [record["validation_loss"] for record in history]
                axes[0].plot(epochs, losses, **line, label=f"{prefix}validation" if first else None)
                axes[0].plot(epochs[best], losses[best], "o", color=colour, markersize=5, markeredgecolor="white")
            if metrics:
                values = [record[metrics[0]] for record in history]
                axes[1].plot(epochs, values, **line)
                axes[1].plot(epochs[best], values[best], "o", color=colour, markersize=5, markeredgecolor="white")
        axes[0].set(xlabel="epoch", ylabel="loss", title=title)
        handles, names = axes[0].get_legend_handles_labels()
        picture.legend(handles, names, loc="outside lower center", ncols=4)
        if metrics:
            axes[1].set(
                xlabel="epoch", title=f"{metrics[0].replace('_', ' ').capitalize()}; a dot marks the weights kept"
            )
            if metrics[0].endswith("accuracy"):
                axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
                lowest = min(record[metrics[0]] for record in records)
                axes[1].set_ylim(max(0.0, min(0.85, lowest - 0.05)), 1.01)  # always the same top, and no 104 %
        for axis in axes:
            axis.grid(axis="y", color=INK, alpha=0.08)
            axis.xaxis.get_major_locator().set_params(integer=True)
    return picture
