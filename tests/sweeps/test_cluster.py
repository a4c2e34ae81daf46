"""A cluster of two nodes on this machine, one of which is killed midway."""

import pytest

from benchmarks.stress.sweep_cluster import RUNS, run

pytest.importorskip("ray", reason="sweeps on Ray need the extra ray")


@pytest.mark.slow  # 24 trainings, and half a minute until Ray notices the loss
def test_every_result_arrives_once_though_a_node_is_killed(tmp_path):
    found = run(tmp_path)
    assert found["code"] == 0, found["told"]
    assert found["killed"] > 1  # the raylet and at least one worker
    assert found["before"] < RUNS
    assert len(found["lines"]) == found["keys"] == RUNS
    assert {line["status"] for line in found["lines"]} == {"done"}
    # The run that died with its node went on from its checkpoint.
    assert max(found["resumed"]) >= 1
    assert "Nothing to run" in found["again"]
    assert found["lines_again"] == found["lines"]
