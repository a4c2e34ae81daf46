"""What every step must keep: causality, padding, samples apart, fits without side effects, its state."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrde.paths import (
    BasePoint,
    FillForward,
    FillLinear,
    Integral,
    ObservationCounts,
    Products,
    Scale,
    ScaleEach,
    Series,
    Spectrogram,
    Step,
    Steps,
    TimeChannel,
    WithBoundaries,
)

from .examples import alone, beginning, make_series, series, training_like

CAUSAL = [
    FillForward(),
    FillForward(default=0.0),
    ObservationCounts(),
    ObservationCounts(channels=["x0"]),
    Scale(),
    TimeChannel(),
    TimeChannel(duration=2.0),
    BasePoint(),
    Products(),
    Products(changes=True),
    Steps(FillForward(), Integral()),
    Steps(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint()),
    Steps(),
]
LOOKING_AHEAD = [FillLinear(), FillLinear(default=0.0), ScaleEach(), Steps(FillForward(), WithBoundaries(0.7))]
LOOKING_AHEAD += [Steps(FillForward(), Spectrogram(4)), Steps(FillForward(), Spectrogram(4, 3, (0.2, 0.5), mean=False))]
name = repr


@pytest.mark.parametrize("step", CAUSAL, ids=name)
@given(given_series=series())
@settings(max_examples=30)
def test_the_past_does_not_depend_on_the_future(step, given_series):
    step = step.fit(training_like(given_series))
    whole = step(given_series)
    for points in range(1, given_series.values.shape[1]):
        past = step(beginning(given_series, points))
        np.testing.assert_array_equal(past.values, whole.values[:, : past.values.shape[1]])
        if past.times is not None:
            np.testing.assert_array_equal(past.times, whole.times[:, : past.times.shape[1]])


def test_linear_filling_does_depend_on_the_future():
    whole = Series.from_array([[0.0, np.nan, 2.0]])
    fill = FillLinear(default=0.0)
    assert fill(whole).values[0, 1, 0] == 1.0
    assert fill(beginning(whole, 2)).values[0, 1, 0] == 0.0


@pytest.mark.parametrize("step", CAUSAL + LOOKING_AHEAD, ids=name)
@given(given_series=series(timed=True), precision=st.sampled_from([np.float32, np.float64]))
@settings(max_examples=30)
def test_a_sample_is_prepared_as_if_it_were_alone_and_padded_with_its_last_point(step, given_series, precision):
    given_series = replace(given_series, values=given_series.values.astype(precision))
    step = step.fit(training_like(given_series))
    together = step(given_series)
    assert together.values.dtype == given_series.values.dtype
    assert together.ids.tolist() == given_series.ids.tolist()
    for i in range(len(given_series)):
        by_itself = step(alone(given_series, i))
        length = together.lengths[i]
        assert by_itself.lengths.tolist() == [length]
        np.testing.assert_array_equal(together.values[i, :length], by_itself.values[0])
        np.testing.assert_array_equal(together.times[i, :length], by_itself.times[0])
        last = np.broadcast_to(by_itself.values[0, -1], together.values[i, length:].shape)
        np.testing.assert_array_equal(together.values[i, length:], last)


@pytest.mark.parametrize("step", CAUSAL + LOOKING_AHEAD, ids=name)
def test_the_state_goes_through_json(step):
    training, later = make_series(1), make_series(2)
    for candidate in (step, step.fit(training)):
        again = Step.from_state(json.loads(json.dumps(candidate.state())))
        assert again == candidate
        assert type(again) is type(candidate)
    np.testing.assert_array_equal(again(later).values, candidate(later).values)


@pytest.mark.parametrize("step", CAUSAL + LOOKING_AHEAD, ids=name)
def test_fitting_changes_neither_step_nor_series_and_forgets_earlier_fits(step):
    training, other = make_series(1), make_series(2, length=20)
    before, values = repr(step.state()), training.values.copy()
    fitted = step.fit(training)
    assert repr(step.state()) == before
    np.testing.assert_array_equal(training.values, values)
    assert fitted.fit(other) == step.fit(other)


LEARNING = [FillForward(), FillLinear(), ObservationCounts(), Scale(), TimeChannel(), BasePoint(), Spectrogram(4)]


@pytest.mark.parametrize("step", LEARNING, ids=name)
def test_a_step_that_learns_must_be_fitted(step):
    with pytest.raises(ValueError, match=rf"{type(step).__name__}.*fitted.*\.fit\(training\)"):
        step(make_series(0))


@pytest.mark.parametrize("step", [FillForward(), FillLinear(), Scale(), Spectrogram(4)], ids=name)
def test_numbers_of_one_channel_never_meet_another(step):
    training = make_series(0)
    step = step.fit(replace(training, channels=["a", "b"]))
    with pytest.raises(ValueError, match=r"channels \['b', 'a'\]; expected \['a', 'b'\]"):
        step(replace(training, channels=["b", "a"]))


@given(given_series=series(missing=0.3))
def test_steps_run_in_order_each_fitted_on_what_the_last_one_left(given_series):
    training = training_like(given_series)
    fill = FillForward().fit(training)
    scale = Scale().fit(fill(training))
    together = Steps(FillForward(), Scale()).fit(training)
    assert together == Steps(fill, scale)
    np.testing.assert_array_equal(together(given_series).values, scale(fill(given_series)).values)


def test_counting_after_filling_is_refused():
    with pytest.raises(ValueError, match=r"ObservationCounts after FillLinear.*Steps\(ObservationCounts\(\), Fill"):
        Steps(FillLinear(), Scale(), ObservationCounts())


@pytest.mark.parametrize("wrong", [[Scale()], Scale, "scale"])
def test_what_is_no_step_is_refused(wrong):
    with pytest.raises(TypeError, match="among the steps"):
        Steps(wrong)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"step": "Scael"}, "'Scael'; expected one of .*'Scale'"),
        ({}, "None; expected one of"),
        ({"step": "Scale", "median_": [0.0]}, "does not fit the step 'Scale'.*median_"),
        ({"step": "Fill"}, "does not fit the step 'Fill'"),
        ({"step": "Steps"}, "does not fit the step 'Steps'"),
        ({"step": ["Scale"]}, r"\['Scale'\]; expected one of"),
        ("Scale", "'Scale'; expected a dictionary"),
        ({"step": "Scale", "means_": "evil"}, "means_='evil'.*expected.*tuple"),
        ({"step": "Scale", "means_": [1.0, "evil"]}, "means_.*'evil'"),
        ({"step": "Scale", "means_": [float("nan")]}, "means_.*nan"),
        ({"step": "Scale", "channels_": ["a", "b"], "means_": [0.0, 0.0], "deviations_": [1.0]}, "2 channels.*1 "),
        ({"step": "Scale", "channels_": ["a"], "means_": [0.0], "deviations_": [0.0]}, "deviations_.*above 0"),
        ({"step": "Scale", "channels_": ["a"], "means_": [0.0]}, "deviations_=None"),
        ({"step": "FillForward", "channels_": ["a", "b"], "means_": [0.0]}, "2 channels.*1 "),
        ({"step": "FillForward", "default": "evil"}, "default='evil'"),
        ({"step": "BasePoint", "gap_": -1.0}, "gap_=-1.0"),
        ({"step": "BasePoint", "gap_": [1.0]}, "gap_"),
        ({"step": "TimeChannel", "duration_": "evil"}, "duration_='evil'"),
        ({"step": "TimeChannel", "timed_": 1}, "timed_=1"),
        ({"step": "ObservationCounts", "channels_": [3]}, "channels_.*3"),
        ({"step": "Spectrogram", "frame": 2 * 10**9}, "frame=2000000000; expected.*1048576"),
        ({"step": "Spectrogram", "frame": 4, "hop": 2**40}, "hop=.*expected"),
        ({"step": "Spectrogram", "frame": 4, "channels_": ["a"], "floors_": []}, "1 channel.*0 "),
        ({"step": "Spectrogram", "frame": True}, "frame=True"),
        ({"step": "Spectrogram", "frame": 4, "floor": float("nan")}, "floor"),
        ({"step": "Steps", "steps": "evil"}, "steps='evil'"),
        ({"step": "Steps", "steps": ["evil"]}, "'evil'"),
        ({"step": "Products", "changes": 10**9}, "changes=1000000000"),
    ],
)
def test_a_wrong_state_is_refused(state, words):
    with pytest.raises(ValueError, match=words):
        Step.from_state(state)


def own_step(name, *, module=__name__, factor=2.0):
    """A user's own step, as a module or a notebook's cell would define it."""

    def __call__(self, series):
        return replace(series, values=series.values * factor)

    return dataclass(frozen=True)(
        type(name, (Step,), {"__call__": __call__, "__module__": module, "__qualname__": name})
    )


@pytest.fixture
def registry(monkeypatch):
    """Classes that a test defines are forgotten after it."""
    monkeypatch.setattr(Step, "_kinds", dict(Step._kinds))


@pytest.mark.usefixtures("registry")
def test_an_own_step_of_the_same_name_takes_nothing_from_the_librarys():
    theirs, training = own_step("Scale", module="hospital"), make_series(0, missing=0.0)
    state = Scale().fit(training).state()
    assert state["step"] == "Scale"  # as files of earlier versions have it
    assert Step.from_state(state) == Scale().fit(training)
    assert theirs().state()["step"] == "hospital.Scale"
    assert type(Step.from_state(theirs().state())) is theirs
    both = Steps(Scale().fit(training), theirs())
    assert Step.from_state(json.loads(json.dumps(both.state()))) == both


@pytest.mark.usefixtures("registry")
def test_a_cell_that_is_run_twice_replaces_its_own_step():
    first, second = own_step("Twice", module="__main__"), own_step("Twice", module="__main__", factor=3.0)
    assert type(Step.from_state(first().state())) is second


@pytest.mark.usefixtures("registry")
def test_an_own_step_in_an_older_file_is_found_by_its_bare_name():
    theirs = own_step("Smooth", module="hospital")
    assert type(Step.from_state({"step": "Smooth"})) is theirs
    assert type(Step.from_state({"step": "__main__.Smooth"})) is theirs  # saved by a script, moved to a module since
    with pytest.raises(ValueError, match=r"'clinic\.Smooth'; expected one of"):
        Step.from_state({"step": "clinic.Smooth"})
    own_step("Smooth", module="clinic")
    with pytest.raises(ValueError, match=r"'Smooth', which could be any of \['clinic.Smooth', 'hospital.Smooth'\]"):
        Step.from_state({"step": "Smooth"})


@pytest.mark.usefixtures("registry")
def test_two_steps_of_the_library_cannot_share_a_name():
    with pytest.raises(TypeError, match=r"second step called 'Scale'.*neuralrde\.paths\.scaling"):
        own_step("Scale", module="neuralrde.paths.elsewhere")


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_one_point_is_a_series_too(seed):
    point = make_series(seed, samples=2, length=1, missing=0.0)
    prepare = Steps(ObservationCounts(), FillForward(), Scale(), TimeChannel(), BasePoint()).fit(point)
    prepared = prepare(point)
    assert prepared.values.shape == (2, 2, 3)
    assert np.isfinite(prepared.values).all()
