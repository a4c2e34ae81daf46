"""`neuralrde parts`: the short names of models, transforms, losses and all else that can be chosen."""

import inspect
from typing import Annotated

import typer

from . import flags
from .config import CLOSED_FORM
from .errors import WRONG_USE, Refusal
from .screen import print_json, table


def parts(
    family: Annotated[str | None, typer.Argument(metavar="FAMILY", help="model, transform, loss, ... [all]")] = None,
    json: flags.AsJson = False,
) -> None:
    """List the parts that can be chosen by name, such as models, transforms and losses.

    neuralrde fit hearts.csv --model log-ncde --set model.state=64 --set model.solver=tsit5
    """
    from .. import registry, training  # noqa: F401 (makes every registry known)

    families = registry.Registry.families
    if family is not None and family not in families:
        raise Refusal(f"Got the family {family}; expected one of {', '.join(families)}.", WRONG_USE)
    chosen = families if family is None else {family: families[family]}
    if json:
        print_json({name: {short: cls.__name__ for short, cls in one.items()} for name, one in chosen.items()})
        return
    rows = [[name, short, _first_sentence(cls)] for name, one in chosen.items() for short, cls in one.items()]
    if "model" in chosen:
        rows.insert(0, ["model", CLOSED_FORM, "No training: random log-signature features and ridge, in seconds"])
    print(table(rows, header=["part", "name", "what it is"]))


def _first_sentence(cls) -> str:
    text = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    first = text.split(". ")[0].rstrip(".").replace("`", "")
    return first if len(first) <= 90 else f"{first[:87]} ..."
