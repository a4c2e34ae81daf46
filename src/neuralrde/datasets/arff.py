"""Weka's `.arff` format: one channel as a row of numbers, several as a quoted table within a row.

SciPy reads the first kind only, and nothing of UEA's multivariate files; aeon reads neither comments among
the data nor series whose lengths differ.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .dataset import Dataset, safe_name
from .files import ReadError, naming, open_text
from .targets import Task
from .ts import numbered_lines, read_series

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
        numbered = numbered_lines(lines, "%")
        relation, kinds, relational = _header(numbered, path)
        expected = "numbers divided by commas, then the target" + (", as in `'1,2\\n3,4',label`" if relational else "")
        split = _relational if relational else partial(_flat, width=len(kinds) - 1)
        series = read_series(numbered, split, path, expected)
    classes = _classes(kinds[-1])
    regression = classes is None or task == "regression"
    task = (task or "regression") if regression else None
    return series.labelled(path, classes=classes, regression=regression, task=task, name=name or relation)


def _header(lines: Iterator[tuple[int, str]], path) -> tuple[str, list[str], bool]:
    """The relation's name, the type of each attribute in a line, and whether a table is one of them."""
    relation, kinds, inside, relational = safe_name(Path(path).name.split(".")[0]), [], False, False
    for number, line in lines:
        word = line.split()[0].lower()
        if word == "@data":
            if len(kinds) < 2:
                raise ReadError(path, f"Got {len(kinds)} attributes; expected the series and then the target.", number)
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
            expected = "a header of @relation and @attribute that ends with `@data`"
            raise ReadError(path, f"Got {line[:40]!r}; expected {expected}.", number)
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
    return [values], label.strip().strip("'\"")


def _relational(line: str) -> tuple[list[str], str]:
    quote = line[0]
    table, closed, label = line[1:].rpartition(quote + ",")
    if quote not in "'\"" or not closed:
        raise ValueError(f"{line[:40]!r}")
    return table.split("\\n"), label.strip().strip("'\"")
