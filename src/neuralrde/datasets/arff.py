"""Weka's `.arff` format: one channel as a row of numbers, several as a quoted table within a row.

SciPy reads the first kind only, and nothing of UEA's multivariate files; aeon reads neither comments among
the data nor series whose lengths differ.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde.paths import Series

from .dataset import Dataset, safe_name
from .files import ReadError, lengths_without_gaps, naming, open_text
from .targets import Task
from .ts import read_labels, row_of_numbers

_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.*)", re.IGNORECASE)
_NOMINAL = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^,\s][^,]*)")


def read_arff(path: str | Path, *, task: Task | None = None, name: str | None = None) -> Dataset:
    """Read an `.arff` file of series, flat or relational; the last attribute is the target.

    A nominal last attribute names classes, a numeric one is a regression. UEA pads short series with missing
    points, which are taken off again.

    Args:
        path: the file, which may be gzipped.
        task: None believes the header; "regression" reads class labels as numbers.
        name: of the data set; None takes the file's relation.
    """
    with open_text(path) as lines, naming(path):
        numbered = _without_comments(lines)
        relation, kinds, relational = _header(numbered, path)
        classes = _classes(kinds[-1])
        width = len(kinds) - 1
        points, labels, at = [], [], []
        for number, line in numbered:
            try:
                channels, label = _relational(line) if relational else _flat(line, width)
                values = np.stack([row_of_numbers(channel) for channel in channels], axis=1)
            except ValueError as error:
                raise ReadError(
                    path,
                    f"Got {str(error).removeprefix('could not convert string to float: ')[:80]}; expected "
                    "numbers divided by commas, then the target"
                    + (", as in `'1,2\\n3,4',label`." if relational else "."),
                    line=number,
                ) from None
            if points and values.shape[1] != points[0].shape[1]:
                raise ReadError(
                    path,
                    f"Got {values.shape[1]} channels beside {points[0].shape[1]} before; expected the same "
                    "in every series.",
                    line=number,
                )
            points.append(values[: lengths_without_gaps(values[None])[0]])
            labels.append(label.strip().strip("'\""))
            at.append(number)
    if not points:
        raise ReadError(path, "Got a header and no series; expected one line per series after @data.")
    regression = classes is None or task == "regression"
    target, classes = read_labels(labels, at, path, classes=classes, regression=regression)
    with naming(path):
        fields: dict[str, Any] = {"task": task or "regression"} if regression else {"classes": classes}
        return Dataset(Series.from_arrays(points), target, **fields, name=name or relation)


def _without_comments(lines) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if line and not line.startswith("%"):
            yield number, line


def _header(lines: Iterator[tuple[int, str]], path) -> tuple[str, list[str], bool]:
    """The relation's name, the type of each attribute in a line, and whether a table is one of them."""
    relation, kinds, inside, relational = safe_name(Path(path).name.split(".")[0]), [], False, False
    for number, line in lines:
        word = line.split()[0].lower()
        if word == "@data":
            if len(kinds) < 2:
                raise ReadError(
                    path,
                    f"Got {len(kinds)} attributes; expected the series and then the target.",
                    line=number,
                )
            return relation, kinds, relational
        if word == "@relation":
            relation = safe_name(line[len("@relation") :].strip().strip("'\""), relation)
        elif word == "@end":
            inside = False
        elif word == "@attribute":
            match = _ATTRIBUTE.match(line)
            if match is None:
                raise ReadError(path, f"Got {line[:40]!r}; expected `@attribute name type`.", line=number)
            kind = match.group(2).strip()
            if not inside:
                kinds.append(kind)
            if kind.lower() == "relational":
                inside = relational = True
        else:
            raise ReadError(
                path,
                f"Got {line[:40]!r}; expected a header of @relation and @attribute that ends with `@data`.",
                line=number,
            )
    raise ReadError(path, "Got no line `@data`; expected one between the header and the series.")


def _classes(kind: str) -> list[str] | None:
    """The names of the classes; None of a numeric target."""
    if not kind.startswith("{"):
        return None
    names = ("".join(groups).strip() for groups in _NOMINAL.findall(kind.strip("{}")))
    return list(dict.fromkeys(names))


def _flat(line: str, width: int) -> tuple[list[str], str]:
    values, _, label = line.rpartition(",")
    if line.count(",") != width:
        raise ValueError(f"{line.count(',') + 1} values for {width + 1} attributes")
    return [values], label


def _relational(line: str) -> tuple[list[str], str]:
    quote = line[0]
    table, closed, label = line[1:].rpartition(quote + ",")
    if quote not in "'\"" or not closed:
        raise ValueError(f"{line[:40]!r}")
    channels = table.split("\\n")
    lengths = [channel.count(",") + 1 for channel in channels]
    if len(set(lengths)) > 1:
        raise ValueError(f"channels of the lengths {lengths} in one series")
    return channels, label
