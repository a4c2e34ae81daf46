"""`neuralrde evaluate`: how good a trained model is on data."""

from typing import Annotated

import typer

from . import flags
from .answers import answers, check_known, is_classifier, load_model, measures
from .loading import open_for
from .run_folder import RunFolder
from .screen import number, pairs, print_json


def evaluate(
    model: flags.Model,
    data: flags.OtherData = None,
    target: flags.Target = None,
    id: flags.Id = None,
    time_column: flags.Time = None,
    group: flags.Group = None,
    split: flags.SplitColumn = None,
    columns: flags.Columns = None,
    per_time: flags.PerTime = None,
    everything: Annotated[bool, typer.Option("--all", help="All samples, also those it was trained on.")] = False,
    json: flags.AsJson = False,
) -> None:
    """Compare a model's predictions with what is true.

    On the data that a run was trained with, only its test samples count, unless --all is given; on other data all do.

        neuralrde evaluate runs/hearts
        neuralrde evaluate runs/hearts other.csv
    """
    estimator = load_model(model)
    options = flags.table_options(
        target=target, id=id, time=time_column, group=group, split=split, columns=columns, per_time=per_time
    )
    dataset = open_for(model, data, options, classifier=is_classifier(estimator))
    rows = None if everything or not model.is_dir() else RunFolder(model).test_rows(dataset)
    part = "all" if rows is None else "test"
    found = answers(estimator, dataset if rows is None else dataset[rows])
    check_known(found)
    result = measures(found)
    if json:
        print_json({"data": dataset.name, "part": part, **result})
        return
    which = "the run's test samples" if part == "test" else "all samples"
    print(f"{model} on {dataset.name}, {which}")
    print(pairs({name.replace("_", " "): number(value) for name, value in result.items()}))
