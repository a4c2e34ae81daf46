"""Augmentation in estimators: what is trained on, what is predicted from, what is saved, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from neuralrde import Config, NeuralRDE, NeuralRDEClassifier, NeuralRDERegressor, OscillatorRDE, Series, Windows
from neuralrde.estimators import load
from neuralrde.estimators.division import AugmentedSamples, Samples
from neuralrde.estimators.fitted import VersionOutputs, median_of, median_scores
from neuralrde.estimators.saving import FORMAT
from neuralrde.estimators.sources import SeriesInMemory
from neuralrde.tools.cli.settings import RunSettings, as_toml, assignments, estimator_of, settings_of, with_settings
from neuralrde.training import FileRefused, Histogram, Huber, Quantiles, RandomChoice, SquaredError, TimeStretch
from neuralrde.training.archive import read_archive, write_archive
from neuralrde.transforms import Compose, ScaleEach, TimeChannel

from .own_parts import Gain, SumOfWindows

pytestmark = pytest.mark.long

RNG = np.random.default_rng(0)
SECONDS = np.arange(400) / 25
STRETCH = TimeStretch(0.6, 1.6, rate=True, versions=3, speeds=(0.8, 1.0, 1.25))
# Rhythms take an oscillator, standardised by themselves, with time as a channel.
RHYTHM = {
    "model": Config(OscillatorRDE, state=32, width=32),
    "transform": Compose(ScaleEach(), TimeChannel()),
    "windows": 5,
    "batch_size": 16,
    "random_state": 0,
    "verbose": False,
}
TINY = RHYTHM | {"model": Config(OscillatorRDE, state=4, width=4, layers=1), "windows": 20, "epochs": 2}


def pulses(rates):
    return np.sin(2 * np.pi * np.asarray(rates)[:, None] / 60 * SECONDS + RNG.uniform(0, 6, (len(rates), 1)))


RATES = RNG.uniform(60, 80, 64)
PULSES = pulses(RATES)


@pytest.fixture(scope="module")
def tiny():
    return NeuralRDERegressor(augmentation=STRETCH, **TINY).fit(PULSES, RATES)


def test_labels_and_lengths_move_with_the_speed_and_the_seed_alone_decides():
    samples = Samples(SeriesInMemory(Series.from_array(PULSES)), RATES[:, None].astype(np.float32))
    versions = AugmentedSamples(STRETCH, samples, seed=5)
    add_time = TimeChannel().fit(samples.series)
    prepared = [versions.prepared(number, add_time) for number in range(3)]
    for one in prepared:
        speeds = one.target[:, 0] / RATES
        assert speeds.min() < 0.75 < 1.3 < speeds.max()
        # In float32 a speed is known to 1e-7, which decides about one point at most.
        np.testing.assert_allclose(one.series.lengths, 399 / speeds + 1, atol=1.01)
        # Time is a channel in the unit of the original series: it says how long the new ones are.
        ends = one.series.values[np.arange(64), one.series.lengths - 1, 0]
        np.testing.assert_allclose(ends, (one.series.lengths - 1) / 399, rtol=1e-6)
    assert np.abs(prepared[0].target - prepared[1].target).min() > 0  # every version at speeds of its own
    np.testing.assert_array_equal(np.concatenate([one.target for one in prepared]), versions.targets())
    again = AugmentedSamples(STRETCH, samples, seed=5).prepared(1, add_time)
    np.testing.assert_array_equal(again.series.values, prepared[1].series.values)
    assert np.abs(AugmentedSamples(STRETCH, samples, seed=6).targets() - versions.targets()).max() > 1


def test_rates_that_were_never_seen_are_learned_from_series_played_faster():
    """Trained on 60 to 80, asked about 95 to 115: only a model that heard its series faster can know."""
    faster = RNG.uniform(95, 115, 40)
    new, options = pulses(faster), RHYTHM | {"epochs": 30, "loss": Histogram(ratios=True)}
    plain = NeuralRDERegressor(**options).fit(PULSES, RATES)
    played = NeuralRDERegressor(augmentation=STRETCH, **options).fit(PULSES, RATES)
    # Without it the bins end at 81, 24 below the mean rate. With it the error is some 2 of 105.
    assert np.abs(plain.predict(new) - faster).mean() > 15
    assert np.abs(played.predict(new) - faster).mean() < 5
    start, width, bins = played.loss_.start, played.loss_.width, played.loss_.bins
    assert np.exp(start) < 45 < 120 < np.exp(start + bins * width)


def test_the_prediction_is_the_median_over_speeds(tiny):
    each = []
    for speed in STRETCH.speeds:
        one = clone(tiny).set_params(augmentation=TimeStretch(0.6, 1.6, rate=True, versions=3, speeds=(speed,)))
        each.append(one.fit(PULSES, RATES).predict(PULSES))
    assert np.ptp(each, axis=0).min() > 0
    # The same weights, because speeds of new series have no part in training.
    np.testing.assert_array_equal(tiny.predict(PULSES), np.median(each, axis=0))
    # What is played at its own speed goes the usual way; at another, the model is asked about a stretched series.
    own = TimeStretch(0.6, 1.6, rate=True, versions=3)
    assert next(own.test_versions(Series.from_array(PULSES)))[1] == 1.0
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(each[0], each[1], rtol=1e-3)


def test_a_classifier_averages_its_logits_over_speeds():
    classes, options = np.where(RATES > 70, "fast", "slow"), TINY | {"loss": None}
    stretch = TimeStretch(0.9, 1.1, versions=2, speeds=(0.9, 1.0, 1.1))
    model = NeuralRDEClassifier(augmentation=stretch, **options).fit(PULSES, classes)
    logits = []
    for speed in stretch.speeds:
        one = clone(model).set_params(augmentation__speeds=(speed,)).fit(PULSES, classes)
        logits.append(np.log(one.predict_proba(PULSES)))
    mean = np.exp(np.mean(logits, axis=0))
    # Logits in float32; the logarithm of a probability differs from a logit by a constant.
    np.testing.assert_allclose(model.predict_proba(PULSES), mean / mean.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("loss", [SquaredError(), Huber(), Quantiles(), Histogram(bins=50)])
def test_a_score_is_where_the_median_interval_just_holds_the_target(loss):
    target, loss = RNG.uniform(40, 120, (50, 1)), loss.fit(np.array([[40.0], [80.0], [120.0]]))
    # Numbers near the targets, or logits that leave no bin without a share: there any score would do.
    outputs, size = loss.outputs(1), 1.0 if isinstance(loss, Histogram) else 40.0
    factors = (0.5, 0.8, 1.0, 1.25, 2.0)
    versions = [VersionOutputs(RNG.normal(size=(50, outputs)) * size + 80 * factor, factor) for factor in factors]
    scores = median_scores(versions, target, loss)[:, 0]
    for row in range(50):
        one = [VersionOutputs(outputs[row : row + 1], factor) for outputs, factor in versions]
        held = []
        for score in (scores[row] * 1.001 + 1e-6, scores[row] * 0.999 - 1e-6):
            ends = median_of(one, lambda outputs, score=score: np.stack(loss.interval(outputs, np.array([score]))))
            held.append((ends[0] <= target[row]) & (target[row] <= ends[1]))
        assert held[0]
        assert not held[1] or scores[row] < 1e-4  # a target in the middle is held by the narrowest interval


def test_intervals_hold_what_they_promise():
    rates = RNG.uniform(60, 80, 600)
    X = pulses(rates) + 0.5 * RNG.normal(size=(600, 400))
    options = RHYTHM | {"epochs": 10, "loss": Histogram(ratios=True)}
    model = NeuralRDERegressor(augmentation=STRETCH, **options).fit(X[:100], rates[:100])
    model.calibrate(X[100:300], rates[100:300])
    predicted, interval = model.predict(X[300:], interval=0.8)
    inside = ((interval[:, 0] <= rates[300:]) & (rates[300:] <= interval[:, 1])).mean()
    # 0.8, with a deviation of 0.028 by 200 series that calibrated and 0.023 by 300 that are counted: three of both.
    assert 0.69 < inside < 0.91
    assert ((interval[:, 0] <= predicted) & (predicted <= interval[:, 1])).all()


def test_saved_and_loaded(tiny, tmp_path):
    tiny.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.augmentation == again.augmentation_ == STRETCH
    np.testing.assert_array_equal(again.predict(PULSES), tiny.predict(PULSES))
    # What is set after `fit` has no part in what was fitted.
    before = tiny.predict(PULSES)
    again.set_params(augmentation=None)
    np.testing.assert_array_equal(again.predict(PULSES), before)
    again.save(tmp_path / "other")
    np.testing.assert_array_equal(load(tmp_path / "other").predict(PULSES), before)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"slowest": 1e-9}, "factors of the speed"),
        ({"speeds": [1e-6]}, "odd number of speeds"),
        ({"versions": 10**9}, "whole number from 1 to 1000"),
    ],
)
def test_a_file_cannot_ask_for_series_without_end(tiny, tmp_path, wrong, match):
    tiny.save(tmp_path / "model")
    header, arrays = read_archive(tmp_path / "model", "model", format=FORMAT)
    header["fitted"]["augmentation"] |= wrong
    header.pop("format")
    write_archive(tmp_path / "forged", "model", format=FORMAT, header=header, arrays=arrays)
    with pytest.raises(FileRefused, match=match):
        load(tmp_path / "forged")


def test_an_augmentation_of_ones_own(tmp_path):
    """The target is the size of a walk. Half of the walks have one gain, and new ones others."""
    walks = np.cumsum(RNG.normal(size=(80, 33)), axis=1)
    sizes = np.ptp(walks, axis=1)
    options = {"windows": 8, "model": SumOfWindows, "epochs": 2, "random_state": 0, "verbose": False}
    model = NeuralRDERegressor(augmentation=Gain(most=3.0, versions=2), **options).fit(walks, sizes)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.augmentation_ == Gain(most=3.0, versions=2)
    np.testing.assert_array_equal(again.predict(walks), model.predict(walks))
    # Trained on other sizes: the loss is in units of their spread, which the gains make wider.
    assert model.loss_.spread[0] > 1.2 * sizes.std()


def test_parameters_of_the_part(tmp_path):
    model = NeuralRDERegressor(augmentation="time-stretch", **TINY)
    assert model.get_params()["augmentation__versions"] == 6
    assert model.set_params(augmentation__rate=True).augmentation == TimeStretch(rate=True)
    # Options of None are those of the first that there is.
    assert NeuralRDERegressor().set_params(augmentation__versions=2).augmentation == TimeStretch(versions=2)
    with pytest.raises(ValueError, match="Did you mean 'speeds'"):
        model.set_params(augmentation__sped=3)
    search = GridSearchCV(model.set_params(epochs=1), {"augmentation__versions": [1, 2]}, cv=2).fit(PULSES, RATES)
    assert search.best_estimator_.augmentation_.versions in (1, 2)
    assert [one["augmentation__versions"] for one in search.cv_results_["params"]] == [1, 2]


def test_the_command_line_and_toml(tmp_path):
    given = ["augmentation.rate=true", "augmentation.speeds=[0.8, 1.0, 1.25]", "model=oscillator-rde"]
    settings = RunSettings(data="hearts.csv", estimator=with_settings({}, assignments(given)))
    (tmp_path / "settings.toml").write_text(as_toml(settings))
    again = settings_of(tmp_path / "settings.toml", table={}, estimator={})
    assert again == settings
    assert "[augmentation]" in as_toml(settings)
    estimator = estimator_of(NeuralRDERegressor, again)
    assert estimator.augmentation == TimeStretch(rate=True, speeds=(0.8, 1.0, 1.25))


def test_members_leave_out_the_same_series_in_every_version():
    model = NeuralRDERegressor(
        augmentation=TimeStretch(0.7, 1.4, rate=True, versions=2, speeds=(0.8, 1.0, 1.25)),
        model=Config(NeuralRDE, state=4, width=5, layers=1),
        windows=50,
        members=3,
        epochs=2,
        random_state=0,
        verbose=False,
    )
    ragged = [pulse[: 300 + 2 * i, None] for i, pulse in enumerate(PULSES[:40])]
    model.fit(ragged, RATES[:40], groups=np.arange(40) // 4)
    assert model.members_ == 3
    predicted = model.predict(ragged)
    assert np.isfinite(predicted).all()
    # The closed form predicts rates of the series as they are; with a factor of the speed they would be far off.
    closed = model.closed_form_.predict(ragged)
    model.fitted_ = replace(model.fitted_, blend=replace(model.fitted_.blend, factors=(1.0, 0.0)))
    np.testing.assert_allclose(model.predict(ragged), closed, rtol=1e-6)  # sums in another order


def test_versions_of_an_ensemble_are_padded_where_the_windows_are():
    """The number of a fold comes after the log-signatures, and is no window."""
    from neuralrde.training import Examples

    short, long = (
        Examples((np.ones((3, 2)), np.ones((3, windows, 4)), np.arange(3)), np.zeros(3)) for windows in (5, 7)
    )
    both = RandomChoice([short, long])
    assert [one.inputs[1].shape for one in both.versions] == [(3, 7, 4)] * 2
    assert both.versions[0].inputs[1][:, 5:].max() == 0
    np.testing.assert_array_equal(both.versions[0].windows, 5)
    np.testing.assert_array_equal(both.epoch(0).inputs[2], np.arange(3))
    with pytest.raises(ValueError, match="CubicCDE"):
        RandomChoice([Examples((np.ones((3, n)), np.ones((3, n, 2))), np.zeros(3)) for n in (5, 7)])


def test_with_shifts_weights_groups_and_batch_by_batch():
    stretch = TimeStretch(0.7, 1.4, rate=True, versions=3)
    options = TINY | {"windows": Windows(step=20, shifts=2), "epochs": 1}
    model = NeuralRDERegressor(augmentation=stretch, **options)
    groups = np.repeat(np.arange(50), 4)
    X, y = np.tile(PULSES, (4, 1))[:200], np.tile(RATES, 4)[:200]
    model.fit(X, y, np.linspace(1, 2, 200), groups=groups)
    assert np.isfinite(model.predict(X)).all()
    assert "validation_rmse" not in model.history_[0]  # of 50 groups 8 would be held out, too few to decide
    online = NeuralRDERegressor(augmentation=stretch, **options)
    for rows in np.split(np.arange(64), 2):
        online.partial_fit(PULSES[rows], RATES[rows])
    assert online.n_iter_ == 2
    assert np.isfinite(online.predict(PULSES)).all()


def test_refused_where_it_makes_no_sense():
    fit = lambda X, y, **options: NeuralRDERegressor(**TINY | {"augmentation": STRETCH} | options).fit(X, y)
    with pytest.raises(ValueError, match=r"target at every point; expected augmentation=None"):
        fit(PULSES, np.broadcast_to(RATES[:, None, None], (64, 400, 1)))
    with pytest.raises(ValueError, match=r"for classification.*classes cannot be multiplied.*rate=False"):
        NeuralRDEClassifier(**TINY, augmentation=STRETCH).fit(PULSES, RATES > 70)
    irregular = Series.from_array(PULSES[..., None], times=np.sort(RNG.uniform(0, 16, 400)))
    with pytest.raises(ValueError, match=r"irregular times.*evenly sampled"):
        fit(irregular, RATES)
    with pytest.raises(ValueError, match=r"augmentation=3; expected None, an augmentation such as TimeStretch\(\)"):
        fit(PULSES, RATES, augmentation=3)
    with pytest.raises(ValueError, match="Did you mean 'time-stretch'"):
        fit(PULSES, RATES, augmentation="time-strech")
    for wrong in ((0.8, 1.0), (2.0,), (), (1.0, np.nan, 1.0)):
        with pytest.raises(ValueError, match=r"odd number of speeds.*Write for example"):
            TimeStretch(speeds=wrong)
    with pytest.raises(ValueError, match="rate=1; expected True or False"):
        TimeStretch(rate=1)
    with pytest.raises(ValueError, match="versions=0"):
        TimeStretch(versions=0)
    with pytest.raises(ValueError, match="versions=0"):
        Gain(versions=0)
