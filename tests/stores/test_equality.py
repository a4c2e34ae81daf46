"""What a store holds is what the same series in memory give: statistics, first points, log-signatures, targets."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from neuralrde import Compose, Config, FillForward, Scale, Series, TimeChannel, Windows, prepare
from neuralrde.estimators.sources import inputs_of
from neuralrde.models import MultiScaleRDE
from neuralrde.tools.stores import SourceError
from neuralrde.tools.stores.plan import _parts, make_plan
from neuralrde.transforms import BasePoint, ObservationCounts, Standard
from neuralrde.transforms.transform import Sums

from .tables import CHANNELS, ragged, table

# A file that is left open is an error.
pytestmark = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]

WINDOWS = Windows(step=7, depth=2, scales=(1, 4))
# Back 7, 17 and 4 points, or so much time, and over all; what a window is has to be among them for the model.
LOOKS = Windows(step=7, depth=(2, 2, 1), lengths=(7, 17, 4), whole=1)
BY_TIME = Windows(every=9.0, depth=2, lengths=(9.0, 20.5), whole=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    arrays, times, labels = ragged()
    frame = table(arrays, times, labels)
    # Row groups that end within series, and several of them within one.
    frame.to_parquet(folder / "data.parquet", row_group_size=37, index=False)
    frame.to_csv(folder / "data.csv", index=False)
    (folder / "parts").mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(folder / "parts" / f"{number}.parquet", row_group_size=100, index=False)
    return folder, Series.from_arrays(arrays, times=times, channels=CHANNELS), labels


def in_memory(series, transform, windows):
    """First points, log-signatures and numbers of windows, as estimators compute them."""
    prepared = transform(series)
    sizes = {**windows.looks, "key": jax.random.key(0)}
    model = Config(MultiScaleRDE)(channels=len(prepared.channels), outputs=1, **sizes)
    inputs = inputs_of(model, prepared, windows)
    return inputs.arrays, inputs.windows


@pytest.mark.parametrize("name", ["data.parquet", "data.csv", "parts"])
@pytest.mark.parametrize("windows", [WINDOWS, Windows(every=9.0, depth=3), LOOKS, BY_TIME])
def test_a_store_holds_what_memory_gives(data, tmp_path, name, windows):
    folder, series, labels = data
    store = prepare(folder / name, tmp_path / "store", windows=windows, target="label")
    # Sums in another order: the last bits of statistics differ, and nothing else.
    expected = Standard().fit(series)
    for own, other in zip(store.transform.transforms, expected.transforms, strict=True):
        assert type(own) is type(other)
        for field in ("channels_", "means_", "deviations_", "duration_"):
            if hasattr(own, field) and not isinstance(getattr(own, field), tuple):
                assert getattr(own, field) == pytest.approx(getattr(other, field), rel=1e-12)
            elif hasattr(own, field) and field != "channels_":
                np.testing.assert_allclose(getattr(own, field), getattr(other, field), rtol=1e-12, atol=1e-12)
            elif hasattr(own, field):
                assert getattr(own, field) == getattr(other, field)
    # With the same statistics, the same bits: both compute in float64 and round once.
    (first, logs), counts = in_memory(series, store.transform, windows)
    examples = store.take(slice(None))
    np.testing.assert_array_equal(examples.inputs[0], first)
    np.testing.assert_array_equal(examples.inputs[1], logs)
    np.testing.assert_array_equal(examples.windows, counts)
    assert store.labels.tolist() == labels
    assert store.ids.tolist() == [f"p{i:04d}" for i in range(len(labels))]
    assert store.groups[:4].tolist() == ["g0", "g0", "g0", "g1"]


def test_npy_is_the_same_as_arrays(tmp_path):
    array = np.random.default_rng(0).normal(size=(31, 64, 2)).cumsum(axis=1).astype(np.float32)
    np.save(tmp_path / "x.npy", array)
    np.save(tmp_path / "y.npy", np.arange(31) % 3)
    store = prepare(tmp_path / "x.npy", tmp_path / "store", windows=WINDOWS, labels=tmp_path / "y.npy")
    (first, logs), _ = in_memory(Series.from_array(array), store.transform, WINDOWS)
    examples = store.take(slice(None))
    np.testing.assert_array_equal(examples.inputs[0], first)
    np.testing.assert_array_equal(examples.inputs[1], logs)
    assert examples.windows is None
    assert store.labels.tolist() == (np.arange(31) % 3).tolist()


def cut_into_parts_of(points, monkeypatch):
    plan = lambda *arguments: replace(make_plan(*arguments), most=points)
    monkeypatch.setattr("neuralrde.tools.stores._prepare.make_plan", plan)


@pytest.mark.long
@pytest.mark.parametrize("windows", [WINDOWS, Windows(every=9.0, depth=2), Windows(step=7, depth=4), LOOKS, BY_TIME])
def test_a_long_series_is_cut_in_time_and_joined(data, tmp_path, monkeypatch, windows):
    """Chen's relation is exact; joined in float64, rounding is far below that of the float32 that is stored."""
    folder, series, _ = data

    cut_into_parts_of(11, monkeypatch)
    transform = Compose(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint()).fit(series)
    store = prepare(folder / "data.parquet", tmp_path / "store", windows=windows, transform=transform)
    (first, logs), counts = in_memory(series, transform, windows)
    examples = store.take(slice(None))
    np.testing.assert_array_equal(examples.inputs[0], first)
    np.testing.assert_array_equal(examples.windows, counts)
    # Two roundings to float32, of numbers that differ in float64 by less.
    np.testing.assert_allclose(examples.inputs[1], logs, rtol=3e-7, atol=1e-9)


