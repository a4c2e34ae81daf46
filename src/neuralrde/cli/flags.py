"""Flags that several commands share. `with_table` gives a command all flags about tables."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..datasets.readers import READERS

_PANEL = f"Tables ({', '.join(reader.endings[0] for reader in READERS if reader.load)}, ...)"


def _table(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, show_default=False, **settings)


_COLUMN: Any = {"metavar": "COLUMN"}
# By the names that `neuralrde.datasets.read` has for them.
TABLE: dict[str, Any] = {
    "target": Annotated[
        str | None, _table(metavar="COLUMN", help="The column to predict, or several separated by commas.")
    ],
    "id": Annotated[str | None, _table(**_COLUMN, help="The column that says which series a row belongs to.")],
    "time": Annotated[str | None, _table(**_COLUMN, help="The column of times: numbers, dates or clock times.")],
    "group": Annotated[
        str | None, _table(**_COLUMN, help="The column of patients, speakers, ...; each stays in one part.")
    ],
    "split": Annotated[str | None, _table(**_COLUMN, help="The column that says train, validation or test.")],
    "columns": Annotated[
        str | None, _table(metavar="A,B,...", help="The channels, separated by commas. [all other columns]")
    ],
    "per_time": Annotated[bool | None, _table("--per-time", help="The target changes within a series.")],
    "labels": Annotated[
        Path | None, _table(metavar="FILE", help="Another table, which holds the target of each series.")
    ],
    "labels_id": Annotated[str | None, _table(**_COLUMN, help="The column of ids in the --labels table.")],
    "sensor": Annotated[
        str | None, _table(**_COLUMN, help="The column that names the channel, in a table with one value per row.")
    ],
    "value": Annotated[str | None, _table(**_COLUMN, help="The column of values that goes with --sensor.")],
    "one_hot": Annotated[
        str | None, _table(metavar="A,B|all", help="Columns of words; each word becomes a channel of 0 and 1.")
    ],
    "wide": Annotated[bool | None, _table("--wide/--long", help="Whether a row is a whole series or one point.")],
    "header": Annotated[bool | None, _table("--header/--no-header", help="Whether the first row names the columns.")],
    "time_format": Annotated[
        str | None,
        _table(metavar="FORMAT", help="day-first, month-first, clock, number, or a format like %d.%m.%Y %H:%M."),
    ],
    "decimal": Annotated[str | None, _table(metavar="SIGN", help="The decimal sign: . or ,")],
    "thousands": Annotated[str | None, _table(metavar="SIGN", help="The sign between thousands.")],
    "duplicates": Annotated[
        str | None,
        _table(metavar="HOW", help="What to do with rows of the same time: mean, first, last or error. [error]"),
    ],
    "drop_unlabelled": Annotated[
        bool | None, _table("--drop-unlabelled", help="Leave out series without a target instead of refusing them.")
    ],
}
_LISTS = ("columns", "one_hot")
Table = dict[str, Any]

Task = Annotated[
    str | None, typer.Option(metavar="TASK", help="classification or regression. [guessed from the target]")
]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder, or a data set's name.", show_default=False)
]
OtherData = Annotated[
    str | None,
    typer.Argument(metavar="[DATA]", help="As in `fit`. [the run's own data]", show_default=False),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A run's folder, or a model file.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")]


def with_table(command: Callable) -> Callable:
    """Replace a command's parameter `table` by the flags of TABLE; the command gets a dict of those that were given."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        return command(table=given({name: arguments.pop(name) for name in TABLE}), **arguments)

    parameters = []
    for parameter in own.parameters.values():
        if parameter.name == "table":
            parameters += [
                parameter.replace(name=name, annotation=flag, default=None, kind=inspect.Parameter.KEYWORD_ONLY)
                for name, flag in TABLE.items()
            ]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    del wrapped.__wrapped__  # type: ignore  # Typer would look through to the signature without the flags
    wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def given(flags: dict[str, Any]) -> Table:
    """The flags that were given, with lists as lists; a single target stays a string.

    >>> given({"columns": "a, b", "one_hot": "all", "target": "x,y", "id": None})
    {'columns': ['a', 'b'], 'one_hot': True, 'target': ['x', 'y']}
    >>> given({"target": "x"})
    {'target': 'x'}
    """
    found = {name: str(value) if isinstance(value, Path) else value for name, value in flags.items()}
    found = {name: value for name, value in found.items() if value is not None}
    for name in _LISTS:
        if name in found:
            found[name] = words(found[name])
    if found.get("one_hot") == ["all"]:
        found["one_hot"] = True
    if "," in found.get("target", ""):
        found["target"] = words(found["target"])
    return found


def words(text: str) -> list[str]:
    """A list that was written with commas."""
    return [word.strip() for word in text.split(",")]
