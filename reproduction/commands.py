"""Back from results to the commands that made them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from .cells import DATASETS, Cell
from .runs import Limits, settings_of
from .tables import Summary


def commands(found: Iterable[Summary]) -> list[str]:
    """Calls of `neuralrde reproduce` that run these cells again; of the appendix's grid all sizes.

    A run whose settings are not today's, beside a number of epochs, has none.
    """
    steps: dict[tuple, set[int]] = defaultdict(set)
    for summary in found:
        cell, epochs = summary.cell, summary.settings.get("epochs")
        for limit in (None, epochs):
            if settings_of(cell, Limits(epochs=limit)) == summary.settings:
                steps[_but_step(cell), summary.seeds, limit, cell.depth].add(cell.step)
                break
    depths: dict[tuple, list[int]] = defaultdict(list)
    for (kind, seeds, limit, depth), of_depth in steps.items():
        depths[kind, seeds, limit, tuple(sorted(of_depth))].append(depth)
    return [_command(*key, depths=sorted(of_steps)) for key, of_steps in depths.items()]


def _but_step(cell: Cell) -> tuple[str, str, str, str, bool]:
    return cell.dataset, cell.model, cell.protocol, cell.split, cell.sizes is not None


def _command(kind: tuple, seeds: Sequence[int], limit: int | None, steps: Sequence[int], depths: Sequence[int]) -> str:
    dataset, model, protocol, split, grid = kind
    short = {name: word for word, name in DATASETS.items()}.get(dataset, dataset)
    depth = "" if model in ("ncde", "odernn") else f" --depth {_list(depths)}"
    return (
        f"neuralrde reproduce --dataset {short} --model {model}{depth} --step {_list(steps)} --seed {_list(seeds)}"
        f" --protocol {protocol} --split {split}"
        + ("" if limit is None else f" --epochs {limit}")
        + (" --grid" if grid else "")
    )


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