def test_many_channels_are_mixed_as_the_model_mixes_them(tmp_path, monkeypatch):
    array = np.random.default_rng(0).normal(size=(9, 41, 9)).cumsum(axis=1)
    np.save(tmp_path / "x.npy", array)
    whole = prepare(tmp_path / "x.npy", tmp_path / "store", windows=Windows(step=5, depth=2))
    assert whole.mixed
    (_, logs), _ = in_memory(Series.from_array(array), whole.transform, Windows(step=5, depth=2))
    np.testing.assert_array_equal(whole.take(slice(None)).inputs[1], logs)
    monkeypatch.setattr("neuralrde.tools.stores._prepare.make_plan", lambda *a: replace(make_plan(*a), most=12))
    cut = prepare(tmp_path / "x.npy", tmp_path / "cut", windows=Windows(step=5, depth=2))
    np.testing.assert_allclose(cut.take(slice(None)).inputs[1], logs, rtol=3e-7, atol=1e-9)


def test_recommended_windows_are_those_of_the_estimator(tmp_path):
    array = np.random.default_rng(0).normal(size=(12, 600, 2)).cumsum(axis=1)
    np.save(tmp_path / "x.npy", array)
    store = prepare(tmp_path / "x.npy", tmp_path / "store")
    recommended = MultiScaleRDE.recommended.windows(3)
    assert store.windows == recommended.resolved(Series.from_array(array))


def test_a_test_set_has_the_statistics_of_the_training_set(data, tmp_path):
    folder, _, _ = data
    train = prepare(folder / "data.parquet", tmp_path / "train", windows=WINDOWS, target="label")
    arrays, times, labels = ragged(7, seed=5)
    table(arrays, times, labels).to_parquet(tmp_path / "new.parquet", index=False)
    test = prepare(tmp_path / "new.parquet", tmp_path / "test", like=train, target="label")
    new = Series.from_arrays(arrays, times=times, channels=CHANNELS)
    (_, logs), _ = in_memory(new, train.transform, WINDOWS)
    np.testing.assert_array_equal(test.take(slice(None)).inputs[1], logs)
    assert test.transform == train.transform
    assert test.labels.tolist() == labels


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda frame: frame.iloc[::-1], "expected rows sorted by id and then by time"),
        (lambda frame: frame.iloc[[*range(40, len(frame)), *range(40)]], "come back after those of other series"),
        (lambda frame: frame.assign(label=np.arange(len(frame))), "changes within a series"),
        (lambda frame: frame.assign(u=np.where(np.arange(len(frame)) == 50, np.inf, 1.0)), "Got infinity"),
        (lambda frame: frame.assign(label=np.where(frame.id == "p0003", None, frame.label)), "Got no target"),
        (lambda frame: frame.assign(time=np.where(np.arange(len(frame)) == 9, np.nan, frame.time)), "without a time"),
    ],
)
def test_what_cannot_be_prepared_is_refused_with_a_sentence(data, tmp_path, spoil, sentence):
    folder, _, _ = data
    import pandas as pd

    spoil(pd.read_parquet(folder / "data.parquet")).to_parquet(tmp_path / "bad.parquet", row_group_size=50, index=False)
    with pytest.raises(SourceError, match=sentence):
        prepare(tmp_path / "bad.parquet", tmp_path / "store", target="label")
    assert not (tmp_path / "store" / "manifest.json").exists()


@pytest.mark.long
def test_statistics_do_not_depend_on_where_pieces_end(data, tmp_path, monkeypatch):
    """Each piece knows nothing of the one before; three sizes of pieces give the same numbers."""
    folder, series, _ = data
    expected = Standard().fit(series).transforms[2]
    for rows in (1, 7, 64):
        monkeypatch.setattr("neuralrde.tools.stores.rows.piece_rows", lambda channels, rows=rows: rows)
        scale = prepare(folder / "data.parquet", tmp_path / f"{rows}", windows=WINDOWS).transform.transforms[2]
        np.testing.assert_allclose(scale.means_, expected.means_, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(scale.deviations_, expected.deviations_, rtol=1e-12)


def test_statistics_change_nothing_that_they_are_made_of():
    """One row, or one channel: the transpose of such an array is a view of it."""
    for shape in ((1, 3), (5, 1)):
        values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
        Sums.of(values.T)
        np.testing.assert_array_equal(values.ravel(), np.arange(values.size))


def test_series_are_prepared_together_as_long_as_they_fit_padded():
    parts = [part.tolist() for part in _parts(np.array([4, 4, 8, 20, 1]), 16)]
    assert parts == [[4, 4], [8], [20], [1]]  # 3 x 8 are too many, and a longer one is alone
