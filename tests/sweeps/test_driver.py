"""The driver: each task once, whatever happens. In this process, without Ray."""

import pytest

from neuralrde.tools.sweeps import InProcess, Sweep, Task, content_key

from .work import begun, results_in, squares


def task(x, *, seed=0, **more):
    settings = {"x": x, "seed": seed, **more}
    return Task(content_key(settings), {"data": "d", "x": x, "seed": seed}, settings, "d")


def run(sweep):
    """Each progress that is told: done, total, and whether there is a sentence."""
    told = []
    pool = InProcess(squares, data={"d": [1, 2]}, folder=sweep.runs)
    sweep.run(pool, lambda done, total, said: told.append((done, total, bool(said))))
    return told


def test_every_task_is_run_once_and_a_second_start_runs_nothing(tmp_path):
    tasks = [task(x) for x in (1, 2, 3)] + [task(2)]  # of which two are the same
    assert len(Sweep(tmp_path, tasks).left()) == 3
    assert run(Sweep(tmp_path, tasks)) == [(0, 3, False), (1, 3, True), (2, 3, True), (3, 3, True)]
    lines = results_in(tmp_path)
    assert {line["point"]["x"]: line["value"] for line in lines} == {1: 3.0, 2: 12.0, 3: 27.0}
    assert set(begun(tmp_path / "runs").values()) == {1}

    assert not Sweep(tmp_path, tasks).left()
    again = run(Sweep(tmp_path, [*tasks, task(4)]))  # one more in the file: only that is run
    assert again == [(3, 4, False), (4, 4, True)]
    assert results_in(tmp_path)[:3] == lines
    assert set(begun(tmp_path / "runs").values()) == {1}


def test_results_of_an_earlier_file_are_kept_and_not_shown(tmp_path):
    run(Sweep(tmp_path, [task(1), task(2)]))
    run(Sweep(tmp_path, [task(2), task(3)]))  # another file, the same folder
    assert len(results_in(tmp_path)) == 3
    assert [line["point"]["x"] for line in Sweep.results_in(tmp_path)] == [2, 3]


def test_an_error_is_a_result_and_stops_nothing(tmp_path):
    assert len(run(Sweep(tmp_path, [task(1, error="too deep"), task(2)]))) == 3
    [failed] = [line for line in results_in(tmp_path) if line["status"] == "failed"]
    assert failed["error"] == "too deep"
    assert "ValueError" in failed["trace"]


def test_an_interrupt_keeps_what_is_done(tmp_path):
    class Interrupted(InProcess):
        def run(self, tasks):
            yield from super().run(tasks[:2])
            raise KeyboardInterrupt

    tasks = [task(x) for x in range(4)]
    sweep = Sweep(tmp_path, tasks)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(Interrupted(squares, data={"d": [1]}, folder=sweep.runs))
    assert len(results_in(tmp_path)) == 2
    assert run(Sweep(tmp_path, tasks))[0] == (2, 4, False)
    assert sorted(begun(tmp_path / "runs").values()) == [1, 1, 1, 1]


def test_a_folder_has_one_driver_and_failed_tasks_are_run_again_if_asked(tmp_path):
    sweep = Sweep(tmp_path, [task(1), task(2, error="no")])

    class Second(InProcess):
        def run(self, tasks):
            with pytest.raises(RuntimeError, match="another sweep is running"):
                run(Sweep(tmp_path, [task(3)]))
            yield from super().run(tasks)

    sweep.run(Second(squares, data={"d": [1]}, folder=sweep.runs))
    assert not sweep.left()
    sweep.forget_failed()
    assert [task.point["x"] for task in sweep.left()] == [2]
