"""Open doors: any model, transform, windows, loss and optimizer, by object or short name."""

import numpy as np
import optax
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from neuralrde import Config, NeuralRDE, NeuralRDEClassifier, NeuralRDERegressor, Windows
from neuralrde.datasets import order_of_events
from neuralrde.estimators import load
from neuralrde.models import MODELS
from neuralrde.training import LOSSES, AdamW, Huber, Quantiles
from neuralrde.transforms import Compose, FillForward, Products, ScaleEach, Standard, TimeChannel

from .own_parts import AbsoluteError, Power, SumOfWindows, plain_loss

DATA = order_of_events(samples=48, length=33, events=4, noise=0.02)
X, Y = DATA.series.values, DATA.target
QUICK = {"windows": 8, "epochs": 1, "random_state": 0, "verbose": False}
TINY = Config(NeuralRDE, state=4, width=6, layers=1)
WALKS = np.cumsum(np.random.default_rng(0).normal(size=(300, 33)), axis=1)


# Adaptive steps take long to compile, and so do many blocks and scales; few will do here.
OPTIONS = {
    "cubic-cde": {"max_steps": 64, "state": 3, "width": 4, "layers": 1},
    "linear-rde": {"blocks": 1, "state": 4},
    "multi-scale-rde": {"blocks": 1, "units": 6, "state": 4, "width": 6},
}
# Four scales and five members are the usual ones; test_ensembles.py has several.
FEW = {"multi-scale-rde": {"windows": Windows(step=8, scales=(1, 2)), "members": 2, "closed_form": False}}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_every_model_by_its_name(name, tmp_path):
    options = OPTIONS.get(name, {"state": 4, "width": 6})
    model = NeuralRDEClassifier(model={"name": name, **options}, **QUICK | FEW.get(name, {})).fit(X, Y)
    one = model.model_.members if model.members_ > 1 else model.model_
    assert isinstance(one, MODELS[name])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.config_ == model.config_


@pytest.mark.long
def test_a_model_of_ones_own(tmp_path):
    model = NeuralRDEClassifier(model=SumOfWindows, **QUICK | {"epochs": 60, "optimizer": AdamW(learning_rate=0.2)})
    assert model.fit(X, Y).score(X, Y) > 0.9
    search = GridSearchCV(model, {"model__bias": [False, True], "windows__depth": [1, 2]}, cv=2).fit(X, Y)
    assert search.best_params_["windows__depth"] == 2
    search.best_estimator_.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.config_.cls is SumOfWindows
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    with pytest.raises(ValueError, match="has no `readout`"):
        NeuralRDEClassifier(model=SumOfWindows, **QUICK).fit(X, np.broadcast_to(Y[:, None], X.shape[:2]))


def test_transforms(tmp_path):
    named = [{"name": "fill-forward"}, {"name": "scale-each"}, {"name": "time"}]
    made = Compose(FillForward(), ScaleEach(), TimeChannel())
    by_list, by_object, plain = (
        NeuralRDEClassifier(model=TINY, transform=transform, **QUICK).fit(X, Y)
        for transform in (named, made, [FillForward(), ScaleEach(), TimeChannel()])
    )
    np.testing.assert_array_equal(by_list.predict_proba(X), by_object.predict_proba(X))
    np.testing.assert_array_equal(plain.predict_proba(X), by_object.predict_proba(X))
    own = NeuralRDEClassifier(model=TINY, transform=[Power(exponent=2.0), Products(), TimeChannel()], **QUICK).fit(X, Y)
    assert own.n_path_channels_ == 1 + 3  # time and three products of two channels
    own.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), own.predict_proba(X))
    # For scikit-learn, what has an attribute `transform` is a transformer.
    assert not hasattr(own, "transform")
    assert own.get_params()["transform"] is not None


