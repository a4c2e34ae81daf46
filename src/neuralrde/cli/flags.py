"""Flags that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

_TABLE: Any = {"rich_help_panel": "Tables (.csv, .tsv, .parquet)"}
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column to predict.", **_TABLE)]
Id = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that says which series a row belongs to.", **_TABLE)
]
Time = Annotated[
    str | None, typer.Option("--time", metavar="COLUMN", help="The column of times: numbers or dates.", **_TABLE)
]
Group = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of patients, speakers, ...: kept in one part.", **_TABLE),
]
SplitColumn = Annotated[
    str | None,
    typer.Option("--split", metavar="COLUMN", help="The column that says train, validation or test.", **_TABLE),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="The channels, with commas between; by default all others.", **_TABLE),
]
PerTime = Annotated[bool | None, typer.Option("--per-time", help="The target changes within a series.", **_TABLE)]
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


def table_options(**flags: Any) -> dict[str, Any]:
    """Only what was given; `columns` as a list."""
    if flags.get("columns") is not None:
        flags["columns"] = [name.strip() for name in flags["columns"].split(",")]
    return {name: value for name, value in flags.items() if value is not None}
