"""`neuralrde sweep`: many runs with different settings, on all cores or on a Ray cluster."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from . import flags
from .console import WRONG_USE, Refusal, count, going_on_unread, how_stopped, number, print_json, table
from .flags import option


def sweep(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A TOML file that says what is fixed and what is varied.")
    ],
    address: Annotated[
        str | None, option("The address of a Ray cluster; auto takes the one on this machine. [a new one]", "ADDRESS")
    ] = None,
    out: Annotated[Path | None, option("The sweep's folder. [sweeps/NAME]", "FOLDER", show_default=False)] = None,
    show: Annotated[bool, option("Print the results so far and run nothing.", None, "--table")] = False,
    retry_failed: Annotated[bool, option("Run again what ended with an error.", None, "--retry-failed")] = False,
    no_ray: Annotated[
        bool, option("Run one after another in this process, each on all cores.", None, "--no-ray")
    ] = False,
    json: flags.AsJson = False,
) -> None:
    """Run every combination of a grid, or a search by Optuna, as tasks on Ray.

    Ray starts by itself, on the cores that this process may use; --address joins a cluster. A run whose worker or node
    dies continues from its checkpoint. What has a result is never run again, so the same command continues after
    Ctrl-C, or with more values in the file. FOLDER/page.html shows the results as they come.

        neuralrde sweep hearts.toml
        neuralrde sweep hearts.toml --table
        neuralrde sweep hearts.toml --address 10.0.0.1:6379
    """
    from ..datasets.dataset import safe_name
    from ..sweeps import Sweep

    if address is not None and no_ray:
        raise Refusal("Got --address with --no-ray; expected one of them.", WRONG_USE)
    folder = Path("sweeps") / safe_name(config.stem) if out is None else out
    if show:
        lines = Sweep.lines_of(folder)
        if not lines:
            raise Refusal(f"There are no results in {folder} yet. Run the sweep without --table first.")
        _show(lines, folder, json)
        return
    with going_on_unread():
        _run(config, folder, address, no_ray=no_ray, retry_failed=retry_failed, json=json)


def _run(config: Path, folder: Path, address: str | None, *, no_ray: bool, retry_failed: bool, json: bool) -> None:
    from ..sweeps import InProcess, RayPool, Results
    from .sweep_tasks import read_sweep, run_in_worker, run_one

    say: Callable[[str], None] = (lambda text: None) if json else print
    read = read_sweep(config, folder)
    sweep = read.sweep
    if retry_failed and sweep.results.exists():
        with Results(sweep.results) as results:
            results.forget({line["key"] for line in results if line["status"] == "failed"})
    options: Any = {"data": read.data, "folder": sweep.runs.resolve()}
    progress = _ProgressLines(say)
    if sweep.finished():
        sweep.remember()
        say(f"Nothing to run: every task has a result in {sweep.results}.")
    else:
        say(f"Results: {sweep.results}\nPage:    {folder / 'page.html'}")
        with contextlib.ExitStack() as stack:
            pool: Any
            if no_ray:
                pool = InProcess(run_one, **options)
            else:
                cluster = RayPool(run_in_worker, cores=read.cores, gpus=read.gpus, address=address, **options)
                pool = stack.enter_context(cluster)
            try:
                sweep.run(pool, progress)
            except (KeyboardInterrupt, SystemExit) as error:  # Ray makes an exit of SIGTERM
                word, code = how_stopped(error)
                left = progress.left()
                raise Refusal(f"{word}. What is done is kept; the same command goes on{left}.", code) from None
    _show(sweep.lines_of(folder), folder, json)


class _ProgressLines:
    """A line for each run that ends, and on a terminal one that changes."""

    def __init__(self, say: Callable[[str], None]):
        self._say, self._last, self._progress = say, "", None
        self._live = sys.stderr.isatty()

    def __call__(self, progress: Any) -> None:
        self._progress = progress
        if progress.last != self._last:
            self._last = progress.last
            self._clear()
            self._say(f"  [{progress.finished}/{progress.total}] {progress.last}")
        if self._live:
            epochs = [f"epoch {record['epoch']}" for _, record in progress.running.values() if record]
            text = f"  {progress.finished}/{progress.total}, {len(progress.running)} running: {', '.join(epochs)}"
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def left(self) -> str:
        """How many there are still to run."""
        self._clear()
        state = self._progress
        return "" if state is None else f" with the other {count(state.total - state.finished, 'run')}"


def _show(lines: list[dict[str, Any]], folder: Path, json: bool) -> None:
    """The results so far, over seeds."""
    from ..sweeps.results import names, short, summarise

    groups = summarise(lines)
    if json:
        fields = ("point", "metric", "mean", "deviation", "values", "failed", "pruned")
        rows = [{name: getattr(group, name) for name in fields} for group in groups]
        print_json({"folder": str(folder), "runs": len(lines), "groups": rows})
        return
    columns = names(group.point for group in groups)
    body = []
    for group in groups:
        deviation = "" if group.deviation is None else f" ± {group.deviation:.2g}"
        value = "" if group.mean is None else f"{number(group.mean)}{deviation}"
        without = [f"{n} {what}" for n, what in ((group.failed, "failed"), (group.pruned, "pruned")) if n]
        seconds = f"{sum(group.seconds) / len(group.seconds):.1f}" if group.seconds else ""
        cells = (short(group.point.get(name)) for name in columns)
        body.append([*cells, group.metric, value, len(group.values), seconds, ", ".join(without)])
    header = [
        *(name.removeprefix("windows.") for name in columns),
        "metric",
        "mean ± deviation",
        "seeds",
        "seconds",
        "",
    ]
    print("\n" + table(body, header=header))
    failed = [line for line in lines if line["status"] == "failed"]
    for line in failed[:3]:
        print(f"  failed: {', '.join(short(value) for value in line['point'].values())}: {line.get('error')}")
    if len(failed) > 3:
        print(f"  and {len(failed) - 3} more failed; {folder / 'page.html'} shows all")
    best = _best(groups, lines)
    print(f"\n{count(len(lines), 'run')} in {folder}; page: {folder / 'page.html'}{best}")


def _best(groups: list[Any], lines: list[dict[str, Any]]) -> str:
    """Where the model of the best run is, if one data set was swept over."""
    done = [line for line in lines if line["status"] == "done" and line.get("objective") is not None]
    if not done or len({line["point"].get("data") for line in done}) > 1:
        return ""
    best = min(done, key=lambda line: line["objective"])
    return f"\nLowest validation loss: runs/{best['key']} ({number(best['objective'])})"
