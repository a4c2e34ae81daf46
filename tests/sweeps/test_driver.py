"""The driver: each task once, whatever happens. In this process, without Ray."""

import json
import statistics

import pytest

from neuralrde.tools.sweeps import InProcess, Results, Search, Sweep, Task, content_key

from .work import begun, raw_lines, squares


def task(x, *, seed=0, search=None, **more):
    settings = {"x": x, "seed": seed, **more}
    return Task(content_key(settings), {"data": "d", "x": x, "seed": seed}, settings, "d", search)


def run(sweep, **options):
    return sweep.run(InProcess(squares, data={"d": [1, 2]}, folder=sweep.runs), **options)


def test_every_task_is_run_once_and_a_second_start_runs_nothing(tmp_path):
    tasks = [task(x) for x in (1, 2, 3)] + [task(2)]  # of which two are the same
    told = []
    assert not Sweep(tmp_path, tasks).finished()
    progress = run(Sweep(tmp_path, tasks), on_progress=lambda state: told.append((state.finished, len(state.running))))
    assert (progress.total, progress.done, progress.known) == (3, 3, 0)
    assert told[-1] == (3, 0)
    assert (0, 1) in told
    lines = raw_lines(tmp_path / "results.jsonl")
    assert {line["point"]["x"]: line["value"] for line in lines} == {1: 3.0, 2: 12.0, 3: 27.0}
    assert set(begun(tmp_path / "runs").values()) == {1}
    assert "3 of 3 runs" in (tmp_path / "page.html").read_text("utf-8")

    assert Sweep(tmp_path, tasks).finished()
    again = run(Sweep(tmp_path, [*tasks, task(4)]))  # one more in the file: only that is run
    assert (again.total, again.known, again.done) == (4, 3, 1)
    assert raw_lines(tmp_path / "results.jsonl")[:3] == lines
    assert set(begun(tmp_path / "runs").values()) == {1}


def test_results_of_an_earlier_file_are_kept_and_not_shown(tmp_path):
    run(Sweep(tmp_path, [task(1), task(2)]))
    run(Sweep(tmp_path, [task(2), task(3)]))  # another file, the same folder
    assert len(raw_lines(tmp_path / "results.jsonl")) == 3
    assert [line["point"]["x"] for line in Sweep.lines_of(tmp_path)] == [2, 3]
    assert "2 of 2 runs" in (tmp_path / "page.html").read_text("utf-8")


def test_an_error_is_a_result_and_stops_nothing(tmp_path):
    progress = run(Sweep(tmp_path, [task(1, error="too deep"), task(2)]))
    assert (progress.failed, progress.done) == (1, 1)
    [failed] = [line for line in Results.read(tmp_path / "results.jsonl") if line["status"] == "failed"]
    assert failed["error"] == "too deep"
    assert "ValueError" in failed["trace"]


def test_an_interrupt_keeps_what_is_done(tmp_path):
    class Interrupted(InProcess):
        def wait(self, seconds):
            if len(Results.read(tmp_path / "results.jsonl")) == 2:
                raise KeyboardInterrupt
            return super().wait(seconds)

    tasks = [task(x) for x in range(4)]
    sweep = Sweep(tmp_path, tasks)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(Interrupted(squares, data={"d": [1]}, folder=sweep.runs))
    assert len(raw_lines(tmp_path / "results.jsonl")) == 2
    assert run(Sweep(tmp_path, tasks)).known == 2
    assert sorted(begun(tmp_path / "runs").values()) == [1, 1, 1, 1]


class Losing(InProcess):
    """Loses the first tasks that it is given, as when their node dies."""

    losses = 0

    def wait(self, seconds):
        from neuralrde.tools.sweeps.pool import TaskResult

        if self.losses:
            self.losses -= 1
            return [TaskResult(self._waiting.popleft(), "lost", {"error": "node died"})]
        return super().wait(seconds)


@pytest.mark.parametrize(("losses", "outcome"), [(2, "done"), (3, "failed")])
def test_lost_tasks_are_given_out_again_so_many_times(tmp_path, losses, outcome):
    sweep = Sweep(tmp_path, [task(3)], retries=2)
    pool = Losing(squares, data={"d": [1]}, folder=sweep.runs)
    pool.losses = losses
    progress = sweep.run(pool)
    [line] = raw_lines(sweep.results)
    assert (line["status"], line["attempts"], progress.lost) == (outcome, 3, losses)


def search(trials=12, *, ranges=None, **options):
    make = lambda params, number: task(params["x"], search=("s", number))
    ranges = {"x": {"low": -4.0, "high": 4.0}} if ranges is None else ranges
    return Search("s", ranges, trials=trials, make=make, **options)


def test_a_search_finds_the_least_and_goes_on_where_it_was(tmp_path):
    run(Sweep(tmp_path, [], [search(8)]))
    assert len(raw_lines(tmp_path / "trials.jsonl")) == 8
    assert Sweep(tmp_path, [], [search(8)]).finished()
    assert not Sweep(tmp_path, [], [search(20)]).finished()
    # A driver that died after it had asked for a trial: that one is run again, as it was.
    first = raw_lines(tmp_path / "results.jsonl")
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in first[:7]))
    progress = run(Sweep(tmp_path, [], [search(40)]))
    assert (progress.total, progress.known, progress.done) == (40, 7, 33)
    lines = raw_lines(tmp_path / "results.jsonl")
    assert lines[7]["point"] == first[7]["point"]
    assert [line["search"][1] for line in lines] == list(range(40))
    # TPE has learned. Of random draws from -4 to 4 the median of x^2 is 4; of its last twenty, less than half of that.
    assert statistics.median(line["objective"] for line in lines[-20:]) < 2


def test_trials_that_choose_alike_are_one_task(tmp_path):
    progress = run(Sweep(tmp_path, [], [search(9, ranges={"x": [1, 2]}, sampler="random")]))
    assert (progress.done, progress.known, progress.finished) == (2, 7, 9)
    assert len(raw_lines(tmp_path / "results.jsonl")) == 2
    assert len(raw_lines(tmp_path / "trials.jsonl")) == 9
    assert Sweep(tmp_path, [], [search(9, ranges={"x": [1, 2]})]).finished()


def test_ranges_are_read_as_they_are_written():
    found = search(ranges={"x": {"low": 16, "high": 64, "step": 16}, "r": {"low": 1e-4, "high": 0.1, "log": True}})
    whole, real = found._distributions["x"], found._distributions["r"]
    assert (whole.low, whole.high, whole.step) == (16, 64, 16)
    assert real.log
    for wrong, message in (
        ({"low": 1}, "expected a list of values, or a lowest and a highest one"),
        ({"low": 2.0, "high": 1.0}, "as the range of x"),
        ({"low": 0.0, "high": 1.0, "log": True}, "as the range of x"),
        ([], "expected a list"),
    ):
        with pytest.raises(ValueError, match=message):
            search(ranges={"x": wrong})
    with pytest.raises(ValueError, match="Got the sampler 'mean'; expected one of tpe, random"):
        search(sampler="mean")