def test_nested_parameters():
    model = NeuralRDEClassifier(model="log-ncde", windows=16)
    found = model.get_params()
    assert (found["model__state"], found["windows__depth"], found["optimizer__weight_decay"]) == (32, 2, 0.2)
    assert found["transform__fill"] == "forward"
    again = clone(model).set_params(
        model__state=8, windows__depth=3, optimizer__schedule="constant", loss__smoothing=0.1
    )
    assert again.get_params()["model__state"] == 8
    assert again.windows == Windows(step=16, depth=3)
    assert model.windows == 16  # nothing is changed in place, and no default either
    assert NeuralRDEClassifier().get_params()["windows__depth"] == 2
    assert clone(again).get_params() == again.get_params()
    with pytest.raises(ValueError, match="Did you mean 'state'"):
        model.set_params(model__stat=3)
    with pytest.raises(ValueError, match="has no parameters of its own"):
        model.set_params(epochs__state=3)


@pytest.mark.parametrize("transform", [Compose(FillForward(), TimeChannel()), ["fill-forward", "time"]])
def test_the_transforms_of_a_composition_are_no_parameters(transform):
    model = NeuralRDEClassifier(transform=transform)
    assert not [name for name in model.get_params() if name.startswith("transform__")]
    model.set_params(**model.get_params())
    with pytest.raises(ValueError, match="Invalid parameter 'transforms' for transform=Compose"):
        model.set_params(transform__transforms=())


