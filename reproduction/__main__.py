"""`neuralrde reproduce`: cells of the paper's tables, each a line in results/."""

import itertools
from pathlib import Path
from typing import Annotated

import typer

from .errors import WRONG_USE, Refusal

_Many = "Several with commas."


def reproduce(
    dataset: Annotated[str, typer.Option(help=f"HR, RR, SpO2, SCP1, SCP2, worms, speech, or a name. {_Many}")] = "HR",
    model: Annotated[str, typer.Option(help=f"nrde, ncde, odernn, logncde, linear, oscillators. {_Many}")] = "nrde",
    depth: Annotated[str | None, typer.Option(help=f"{_Many} [2,3; for ours the recipe's]")] = None,
    step: Annotated[str | None, typer.Option(help=f"{_Many} [512; for ours the recipe's]")] = None,
    seed: Annotated[str, typer.Option(help=_Many)] = "111,222,333",
    protocol: Annotated[str, typer.Option(help=f"paper, adjoint, later, corrected, ours. {_Many}")] = "paper",
    split: Annotated[str, typer.Option(help="paper, random, group (patient, speaker), folds.")] = "paper",
    budget: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes of training a run; none for no limit.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the protocol's.")] = None,
    grid: Annotated[bool, typer.Option("--grid", help="The appendix's 27 sizes instead of the chosen one.")] = False,
    results: Annotated[Path, typer.Option(help="The folder of the lines.")] = Path("results"),
    dry: Annotated[bool, typer.Option("--dry", help="Only list what would be run.")] = False,
) -> None:
    """Run experiments of the paper: bug for bug, corrected, or our way.

    Each run is a line in results/DATASET.jsonl, and is not run again. What was interrupted goes on where it stopped,
    and what ran out of its budget goes on when given more. `neuralrde report` makes tables and pictures of all lines.

        neuralrde reproduce --dataset HR --model nrde --depth 3 --step 512
        neuralrde reproduce --dataset HR,RR,SpO2 --protocol ours --budget 10
        neuralrde reproduce --dataset HR --model oscillators --protocol ours --split group --seed 0,1,2,3,4
    """
    from ..experiments import DATASETS, GRID, Cell, Limits, recipe_of, run

    cells = []
    for data, how, kind in itertools.product(_words(dataset), _words(protocol), _words(model)):
        name = DATASETS.get(data, data)
        recipe = recipe_of(name, kind)
        depths = _numbers("depth", depth, [recipe.depth] if how == "ours" else [2, 3])
        steps = _numbers("step", step, [recipe.step] if how == "ours" else [512])
        cells += [
            Cell(dataset=name, model=kind, depth=n, step=k, seed=s, protocol=how, split=split, sizes=sizes)
            for n in depths
            for k in steps
            for sizes in (GRID if grid else (None,))
            for s in _numbers("seed", seed, [])
        ]
    cells = list(dict.fromkeys(cells))  # a neural CDE is asked for once for each depth, and is one
    limits = Limits(budget=None if budget is None else 60 * budget, epochs=epochs)
    for number, cell in enumerate(cells, 1):
        if dry:
            print(cell.name)
        else:
            run(cell, limits=limits, folder=results, say=lambda text, n=number: print(f"[{n}/{len(cells)}] {text}"))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(name: str, text: str | None, default: list[int]) -> list[int]:
    if text is None:
        return default
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise Refusal(f"Got --{name} {text}; expected whole numbers with commas, such as 2,3.", WRONG_USE) from None
