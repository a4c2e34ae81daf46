"""Flags that several commands share. Those of tables are written once, here, and given to a command by `with_table`."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def _table(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Tables (.csv, .tsv, .parquet)", show_default=False, **settings)


_COLUMN: Any = {"metavar": "COLUMN"}
# By the names that `neuralrde.datasets.read` has for them.
TABLE: dict[str, Any] = {
    "target": Annotated[str | None, _table(metavar="COLUMN", help="The column to predict; several with commas.")],
    "id": Annotated[str | None, _table(**_COLUMN, help="The column that says which series a row belongs to.")],
    "time": Annotated[str | None, _table(**_COLUMN, help="The column of times: numbers, dates or clock times.")],
    "group": Annotated[str | None, _table(**_COLUMN, help="The column of patients, speakers, ...: kept in one part.")],
    "split": Annotated[str | None, _table(**_COLUMN, help="The column that says train, validation or test.")],
    "columns": Annotated[
        str | None, _table(metavar="A,B,...", help="The channels, with commas between; by default all others.")
    ],
    "per_time": Annotated[bool | None, _table("--per-time", help="The target changes within a series.")],
    "labels": Annotated[Path | None, _table(metavar="FILE", help="Another table with the target of each series.")],
    "labels_id": Annotated[str | None, _table(**_COLUMN, help="The column of series in the --labels table.")],
    "sensor": Annotated[
        str | None, _table(**_COLUMN, help="The column that names a row's channel, in a table of one value per row.")
    ],
    "value": Annotated[str | None, _table(**_COLUMN, help="The column of values, beside --sensor.")],
    "one_hot": Annotated[
        str | None, _table(metavar="A,B|all", help="Columns of words to turn into one channel of 0 and 1 per word.")
    ],
    "wide": Annotated[bool | None, _table("--wide/--long", help="A row is a whole series, or one point of it.")],
    "header": Annotated[bool | None, _table("--header/--no-header", help="Whether the first row holds names.")],
    "time_format": Annotated[
        str | None, _table(metavar="FORMAT", help="day-first, month-first, clock, number, or such as %d.%m.%Y %H:%M.")
    ],
    "decimal": Annotated[str | None, _table(metavar="SIGN", help="The decimal sign: . or ,")],
    "thousands": Annotated[str | None, _table(metavar="SIGN", help="The sign between thousands.")],
    "duplicates": Annotated[
        str | None, _table(metavar="HOW", help="Of two rows of one time: mean, first, last or error. [error]")
    ],
    "drop_unlabelled": Annotated[
        bool | None, _table("--drop-unlabelled", help="Leave series without a target out, instead of refusing them.")
    ],
}
_LISTS = ("columns", "one_hot")
Table = dict[str, Any]

Task = Annotated[
    str | None, typer.Option(metavar="TASK", help="classification or regression; by default by the target.")
]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder, or a data set's name.", show_default=False)
]
OtherData = Annotated[
    str | None,
    typer.Argument(metavar="[DATA]", help="As in `fit`; without it, the run's own data.", show_default=False),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A run's folder, or a model file.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, for scripts.")]


def with_table(command: Callable) -> Callable:
    """A command whose parameter `table` is replaced by the flags of TABLE; it gets a dict of those that were given."""
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
    """Only what was given; lists as lists, and one target as it is.

    >>> given({"columns": "a, b", "one_hot": "all", "target": "x,y", "id": None})
    {'columns': ['a', 'b'], 'one_hot': True, 'target': ['x', 'y']}
    >>> given({"target": "x"})
    {'target': 'x'}
    """
    found = {name: str(value) if isinstance(value, Path) else value for name, value in flags.items()}
    found = {name: value for name, value in found.items() if value is not None}
    for name in _LISTS:
        if name in found:
            found[name] = _words(found[name])
    if found.get("one_hot") == ["all"]:
        found["one_hot"] = True
    if "," in found.get("target", ""):
        found["target"] = _words(found["target"])
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]
