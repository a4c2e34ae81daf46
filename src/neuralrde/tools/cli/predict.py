"""`neuralrde predict`, `evaluate`, `explain` and `export`: use a trained model."""

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

from . import flags
from .console import WRONG_USE, Refusal, count, number, pairs, print_json
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
    from .evaluation import load_model, predictions_of, write_csv
    from .loading import open_for

    estimator = load_model(model)
    stored = is_store(data)
    given = Store(data) if stored else open_for(model, data, table, task=estimator.fitted_.targets.task)
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


@partial(flags.with_table, names=tuple(name for name in flags.TABLE if name != "id"))
def explain(
    *,
    model: flags.Model,
    data: flags.OtherData = None,
    id: Annotated[str | None, option("The series to explain, by its id, or by its number. [the first]", "ID")] = None,
    out: Annotated[Path, option("The picture to write: .png, .pdf or .svg.", "FILE")] = Path("explanation.png"),
    bins: Annotated[int, option("How many spans of time are told apart.", "N", min=1)] = 24,
    table: flags.Table,
    json: flags.AsJson = False,
) -> None:
    """Say what each channel and each span of time contributed to a prediction for one series, and draw it.

    Contributions add up to the logit of a class (of two classes, the second's log odds), or to the number, less a
    baseline.

        neuralrde explain runs/hearts new.csv --id p17 --out p17.png
    """
    from ...plots import explanation, save
    from .evaluation import load_model
    from .inspect import is_dated
    from .loading import open_for, static_of

    estimator = load_model(model)
    given = open_for(model, data, table, task=estimator.fitted_.targets.task)
    row = _row_of(given.series.ids, len(given), id)
    found = estimator.explain(given.series[[row]], bins=bins, **static_of(estimator, given[[row]]))
    output = int(found.outputs[0].argmax())  # the likeliest class
    save(explanation(found, output=output, dates=is_dated(given)), out)
    parts = found.contributions[0, ..., output].sum(axis=1)
    order = [int(one) for one in abs(parts).argsort()[::-1]]
    rows = {found.channels[one]: float(parts[one]) for one in order}
    result = {"output": found.names[output], "value": float(found.outputs[0, output])}
    result |= {"baseline": float(found.baseline[0, output]), "contributions": rows}
    if json:
        print_json({"id": None if given.series.ids is None else str(given.series.ids[row]), **result, "file": str(out)})
        return
    some = dict(list(rows.items())[:8])
    print(f"{result['output']}: {result['value']:+.4g}, from a baseline of {result['baseline']:+.4g}")
    print(pairs({name: f"{value:+.4g}" for name, value in some.items()}))
    print(f"\nPicture: {out}")


def _row_of(ids: Iterable[object] | None, count: int, wanted: str | None) -> int:
    """The place of the series with this id, or of this number where series have no ids."""
    names = [str(one) for one in (range(count) if ids is None else ids)]
    if wanted is None or wanted in names:
        return 0 if wanted is None else names.index(wanted)
    raise Refusal(f"Got --id {wanted}; expected one of the {count} series, such as {', '.join(names[:5])}.", WRONG_USE)


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
