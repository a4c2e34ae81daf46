"""A search by Optuna: which settings to try next, and which runs to give up."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from .results import Results
from .task import Task

PRUNERS = ("median", "asha", "hyperband", "none")
SAMPLERS = ("tpe", "random")
_RANGE = ("low", "high", "log", "step")


class Search:
    """A number of trials over ranges of settings; the lowest objective is the best.

    Every trial is kept in a file as soon as it is asked for, so that a second start goes on where the first ended:
    trials with a result are told to Optuna as they were, those without one are run. With several trials at a time, what
    is tried next depends on what has ended by then, so that two searches of one seed may differ.

    Args:
        name: of the search, for its lines in the file.
        ranges: what to choose for each setting: a list of values, or `{"low": ..., "high": ...}` with `log = true` or a
            `step`. Two whole numbers are a range of whole numbers.
        trials: how many.
        make: the task for a choice and a trial's number.
        pruner: "median" gives up runs that are worse than the median of earlier ones at the same epoch, "asha" runs
            that are not among the best third at epochs 1, 3, 9, ..., "hyperband" several of those; "none" none.
        sampler: "tpe" learns from earlier trials, "random" does not.
        warmup: epochs that the median leaves to every run.
        seed: of the sampler.
    """

    def __init__(
        self,
        name: str,
        ranges: Mapping[str, Any],
        *,
        trials: int,
        make: Callable[[dict[str, Any], int], Task],
        pruner: str = "median",
        sampler: str = "tpe",
        warmup: int = 5,
        seed: int = 0,
    ):
        self._optuna = _import_optuna()
        self.name, self.trials = name, trials
        self._make, self._warmup, self._seed, self._sampler_name = make, warmup, seed, sampler
        self._distributions = {name: self._distribution(name, value) for name, value in ranges.items()}
        self._study = self._optuna.create_study(
            direction="minimize", sampler=self._sampler(sampler, seed), pruner=self._pruner(pruner)
        )
        self._again: list[tuple[int, dict[str, Any]]] = []
        self._live: dict[int, Any] = {}
        self._asked = 0
        self._records: Results | None = None

    def restore(self, records: Results, results: Results) -> None:
        """Go on from what is in the files: trials with a result are known, the others are run first."""
        self._records = records
        for line in records:
            if line["search"] != self.name:
                continue
            self._asked += 1
            params, found = line["params"], results.get(line["task"])
            if found is None:
                self._again.append((line["number"], params))
            else:
                self._study.add_trial(self._frozen(params, found))
        # Else the first draws of this start would be those of the last one.
        self._study.sampler = self._sampler(self._sampler_name, self._seed + self._asked)

    @property
    def left(self) -> int:
        """Trials that are still to be begun."""
        return len(self._again) + max(0, self.trials - self._asked)

    def next(self) -> Task | None:
        """The task of the next trial; None if all have been begun."""
        if self._again:
            number, params = self._again.pop(0)
            self._study.enqueue_trial(params)
            self._live[number] = self._study.ask(self._distributions)
            return self._make(params, number)
        if self._asked >= self.trials:
            return None
        number, self._asked = self._asked, self._asked + 1
        trial = self._live[number] = self._study.ask(self._distributions)
        task = self._make(dict(trial.params), number)
        if self._records is not None:
            line = {"search": self.name, "number": number, "params": dict(trial.params), "task": task.key}
            self._records.append({"key": f"{self.name}/{number}", **line})
        return task

    def hear(self, number: int, record: Mapping[str, Any]) -> bool:
        """An epoch of a trial; True if the pruner gives the trial up."""
        trial, value = self._live.get(number), record.get("monitored")
        if trial is None or value is None or not math.isfinite(value):
            return False
        trial.report(float(value), int(record["epoch"]))
        return bool(trial.should_prune())

    def finish(self, number: int, line: Mapping[str, Any]) -> None:
        """The end of a trial, with its line of results."""
        trial, states = self._live.pop(number, None), self._optuna.trial.TrialState
        if trial is None:
            return
        status, value = line.get("status"), line.get("objective")
        if status == "done" and value is not None:
            self._study.tell(trial, float(value))
        else:
            self._study.tell(trial, state=states.PRUNED if status == "pruned" else states.FAIL)

    def _frozen(self, params: dict[str, Any], line: Mapping[str, Any]) -> Any:
        """A trial as it was, with all that pruners and samplers learn from."""
        states, status = self._optuna.trial.TrialState, line.get("status")
        curve = {epoch: float(value) for epoch, value in enumerate(line.get("curve") or [], 1) if value is not None}
        done = status == "done" and line.get("objective") is not None
        return self._optuna.trial.create_trial(
            params=params,
            distributions=self._distributions,
            intermediate_values=curve,
            value=float(line["objective"]) if done else None,
            state=states.COMPLETE if done else states.PRUNED if status == "pruned" else states.FAIL,
        )

    def _distribution(self, name: str, value: Any) -> Any:
        kinds = self._optuna.distributions
        if isinstance(value, list) and value:
            return kinds.CategoricalDistribution(value)
        if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= set(_RANGE):
            raise ValueError(
                f"Got {value!r} as the range of {name}; expected a list of values, or a lowest and a highest one. "
                f'Write for example "{name}" = {{low = 1e-4, high = 1e-2, log = true}}.'
            )
        low, high, log, step = value["low"], value["high"], value.get("log"), value.get("step")
        whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (low, high))
        try:
            if whole:
                return kinds.IntDistribution(low, high, log=bool(log), step=step or 1)
            return kinds.FloatDistribution(float(low), float(high), log=bool(log), step=step)
        except (ValueError, TypeError) as error:
            raise ValueError(f"Got {value!r} as the range of {name}: {error}") from None

    def _sampler(self, name: str, seed: int) -> Any:
        _check(name, SAMPLERS, "sampler")
        kinds = self._optuna.samplers
        if name == "random":
            return kinds.RandomSampler(seed=seed)
        # Several trials run at a time: those that have not ended count as bad, so that they are not tried twice.
        return kinds.TPESampler(seed=seed, constant_liar=True)

    def _pruner(self, name: str) -> Any:
        _check(name, PRUNERS, "pruner")
        kinds = self._optuna.pruners
        if name == "median":
            return kinds.MedianPruner(n_startup_trials=4, n_warmup_steps=self._warmup)
        if name == "asha":
            return kinds.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
        return kinds.HyperbandPruner(reduction_factor=3) if name == "hyperband" else kinds.NopPruner()


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise ValueError(f"Got the {what} {name!r}; expected one of {', '.join(known)}.")


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError(
            "Got a search, and no Optuna to search with. Write `pip install 'neuralrde[sweep]'`, or a [grid] instead "
            "of the [search]."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
