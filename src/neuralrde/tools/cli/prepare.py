"""`neuralrde prepare`: write the log-signatures of data larger than memory into a store."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..._write import Values
from . import flags
from .console import WRONG_USE, Refusal, print_json
from .flags import option

if TYPE_CHECKING:
    from ...paths import Windows

_windows = partial(option, panel="Windows")
_COLUMNS = ("target", "id", "time", "group", "columns")


@partial(flags.with_table, names=_COLUMNS)
def prepare(
    *,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A .parquet, .csv or .npy file, or a folder.", show_default=False)
    ],
    store: Annotated[str, typer.Argument(metavar="STORE", help="The folder to write.", show_default=False)],
    table: flags.Table,
    labels: Annotated[str | None, option("For .npy data, the targets as .npy.", "FILE", panel="Tables")] = None,
    groups: Annotated[str | None, option("For .npy data, the groups as .npy.", "FILE", panel="Tables")] = None,
    task: flags.Task = None,
    like: Annotated[
        str | None, option("Use the statistics and windows of this store: for a test set.", "STORE")
    ] = None,
    model: Annotated[
        str, _windows("The model to train later; it decides the default windows.", "NAME")
    ] = "multi-scale-rde",
    step: Annotated[int | None, _windows("Points per window.", "N", min=1)] = None,
    every: Annotated[float | None, _windows("Time per window, instead of --step.", "TIME")] = None,
    depth: Annotated[str | None, _windows("The depth of the log-signatures. [2]", "N|N,N")] = None,
    scales: Annotated[str | None, _windows("How many windows each one looks back over. [1]", "N,N,...")] = None,
    lengths: Annotated[
        str | None, _windows("Instead of --scales, points or time that each looks back.", "N,N,...")
    ] = None,
    whole: Annotated[int | None, _windows("The depth of one more, over all so far.", "N", min=1)] = None,
    memory: Annotated[float, option("Memory to work with, beside 0.3 GiB of libraries.", "GIB")] = 1.0,
    workers: Annotated[int | None, option("Threads. [all cores]", "N", min=1)] = None,
    check: Annotated[bool, option("Read the store afterwards and compare all checksums.", None, "--check")] = False,
    json: flags.AsJson = False,
) -> None:
    """Write the log-signatures of series that do not fit in memory into a store, to train from.

    A table has one row per point, sorted by id and time. If it is stopped at any moment, the same command continues and
    ends with the same files.

        neuralrde prepare hearts.parquet hearts.store --id patient --time hour --target ill
        neuralrde fit hearts.store
        neuralrde prepare new.parquet new.store --id patient --time hour --like hearts.store
        neuralrde predict runs/hearts new.store
    """
    from ..stores import Store
    from ..stores import prepare as prepared

    made = prepared(
        data,
        store,
        windows=_windows_of(step, every, depth=depth, scales=scales, lengths=lengths, whole=whole),
        model=model,
        like=None if like is None else Store(like),
        **table,
        labels=labels,
        groups=groups,
        task=task,
        memory=memory,
        workers=workers,
        progress=None if json or not sys.stderr.isatty() else _bar(),
    )
    if check:
        made.verify()
    if json:
        sizes = {"series": len(made), "controls": made.controls, "fingerprint": made.fingerprint}
        print_json({"store": store, **sizes, "windows": repr(made.windows)})
    else:
        print(f"{made!r}\n{made.windows!r}\n{store}")


def _windows_of(step: int | None, every: float | None, *, whole: int | None, **several: str | None) -> "Windows | None":
    from ...paths import Windows

    if step is every is whole is None and not any(several.values()):
        return None
    given: Values = {"step": step, "every": every, "whole": whole}
    for flag, text in several.items():
        if text is not None:
            try:
                given[flag] = tuple((float if flag == "lengths" else int)(one) for one in text.split(","))
            except ValueError:
                raise Refusal(f"Got --{flag} {text}; expected whole numbers with commas between.", WRONG_USE) from None
    if len(given.get("depth", ())) == 1:
        [given["depth"]] = given["depth"]
    return Windows(**given)


def _bar() -> Callable[[str, int, int], None]:
    """A progress bar for each stage."""
    bars: Values = {}

    def show(stage: str, done: int, of: int) -> None:
        from tqdm import tqdm

        if stage not in bars:
            bars[stage] = tqdm(total=of, desc=stage, unit=" parts", leave=False)
        bar = bars[stage]
        bar.n = done
        bar.refresh()
        if done >= of:
            bar.close()

    return show
