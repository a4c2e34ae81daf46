"""Baselines are what they say, and sentences come when they should and not else."""

import numpy as np
import pytest

from neuralrde import Series
from neuralrde.datasets import Dataset
from neuralrde.tools.assessment import (
    Predictions,
    Training,
    TrainingTargets,
    baselines,
    cheap_model,
    measures,
    trivial,
    verdict,
)
from neuralrde.tools.assessment import (
    assess as assess_beside,
)
from neuralrde.tools.assessment._baselines import last_value, previous_target


def assess(found, train, data=None):
    return assess_beside(found, [trivial(train, len(found.true))] if data is None else baselines(*data))


def wobbles(samples=80, seed=0, **options):
    """Classes that differ in spread and not in mean; every third value of the second channel is missing."""
    rng = np.random.default_rng(seed)
    wild = np.arange(samples) % 2
    values = rng.normal(size=(samples, 20, 2)) * (1 + 3 * wild)[:, None, None]
    values[:, ::3, 1] = np.nan
    return Dataset(Series(values), np.array(["calm", "wild"])[wild], **options)


def predictions(true, predicted, **options):
    true, predicted = np.asarray(true), np.asarray(predicted)
    return Predictions(true, predicted, options.pop("units", np.arange(len(true))), **options)


def classes(right, wrong, one="no", other="yes"):
    """`right` and then `wrong` predictions, both classes in equal numbers among them."""
    true = np.array([one, other] * ((right + wrong) // 2))
    return predictions(true, np.concatenate([true[:right], np.where(true[right:] == one, other, one)]))


HALF = TrainingTargets(counts={"no": 50, "yes": 50})


def test_the_trivial_answer_is_of_the_training_set():
    train = TrainingTargets.of(wobbles(3))
    assert train.counts == {"calm": 2, "wild": 1}
    assert trivial(train, 2).predicted.tolist() == ["calm", "calm"]
    numbers = Dataset(Series.from_array([[1.0, 2.0]] * 2), [[1.0, 10.0], [2.0, 30.0]])
    assert TrainingTargets.of(numbers).mean == [1.5, 20.0]
    assert trivial(TrainingTargets.of(numbers), 3).predicted.tolist() == [[1.5, 20.0]] * 3


def test_the_cheap_model_sees_what_statistics_show():
    found = cheap_model(wobbles(), wobbles(40, seed=1))
    assert (found.predicted == np.array(["calm", "wild"] * 20)).mean() > 0.95


def test_the_cheap_model_of_numbers():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 15, 1)) + rng.normal(size=(200, 1, 1))
    data = Dataset(Series(values), values.max(axis=1)[:, 0])
    found = cheap_model(data[:150], data[150:])
    # The target is one of the seven statistics: ridge finds it but for its penalty.
    np.testing.assert_allclose(found.predicted[:, 0], data.target[150:], atol=1e-3)


def per_point(classes=False, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(length, 1)).cumsum(axis=0) for length in (30, 40, 25, 40)]
    series = Series.from_arrays(arrays)
    target = np.where(series.valid, series.values[..., 0] > 0, -1) if classes else series.values
    if not classes:
        target = np.where(series.valid[..., None], target, np.nan).copy()
        target[0, 3] = np.nan
    return Dataset(series, target, classes=["down", "up"] if classes else None)


@pytest.mark.parametrize("names", [False, True])
def test_the_cheap_model_at_each_point(names):
    train, test = per_point(names, 0), per_point(names, 1)
    found = cheap_model(train, test)
    assert len(found.predicted) == (135 if names else 134)
    if not names:  # the target is the value itself, which the statistics so far hold
        known = ~np.isnan(test.target[..., 0]) & test.series.valid
        np.testing.assert_allclose(found.predicted[:, 0], test.target[known][:, 0], atol=0.05)


def test_the_last_value_of_the_channel_that_is_nearest():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 10, 2)).cumsum(axis=1)
    data = Dataset(Series(values, channels=["noise", "level"]), values[:, -1, 1] + 0.1 * rng.normal(size=50))
    found = last_value(data[:40], data[40:])
    assert found.name == "last value of `level`"
    np.testing.assert_array_equal(found.predicted[:, 0], values[40:, -1, 1])
    unrelated = Dataset(data.series, 100 + rng.normal(size=50))
    assert last_value(unrelated[:40], unrelated[40:]) is None
    assert last_value(wobbles(), wobbles()) is None


def test_the_previous_target():
    data = per_point()
    found = previous_target(data, np.array([9.0])).predicted[:, 0]
    own = data.target[0, :30, 0]
    own = own[~np.isnan(own)]
    np.testing.assert_array_equal(found[:29], [9.0, *own[:-1]])
    assert found[29] == 9.0
    assert previous_target(wobbles(), np.array(["calm"])) is None


