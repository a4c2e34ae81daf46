"""`neuralrde inspect` and `neuralrde parts`: what data or a model is, what would suit it, and what can be chosen."""

import inspect as signatures
from pathlib import Path
from typing import Annotated, Any

import typer

from . import flags
from .console import WRONG_USE, Refusal, number, pairs, print_json
from .console import table as as_table

# Rows of a table of channels that are shown.
_CHANNELS = 20


@flags.with_table
def inspect(
    *,
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="Data (file, folder or name), a run folder or a model file.")
    ],
    table: flags.Table,
    task: flags.Task = None,
    json: flags.AsJson = False,
) -> None:
    """Describe data or a model.

    For data it shows lengths, sampling, missing values, channels and classes, and suggests a depth and a step to begin
    with. Of a table that it cannot read it lists the columns, and proposes a command that can. For a model it shows
    what it is, how it was trained, and what it expects.

        neuralrde inspect hearts.csv
        neuralrde inspect hearts.csv --id patient --time hour --target ill
        neuralrde inspect runs/hearts
    """
    from .describe import about_channels, about_data, about_model, suggestions, task_hints
    from .proposal import group_hints, open_or_propose, proposed

    path = Path(what)
    if path.suffix == ".nrde" or (
        path.is_dir() and ((path / "model.nrde").exists() or (path / "settings.toml").exists())
    ):
        from .evaluation import load_model

        about = about_model(load_model(path))
        print_json(about) if json else print(f"{path}\n{pairs(about)}")
        return
    options = table if task is None else {**table, "task": task}
    data = open_or_propose(what, options)
    hints = [*task_hints(data, options), *group_hints(data), *suggestions(data)]
    about, channels = about_data(data), about_channels(data)
    if json:
        print_json({"name": data.name, **about, "channels": channels, "suggestions": hints})
        return
    print(data.summary())
    print("\nSampling\n" + pairs(about))
    body = [[row["name"], *(number(value) for value in list(row.values())[1:])] for row in channels[:_CHANNELS]]
    more = f"\n  ... and {len(channels) - _CHANNELS} more" if len(channels) > _CHANNELS else ""
    print("\nChannels\n" + as_table(body, header=["name", "missing %", "mean", "spread", "lowest", "highest"]) + more)
    print("\nSuggestions\n" + "\n".join(f"  - {hint}" for hint in hints))
    if data.target is None and (text := proposed(what, options)) is not None:
        print(f"\n{text}")


def parts(
    family: Annotated[str | None, typer.Argument(metavar="FAMILY", help="model, transform, loss, ... [all]")] = None,
    json: flags.AsJson = False,
) -> None:
    """List the parts that can be chosen by name, such as models, transforms and losses.

    neuralrde fit hearts.csv --model log-ncde --set model.state=64 --set model.solver=tsit5
    """
    from .. import estimators, registry  # noqa: F401 (makes every registry known)
    from .settings import CLOSED_FORM

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
    print(as_table(rows, header=["part", "name", "what it is"]))


def _first_sentence(cls: Any) -> str:
    text = " ".join((signatures.getdoc(cls) or "").split("\n\n")[0].split())
    first = text.split(". ")[0].rstrip(".").replace("`", "")
    return first if len(first) <= 90 else f"{first[:87]} ..."
