"""What would not fit is refused before it is allocated."""

import resource
import subprocess
import sys

import pytest

from neuralrde.paths import Series, checks


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(checks, "free_memory", lambda: 3 * 2**30)
    checks.check_fits(3 * 2**30, "Twins", "Take one.")
    with pytest.raises(MemoryError, match=r"Twins need 3\.5 GiB; this machine has 3\.0 GiB free\. Take one\."):
        checks.check_fits(3.5 * 2**30, "Twins", "Take one.")


@pytest.mark.long
def test_free_memory_is_what_a_process_may_still_take():
    assert 2**20 < checks.free_memory() < 2**50
    # Under a limit of the address space it is less than the limit.
    program = "from neuralrde.paths import checks; print(checks.free_memory())"
    limit = 6 * 2**30
    free = subprocess.run(
        [sys.executable, "-c", program],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        check=True,
        text=True,
    )
    assert 0 <= int(free.stdout) < limit


def test_series_that_padding_would_make_too_large_are_refused(monkeypatch):
    ragged = [[1.0] * 1000, [1.0]]
    assert len(Series.from_arrays(ragged)) == 2
    monkeypatch.setattr(checks, "free_memory", lambda: 10_000)
    monkeypatch.setattr(checks, "SMALL", 0)
    with pytest.raises(MemoryError, match=r"2 series of 1 to 1,000 points .* need"):
        Series.from_arrays(ragged)
