"""`neuralrde evaluate`: how good a trained model is on data."""

from typing import Annotated

import typer

from ..assessment import assess, measures, verdict
from . import flags
from .judging import baselines_for, predictions_to_judge
from .loading import is_runs_own
from .report import as_json, as_text, only_closed_form
from .run_folder import RunFolder
from .screen import number, pairs, print_json


@flags.with_table
def evaluate(
    *,
    model: flags.Model,
    table: flags.Table,
    data: flags.OtherData = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Use all samples, also those the model was trained on.")
    ] = False,
    json: flags.AsJson = False,
) -> None:
    """Compare a model's predictions with the truth, and with baselines that cost next to nothing.

    On the data of its own run, a model is judged on the test samples only, unless --all is given. On other data, all
    samples count.

        neuralrde evaluate runs/hearts
        neuralrde evaluate runs/hearts other.csv
    """
    dataset, part, found = predictions_to_judge(model, data, table, everything=everything)
    known = found.known()
    result = measures(known)
    beside = baselines_for(model, part, dataset, found)
    # A verdict on samples that a model was trained on would flatter it.
    seen = part == "all" and is_runs_own(model, data)
    judged = assess(known, beside) if beside and not seen else None
    blend = RunFolder(model).read_metrics().get("blend")
    sentences = [] if judged is None else [*only_closed_form(blend), *verdict(judged)]
    if json:
        more = {} if judged is None else {"assessment": as_json(judged, sentences, part)}
        print_json({"data": dataset.name, "part": part, **result, **more})
        return
    which = "the run's test samples" if part == "test" else "all samples"
    print(f"{model} on {dataset.name}, {which}{', also those it was trained on' if seen else ''}")
    print(pairs({name.replace("_", " "): number(value) for name, value in result.items()}))
    if judged is not None:
        print("\n" + as_text(judged, sentences, f"{part.capitalize()} samples, and what is reached without this model"))
