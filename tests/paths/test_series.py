"""A Series holds what it was given, pads with the last point, and names what is wrong with bad input."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrde.paths import Series, concatenate
from neuralrde.paths.series import unshared
from neuralrde.transforms import BasePoint, FillForward, Integral, Products, Scale, ScaleEach, Spectrogram

from .examples import alone, make_series, series


@given(series(ragged=True, timed=True), st.integers(0, 2**32 - 1))
def test_padding_repeats_the_last_point_whatever_was_there(given_series, seed):
    rng = np.random.default_rng(seed)
    values, times = given_series.values.copy(), given_series.times.copy()
    values[~given_series.valid] = rng.choice([np.nan, np.inf, 7.0], size=values[~given_series.valid].shape)
    times[~given_series.valid] = rng.choice([np.nan, -1e9], size=times[~given_series.valid].shape)
    again = Series(values, times=times, lengths=given_series.lengths)
    for i, length in enumerate(given_series.lengths):
        np.testing.assert_array_equal(again.values[i, :length], values[i, :length])
        for j in range(length, values.shape[1]):
            np.testing.assert_array_equal(again.values[i, j], values[i, length - 1])
            assert again.times[i, j] == times[i, length - 1]


@given(series())
def test_arrays_tables_and_padded_arrays_make_the_same_series(expected):
    parts = [alone(expected, i) for i in range(len(expected))]
    times = None if expected.times is None else [part.times[0] for part in parts]
    from_arrays = Series.from_arrays([part.values[0] for part in parts], times=times, ids=expected.ids)
    assert_same(from_arrays, beginning_of_longest(expected))

    rows = [(i, j) for i in range(len(parts)) for j in range(parts[i].values.shape[1])]
    table = {"who": [expected.ids[i] for i, _ in rows]}
    if times is not None:
        table["when"] = [times[i][j] for i, j in rows]
    for c, name in enumerate(expected.channels):
        table[name] = [parts[i].values[0, j, c] for i, j in rows]
    from_table = Series.from_table(table, id="who", time=None if times is None else "when")
    assert_same(from_table, from_arrays)


def beginning_of_longest(series):
    longest = series.lengths.max()
    times = None if series.times is None else series.times[:, :longest]
    return replace(series, values=series.values[:, :longest], times=times)


def assert_same(a, b):
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.lengths, b.lengths)
    np.testing.assert_array_equal(a.ids, b.ids)
    assert a.channels == b.channels
    assert (a.times is None) == (b.times is None)
    if a.times is not None:
        np.testing.assert_array_equal(a.times, b.times)


@given(series(timed=True), st.randoms(use_true_random=False))
def test_a_table_may_have_its_rows_in_any_order(expected, random):
    rows = [(i, j) for i, length in enumerate(expected.lengths) for j in range(length)]
    random.shuffle(rows)
    table = {"id": [expected.ids[i] for i, _ in rows], "t": [expected.times[i, j] for i, j in rows]}
    table |= {name: [expected.values[i, j, c] for i, j in rows] for c, name in enumerate(expected.channels)}
    result = Series.from_table(table)
    appearance = list(dict.fromkeys(i for i, _ in rows))
    assert_same(result, beginning_of_longest(expected)[appearance])


class FrameLikePolars:
    """Iterates over the data, and not over the names."""

    def __init__(self, data):
        self.data, self.columns = data, list(data)

    def __getitem__(self, name):
        return self.data[name]

    def __iter__(self):
        return iter(self.data.values())


class TableLikeArrow(FrameLikePolars):
    """Its `columns` are the data."""

    def __init__(self, data):
        self.data, self.columns, self.column_names = data, list(data.values()), list(data)


@pytest.mark.parametrize("kind", [FrameLikePolars, TableLikeArrow])
def test_frames_are_tables(kind):
    data = {"id": np.array([1, 1]), "t": np.array([1.0, 0.0]), "a": np.array([5, 6]), "b": np.array([7, 8])}
    result = Series.from_table(kind(data), columns=["b"])
    assert result.channels == ("b",)
    np.testing.assert_array_equal(result.values, [[[8], [7]]])


@pytest.mark.parametrize("unit", ["ns", "us", "s", "D"])
def test_dates_in_a_table_become_seconds_since_1970(unit):
    days = np.array(["1970-01-03", "1970-01-02", "2024-02-29"], f"datetime64[{unit}]")
    result = Series.from_table({"id": ["a", "a", "b"], "t": days, "x": [3, 2, 1]})
    # Whole seconds: exact in float64.
    assert result.times[0].tolist() == [86400.0, 172800.0]
    assert result.times[1, 0] == 1709164800.0
    assert result.values[0, :, 0].tolist() == [2, 3]


def test_dates_of_a_frame_with_a_time_zone():
    pandas = pytest.importorskip("pandas")
    clock = pandas.to_datetime(["1970-01-01 01:00", "1970-01-01 01:30"]).tz_localize("Europe/Berlin")
    frame = pandas.DataFrame({"id": [1, 1], "t": clock, "x": [1.0, 2.0]})
    assert Series.from_table(frame).times.tolist() == [[0.0, 1800.0]]
    durations = pandas.DataFrame({"id": [1, 1], "t": pandas.to_timedelta([1, 2], unit="min"), "x": [1.0, 2.0]})
    assert Series.from_table(durations).times.tolist() == [[60.0, 120.0]]


@pytest.mark.parametrize(
    ("given_type", "kept_type"),
    [(np.float32, np.float32), (np.float64, np.float64), (np.int32, np.float64), (bool, np.float64)],
)
def test_types_of_numbers(given_type, kept_type):
    result = Series(np.ones((1, 2, 1), given_type))
    assert result.values.dtype == kept_type
    assert (result.values == 1).all()


def test_selection_of_samples():
    whole = make_series(0, samples=4)
    for selection, expected in [
        (slice(1, 3), [1, 2]),
        ([3, 0], [3, 0]),
        (np.array([True, False, False, True]), [0, 3]),
        (-1, [3]),
    ]:
        part = whole[selection]
        assert part.ids.tolist() == [f"sample {i}" for i in expected]
        np.testing.assert_array_equal(part.values, whole.values[expected])
        np.testing.assert_array_equal(part.times, whole.times[expected])
        np.testing.assert_array_equal(part.lengths, whole.lengths[expected])
    assert [len(sample) for sample in whole] == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="no samples"):
        whole[[]]


@given(st.data(), st.integers(1, 3), st.booleans())
def test_concatenation_keeps_every_sample(data, channels, timed):
    parts = data.draw(st.lists(series(channels=channels, timed=timed), min_size=1, max_size=3))
    whole = concatenate(parts)
    samples = [alone(part, i) for part in parts for i in range(len(part))]
    assert len(whole) == len(samples)
    for i, sample in enumerate(samples):
        assert_same(alone(whole, i), sample)


def test_a_series_cannot_be_changed():
    whole = make_series(0)
    with pytest.raises(FrozenInstanceError):
        whole.values = np.zeros((1, 1, 1))
    with pytest.raises(ValueError, match="read-only"):
        whole.values[0, 0, 0] = np.inf


def test_the_callers_array_stays_writeable_and_unchanged():
    array = np.arange(6.0).reshape(2, 3, 1)
    Series(array, lengths=[1, 3])
    array[0, 0, 0] += 1
    np.testing.assert_array_equal(array.ravel(), [1, 1, 2, 3, 4, 5])


def test_what_was_checked_stays_checked():
    """Whatever the caller does to the arrays afterwards, infinity does not come in."""
    values, times, lengths, ids = (
        np.zeros((2, 3, 1)),
        np.tile(np.arange(3.0), (2, 1)),
        np.array([3, 3]),
        np.array([1, 2]),
    )
    made = Series(values, times=times, lengths=lengths, ids=ids)
    shared = Series.from_array(values, times=times[0])
    view = Series(np.broadcast_to(values[:1], (4, 3, 1)))  # itself read-only, of an array that is not
    values[:], times[:], lengths[:], ids[:] = np.inf, -np.inf, 0, 0
    for checked in (made, shared, view, made[:1], replace(made, channels=["a"])):
        assert (checked.values == 0).all()
        assert (checked.lengths == 3).all()
    assert (made.times == np.arange(3.0)).all()
    assert (shared.times == np.arange(3.0)).all()
    assert made.ids.tolist() == [1, 2]
    for array in (made.values, made.times, made.lengths, made.ids):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda series: pickle.loads(pickle.dumps(series))])
def test_a_copy_cannot_be_changed_either(copied):
    with pytest.raises(ValueError, match="read-only"):
        copied(make_series(0)).values[0, 0, 0] = np.inf


def test_only_what_a_caller_holds_is_copied(monkeypatch):
    gaps, values = make_series(0), np.zeros((3, 4, 1))
    whole = Series(values)
    assert not np.shares_memory(whole.values, values)
    values.flags.writeable = False
    assert np.shares_memory(Series(values).values, values)

    def recorded(array):
        kept = unshared(array)
        copied.append(not np.shares_memory(kept, array))
        return kept

    copied = []
    monkeypatch.setattr("neuralrde.paths.series.unshared", recorded)
    replace(whole, channels=["a"])
    Series(whole.values[:, :2])
    Series.from_arrays([[1.0, 2.0], [3.0]], times=[[0.0, 1.0], [0.0]])
    full = FillForward(default=0.0)(gaps)
    gaps[:2], gaps[::-1], concatenate([gaps, gaps])
    for step in (Scale(), BasePoint(), Integral(), Products(), ScaleEach(), Spectrogram(2)):
        step.fit(full)(full)
    assert copied
    assert not any(copied)


def test_one_clock_serves_all_samples():
    assert Series.from_array(np.zeros((3, 4)), times=np.arange(4.0)).times.strides[0] == 0


def test_repr_says_what_there_is():
    text = repr(make_series(0, samples=3, length=8, channels=2))
    for part in ("3 samples", "points", "2 channels: x0, x1", "times", "missing", "float64"):
        assert part in text
    assert repr(Series([[[1.0]]])) == "Series(1 sample, 1 point, 1 channel: x0; float64)"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: Series([1.0, 2.0]),
            ValueError,
            r"\(2,\).*expected \(samples, length, channels\).*values\[None",
        ),
        (lambda: Series(np.zeros((0, 3, 1))), ValueError, "empty series.*no samples"),
        (lambda: Series(np.zeros((1, 0, 1))), ValueError, "empty series.*no points"),
        (lambda: Series(np.zeros((1, 3, 0))), ValueError, "empty series.*no channels"),
        (lambda: Series([[["a"]]]), TypeError, "real numbers.*np.float64"),
        (lambda: Series([[[None]]]), TypeError, "type object.*None written as NaN"),
        (lambda: Series([[[1j]]]), TypeError, "complex128.*real numbers"),
        (lambda: Series(np.ma.masked_array([[[1.0]]], [[[True]]])), TypeError, r"masked.*filled\(np.nan\)"),
        (lambda: Series([[[1.0], [np.inf]]]), ValueError, "infinity in sample 0, channel 'x0', at point 1"),
        (lambda: Series([[[1.0], [2.0]], [[1.0]]]), ValueError, "from_arrays"),
        (lambda: Series(np.zeros((2, 3, 1)), lengths=[3, 0]), ValueError, "length 0 for sample 1.*1 to 3"),
        (lambda: Series(np.zeros((2, 3, 1)), lengths=[4, 1]), ValueError, "length 4 for sample 0.*1 to 3"),
        (lambda: Series(np.zeros((2, 3, 1)), lengths=[1.5, 1]), TypeError, "whole numbers"),
        (lambda: Series(np.zeros((2, 3, 1)), lengths=[1]), ValueError, r"expected \(2,\)"),
        (lambda: Series(np.zeros((1, 3, 1)), times=[0.0, 1.0, 2.0]), ValueError, "expected.*from_array"),
        (
            lambda: Series(np.zeros((1, 3, 1)), times=[[0.0, 2.0, 1.0]]),
            ValueError,
            "sample 0: 2.0 at point 1, t",
        ),
        (lambda: Series(np.zeros((1, 2, 1)), times=[[1.0, 1.0]]), ValueError, "do not increase.*merge"),
        (
            lambda: Series(np.zeros((1, 2, 1)), times=[[0.0, np.nan]]),
            ValueError,
            "time nan in sample 0 at point 1",
        ),
        (
            lambda: Series(np.zeros((1, 1, 1)), times=np.array([["2020-01-01"]], "datetime64[s]")),
            TypeError,
            "unit.*timedelta64",
        ),
        (lambda: Series(np.zeros((1, 2, 2)), channels=["a"]), ValueError, "1 channel names for 2"),
        (lambda: Series(np.zeros((1, 2, 2)), channels=["a", "a"]), ValueError, r"\['a'\] more than once"),
        (lambda: Series(np.zeros((1, 2, 1)), channels="a"), TypeError, r"channels=\['a'\]"),
        (lambda: Series(np.zeros((1, 2, 1)), ids=["a", "b"]), ValueError, r"ids of shape \(2,\)"),
        (lambda: Series.from_array(np.zeros((2, 3)), times=[0.0, 1.0]), ValueError, r"expected \(3,\)"),
        (lambda: Series.from_arrays([]), ValueError, "empty list"),
        (lambda: Series.from_arrays([np.zeros((3, 1)), []]), ValueError, "length 0 for sample 1"),
        (
            lambda: Series.from_arrays([np.zeros((3, 1)), np.zeros((3, 2))]),
            ValueError,
            r"arrays\[1\].*\(3, 2\)",
        ),
        (lambda: Series.from_arrays([[1.0, 2.0]], times=[[0.0]]), ValueError, "times of shapes"),
        (lambda: Series.from_table({"id": [1], "x": [1.0]}), ValueError, r"expected also \['t'\]"),
        (lambda: Series.from_table({"id": [1], "t": [1.0]}), ValueError, "expected a channel"),
        (lambda: Series.from_table({"id": [], "t": [], "x": []}), ValueError, "without rows"),
        (lambda: Series.from_table({"id": [1, 1], "t": [0, 0], "x": [1, 2]}), ValueError, "do not increase"),
        (lambda: Series.from_table({"id": [1, 1], "t": [0, 1], "x": [1]}), ValueError, "columns of shapes"),
        (lambda: Series.from_table({"id": [1], "t": [0], "x": ["a"]}), TypeError, "column 'x'.*real numbers"),
        (lambda: Series.from_table({"id": [np.nan], "t": [0], "x": [1]}), ValueError, "NaN in the id column"),
        (
            lambda: Series.from_table({"id": np.array([None, "a"], object), "t": [0, 1], "x": [1, 2]}),
            TypeError,
            "mixed types",
        ),
        (
            lambda: Series.from_table({"id": [1], "t": np.array(["NaT"], "datetime64[s]"), "x": [1]}),
            ValueError,
            "time nan in sample 0 at point 0",
        ),
        (
            lambda: Series.from_table({"id": [1], "t": [0], "x": np.array(["1970"], "datetime64[s]")}),
            TypeError,
            "column 'x' of type datetime64.*unit",
        ),
        (lambda: Series.from_table([1, 2]), TypeError, "list; expected a mapping"),
        (lambda: concatenate([]), ValueError, "no series"),
        (
            lambda: concatenate([make_series(0, channels=1), make_series(0, channels=2)]),
            ValueError,
            "same channels",
        ),
        (
            lambda: concatenate([make_series(0, timed=True), make_series(0, timed=False)]),
            ValueError,
            "with times and series without",
        ),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
