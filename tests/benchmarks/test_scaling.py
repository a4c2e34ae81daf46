"""The page on cost: its tables come from the lines of results, and the arithmetic from two of them."""

import pytest

from benchmarks.speed import scaling, scaling_page
from benchmarks.speed.scaling import VARIED, growth, lines, points, slope

SCENARIO = {"varied": "scenario", "length": 100_000, "channels": 6, "step": 100}
FOUND = [
    {"what": "preparation", "point": {**SCENARIO, "depth": 2, "series": 10}, "cores": 2, "seconds": 0.05},
    {"what": "steps", "point": {**SCENARIO, "depth": 2, "series": 50}, "cores": 2, "seconds": 1.0, "weights": 50_000},
]


def test_the_arithmetic_by_hand():
    found = scaling_page.scenario(FOUND, 2)
    assert found["raw"] == 1e6 * 1e5 * 5 * 4 == 2e12
    assert found["channels"] == 6 + 15  # and so many coordinates has each of 1000 windows
    assert found["store"] == 1e6 * 1000 * 21 * 4 == 84e9
    assert found["prepare_core"] == pytest.approx(0.01)
    assert found["hosts_prepare"] == pytest.approx(1e6 * 0.01 / 2048)
    assert found["hosts_bytes"] == pytest.approx(2 * 63 / 64 * 200e3)
    # 61.03 steps of 64 x 256 series: 0.04 core-seconds each on 32 cores, and the ring.
    ring = 2 * 63 / 64 * 200e3 / 1.25e9 + 126 * 50e-6
    assert found["hosts_epoch"] == pytest.approx(1e6 / (64 * 256) * (256 * 0.04 / 32 + ring))
    assert found["gpu_memory"] == 4096 * 1000 * (21 + 32) * 4


def test_floating_point_operations_are_counted_as_for_a_step():
    from benchmarks.speed import training_steps

    # The same model; 562 windows there and 1000 here.
    _, both = training_steps.flops(batch=1, depth=3)
    assert scaling_page.flops(3) == pytest.approx(both * 1000 / training_steps.WINDOWS)


def test_exponents():
    assert slope([2, 4, 8], [1.0, 4.0, 16.0]) == 2
    assert len(list(points("steps"))) == sum(map(len, VARIED["steps"].values()))


def test_the_pages_tables_are_those_of_the_lines(root):
    found = lines()
    texts = {what: growth(what, found) for what in VARIED} | scaling_page.arithmetic(found)
    for name, text in texts.items():
        assert (root / "docs" / "measured" / f"scaling_{name}.txt").read_text("utf-8") == text + "\n", (
            f"run scaling page: {name}"
        )
    assert scaling.RESULTS.exists()
