"""Training from a store is training in memory, to the bit; and reading ahead ends when training does."""

import threading

import jax
import numpy as np
import pytest

from neuralrde import (
    Config,
    LogNCDE,
    NeuralRDE,
    NeuralRDEClassifier,
    NeuralRDERegressor,
    Store,
    Windows,
    prepare,
)
from neuralrde.tools.stores import StoreError
from neuralrde.tools.stores._store import StoredExamples
from neuralrde.training import CrossEntropy, Examples, Settings, fit, predict, weights_of
from neuralrde.training.examples import prefetched

from .tables import ragged, table

pytestmark = pytest.mark.long

WINDOWS = Windows(step=7, depth=2)
SMALL = Config(NeuralRDE, state=4, width=8)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    table(*ragged(40)).to_parquet(folder / "data.parquet", row_group_size=200, index=False)
    prepare(folder / "data.parquet", folder / "store", windows=WINDOWS, target="label", model="neural-rde")
    return folder / "store"


@pytest.fixture(scope="module")
def store(place):
    return Store(place)


def model_for(store):
    channels = len(store.path_channels)
    return NeuralRDE(channels=channels, outputs=2, depth=2, state=4, width=8, key=jax.random.key(0))


def same_weights(one, other):
    pairs = zip(jax.tree.leaves(weights_of(one)), jax.tree.leaves(weights_of(other)), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_training_from_a_store_is_training_in_memory(place, store, tmp_path):
    memory = store.take(slice(None))
    assert isinstance(memory, Examples)
    settings = Settings(epochs=3, batch_size=16)
    of = {"loss": CrossEntropy(), "settings": settings}
    scaled = model_for(store).fit_scale(memory.inputs[1], windows=memory.windows)
    streamed = model_for(store).fit_scale(StoredExamples(store).sizes())
    np.testing.assert_array_equal(scaled.scale.factors.array, streamed.scale.factors.array)
    expected = fit(scaled, memory, validation=memory.take(slice(8)), **of)
    found = fit(streamed, store, validation=store[:8], **of)
    assert same_weights(expected.model, found.model)
    assert [one["validation_loss"] for one in expected.history] == [one["validation_loss"] for one in found.history]
    np.testing.assert_array_equal(predict(expected.model, memory), predict(found.model, store))

    # Paused and resumed, from a store that was opened again, it ends with the same weights.
    fit(streamed, store, validation=store[:8], until=1, checkpoint=tmp_path / "state", **of)
    again = Store(place)
    resumed = fit(streamed, again, validation=again[:8], checkpoint=tmp_path / "state", resume=True, **of)
    assert same_weights(expected.model, resumed.model)
    with pytest.raises(ValueError, match="another training"):
        fit(streamed, again[:20], validation=again[:8], checkpoint=tmp_path / "state", resume=True, **of)


def test_the_fingerprint_reads_no_log_signatures(place, store, monkeypatch, tmp_path):
    monkeypatch.setattr(Store, "_logs", lambda *_: pytest.fail("the shards were read"))
    from neuralrde.training import fingerprint_of

    one = fingerprint_of(Settings(), store)
    assert one == fingerprint_of(Settings(), Store(place))
    assert one != fingerprint_of(Settings(), store[:10])


def test_an_estimator_takes_a_store(store):
    """Its transform has seen the same series as one in memory has, in another order of sums: the same to rounding."""
    options = {"model": SMALL, "epochs": 3, "random_state": 0, "verbose": False}
    found = NeuralRDEClassifier(**options).fit(store)
    arrays, times, labels = ragged(40)
    from neuralrde import Series

    series = Series.from_arrays(arrays, times=times, channels=["u", "v", "w"])
    expected = NeuralRDEClassifier(windows=WINDOWS, **options).fit(series, labels)
    assert found.classes_.tolist() == ["ill", "well"]
    np.testing.assert_allclose(found.predict_proba(store), expected.predict_proba(series), atol=1e-4)
    # A new series needs no store; what stands in a store is rounded to float32 in the same way.
    np.testing.assert_allclose(found.predict_proba(store), found.predict_proba(series), atol=1e-6)
    assert found.score(store) == found.score(series, labels)


def test_members_train_from_a_store_without_the_closed_form(store):
    options = {"model": SMALL, "members": 2, "epochs": 2, "random_state": 0, "verbose": False}
    found = NeuralRDEClassifier(**options).fit(store, groups=store.groups)
    assert found.closed_form_ is None
    assert found.members_ == 2
    assert found.predict(store).shape == (40,)


def test_numbers_are_learned_from_a_store(tmp_path):
    array = np.random.default_rng(0).normal(size=(40, 33, 2)).cumsum(axis=1)
    np.save(tmp_path / "x.npy", array)
    store = prepare(tmp_path / "x.npy", tmp_path / "store", windows=Windows(step=8, depth=3), labels=array[:, -1, 0])
    # Exact brackets take another basis than the one that is stored.
    model = Config(LogNCDE, state=4, width=8)
    found = NeuralRDERegressor(model=model, epochs=2, random_state=0, verbose=False).fit(store)
    np.testing.assert_allclose(found.predict(store), found.predict(array), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"windows": Windows(step=3)}, "the store was cut into"),
        ({"augmentation": "time-stretch"}, "augmentation"),
        ({"model": "ode-rnn"}, "not driven by log-signatures"),
        ({"transform": "scale"}, "has applied the store's own transform"),
    ],
)
def test_what_a_store_cannot_give_is_refused(store, options, sentence):
    with pytest.raises((StoreError, ValueError), match=sentence):
        NeuralRDEClassifier(**options, verbose=False).fit(store)


