"""`neuralrde predict`: a trained model's predictions for new data."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..stores import Store, is_store
from . import flags
from .loading import open_for
from .predictions import is_classifier, load_model, predictions_of, write_csv
from .screen import count, print_json


@flags.with_table
def predict(
    *,
    model: flags.Model,
    data: flags.Data,
    out: Annotated[Path, typer.Option(help="The CSV file to write; - is stdout.")] = Path("predictions.csv"),
    table: flags.Table,
    json: flags.AsJson = False,
) -> None:
    """Write a trained model's predictions into a CSV file.

    Each series has one row: its id, the prediction, the true target if the data hold it, and the probability of each
    class. A run folder remembers what the columns of a table mean, by their names, or by their numbers if the table has
    no header. With a model file, name the columns as in `fit`.

        neuralrde predict runs/hearts new.csv --out predicted.csv
    """
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
