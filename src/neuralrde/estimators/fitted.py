"""What estimators have learned, as frozen values: all that predictions, streams, files and reports need.

    FittedFeatures     inputs, transform, features
    FittedClosedForm   the same, and a linear map of the features
    FittedNeural       inputs, transform, windows, a trained model, and the closed form that is blended in

The trainer and the closed form return them, an estimator keeps one as `fitted_`, and `saving.py` writes them to files.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import scipy.special
from jax.core import Tracer
from jaxtyping import Float, Shaped

from .._types import Devices, Options, Record
from ..errors import setting
from ..features import FeatureSizes, LinearModel, SeriesFeatures
from ..features.features import check_counts
from ..features.random_windows import MOST_WORDS
from ..models import AbstractModel, Ensemble, as_model
from ..models.base import model_class
from ..paths import Series, Windows
from ..paths.checks import check_number, check_whole
from ..registry import Config, accepted, params_of
from ..signatures import basis_channels
from ..training import AbstractAugmentation, AbstractLoss, SquaredError, TrainingState, predict
from ..training.archive import arrays_of, with_arrays
from ..transforms import Transform
from .division import Samples
from .inputs import InputDescription
from .sources import SampleSource, SeriesInMemory, whole_series
from .targets import TargetCoding, are_known, check_threshold_suits

# Options of a model that make none of its arrays larger.
_FREE = {"substeps", "max_steps", "depth"}
# Series that the closed form predicts at once: features of more would not fit into memory.
_AT_ONCE = 4096


# Conformal prediction: intervals that hold a given share of targets, whatever the model.
#
# Held-out targets have scores, which say how far they are from their predictions. Of a new target, drawn like these,
# the score is below the k-th smallest of n with probability k / (n + 1). So the interval of all targets with at most
# that score holds the new one with that probability. (Vovk, Gammerman and Shafer 2005; Lei et al. 2018. For intervals
# of different widths see Romano, Patterson and Candès 2019.)
#
# Series of one patient are alike, and it is another patient who comes next. So groups are counted, not series: each of
# G groups has the same weight 1 / (G + 1), shared by its own scores, and the rest is that of the new one (Lee, Barber
# and Willett 2023, hierarchical conformal prediction).


class VersionOutputs(NamedTuple):
    """A model's outputs for one version of new series."""

    outputs: np.ndarray
    factor: float = 1.0
    """What targets are multiplied by in this version."""


def conformal_score(scores: Sequence[Sequence[float]] | None, share: float) -> Float[np.ndarray, "outputs"]:
    """For each output, the score that so large a share of targets do not exceed.

    >>> conformal_score([list(range(1, 11))], 0.5).tolist()  # 6 of 11: 5 of 11 are less than a half
    [6.0]
    """
    if scores is None:
        raise ValueError(
            f"Got interval={share}, but no series were held out to calibrate intervals with. Write "
            "`model.calibrate(X, y)` with series that were not trained on, or give `fit` a validation set."
        )
    fewest = min(len(one) for one in scores)
    # Not 19.000000000000004 of 19.
    place = math.ceil(share * (fewest + 1) - 1e-9)
    if place > fewest:
        needed = f"at least {math.ceil(share / (1 - share) - 1e-9)} of them" if share < 1 else "a share below 1"
        most = math.floor(1000 * fewest / (fewest + 1)) / 1000
        raise ValueError(
            f"Got interval={share} with {fewest} held-out targets, or groups of them, which can promise at most "
            f"{most:g}; expected {needed}. Write interval={most:g}, or fit or calibrate with more."
        )
    return np.array([float(one[math.ceil(share * (len(one) + 1) - 1e-9) - 1]) for one in scores])


