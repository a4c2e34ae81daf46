"""`neuralrde data`: list and download the named data sets, and list the file formats."""

from typing import Annotated

import typer

from . import flags
from .console import print_json, table

data_app = typer.Typer(
    no_args_is_help=True, help="List the named data sets and the file formats, or download a data set."
)


@data_app.command("list")
def list_(json: flags.AsJson = False) -> None:
    """List the named data sets: size (samples x length x channels), task, and whether they are here."""
    from ...datasets import available, data_folder

    entries = available()
    where = ["simulated" if entry.find is None else "here" if entry.present else "to be fetched" for entry in entries]
    if json:
        keys = ("name", "size", "task", "origin")
        print_json([{key: getattr(e, key) for key in keys} | {"where": w} for e, w in zip(entries, where, strict=True)])
        return
    rows = [[e.name, e.size, e.task, w, e.origin] for e, w in zip(entries, where, strict=True)]
    print(table(rows, header=["name", "size", "task", "where", "origin"], indent=0))
    print(f"\nAny other set of the UEA, UCR and TSER archives can be loaded by name. They are kept in {data_folder()}.")


@data_app.command()
def formats() -> None:
    """List the file formats that can be read, by their endings."""
    from ...datasets.readers import READERS

    rows = [[" ".join(filter(None, r.endings)), "table" if r.load else "series", r.about] for r in READERS]
    print(table(rows, header=["endings", "holds", "what it is"], indent=0))
    print("\nA table's columns are explained by --id, --time, --target and so on. Text may be gzipped (.gz).")


@data_app.command()
def get(name: Annotated[str, typer.Argument(help="A name that `neuralrde data list` shows.")]) -> None:
    """Download a data set, unless it is here, and describe it."""
    from ...datasets import load

    print(load(name).summary())
