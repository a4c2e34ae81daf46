"""What can be chosen can be copied, saved, loaded, saved again, and trained further."""

import pickle

import diffrax
import jax
import numpy as np
import pytest
from sklearn.base import clone

from neuralrde import (
    Config,
    LinearRDE,
    LogNCDE,
    NeuralRDE,
    NeuralRDEClassifier,
    NeuralRDERegressor,
    Windows,
)
from neuralrde.estimators import load
from neuralrde.fields import BoundedField
from neuralrde.models import LogSigSSM, MeanState
from neuralrde.solvers import RK4, Nested
from neuralrde.training import AdamW, Plateau
from neuralrde.transforms import (
    BasePoint,
    Compose,
    FillForward,
    Integral,
    ObservationCounts,
    Products,
    Scale,
    ScaleEach,
    Standard,
    TimeChannel,
)

from .own_parts import Power, SumOfWindows

pytestmark = pytest.mark.long

RNG = np.random.default_rng(0)
X = np.cumsum(RNG.normal(size=(24, 17, 2)), axis=1)
Y = np.arange(24) % 2
TINY = {"windows": 8, "epochs": 1, "random_state": 0, "verbose": False}


def goes_round(estimator, y, folder):
    """Fit, copy, save, load, save, load, and train further."""
    estimator = clone(estimator).fit(X, y)
    expected = estimator.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict(X), expected)
    for _ in range(2):
        estimator.save(folder / "model")
        estimator = load(folder / "model")
        np.testing.assert_array_equal(estimator.predict(X), expected)
    assert clone(estimator).get_params().keys() == estimator.get_params().keys()
    assert estimator.partial_fit(X, y).n_iter_ == 2


@pytest.mark.parametrize(
    "transform",
    [
        TimeChannel(),
        ScaleEach(),
        Products(),
        Integral(),
        Power(),
        Compose(TimeChannel()),
        Compose(Standard(), Integral()),
        [TimeChannel(), BasePoint()],
        [ObservationCounts(), TimeChannel()],
        (Scale(), "time"),
        Standard(fill=None, scale=False),
        [{"name": "standard", "time": False}, FillForward()],
    ],
    ids=repr,
)
def test_transforms(transform, tmp_path):
    goes_round(NeuralRDEClassifier(model=SumOfWindows, transform=transform, **TINY), Y, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": diffrax.Tsit5(), "readout": MeanState()},
        {"solver": {"name": "tsit5"}, "gradient": Nested(levels=3)},
        {"solver": RK4(), "substeps": 2, "activation": jax.nn.tanh},
        {"field": BoundedField, "activation": "silu"},
        {"field": Config(BoundedField, width=5)},
        {"field": "linear", "solver": "exponential"},
    ],
    ids=["objects", "names", "functions", "class", "config", "linear"],
)
def test_options_of_models(options, tmp_path):
    goes_round(NeuralRDEClassifier(model=Config(NeuralRDE, state=4, width=5, **options), **TINY), Y, tmp_path)


@pytest.mark.parametrize(
    ("model", "depth"),
    [(Config(NeuralRDE, state=4, width=5), (3, 1)), (Config(LinearRDE, state=4, width=5, blocks=1), 2)],
    ids=str,
)
def test_scales_of_windows(model, depth, tmp_path):
    windows = Windows(step=4, depth=depth, scales=(1, 3))
    goes_round(NeuralRDEClassifier(model=model, **TINY | {"windows": windows}), Y, tmp_path)


@pytest.mark.parametrize("model", [Config(NeuralRDE, state=4, width=5), Config(LogSigSSM, state=4, width=8)], ids=str)
def test_windows_that_look_back_any_length(model, tmp_path):
    windows = Windows(step=4, depth=(2, 1), lengths=(11, 6), whole=2)
    goes_round(NeuralRDEClassifier(model=model, **TINY | {"windows": windows}), Y, tmp_path)


def test_a_model_of_one_scale_is_told_so():
    for looks in ({"lengths": (12,)}, {"whole": 1}):
        with pytest.raises(ValueError, match="takes `scales`"):
            NeuralRDEClassifier(model=LogNCDE, **TINY | {"windows": Windows(step=8, **looks)}).fit(X, Y)
    for model in (LogNCDE, SumOfWindows):
        with pytest.raises(ValueError, match=r"Windows\(step=8, depth=2, scales=\(1, 2\)\).*takes `scales`"):
            NeuralRDEClassifier(model=model, **TINY | {"windows": Windows(step=8, scales=(1, 2))}).fit(X, Y)


@pytest.mark.parametrize("loss", ["squared-error", "huber", "quantiles", "histogram"])
def test_losses_and_optimizers(loss, tmp_path):
    optimizer = AdamW(schedule=Plateau(patience=3), clip=None)
    goes_round(NeuralRDERegressor(model=SumOfWindows, loss=loss, optimizer=optimizer, **TINY), X[:, -1, 0], tmp_path)


def test_what_was_set_after_fit_is_not_saved(tmp_path):
    model = NeuralRDEClassifier(model=SumOfWindows, **TINY).fit(X, Y)
    model.set_params(transform=Products(), windows=4).save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.windows == 8


def test_an_interrupted_fit_leaves_no_mixture(monkeypatch):
    model = NeuralRDEClassifier(model=SumOfWindows, **TINY).fit(X, np.where(Y, "a", "b"))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("neuralrde.estimators.trainer.fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, np.where(Y, "x", "y"))
    assert not hasattr(model, "model_")


def test_a_fit_forgets_what_came_before():
    y = X[:, -1, 0]
    model = NeuralRDERegressor(model=SumOfWindows, **TINY | {"optimizer": AdamW(learning_rate=1e-2)})
    model.partial_fit(X, y).calibrate(X, y)
    model.fit(X, 1000 * y)
    with pytest.raises(ValueError, match="no series were held out"):
        model.predict(X, interval=0.5)
    before = model.predict(X)
    model.set_params(optimizer=AdamW(learning_rate=1e-9)).partial_fit(X, 1000 * y)
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-3, atol=1.0)  # labels are around 1000


def test_losses_are_those_of_the_task():
    with pytest.raises(ValueError, match=r"'huber' for classification; expected one of .'cross-entropy'."):
        NeuralRDEClassifier(loss="huber", **TINY).fit(X, Y)
    with pytest.raises(ValueError, match="for regression"):
        NeuralRDERegressor(loss="cross-entropy", **TINY).fit(X, X[:, 0, 0])


def test_sentences_for_what_is_no_part():
    made = NeuralRDE(channels=3, outputs=2, depth=2, key=jax.random.key(0))
    for wrong, words in (
        ({"model": made}, r"made already.*Config\(NeuralRDE"),
        ({"loss": 3}, "expected one of"),
        ({"loss": ["huber"]}, "expected one of"),
        ({"optimizer": {"schedule": "cosin"}}, "Did you mean 'cosine'"),
        ({"model": Config(NeuralRDE, activation="tan")}, "Did you mean 'tanh'"),
    ):
        with pytest.raises(ValueError, match=words):
            NeuralRDEClassifier(**TINY | wrong).fit(X, Y)
    grid = NeuralRDEClassifier(windows=4).set_params(windows__every=2.0, windows__step=None)
    assert (grid.windows.step, grid.windows.every) == (None, 2.0)
