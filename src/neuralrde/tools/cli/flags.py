"""Flags that several commands share. `with_table` gives a command the flags about tables."""

import functools
import inspect
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..._write import Values
from ...errors import as_python, has_value

# Flags of `fit` for parameters of the estimators, and switches that have a name when they are off.
_FIT = ("task", "model", "depth", "step", "every", "loss", "epochs", "learning_rate", "batch_size", "time_budget")
OFF = {"wide": "--long", "header": "--no-header"}


def option(help: str, metavar: str | None = None, *names: str, panel: str | None = None, **limits: Any) -> Any:
    """A flag of a command. Its default is in the help, in brackets, where that is not plain."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **limits)


def _table(help: str, metavar: str | None = "COLUMN", *names: str, kind: Any = str) -> Any:
    return Annotated[kind | None, option(help, metavar, *names, panel="Tables", show_default=False)]


def _switch(names: str, help: str) -> Any:
    return _table(help, None, names, kind=bool)


# By the names that `neuralrde.datasets.read` has for them.
TABLE: Values = {
    "target": _table("The column to predict, or several separated by commas."),
    "id": _table("The column that says which series a row belongs to."),
    "time": _table("The column of times: numbers, dates or clock times."),
    "group": _table("The column of patients, speakers, ...; each stays in one part."),
    "split": _table("The column that says train, validation or test."),
    "columns": _table("The channels, separated by commas. [all other columns]", "A,B,..."),
    "per_time": _switch("--per-time", "The target changes within a series."),
    "labels": _table("Another table, which holds the target of each series.", "FILE", kind=Path),
    "labels_id": _table("The column of ids in the --labels table."),
    "sensor": _table("The column that names the channel, in a table with one value per row."),
    "value": _table("The column of values that goes with --sensor."),
    "one_hot": _table("Columns of words; each word becomes a channel of 0 and 1.", "A,B|all"),
    "static": _table("Columns about a series as a whole: age,sex. [those constant within each series]", "A,B"),
    "wide": _switch("--wide/--long", "Whether a row is a whole series or one point."),
    "header": _switch("--header/--no-header", "Whether the first row names the columns."),
    "time_format": _table("day-first, month-first, clock, number, or a format like %d.%m.%Y %H:%M.", "FORMAT"),
    "decimal": _table("The decimal sign: . or ,", "SIGN"),
    "thousands": _table("The sign between thousands.", "SIGN"),
    "duplicates": _table("What to do with rows of the same time: mean, first, last or error. [error]", "HOW"),
    "drop_unlabelled": _switch("--drop-unlabelled", "Leave out series without a target instead of refusing them."),
}
Table = Values

Task = Annotated[str | None, option("classification or regression. [guessed from the target]", "TASK")]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder, or a data set's name.", show_default=False)
]
OtherData = Annotated[
    str | None, typer.Argument(metavar="[DATA]", help="As in `fit`. [the run's own data]", show_default=False)
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A run's folder, or a model file.", show_default=False)]
AsJson = Annotated[bool, option("Print one JSON object on stdout, for scripts.", None, "--json")]


def with_table(command: Callable, *, names: tuple[str, ...] = tuple(TABLE)) -> Callable:
    """Replace a command's parameter `table` by flags of TABLE; the command gets a dict of those that were given."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> Any:
        return command(table=given({name: arguments.pop(name) for name in names}), **arguments)

    parameters = []
    for parameter in own.parameters.values():
        shown = {name: TABLE[name] for name in names} if parameter.name == "table" else {}
        parameters += [parameter.replace(name=name, annotation=flag, default=None) for name, flag in shown.items()]
        parameters += [] if shown else [parameter]
    del wrapped.__wrapped__  # type: ignore  # Typer would look through to the signature without the flags
    wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def given(flags: Values) -> Table:
    """The flags that were given, with lists as lists; a single target stays a string.

    >>> given({"columns": "a, b", "one_hot": "all", "target": "x,y", "id": None})
    {'columns': ['a', 'b'], 'one_hot': True, 'target': ['x', 'y']}
    >>> given({"target": "x"})
    {'target': 'x'}
    """
    table = {name: str(value) if isinstance(value, Path) else value for name, value in flags.items()}
    table = {name: value for name, value in table.items() if value is not None}
    for name in ("columns", "one_hot", "static", "target"):
        if name in table and (name != "target" or "," in table[name]):
            table[name] = [word.strip() for word in table[name].split(",")]
    return table | ({"one_hot": True} if table.get("one_hot") == ["all"] else {})


def as_flag(name: str, value: Any) -> str:
    """A parameter as it is written at a shell, for messages of the library; other names stay Python.

    >>> as_flag("columns", ["acc z", "b"]), as_flag("wide", False), as_flag("every", None)
    ("--columns 'acc z,b'", '--long', 'no --every')
    >>> as_flag("clip", 0.5), as_flag("patience", None), as_flag("sex", "f")
    ('--set optimizer.clip=0.5', '--set patience=none', "sex='f'")
    """
    value = value.item() if hasattr(value, "dtype") and value.shape == () else value
    if name in (*TABLE, *_FIT, "random_state"):
        flag = "--seed" if name == "random_state" else f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            return flag if value else OFF.get(name, f"no {flag}")
        if not has_value(value) or value is None:
            return flag if value is not None else f"no {flag}"
        if value == [...]:
            return f"{flag} A,B,..."
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        return f"{flag} {'...' if value is ... else shlex.quote(text)}"
    place = _place(name)
    if place is None:
        return as_python(name, value) if has_value(value) else f"{name}="
    plain = str(value).lower() if value is None or isinstance(value, bool) else value
    return f"--set {place}={plain if isinstance(plain, str) else repr(plain)}" if has_value(value) else f"--set {place}"


def _place(name: str) -> str | None:
    """Where `--set` takes a parameter of the estimators or of one of their parts; None if they have none."""
    from ...estimators import NeuralRDEClassifier, NeuralRDERegressor
    from ...estimators.parameters import part_with

    if any(name in inspect.signature(kind).parameters for kind in (NeuralRDEClassifier, NeuralRDERegressor)):
        return name
    inside = part_with(name, NeuralRDEClassifier._parts)
    return None if inside is None else f"{inside[0]}.{name}"
