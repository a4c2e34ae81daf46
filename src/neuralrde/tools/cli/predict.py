"""`neuralrde predict`, `evaluate` and `export`: use a trained model."""

import sys
from pathlib import Path
from typing import Annotated

from . import flags
from .console import count, number, pairs, print_json
from .flags import option


@flags.with_table
def predict(
    *,
    model: flags.Model,
    data: flags.Data,
    out: Annotated[Path, option("The CSV file to write; - is stdout.")] = Path("predictions.csv"),
    table: flags.Table,
    json: flags.AsJson = False,
) -> None:
    """Write a trained model's predictions into a CSV file.

    Each series has one row: its id, the prediction, the true target if the data hold it, and the probability of each
    class. A run folder remembers what the columns of a table mean, by their names, or by their numbers if the table has
    no header. With a model file, name the columns as in `fit`.

        neuralrde predict runs/hearts new.csv --out predicted.csv
    """
    from ..stores import Store, is_store
    from .evaluation import is_classifier, load_model, predictions_of, write_csv
    from .loading import open_for

    estimator = load_model(model)
    stored = is_store(data)
    given = Store(data) if stored else open_for(model, data, table, classifier=is_classifier(estimator))
    found = predictions_of(estimator, given)
    if str(out) == "-":
        write_csv(found, sys.stdout)
        return
    write_csv(found, out)
    if json:
        print_json({"file": str(out), "rows": len(found.ids)})
    else:
        print(f"{count(len(found.ids), 'prediction')}: {out}")


@flags.with_table
def evaluate(
    *,
    model: flags.Model,
    table: flags.Table,
    data: flags.OtherData = None,
    everything: Annotated[bool, option("Use all samples, also those the model was trained on.", None, "--all")] = False,
    json: flags.AsJson = False,
) -> None:
    """Compare a model's predictions with the truth, and with baselines that cost next to nothing.

    On the data of its own run, a model is judged on the test samples only, unless --all is given. On other data, all
    samples count.

        neuralrde evaluate runs/hearts
        neuralrde evaluate runs/hearts other.csv
    """
    from ..assessment import assess, measures, verdict
    from .evaluation import baselines_for, predictions_to_judge
    from .loading import is_runs_own
    from .report import as_json, as_text, only_closed_form
    from .run_folder import RunFolder

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


def export(
    *,
    model: flags.Model,
    out: Annotated[Path, option("The folder to write into.", "FOLDER")] = Path("exported"),
    format: Annotated[str, option("onnx, stablehlo, or both separated by a comma.")] = "onnx,stablehlo",
    neural_part: Annotated[
        bool, option("Leave out the closed form that is blended in: other predictions.", None, "--neural-part")
    ] = False,
    json: flags.AsJson = False,
) -> None:
    """Write a trained model's first state and its step as ONNX and StableHLO.

    Each file is compared with the model before it is kept. manifest.json says what goes in and out.

        neuralrde export runs/hearts --out hearts
    """
    from ...online import export_model
    from .evaluation import load_model

    formats = [one.strip() for one in format.split(",")]
    files = export_model(load_model(model), out, formats=list(dict.fromkeys(formats)), neural_part=neural_part)
    if json:
        print_json({"folder": str(out), "files": [path.name for path in files]})
    else:
        for path in files:
            print(path)