def test_optimizers():
    losses = []
    for optimizer in (
        "adamw",
        AdamW(learning_rate=1e-2),
        optax.lion(1e-3),
        optax.adam(optax.cosine_decay_schedule(1e-2, 9)),
    ):
        model = NeuralRDEClassifier(model=TINY, optimizer=optimizer, **QUICK | {"epochs": 4}).fit(X, Y)
        losses.append(model.history_[-1]["loss"])
        assert losses[-1] < model.history_[0]["loss"]
    assert len(set(losses)) == 4


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "cross-entropy"] + [AbsoluteError(), plain_loss])
def test_every_loss_of_the_regressor(loss, tmp_path):
    y = WALKS[:, -1] - WALKS[:, 0]
    # The target is linear in the log-signatures, so that a linear model learns it.
    options = QUICK | {"epochs": 15, "optimizer": AdamW(learning_rate=2e-1)}
    model = NeuralRDERegressor(model=SumOfWindows, loss=loss, **options).fit(WALKS, y)
    assert model.score(WALKS, y) > 0.8
    if loss is plain_loss:
        with pytest.raises(TypeError, match="which a file cannot name"):
            model.save(tmp_path / "model")
        return
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for one, other in zip(again.predict(WALKS, interval=0.8), model.predict(WALKS, interval=0.8), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.long
@pytest.mark.parametrize("loss", ["squared-error", "quantiles", "histogram"])
def test_intervals_hold_the_share_that_they_promise(loss):
    """Noise that grows with the series' end. Of 2,000 new targets the share inside must be what was asked for."""
    rng = np.random.default_rng(1)
    X = np.cumsum(rng.normal(size=(2600, 9)), axis=1)
    y = X[:, -1] + np.abs(X[:, -1]) * rng.normal(size=len(X))
    options = {"windows": 4, "epochs": 30, "patience": None, "optimizer": AdamW(learning_rate=2e-2)}
    model = NeuralRDERegressor(model=TINY, loss=loss, **QUICK | options)
    model.fit(X[:300], y[:300])
    with pytest.raises(
        ValueError, match=r"interval=0.99 with 45 held-out targets, or groups of them, which can promise at most 0.978"
    ):
        model.predict(X[:5], interval=0.99)
    model.calibrate(X[300:600], y[300:600])
    for share in (0.5, 0.9):
        predicted, intervals = model.predict(X[600:], interval=share)
        low, high = intervals.T
        assert ((low <= predicted) & (predicted <= high)).all()
        # The calibration set of 300 decides: its share varies by sqrt(s (1 - s) / 300), at most 0.029; three of them.
        assert abs(((low <= y[600:]) & (y[600:] <= high)).mean() - share) < 0.09
    if loss != "squared-error":
        # Where the noise is large, intervals are wide.
        width, size = high - low, np.abs(X[600:, -1])
        assert width[size > 3].mean() > 1.3 * width[size < 1].mean()


@pytest.mark.long
def test_an_interval_needs_series_that_were_held_out():
    model = NeuralRDERegressor(model=TINY, **QUICK).fit(WALKS[:40], WALKS[:40, -1])
    with pytest.raises(ValueError, match="no series were held out"):
        model.predict(WALKS[:3], interval=0.9)
    predicted, intervals = model.calibrate(WALKS[40:80], WALKS[40:80, -1]).predict(WALKS[:3], interval=0.9)
    assert (predicted.shape, intervals.shape) == ((3,), (3, 2))
    two = NeuralRDERegressor(model=TINY, **QUICK).fit(WALKS[:240], WALKS[:240, -2:])  # 36 held out
    predicted, intervals = two.predict(WALKS[:3], interval=0.9)
    assert (predicted.shape, intervals.shape) == ((3, 2), (3, 2, 2))


def test_quantiles_and_huber_take_parameters():
    wide = NeuralRDERegressor(loss=Quantiles(shares=(0.01, 0.5, 0.99)), model=TINY, **QUICK).fit(WALKS, WALKS[:, -1])
    assert wide.model_.decoder.linear.out_features == 3
    assert NeuralRDERegressor(loss="huber").set_params(loss__delta=2.0).loss == Huber(delta=2.0)


def test_sample_weights_are_repetitions():
    """A weight of 2 is a series that counts twice; of 0, one that does not count."""
    options = QUICK | {"model": TINY, "batch_size": 1024, "epochs": 5, "transform": Standard(scale=False)}
    weights = np.arange(48) % 3
    weighted = NeuralRDEClassifier(**options).fit(X, Y, sample_weight=weights)
    repeated = NeuralRDEClassifier(**options).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    # The same sums in another order; the scales of log-signatures are those of other series.
    assert weighted.history_[0]["loss"] == pytest.approx(repeated.history_[0]["loss"], rel=0.05)
    none = NeuralRDEClassifier(**options).fit(X, Y)
    one = NeuralRDEClassifier(**options).fit(X, Y, sample_weight=np.ones(48))
    np.testing.assert_allclose(one.predict_proba(X), none.predict_proba(X), atol=1e-6)  # another compiled program
    assert np.abs(weighted.predict_proba(X) - none.predict_proba(X)).max() > 1e-4
    with pytest.raises(ValueError, match=r"sample_weight of shape \(3,\); expected \(48,\)"):
        NeuralRDEClassifier(**options).fit(X, Y, sample_weight=[1, 2, 3])
    heavy = NeuralRDEClassifier(**options, class_weight={0: 1.0, 1: 3.0}).fit(X, Y, sample_weight=weights)
    assert np.abs(heavy.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-4


def test_partial_fit_goes_on():
    model = NeuralRDEClassifier(model=TINY, **QUICK | {"optimizer": AdamW(learning_rate=2e-2), "windows": 8})
    losses = []
    for _ in range(15):
        for half in (slice(None, None, 2), slice(1, None, 2)):
            model.partial_fit(X[half], Y[half])
        losses.append(model.history_[-1]["loss"])
    assert model.n_iter_ == 30
    assert losses[-1] < 0.5 * losses[0]
    assert model.score(X, Y) > 0.9
    # It begins where `fit` has ended, too, and takes other lengths.
    before = NeuralRDEClassifier(model=TINY, **QUICK).fit(X, Y)
    first = before.predict_proba(X)
    before.partial_fit(X[:, :20], Y)
    assert np.abs(before.predict_proba(X) - first).max() > 0
    with pytest.raises(ValueError, match="expected one of"):
        before.partial_fit(X, np.full(48, 7))


def test_what_a_model_cannot_do_is_said():
    with pytest.raises(ValueError, match="windows by `step`"):
        NeuralRDEClassifier(model="ode-rnn", windows=Windows(every=2.0), epochs=1, verbose=False).fit(DATA.series, Y)
    with pytest.raises(ValueError, match=r"without \['depth'\]"):
        NeuralRDEClassifier(model=Config(NeuralRDE, depth=3), epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"expected one of .*a class, or"):
        NeuralRDEClassifier(model=3).fit(X, Y)