def test_a_store_validates_with_a_store(store):
    estimator = NeuralRDEClassifier(model=SMALL, epochs=2, random_state=0, verbose=False)
    found = estimator.fit(store[:30], validation=store[30:])
    assert "validation_loss" in found.history_[-1]
    series = np.zeros((4, 9, 3))
    with pytest.raises(ValueError, match="expected a store too"):
        estimator.fit(store, validation=(series, [0, 1, 0, 1]))
    with pytest.raises(ValueError, match="expected series too"):
        estimator.fit(series, ["ill", "well"] * 2, validation=(store, None))


def test_partial_fit_takes_no_store(store):
    with pytest.raises(ValueError, match="reads a store in parts"):
        NeuralRDEClassifier(model=SMALL, verbose=False).partial_fit(store, None)


def test_a_store_for_numbers_is_none_for_classes(store):
    with pytest.raises(StoreError, match="NeuralRDEClassifier"):
        NeuralRDERegressor(verbose=False).fit(store)


def prefetching():
    return [thread for thread in threading.enumerate() if thread.name.startswith("neuralrde-prefetch")]


def test_reading_ahead_ends_with_an_exception():
    def numbers():
        yield from range(10**9)

    with pytest.raises(RuntimeError, match="stop"), prefetched(numbers()) as found:  # noqa: PT012
        assert next(found) == 0
        assert len(prefetching()) == 1
        raise RuntimeError("stop")
    assert not prefetching()


def test_an_error_in_the_thread_arrives_where_its_batch_would():
    def broken():
        yield 1
        raise OSError("the disk is gone")

    with prefetched(broken()) as found:
        assert next(found) == 1
        with pytest.raises(OSError, match="the disk is gone"):
            next(found)
    assert not prefetching()


def test_training_that_fails_leaves_no_thread(store):
    class Broken:
        def start(self, **_): ...
        def step(self, **_):
            raise KeyboardInterrupt

        def epoch(self, record): ...
        def say(self, message): ...
        def close(self): ...

    with pytest.raises(KeyboardInterrupt):
        fit(model_for(store), store, loss=CrossEntropy(), settings=Settings(epochs=2), listeners=[Broken()])
    assert not prefetching()
