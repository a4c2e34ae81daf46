"""The table of iisignature's calls in the docs: both sides of every row, evaluated and compared."""

import re
from pathlib import Path

import iisignature
import jax
import numpy as np
import pytest

import neuralrde

# The page's code takes names from where they are: the top, `neuralrde.signatures` and `neuralrde.transforms`.
SIGNATURES = {name: getattr(neuralrde.signatures, name) for name in neuralrde.signatures.__all__}
NAMES = vars(neuralrde.transforms) | SIGNATURES | vars(neuralrde)
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "migration.md"


def rows(heading: str) -> list[tuple[list[str], str]]:
    """For each row the code on the left, and the first piece of code on the right."""
    section = PAGE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", left), re.findall(r"`([^`]+)`", right)[0]) for left, right in cells]


def things() -> dict:
    rng, d, m = np.random.default_rng(0), 3, 4
    path, s = rng.normal(size=(9, d)), iisignature.prepare(3, 4, "SX2")
    names = {"path": path, "s": s, "d": d, "m": m, "displacement": rng.normal(size=d), "np": np, "jax": jax}
    names |= {"a": iisignature.sig(path[:5], m), "b": iisignature.sig(path[4:], m), "log": iisignature.logsig(path, s)}
    # For Signatory, which has other names for the same.
    series = neuralrde.Series.from_array(path[None])
    return names | {"depth": m, "c": d, "s1": names["a"], "s2": names["b"], "series": series}


@pytest.mark.parametrize(
    ("theirs", "ours"), rows("iisignature"), ids=lambda cell: cell if isinstance(cell, str) else ""
)
def test_a_row_of_iisignature(theirs, ours):
    given = things()
    y = np.random.default_rng(1).normal(size=200)
    given["y"] = y[: iisignature.siglength(3, 4) if theirs[0][:11] == "sigbackprop" else iisignature.logsiglength(3, 4)]
    here, there = NAMES | given, vars(iisignature) | given
    for line in theirs[:-1]:
        exec(line, there)
    expected = eval(theirs[-1], there)
    with jax.enable_x64(True):
        found = eval(ours, here)
    if theirs[-1] == "basis(s)":
        expected = [eval(name.replace("[", "(").replace("]", ")"), {}) for name in expected]
        found = [one_more(bracket) for bracket in found]
        assert found == expected
    else:
        # iisignature answers in float32, except for signatures and log-signatures of paths.
        tolerance = 1e-12 if theirs[-1].startswith(("sig(", "logsig(")) else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def one_more(bracket):
    """Letters from 1, as iisignature counts them."""
    return bracket + 1 if isinstance(bracket, int) else tuple(map(one_more, bracket))


@pytest.mark.parametrize("ours", [ours for _, ours in rows("Signatory") if "..." not in ours])
def test_what_stands_for_signatory_can_be_called(ours):
    assert eval(ours, NAMES | things() | {"d": 4, "s": things()["a"]}) is not None  # there d is the depth
