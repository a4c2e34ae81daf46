"""What every transform must keep: causality, padding, samples apart, fits without side effects, its state."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrde.paths import Series
from neuralrde.transforms import (
    BasePoint,
    Compose,
    FillForward,
    FillLinear,
    Integral,
    ObservationCounts,
    Products,
    Scale,
    ScaleEach,
    Spectrogram,
    TimeChannel,
    TimeSinceObserved,
    Transform,
    WithBoundaries,
)

from ..paths.examples import alone, beginning, make_series, series, training_like

CAUSAL = [
    FillForward(),
    FillForward(default=0.0),
    ObservationCounts(),
    ObservationCounts(channels=["x0"]),
    TimeSinceObserved(),
    TimeSinceObserved(channels=["x0"]),
    Scale(),
    TimeChannel(),
    TimeChannel(duration=2.0),
    BasePoint(),
    Products(),
    Products(changes=True),
    Compose(FillForward(), Integral()),
    Compose(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint()),
    Compose(),
]
LOOKING_AHEAD = [FillLinear(), FillLinear(default=0.0), ScaleEach(), Compose(FillForward(), WithBoundaries(0.7))]
LOOKING_AHEAD += [
    Compose(FillForward(), Spectrogram(4)),
    Compose(FillForward(), Spectrogram(4, 3, (0.2, 0.5), mean=False)),
]
name = repr


@pytest.mark.parametrize("transform", CAUSAL, ids=name)
@given(given_series=series())
@settings(max_examples=30)
def test_the_past_does_not_depend_on_the_future(transform, given_series):
    transform = transform.fit(training_like(given_series))
    whole = transform(given_series)
    for points in range(1, given_series.values.shape[1]):
        past = transform(beginning(given_series, points))
        np.testing.assert_array_equal(past.values, whole.values[:, : past.values.shape[1]])
        if past.times is not None:
            np.testing.assert_array_equal(past.times, whole.times[:, : past.times.shape[1]])


def test_linear_filling_does_depend_on_the_future():
    whole = Series.from_array([[0.0, np.nan, 2.0]])
    fill = FillLinear(default=0.0)
    assert fill(whole).values[0, 1, 0] == 1.0
    assert fill(beginning(whole, 2)).values[0, 1, 0] == 0.0


@pytest.mark.parametrize("transform", CAUSAL + LOOKING_AHEAD, ids=name)
@given(given_series=series(timed=True), precision=st.sampled_from([np.float32, np.float64]))
@settings(max_examples=30)
def test_a_sample_is_prepared_as_if_it_were_alone_and_padded_with_its_last_point(transform, given_series, precision):
    given_series = replace(given_series, values=given_series.values.astype(precision))
    transform = transform.fit(training_like(given_series))
    together = transform(given_series)
    assert together.values.dtype == given_series.values.dtype
    assert together.ids.tolist() == given_series.ids.tolist()
    for i in range(len(given_series)):
        by_itself = transform(alone(given_series, i))
        length = together.lengths[i]
        assert by_itself.lengths.tolist() == [length]
        np.testing.assert_array_equal(together.values[i, :length], by_itself.values[0])
        np.testing.assert_array_equal(together.times[i, :length], by_itself.times[0])
        last = np.broadcast_to(by_itself.values[0, -1], together.values[i, length:].shape)
        np.testing.assert_array_equal(together.values[i, length:], last)


@pytest.mark.parametrize("transform", CAUSAL + LOOKING_AHEAD, ids=name)
def test_the_state_goes_through_json(transform):
    training, later = make_series(1), make_series(2)
    for candidate in (transform, transform.fit(training)):
        again = Transform.from_state(json.loads(json.dumps(candidate.state())))
        assert again == candidate
        assert type(again) is type(candidate)
    np.testing.assert_array_equal(again(later).values, candidate(later).values)


@pytest.mark.parametrize("transform", CAUSAL + LOOKING_AHEAD, ids=name)
def test_fitting_changes_neither_transform_nor_series_and_forgets_earlier_fits(transform):
    training, other = make_series(1), make_series(2, length=20)
    before, values = repr(transform.state()), training.values.copy()
    fitted = transform.fit(training)
    assert repr(transform.state()) == before
    np.testing.assert_array_equal(training.values, values)
    assert fitted.fit(other) == transform.fit(other)


LEARNING = [FillForward(), FillLinear(), ObservationCounts(), Scale(), TimeChannel(), BasePoint(), Spectrogram(4)]


@pytest.mark.parametrize("transform", LEARNING, ids=name)
def test_a_transform_that_learns_must_be_fitted(transform):
    with pytest.raises(ValueError, match=rf"{type(transform).__name__}.*fitted.*\.fit\(training\)"):
        transform(make_series(0))


@pytest.mark.parametrize("transform", [FillForward(), FillLinear(), Scale(), Spectrogram(4)], ids=name)
def test_numbers_of_one_channel_never_meet_another(transform):
    training = make_series(0)
    transform = transform.fit(replace(training, channels=["a", "b"]))
    with pytest.raises(ValueError, match=r"channels \['b', 'a'\]; expected \['a', 'b'\]"):
        transform(replace(training, channels=["b", "a"]))


@given(given_series=series(missing=0.3))
def test_transforms_run_in_order_each_fitted_on_what_the_last_one_left(given_series):
    training = training_like(given_series)
    fill = FillForward().fit(training)
    scale = Scale().fit(fill(training))
    together = Compose(FillForward(), Scale()).fit(training)
    assert together == Compose(fill, scale)
    np.testing.assert_array_equal(together(given_series).values, scale(fill(given_series)).values)


def test_counting_after_filling_is_refused():
    with pytest.raises(ValueError, match=r"ObservationCounts after FillLinear.*Compose\(ObservationCounts\(\), Fill"):
        Compose(FillLinear(), Scale(), ObservationCounts())


@pytest.mark.parametrize("wrong", [[Scale()], Scale, "scale"])
def test_what_is_no_transform_is_refused(wrong):
    with pytest.raises(TypeError, match="among the transforms"):
        Compose(wrong)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"transform": "scael"}, "'scael'; expected one of .*Did you mean 'scale'"),
        ({}, "'None'; expected one of"),
        ({"transform": "scale", "median_": [0.0]}, "does not fit the transform 'Scale'.*median_"),
        ({"transform": "neuralrde.transforms.filling.Fill"}, "does not fit the transform 'Fill'"),
        ({"transform": "compose"}, "does not fit the transform 'Compose'"),
        ({"transform": ["scale"]}, r"\['scale'\].*expected one of"),
        ("scale", "'scale'; expected a dictionary"),
        ({"transform": "scale", "means_": "evil"}, "means_='evil'.*expected.*tuple"),
        ({"transform": "scale", "means_": [1.0, "evil"]}, "means_.*'evil'"),
        ({"transform": "scale", "means_": [float("nan")]}, "means_.*nan"),
        (
            {"transform": "scale", "channels_": ["a", "b"], "means_": [0.0, 0.0], "deviations_": [1.0]},
            "2 channels.*1 ",
        ),
        ({"transform": "scale", "channels_": ["a"], "means_": [0.0], "deviations_": [0.0]}, "deviations_.*above 0"),
        ({"transform": "scale", "channels_": ["a"], "means_": [0.0]}, "deviations_=None"),
        ({"transform": "fill-forward", "channels_": ["a", "b"], "means_": [0.0]}, "2 channels.*1 "),
        ({"transform": "fill-forward", "default": "evil"}, "default='evil'"),
        ({"transform": "base-point", "gap_": -1.0}, "gap_=-1.0"),
        ({"transform": "base-point", "gap_": [1.0]}, "gap_"),
        ({"transform": "time", "duration_": "evil"}, "duration_='evil'"),
        ({"transform": "time", "timed_": 1}, "timed_=1"),
        ({"transform": "observation-counts", "channels_": [3]}, "channels_.*3"),
        ({"transform": "spectrogram", "frame": 2 * 10**9}, "frame=2000000000; expected.*1048576"),
        ({"transform": "spectrogram", "frame": 4, "hop": 2**40}, "hop=.*expected"),
        ({"transform": "spectrogram", "frame": 4, "channels_": ["a"], "floors_": []}, "1 channel.*0 "),
        ({"transform": "spectrogram", "frame": True}, "frame=True"),
        ({"transform": "spectrogram", "frame": 4, "floor": float("nan")}, "floor"),
        ({"transform": "compose", "transforms": "evil"}, "transforms='evil'"),
        ({"transform": "compose", "transforms": ["evil"]}, "'evil'"),
        ({"transform": "products", "changes": 10**9}, "changes=1000000000"),
    ],
)
def test_a_wrong_state_is_refused(state, words):
    with pytest.raises(ValueError, match=words):
        Transform.from_state(state)


def own(name, *, module=__name__, factor=2.0):
    """A user's own transform, as a module or a notebook's cell would define it."""

    def __call__(self, series):
        return replace(series, values=series.values * factor)

    return dataclass(frozen=True)(
        type(name, (Transform,), {"__call__": __call__, "__module__": module, "__qualname__": name})
    )


def test_an_own_transform_of_the_same_name_takes_nothing_from_the_librarys():
    theirs, training = own("Scale", module="hospital"), make_series(0, missing=0.0)
    assert theirs().state()["transform"] == "hospital.Scale"
    assert type(Transform.from_state(theirs().state())) is theirs
    both = Compose(Scale().fit(training), theirs())
    assert Transform.from_state(json.loads(json.dumps(both.state()))) == both


def test_a_cell_that_is_run_twice_replaces_its_own_transform():
    first, second = own("Twice", module="__main__"), own("Twice", module="__main__", factor=3.0)
    assert type(Transform.from_state(first().state())) is second


def test_an_own_transform_that_has_moved_is_found_by_its_name():
    theirs = own("Smooth", module="hospital")
    # Saved by a script, moved to a module since.
    assert type(Transform.from_state({"transform": "__main__.Smooth"})) is theirs
    with pytest.raises(ValueError, match=r"'clinic\.Smooth'; expected one of"):
        Transform.from_state({"transform": "clinic.Smooth"})
    other = own("Smooth", module="clinic")
    with pytest.raises(ValueError, match=r"'Smooth', which could be any of \['clinic.Smooth', 'hospital.Smooth'\]"):
        Transform.from_state({"transform": "__main__.Smooth"})
    assert type(Transform.from_state({"transform": "clinic.Smooth"})) is other


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_one_point_is_a_series_too(seed):
    point = make_series(seed, samples=2, length=1, missing=0.0)
    prepare = Compose(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint()).fit(point)
    prepared = prepare(point)
    assert prepared.values.shape == (2, 2, 3)
    assert np.isfinite(prepared.values).all()


@pytest.mark.parametrize(("times", "timed"), [([[0.0, 1.0, 3.0]], True), (None, False)])
def test_what_others_ask_of_a_transform(times, timed):
    """Its single transforms in order, however they are nested; whether it learned times; how many points it leaves."""
    training = Series.from_array([[1.0, 2.0, 4.0]], times=times)
    one = Compose(FillForward(), Compose(Scale(), Compose(TimeChannel(), BasePoint()))).fit(training)
    assert [type(part) for part in one.parts] == [FillForward, Scale, TimeChannel, BasePoint]
    assert one.timed is timed
    assert one.points_after(training.lengths).tolist() == one(training).lengths.tolist() == [4]
    alone = Scale().fit(training)
    assert (alone.parts, alone.timed, alone.points_after(training.lengths).tolist()) == ((alone,), None, [3])
    assert Compose(alone).timed is None


def test_a_transform_that_says_nothing_of_streams_names_those_that_do():
    @dataclass(frozen=True)
    class Own(Transform):
        def __call__(self, series):
            return series

    known = r"Use FillForward, ObservationCounts, TimeSinceObserved, Scale, TimeChannel, BasePoint, Integral or Produ"
    with pytest.raises(ValueError, match=rf"Got Own for a series that is still arriving.*{known}"):
        Own().begin(1, 2)