def held_out_scores(
    scores: Float[np.ndarray, "samples outputs"], groups: Shaped[np.ndarray, "samples"] | None = None
) -> list[list[float]]:
    """What `conformal_score` counts: for each output the known scores in order, or as many of them as there are groups.

    Of G groups, the k-th is the smallest score that a weight of k groups does not exceed.

    >>> held_out_scores(np.array([[3.0], [1.0], [np.nan], [2.0]]))
    [[1.0, 2.0, 3.0]]
    >>> held_out_scores(np.array([[9.0], [1.0], [2.0], [3.0], [4.0]]), np.array(["a", "b", "b", "b", "b"]))
    [[4.0, 9.0]]
    """
    groups, found = np.arange(len(scores)) if groups is None else groups, []
    for column in scores.T:
        known = np.flatnonzero(~np.isnan(column))
        order = known[np.argsort(column[known], kind="stable")]
        _, group, sizes = np.unique(groups[order], return_inverse=True, return_counts=True)
        reached = np.cumsum(1.0 / sizes[group])
        # Sums of a third are not exact.
        places = np.searchsorted(reached, np.arange(1, len(sizes) + 1) - 1e-9)
        found.append(column[order[places]].tolist())
    return found


def median_of(versions: Sequence[VersionOutputs], predict: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The median of the versions' predictions, in the targets' own units.

    >>> versions = [VersionOutputs(np.array([60.0 * factor]), factor) for factor in (1.0, 2.0, 0.5)]
    >>> median_of(versions, np.asarray)
    array([60.])
    """
    return np.median([predict(version.outputs) / version.factor for version in versions], axis=0)


def median_scores(versions: Sequence[VersionOutputs], target: np.ndarray, loss: AbstractLoss) -> np.ndarray:
    """The scores of targets with which the medians of all versions' intervals just hold them.

    The lower end of the median interval is below a target where the ends of most versions are. So the median score of
    the versions that lie above the target decides, those below counting as 0; the same holds for the upper end.
    """
    low, high = [], []
    for outputs, factor in versions:
        scores, scaled = loss.scores(outputs, target * factor), target * factor
        below = scaled < loss.predict(outputs)
        low.append(np.where(below, scores, 0.0))
        high.append(np.where(below, 0.0, scores))
    return np.maximum(np.median(low, axis=0), np.median(high, axis=0))


def calibration_scores(
    loss: AbstractLoss, versions: Sequence[VersionOutputs], target: np.ndarray, groups: np.ndarray | None = None
) -> list[list[float]]:
    """The scores that intervals are made of, from outputs for series that were left out of training."""
    versions = [VersionOutputs(outputs.astype(np.float64), factor) for outputs, factor in versions]
    return held_out_scores(median_scores(versions, target.astype(np.float64), loss), groups)


def check_scores(scores: list[list[float]] | None) -> None:
    if scores is not None and any(one != sorted(one) for one in scores):
        raise ValueError("Got scores that are not in order.")


class Outputs(NamedTuple):
    """A model's outputs, of one version of the series or of several."""

    versions: Sequence[VersionOutputs]
    at_points: Callable[[np.ndarray], np.ndarray] | None = None
    """Turns outputs after every window into outputs at every point; None where there is one output per series."""


class Predictor:
    """What both kinds of fitted values make of outputs: probabilities, or numbers with intervals."""

    targets: TargetCoding
    threshold: float | None
    loss: AbstractLoss
    scores: list[list[float]] | None

    def one_per_series(self, outputs: np.ndarray) -> Outputs:
        """Outputs of whole series, such as those of streams."""
        return Outputs([VersionOutputs(outputs)])

    def probabilities(self, outputs: Outputs) -> np.ndarray:
        """The probability of each class."""
        mean = np.mean([version.outputs for version in outputs.versions], axis=0)
        probabilities = scipy.special.softmax(mean.astype(np.float64), axis=-1)
        return probabilities if outputs.at_points is None else outputs.at_points(probabilities)

    def labels(self, probabilities: np.ndarray) -> np.ndarray:
        """The likeliest classes; of two, the second from the threshold on, if there is one."""
        assert self.targets.classes is not None
        if self.threshold is None:
            return self.targets.classes[probabilities.argmax(axis=-1)]
        return self.targets.classes[(probabilities[..., 1] >= self.threshold).astype(int)]

    def check_threshold(self) -> None:
        if self.threshold is not None:
            check_number("threshold", self.threshold, high=1.0)
            check_threshold_suits(self.threshold, self.targets)

    def predictions(
        self, outputs: Outputs, interval: float | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Labels or numbers; with `interval`, a pair of numbers and of intervals that hold this share of targets."""
        if self.targets.classes is not None:
            if interval is not None:
                raise ValueError(f"Got interval={interval!r} for a classifier; expected None. Write `predict_proba`.")
            return self.labels(self.probabilities(outputs))
        versions = [VersionOutputs(one.astype(np.float64), factor) for one, factor in outputs.versions]
        one_dimensional = self.targets.one_dimensional
        shaped = outputs.at_points or (lambda values: values[:, 0] if one_dimensional else values)
        predicted = shaped(median_of(versions, self.loss.predict))
        if interval is None:
            return predicted
        check_number("interval", interval, high=1.0, above=True)
        score = conformal_score(self.scores, interval)
        ends = median_of(versions, lambda values: np.stack(self.loss.interval(values, score)))
        return predicted, np.stack([shaped(end) for end in ends], axis=-1)


# The closed form.


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedFeatures:
    """Random log-signature features and statistics of series, standardised."""

    inputs: InputDescription
    transform: Transform
    """Puts series on a regular grid."""
    sizes: FeatureSizes
    counts: dict[str, int]
    """How many features each block has."""
    model: SeriesFeatures | None
    """None while a file's sizes are checked."""

    # What only a trained model has. Streams, the service and reports ask every kind of fitted value for it.
    neural_model = windows = blend = None
    members, history = 1, ()

    def __post_init__(self):
        check_counts(self.counts, self.inputs.n_channels, self.inputs.static_numbers)

    @property
    def features(self) -> int:
        return sum(self.counts.values())

    def of(self, series: Series, static: np.ndarray | None = None) -> Float[np.ndarray, "samples features"]:
        assert self.model is not None
        return self.model(series, self.transform(series), static)

    def least_sizes(self) -> dict[str, int]:
        """Numbers that a model has at least."""
        channels = self.sizes.draws * self.inputs.n_channels
        maps = self.sizes.draws * MOST_WORDS * (self.sizes.maps + 1)
        return {"features": self.features, "channels": channels, "maps": maps}

    def shapes(self) -> SeriesFeatures:
        """The model's shapes, without its numbers."""
        return SeriesFeatures.template(self.inputs.n_channels, self.counts, self.sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedClosedForm(Predictor, FittedFeatures):
    """Ridge regression on the features of series."""

    model: LinearModel | None
    targets: TargetCoding
    penalty: float
    scores: list[list[float]] | None = None
    """For each output, how far left-out targets were from their predictions, in order."""
    threshold: float | None = None
    """The probability from which on the second of two classes is predicted; None for the likelier one."""

    loss = SquaredError()

    def __post_init__(self):
        super().__post_init__()
        check_number("penalty", self.penalty, above=True)
        check_scores(self.scores)
        self.check_threshold()
        if self.targets.per_time:
            raise ValueError("Got a closed form with a target at every point; expected one per series")

    @property
    def closed_form(self) -> "FittedClosedForm":
        """The part that looks at series as a whole."""
        return self

    def of(self, series: Series, static: np.ndarray | None = None) -> Float[np.ndarray, "samples features"]:
        assert self.model is not None
        return self.model.features(series, self.transform(series), static)

    def values(self, series: Series, static: np.ndarray | None = None) -> Float[np.ndarray, "samples outputs"]:
        """The regression's values: the scores of classes, or numbers."""
        assert self.model is not None
        if len(series) <= _AT_ONCE:
            return self.model(self.of(series, static))
        blocks = (slice(first, first + _AT_ONCE) for first in range(0, len(series), _AT_ONCE))
        return np.concatenate(
            [self.values(series[block], None if static is None else static[block]) for block in blocks]
        )

    def whole_outputs(self, series: Series, static: np.ndarray | None = None) -> Float[np.ndarray, "samples outputs"]:
        """The logits of classes, or numbers."""
        assert self.model is not None
        return self.values(series, static) * float(self.model.sharpness)

    def outputs(self, source: SampleSource) -> Outputs:
        return self.one_per_series(self.whole_outputs(whole_series(source), source.static))

    def blended(self, neural: None, closed: np.ndarray) -> np.ndarray:
        """The closed form's outputs, beside which there are no others."""
        return closed

    def least_sizes(self) -> dict[str, int]:
        return super().least_sizes() | {"outputs": self.targets.outputs}

    def shapes(self) -> LinearModel:
        shape, outputs = lambda *sizes: np.zeros(sizes, np.float32), self.targets.outputs
        return LinearModel(super().shapes(), shape(self.features, outputs), shape(outputs), shape())


# The neural models.


@dataclass(frozen=True, eq=False)
class Blend:
    """The closed form in an ensemble's predictions, and the factors of both outputs."""

    closed_form: FittedClosedForm | None = None
    factors: tuple[float, float] = (0.0, 1.0)
    """The factor of the closed form's outputs, and that of the neural model's."""

    def __post_init__(self):
        if len(self.factors) != 2 or not all(0 <= factor < np.inf for factor in self.factors):
            raise ValueError(f"Got the factors {self.factors} of a blend; expected two numbers of 0 or more")

    @property
    def only_closed_form(self) -> bool:
        return self.factors[0] > 0 and self.factors[1] == 0

    def __call__(self, neural: np.ndarray | None, closed: np.ndarray | None, factor: float = 1.0) -> np.ndarray:
        """Both outputs as one; None stands for outputs without weight.

        Args:
            neural, closed: the outputs of the model and of the closed form.
            factor: what targets are multiplied by in the version that the model saw.
        """
        of_closed, of_model = 0.0 if closed is None else closed * factor, 0.0 if neural is None else neural
        return np.asarray(self.factors[0] * of_closed + self.factors[1] * of_model)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedNeural(Predictor):
    """A trained model, or an ensemble, and everything between raw series and its predictions."""

    inputs: InputDescription
    targets: TargetCoding
    transform: Transform
    windows: Windows
    config: Config
    members: int
    loss: AbstractLoss
    augmentation: AbstractAugmentation | None
    n_path_channels: int
    """Channels of prepared series."""
    blend: Blend = Blend()
    scores: list[list[float]] | None = None
    """For each output, how far held-out targets were from their predictions, in order."""
    threshold: float | None = None
    """The probability from which on the second of two classes is predicted; None for the likelier one."""
    label_share: float = 1.0
    history: list[Record] = field(default_factory=list)
    best_epoch: int = 0
    validation_loss: float = 0.0
    model: AbstractModel | None = None
    """None before it is trained, and if it has no weight in predictions, which are then the closed form's."""
    given: Options | None = None
    """The parameters that decide what is built: training continues with the same ones only."""
    training: TrainingState | None = None
    """What `partial_fit` continues from. It stays in this process, as the mesh does."""
    mesh: Devices = None
    """The devices to predict on; None for all."""

    def __post_init__(self):
        windows, per_time = self.windows, self.targets.per_time
        if (windows.step is None) == (windows.every is None):
            raise ValueError(f"Got windows={windows!r}; expected a depth and a step or a time")
        if windows.shifts > 1 and per_time:
            raise ValueError(
                f"Got windows with shifts and a target at every point; expected {setting('shifts', 1)}, because "
                "predictions come at the windows' ends, which differ from shift to shift."
            )
        if self.augmentation is not None and per_time:
            raise ValueError(
                f"Got {setting('augmentation', self.augmentation)} and a target at every point; expected "
                f"{setting('augmentation', None)}, because another version of a series may have its points elsewhere."
            )
        check_whole("members", self.members, high=1000)
        check_whole("n_path_channels", self.n_path_channels, high=2**31)
        check_whole("best_epoch", self.best_epoch, low=0, high=2**31)
        check_number("label_share", self.label_share, high=1.0)
        check_scores(self.scores)
        self.check_threshold()
        closed = self.blend.closed_form
        if closed is not None and (
            closed.inputs != self.inputs or closed.targets.outputs != self.targets.outputs or self.members == 1
        ):
            raise ValueError("Got a closed form to blend in, which is one of other series")
        if self.blend.only_closed_form and closed is None:
            raise ValueError("Got a model without weight and no closed form beside it.")

    @property
    def neural_model(self) -> AbstractModel | None:
        """The model, if it has a weight."""
        return self.model

    @property
    def epochs(self) -> int:
        return len(self.history)

    @property
    def closed_form(self) -> FittedClosedForm | None:
        """The closed form, if it has a weight: it looks at series as a whole."""
        return self.blend.closed_form if self.blend.factors[0] != 0 else None

    def outputs(self, source: SampleSource) -> Outputs:
        """Outputs for raw series: averaged over shifts of the windows, and blended with the closed form."""
        # The closed form never saw another version: it predicts from the series as they are, once.
        closed = None
        if self.closed_form is not None:
            closed = self.closed_form.whole_outputs(whole_series(source), source.static)
        if self.model is None:
            return Outputs([VersionOutputs(self.blended(None, closed))])
        versions, per_time, at_points = [], self.targets.per_time, None
        sources: Iterable[tuple[SampleSource, float]] = [(source, 1.0)]
        if self.augmentation is not None:
            stretched = self.augmentation.test_versions(whole_series(source))
            sources = ((SeriesInMemory(series, source.static), factor) for series, factor in stretched)
        for version, factor in sources:
            prepared, outputs = version.prepared(self.transform), []
            for shift in self.windows.all_shifts():
                examples = prepared.examples(self.model, self.windows, shift=shift, per_time=per_time)
                outputs.append(predict(self.model, examples, mesh=self.mesh))
            mean = np.mean(outputs, axis=0)
            prepared.check_finite(mean)
            versions.append(VersionOutputs(self.blended(mean, closed, factor), factor))
            if per_time:  # without augmentation, so that there is one version
                cuts, length = self.windows.cuts(prepared.series), source.series.values.shape[1]
                at_points = lambda values, cuts=cuts, length=length: held_until_next(values, cuts, length)
        return Outputs(versions, at_points)

    def blended(self, neural: np.ndarray | None, closed: np.ndarray | None, factor: float = 1.0) -> np.ndarray:
        """The outputs that predictions are made of, from those of the model and of the closed form."""
        return self.blend(neural, closed, factor)

    def calibration(self, held_out: Samples) -> list[list[float]] | None:
        """The scores that intervals are made of, from held-out series; None for classes."""
        if self.targets.classes is not None:
            return None
        (versions, at_points), target = self.outputs(held_out.source), held_out.target
        if at_points is not None:
            # Points of one series are alike, and an interval is promised for a point of a new series. So one point of
            # each series, drawn at random, counts.
            outputs = at_points(versions[0].outputs)
            known, rng = are_known(target), np.random.default_rng(0)
            points = np.array([rng.choice(np.flatnonzero(row)) for row in known])
            outputs, target = (array[np.arange(len(array)), points] for array in (outputs, target))
            versions = [VersionOutputs(outputs)]  # targets at points have no augmentation
        return calibration_scores(self.loss, versions, target, held_out.groups)

    def built(self, seed: int) -> AbstractModel:
        """The model, or the ensemble, with its first weights."""
        config, windows, takes = self.config, self.windows, accepted(self.config.cls)
        if self.targets.per_time:
            if "readout" not in takes:
                raise ValueError(
                    f"Got a target at every point and model={config!r}, which has no `readout`; expected a model that "
                    'takes readout="every" and predicts after every window.'
                )
            config = config.with_options(readout="every")
        sizes: Options = {"channels": self.n_path_channels, "outputs": self.loss.outputs(self.targets.outputs)}
        sizes["depth"] = windows.looks["depth"]
        if windows.step is not None:
            sizes |= {"step": windows.step, "points": windows.step + 1}
        elif {"step", "points"} & set(takes):
            raise ValueError(f"Got every={windows.every} and model={config!r}; expected windows by `step` for it.")
        if windows.looks["scales"] != (1,):
            if "scales" not in takes:
                raise ValueError(
                    f"Got windows={windows!r} and model={config!r}, which looks at one window at a time; expected "
                    "scales=(1,), or a model whose constructor takes `scales`."
                )
            sizes["scales"] = windows.looks["scales"]
        if self.inputs.static_numbers:
            if "static" not in takes:
                raise ValueError(
                    f"Got static and model={config!r}, which sees nothing but the series; expected a model whose "
                    "constructor takes `static`, such as MultiScaleRDE, NeuralRDE or LinearRDE, or the closed form."
                )
            sizes["static"] = self.inputs.static_numbers
        key = jax.random.key(seed)
        make = _make if isinstance(key, Tracer) else _made  # only its shapes, or its numbers
        return make(key, config, self.members, sizes)

    def shapes(self) -> AbstractModel | None:
        """The model's shapes, without its numbers; None if it has no weight."""
        return None if self.blend.only_closed_form else eqx.filter_eval_shape(lambda: self.built(0))

    def least_sizes(self) -> dict[str, int]:
        """Numbers that a model of ours has at least; other sizes are bounded by the constructors.

        A user's own model is not checked, because its sizes are unknown until it is built; a model without weight is
        never built.
        """
        after = self.transform.channels_after(self.inputs.n_channels)
        ours = (type(part).__module__.startswith("neuralrde.") for part in self.transform.parts)
        if after != self.n_path_channels and all(ours):
            raise ValueError(f"Got n_path_channels={self.n_path_channels}; expected {after}, those of the transform")
        if not self.config.cls.__module__.startswith("neuralrde.") or self.blend.only_closed_form:
            return {}
        sizes = {name: value for name, value in params_of(self.config).items() if type(value) is int}
        for name in _FREE & set(sizes):
            check_whole(name, sizes[name], low=0, high=2**20)
        seen = model_class(self.config.cls).channels_seen(self.n_path_channels)
        logs = basis_channels(seen, **self.windows.looks)
        outputs = self.loss.outputs(self.targets.outputs)
        least = {"path channels": self.n_path_channels, "log-signature channels": logs, "outputs": outputs}
        least |= {name: size for name, size in sizes.items() if name not in _FREE}
        if "state" in sizes and "width" in sizes:  # the last layer of a field, or of a stack of them
            least["weights"] = sizes["state"] * min(logs, sizes["width"])
        return least

    # A JAX function in a model cannot be pickled, but arrays can. So the model is built again around them.

    def __getstate__(self):
        arrays = None if self.model is None else arrays_of(self.model)
        return vars(self) | {"model": arrays, "training": None, "mesh": None}

    def __setstate__(self, state: Options):
        vars(self).update(state)
        if state["model"] is not None:
            vars(self)["model"] = with_arrays(self.shapes(), state["model"])


def held_until_next(outputs: np.ndarray, cuts: np.ndarray, length: int) -> np.ndarray:
    """Outputs after windows, held until the next: a point's prediction knows nothing that comes later."""
    cuts = np.broadcast_to(cuts, (len(outputs), cuts.shape[-1]))
    latest = np.stack([np.searchsorted(row, np.arange(length), side="right") - 1 for row in cuts])
    return outputs[np.arange(len(outputs))[:, None], latest]


def _make(key, config: Config, members: int, sizes: Options) -> AbstractModel:
    if members > 1:
        return Ensemble.of(config, members, key=key, **sizes)
    return as_model(config(key=key, **sizes), **{name: sizes[name] for name in ("depth", "scales") if name in sizes})


# One compilation instead of one for every little array, and a quick one, because it runs once.
_made: Any = eqx.filter_jit(_make, compiler_options={"xla_backend_optimization_level": 0})  # type: ignore
