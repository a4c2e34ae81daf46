"""`neuralrde export`: write a trained model for programs without JAX."""

from pathlib import Path
from typing import Annotated

import typer

from ..online.export import FORMATS, export_model
from . import flags
from .errors import WRONG_USE, Refusal
from .predictions import load_model
from .screen import print_json


def export(
    *,
    model: flags.Model,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write into.")] = Path("exported"),
    format: Annotated[str, typer.Option(help="onnx, stablehlo, or both separated by a comma.")] = "onnx,stablehlo",
    neural_part: Annotated[
        bool, typer.Option("--neural-part", help="Leave out the closed form that is blended in: other predictions.")
    ] = False,
    json: flags.AsJson = False,
) -> None:
    """Write a trained model's first state and its step as ONNX and StableHLO.

    Each file is compared with the model before it is kept. manifest.json says what goes in and out.

        neuralrde export runs/hearts --out hearts
    """
    formats = [one.strip() for one in format.split(",")]
    if unknown := [one for one in formats if one not in FORMATS]:
        raise Refusal(
            f"Got --format {format}, and there is no format {unknown[0]!r}; expected onnx, stablehlo, or both with a "
            "comma.",
            WRONG_USE,
        )
    files = export_model(load_model(model), out, formats=list(dict.fromkeys(formats)), neural_part=neural_part)
    if json:
        print_json({"folder": str(out), "files": [path.name for path in files]})
    else:
        for path in files:
            print(path)
