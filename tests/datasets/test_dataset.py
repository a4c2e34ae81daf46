"""A Dataset holds series with their targets, and refuses what does not fit together."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest

from neuralrde.datasets import Dataset, concatenate
from neuralrde.paths import Series

THREE = Series.from_array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.mark.parametrize(
    ("target", "task", "expected", "classes"),
    [
        (["b", "a", "b"], None, [1, 0, 1], ("a", "b")),
        ([10, 9, 10], None, [1, 0, 1], ("9", "10")),
        (["10", "9", "10"], None, [1, 0, 1], ("9", "10")),
        ([True, False, True], None, [1, 0, 1], ("False", "True")),
        ([1.0, 2.0, 1.0], "classification", [0, 1, 0], ("1", "2")),
        ([1, 2, 1], "regression", [1.0, 2.0, 1.0], None),
        (["1.5", "2", "-3e2"], None, [1.5, 2.0, -300.0], None),
        ([0.5, 1.0, 1.5], None, [0.5, 1.0, 1.5], None),
    ],
)
def test_targets_become_numbers_of_classes_or_real_numbers(target, task, expected, classes):
    data = Dataset(THREE, target, task=task)
    assert data.target.tolist() == expected
    assert data.classes == classes
    assert data.task == ("regression" if classes is None else "classification")
    assert not data.per_time


def test_targets_at_each_point_may_be_absent():
    real = Dataset(THREE, np.full((3, 2, 1), np.nan))
    assert real.per_time
    named = Dataset(THREE, [[0, 1], [-1, -1], [1, 0]], classes=["a", "b"])
    assert named.per_time
    assert named[[1]].target.tolist() == [[-1, -1]]


def test_some_samples_keep_all_classes_and_what_belongs_to_them():
    data = Dataset(THREE, ["b", "a", "b"], groups=[7, 8, 9], split=["train", "test", "test"], name="n")
    part = data[[2, 1]]
    assert part.target.tolist() == [1, 0]
    assert part.classes == ("a", "b")
    assert part.groups.tolist() == [9, 8]
    assert part.split.tolist() == ["test", "test"]
    np.testing.assert_array_equal(part.series.values, THREE.values[[2, 1]])
    assert len(data[1]) == 1
    assert len(data[data.target == 1]) == 2
    with pytest.raises(FrozenInstanceError):
        data.name = "m"
    with pytest.raises(ValueError, match="read-only"):
        data.target[0] = 0


def test_pooling_matches_classes_by_name():
    a, b = Dataset(THREE, ["x", "y", "x"]), Dataset(THREE, ["z", "y", "z"])
    both = concatenate([a, b])
    assert both.classes == ("x", "y", "z")
    assert both.target.tolist() == [0, 1, 0, 2, 1, 2]
    points = replace(a, target=np.array([[0, -1], [1, 0], [0, 0]]))
    assert concatenate([points, replace(b, target=np.array([[0, -1]] * 3))]).target[3].tolist() == [1, -1]


def test_what_was_checked_stays_as_it_was():
    target, groups = np.array([0.5, 1.0, 1.5]), np.array(["a", "b", "b"])
    split = np.array(["train", "train", "test"])
    data = Dataset(THREE, target, groups=groups, split=split)
    target[0], groups[0], split[0] = np.nan, "z", "exam"
    assert data.target.tolist() == [0.5, 1.0, 1.5]
    assert data.groups.tolist() == ["a", "b", "b"]
    assert data.split.tolist() == ["train", "train", "test"]
    for array in (data.target, data.groups, data.split):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    again = replace(data, name="other")
    assert all(getattr(again, name) is getattr(data, name) for name in ("target", "groups", "split"))  # no new copies


def test_what_is_known_of_a_sample_as_a_whole_stays_with_it():
    table = pd.DataFrame({"age": [70, 60, np.nan], 4: ["f", None, "m"]}, index=[5, 5, 9])
    data = Dataset(THREE, ["b", "a", "b"], static=table)
    table.loc[5, "age"] = 0
    assert data.static["age"].tolist()[:2] == [70, 60]
    assert "static  age, 4" in data.summary()
    part = data[[2, 1]]
    assert part.static["4"].fillna("?").tolist() == ["m", "?"]
    both = concatenate([part, data])
    assert both.static.index.tolist() == [0, 1, 2, 3, 4]
    assert both.static["4"].fillna("?").tolist() == ["m", "?", "f", "?", "m"]
    assert concatenate([part, Dataset(THREE, ["b", "a", "b"])]).static is None


def test_summary_says_what_there_is():
    data = Dataset(THREE, ["b", "a", "b"], groups=[7, 7, 9], split=["train", "test", "test"], source="a lab")
    for part in ("a (1), b (2)", "groups  2, of 1 to 2", "train 1, test 2", "a lab", "3 samples, 2 points"):
        assert part in data.summary()
    assert repr(data) == "Dataset('data': 3 samples of 2 classes; 2 points, 1 channel: x0; float64)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": ["a", "b"]}, "Got 2 in target for 3 samples"),
        ({"target": "a"}, "a single one"),
        ({"target": [1.0, np.nan, 2.0]}, "no target .* for sample 1"),
        ({"target": [1.0, np.inf, 2.0]}, "infinite"),
        ({"target": ["a", "b", "c"], "task": "regression"}, "'a' in a regression"),
        ({"target": [0, 1, 2], "classes": ["a", "b"]}, "does not number the 2 classes"),
        ({"target": [0, 1, -1], "classes": ["a", "b"]}, "no target .* for sample 2"),
        ({"target": np.zeros((3, 5, 1))}, "expected .*length"),
        ({"target": np.zeros((3, 5), int)}, "expected .*length"),
        ({"target": [0, 1, 1], "task": "guess"}, "task='guess'"),
        ({"target": [0, 1, 1], "classes": ["a", "a"]}, "one of them twice"),
        ({"classes": ["a"]}, "without a target"),
        ({"groups": [1, 2]}, "Got 2 in groups"),
        ({"static": {"age": [70, 60]}}, "Got 2 in static for 3 samples"),
        ({"static": pd.DataFrame(np.zeros((3, 2)), columns=[1, "1"])}, "static with \\['1'\\] twice"),
        ({"groups": [[1], [2], [3]]}, "shape"),
        ({"split": ["train", "test", "exam"]}, "exam"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Dataset(THREE, **arguments)


def test_an_array_is_not_a_series():
    with pytest.raises(TypeError, match=r"Series\.from_array"):
        Dataset(np.zeros((3, 2, 1)), [0, 1, 0])


def test_whole_numbers_are_classes_if_they_are_few():
    many = Series.from_array(np.arange(100.0).reshape(50, 2))
    assert Dataset(many, np.arange(50) + 40).task == "regression"
    assert Dataset(many, np.arange(50) % 7 + 40).task == "classification"
    assert Dataset(many, np.arange(50) + 40, task="classification").task == "classification"


def test_times_of_two_units_are_not_pooled():
    timed = Series.from_array([[1.0, 2.0]], times=[0.0, 1.0])
    with pytest.raises(ValueError, match="expected one unit"):
        concatenate([Dataset(timed), Dataset(timed, time_unit="seconds since 1970")])