def test_measures_of_classes_without_probabilities():
    found = measures(predictions(["a", "a", "b"], ["a", "b", "b"]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["balanced_accuracy"] == 0.75
    assert "log_loss" not in found


def test_no_better_than_always_saying_no():
    true = ["no"] * 55 + ["yes"] * 14
    found = assess(predictions(true, ["no"] * 69), TrainingTargets(counts={"no": 255, "yes": 67}))
    said = verdict(found, Training(20, 12, False, {}))
    assert said[0] == "All predictions are `no`: no better than always saying `no` (accuracy 0.7971)."
    assert "Try other windows: another --step, and --depth 1 or 3." in said


def test_better_than_trivial_is_said_too_and_nothing_else():
    assert verdict(assess(classes(950, 50), HALF)) == ["Better than always saying `no` (accuracy 0.5000)."]


def test_not_clearly_better():
    said = verdict(assess(classes(11, 9), HALF))
    assert said[0].startswith("Not clearly better than always saying `no` (accuracy 0.5000), which lies inside")
    assert said[1].startswith("Tested on only 20 series: the interval is wide, 0.3421 to 0.7418; --folds 5")


def test_a_balanced_model_is_not_called_useless():
    true = np.array(["no"] * 90 + ["yes"] * 10)
    predicted = np.array(["no"] * 70 + ["yes"] * 30)
    said = verdict(assess(predictions(true, predicted), TrainingTargets(counts={"no": 90, "yes": 10})))
    assert said[0].startswith("No better than")
    assert said[1].startswith("But it tells the classes apart: its balanced accuracy is 0.8889")


def test_the_cheap_model_is_better():
    train, test = wobbles(), wobbles(40, seed=1)
    bad = predictions(np.array(["calm", "wild"] * 20), ["calm"] * 20 + ["wild"] * 20)
    said = verdict(assess(bad, TrainingTargets.of(train), data=(train, test)))
    assert any(sentence.startswith("The cheap model is better: accuracy ") for sentence in said)
    good = predictions(np.array(["calm", "wild"] * 20), np.array(["calm", "wild"] * 20))
    said = verdict(assess(good, TrainingTargets.of(train), data=(train, test)), Training(9, 5, False, {}))
    assert not any("is better" in sentence for sentence in said)


def test_numbers_are_judged_by_their_rmse():
    rng = np.random.default_rng(0)
    true = rng.normal(size=(100, 1))
    mean = TrainingTargets(mean=[0.0])
    flat = verdict(assess(predictions(true, np.zeros((100, 1))), mean))
    assert flat[0].startswith("All predictions are nearly the same number, 0: no better than the training mean (RMSE ")
    good = assess(predictions(true, true + 0.1 * rng.normal(size=(100, 1))), mean)
    assert good.interval[0] < good.value < good.interval[1]
    assert verdict(good)[0].startswith("Better than the training mean (RMSE ")


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        (Training(20, 20, False, {}), "The best epoch is the last: train longer (--epochs 40)."),
        (Training(5, 5, True, {}), "The time budget ended training after 5 epochs"),
        (Training(22, 2, False, {}), "Training stopped after 22 epochs, and the best was epoch 2"),
        (
            Training(
                22, 9, False,
                {"train": {"samples": 500, "accuracy": 0.94}, "validation": {"samples": 100, "accuracy": 0.8}},
            ),
            "Training accuracy 0.9400, validation accuracy 0.8000: it overfits",
        ),
    ],
)  # fmt: skip
def test_sentences_about_training(training, sentence):
    said = verdict(assess(classes(950, 50), HALF), training)
    assert [one for one in said if one.startswith(sentence)], said


def test_no_sentences_about_a_training_that_went_well():
    parts = {"train": {"samples": 500, "accuracy": 0.97}, "validation": {"samples": 100, "accuracy": 0.94}}
    assert len(verdict(assess(classes(950, 50), HALF), Training(40, 25, False, parts))) == 1
    # Ten series of validation: 0.85 and 0.7 may well be chance.
    parts = {"train": {"samples": 50, "accuracy": 0.85}, "validation": {"samples": 10, "accuracy": 0.7}}
    assert len(verdict(assess(classes(950, 50), HALF), Training(40, 25, False, parts))) == 1


def test_rows_of_a_group_are_one():
    true = np.array(["no", "yes"] * 100)
    one = assess(predictions(true, true, units=np.zeros(200, int), unit="group"), HALF)
    assert verdict(one)[-1].startswith("Tested on 1 group only, which says nothing about others")
    few = assess(predictions(true, true, units=np.arange(200) // 50, unit="group"), HALF)
    assert any("only 4 groups" in sentence for sentence in verdict(few))


def test_probabilities_that_cannot_be_trusted():
    found = classes(600, 400)
    sure = np.where(found.predicted[:, None] == np.array(["no", "yes"]), 0.99, 0.01)
    found = Predictions(found.true, found.predicted, found.units, probability=sure, classes=("no", "yes"))
    assert verdict(assess(found, HALF))[-1].startswith("Probabilities are off by 0.3900 on average")


def test_as_dict_is_json():
    import json

    train, test = wobbles(), wobbles(40, seed=1)
    true = np.array(["calm", "wild"] * 20)
    found = json.loads(
        json.dumps(assess(predictions(true, true), TrainingTargets.of(train), data=(train, test)).as_dict())
    )
    assert (found["metric"], found["value"], found["units"]) == ("accuracy", 1.0, {"count": 40, "of": "series"})
    assert [one["name"] for one in found["baselines"]] == ["always `calm`", "cheap model"]
