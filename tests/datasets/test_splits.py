"""Splits cover all samples once, meet their fractions, and keep classes, groups and twins as they promise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neuralrde.datasets import Dataset, by_group, duplicates, folds, in_order, load, random_split, stratified
from neuralrde.datasets import given as given_split
from neuralrde.paths import Series

FRACTIONS = [(0.7, 0.15, 0.15), (0.5, 0.25, 0.25), (0.8, 0.0, 0.2), (0.34, 0.33, 0.33), (1.0, 0.0, 0.0)]
SEEDS = st.integers(0, 2**32 - 1)


def make(samples, *, seed=0, target=None, groups=None, split=None, twins=0):
    values = np.random.default_rng(seed).normal(size=(samples, 3, 1))
    if twins:
        values[-twins:] = values[:twins]
    return Dataset(Series(values), target, groups=groups, split=split)


def assert_covers(split, samples):
    np.testing.assert_array_equal(np.sort(np.concatenate(list(split))), np.arange(samples))
    for rows in split:
        assert (np.diff(rows) > 0).all()


def divided(divide, *arguments, **options):
    """The split, unless a part would be empty, which is refused."""
    try:
        return divide(*arguments, **options)
    except ValueError as error:
        assume("empty" not in str(error))
        raise


@given(st.integers(1, 60), st.sampled_from(FRACTIONS), SEEDS)
def test_random_splits_meet_their_fractions_to_within_one_sample(samples, fractions, seed):
    split = divided(random_split, make(samples), fractions, seed=seed)
    assert_covers(split, samples)
    for rows, fraction in zip(split, fractions, strict=True):
        assert abs(len(rows) - fraction * samples) < 1


@given(st.lists(st.integers(0, 4), min_size=5, max_size=80), st.sampled_from(FRACTIONS), SEEDS)
def test_stratified_splits_meet_them_in_every_class(target, fractions, seed):
    split = divided(stratified, make(len(target), target=target), fractions, seed=seed)
    assert_covers(split, len(target))
    target = np.array(target)
    for label in np.unique(target):
        count = np.sum(target == label)
        for rows, fraction in zip(split, fractions, strict=True):
            assert abs(np.sum(target[rows] == label) - fraction * count) < 1
        assert label in target[split.train]


def test_rounding_in_many_small_classes_does_not_add_up():
    target = np.repeat(np.arange(50), 5)  # 3.5, 0.75 and 0.75 of each class
    split = stratified(make(250, target=target))
    assert [len(rows) for rows in split] == pytest.approx([175, 37.5, 37.5], abs=1)


@given(st.lists(st.integers(0, 12), min_size=5, max_size=80), st.sampled_from(FRACTIONS), SEEDS)
def test_groups_are_never_divided(groups, fractions, seed):
    split = divided(by_group, make(len(groups), groups=groups), fractions, seed=seed)
    assert_covers(split, len(groups))
    groups = np.array(groups)
    parts = [set(groups[rows]) for rows in split]
    assert sum(map(len, parts)) == len(set.union(*parts))
    # A part overshoots by less than a group, and lacks at most what the two others overshoot.
    largest = np.bincount(groups).max()
    for rows, fraction in zip(split, fractions, strict=True):
        assert -2 * largest - 1 < len(rows) - fraction * len(groups) < largest + 1


@given(st.integers(8, 40), st.integers(1, 4), SEEDS)
def test_twins_stay_together_in_every_split(samples, twins, seed):
    target = np.arange(samples) % 2
    groups = np.arange(samples) // 2
    data = make(samples, seed=seed, target=target, groups=groups, twins=twins)
    for divide in (random_split, stratified, by_group):
        split = divided(divide, data, seed=seed)
        assert_covers(split, samples)
        assert split.duplicates == twins
        assert split.leaked == 0
        part = np.zeros(samples)
        for p, rows in enumerate(split):
            part[rows] = p
        assert (part[-twins:] == part[:twins]).all()
    assert all(len(set(part[groups == group])) == 1 for group in groups)  # of the last, by_group


def test_twins_have_the_same_values_and_times_and_lengths():
    values = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 2.0], [1.0, 2.0, 9.0]])[..., None]
    assert duplicates(Series(values)).tolist() == [0, 0, 2, 3]
    assert duplicates(Series(values, lengths=[3, 3, 3, 2])).tolist() == [0, 0, 2, 3]
    assert duplicates(Series(values, lengths=[2, 3, 2, 2])).tolist() == [0, 1, 0, 0]
    times = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 2], [0, 1, 2]])
    assert duplicates(Series(values, times=times)).tolist() == [0, 1, 2, 3]


def test_the_seed_decides():
    data = make(100, target=np.arange(100) % 3, groups=np.arange(100) // 4)
    for divide in (random_split, stratified, by_group):
        first, same, other = (divide(data, seed=seed).train.tolist() for seed in (1, 1, 2))
        assert first == same != other


def test_every_sample_is_as_likely_in_every_part():
    data = make(20, groups=np.repeat(np.arange(10), 2))
    for divide in (random_split, by_group):
        counts = np.zeros(20)
        for seed in range(400):
            counts[divide(data, seed=seed).test] += 1
        # Binomial with 400 trials at 0.15 (0.2 for whole groups): 5 standard deviations are 40.
        assert counts.max() - counts.min() < 80
        assert counts.min() > 15


@given(st.integers(1, 60), st.sampled_from(FRACTIONS))
def test_in_order_the_last_are_the_test_set(samples, fractions):
    split = divided(in_order, make(samples), fractions)
    assert_covers(split, samples)
    assert np.concatenate(list(split)).tolist() == list(range(samples))
    for rows, fraction in zip(split, fractions, strict=True):
        assert abs(len(rows) - fraction * samples) < 1


def test_in_order_groups_and_twins_come_where_their_first_comes():
    data = make(10, groups=[3, 3, 1, 1, 3, 2, 2, 0, 0, 1])
    split = in_order(data, (0.5, 0.3, 0.2))
    assert [rows.tolist() for rows in split] == [[0, 1, 2, 3, 4, 9], [5, 6], [7, 8]]
    copied = in_order(make(10, twins=1), (0.5, 0.2, 0.3))
    assert [rows.tolist() for rows in copied] == [[0, 1, 2, 3, 9], [4, 5], [6, 7, 8]]
    assert (copied.duplicates, copied.leaked) == (1, 0)


def test_in_order_of_time_with_groups_that_go_on():
    start = np.random.default_rng(1).permutation(10)
    data = make(10, groups=np.arange(10) % 2)
    data = replace(data, series=replace(data.series, times=np.arange(data.series.values.shape[1]) + start[:, None]))
    split = in_order(data, (0.6, 0.2, 0.2), by_time=True, keep_groups=False)
    assert [sorted(start[rows].tolist()) for rows in split] == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9]]
    assert all((np.diff(rows) > 0).all() for rows in split)
    with pytest.raises(ValueError, match="in 2 groups"):
        in_order(data, (0.6, 0.2, 0.2), by_time=True)


@given(st.integers(2, 5), SEEDS)
def test_folds_in_a_way_that_is_asked_for(k, seed):
    target, groups = np.arange(30) % 3, np.arange(30) // 3
    data = make(30, target=target, groups=groups)
    for split in folds(data, k, by="class", validation=0.2, seed=seed):
        for rows in (split.test, split.validation):
            counts = np.bincount(target[rows], minlength=3)
            assert counts.max() - counts.min() <= 1
    for split in folds(data, k, by="group", validation=0.2, seed=seed):
        parts = [set(groups[rows]) for rows in split]
        assert sum(map(len, parts)) == 10


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(2, 7), SEEDS)
def test_folds_test_every_sample_once_and_keep_the_classes(target, k, seed):
    data = make(len(target), target=target)
    assume(k <= len(target))
    splits = folds(data, k, seed=seed)
    assert len(splits) == k
    np.testing.assert_array_equal(np.sort(np.concatenate([s.test for s in splits])), np.arange(len(target)))
    target = np.array(target)
    for split in splits:
        assert_covers(split, len(target))
        assert len(split.validation) == 0
        for label in np.unique(target):
            assert abs(np.sum(target[split.test] == label) - np.sum(target == label) / k) < 1
    sizes = [len(split.test) for split in splits]
    assert max(sizes) - min(sizes) <= 2  # rounding is balanced over the classes


@given(st.lists(st.integers(0, 9), min_size=8, max_size=60), st.integers(2, 4), st.integers(0, 3), SEEDS)
def test_folds_divide_no_group_and_no_twins(groups, k, twins, seed):
    data = make(len(groups), groups=groups, twins=twins, target=np.linspace(0, 1, len(groups)))
    try:
        splits = folds(data, k, seed=seed)
    except ValueError as error:
        assume("too few" not in str(error))
        raise
    groups = np.array(groups)
    for split in splits:
        assert len(split.test)
        assert not set(groups[split.test]) & set(groups[split.train])
        assert (split.duplicates, split.leaked) == (twins, 0)


def test_folds_at_random_and_with_a_validation_set():
    data = make(20, target=np.linspace(0, 1, 20), twins=2)
    splits = folds(data, 4, validation=0.2, seed=1)
    assert [len(split.test) for split in splits] == [5, 5, 5, 5]
    for split in splits:
        assert_covers(split, 20)
        assert (len(split.validation), split.leaked) == (3, 0)
    assert [s.test.tolist() for s in splits] == [s.test.tolist() for s in folds(data, 4, validation=0.2, seed=1)]
    assert [s.test.tolist() for s in splits] != [s.test.tolist() for s in folds(data, 4, seed=2)]
    by_class = folds(make(40, target=np.arange(40) % 2), 4, validation=0.2)[0]
    assert np.bincount(np.arange(40)[by_class.validation] % 2).tolist() == [3, 3]


def test_given_splits_and_a_validation_set_out_of_the_training_set():
    part = np.array(["train"] * 40 + ["test"] * 10)
    data = make(50, split=part, target=np.arange(50) % 2, twins=1)
    split = given_split(data)
    assert_covers(split, 50)
    assert split.test.tolist() == list(range(40, 50))
    assert (split.duplicates, split.leaked) == (1, 1)
    split = given_split(data, validation=0.25)
    assert_covers(split, 50)
    assert [len(rows) for rows in split] == [30, 10, 10]
    assert split.train.max() < 40
    assert np.bincount(data.target[split.validation]).tolist() == [5, 5]
    grouped = make(50, split=part, groups=np.arange(50) // 5)
    split = given_split(grouped, validation=0.25)
    assert not set(grouped.groups[split.train]) & set(grouped.groups[split.validation])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_split(make(9), (0.7, 0.3)), "three that add up to 1"),
        (lambda: random_split(make(9), (0.7, 0.2, 0.2)), "three that add up to 1"),
        (lambda: random_split(make(9), (1.2, -0.2, 0.0)), "three that add up to 1"),
        (
            lambda: random_split(make(2)),
            r"Got 2 samples to divide into train / validation / test = 70 % / 15 % / 15 %, which leaves .* empty",
        ),
        (lambda: random_split(make(4, twins=2)), r"Got 4 samples \(2 of them copies, which stay with the first\) to"),
        (lambda: by_group(make(9, groups=[0] * 9)), "Got 9 samples in 1 group to divide"),
        (lambda: in_order(make(2)), "set empty"),
        (lambda: in_order(make(9), (0.7, 0.3)), "three that add up to 1"),
        (lambda: folds(make(4), 5), "Got 4 samples for 5 folds"),
        (lambda: folds(make(9, groups=[0, 1, 1] * 3), 3), "Got 9 samples in 2 groups for 3 folds"),
        (lambda: folds(make(9), 1), "k=1; expected a whole number of at least 2"),
        (lambda: folds(make(9), 2.5), r"k=2\.5"),
        (lambda: by_group(make(9)), "without groups"),
        (lambda: stratified(make(9)), "task None"),
        (lambda: stratified(make(9, target=np.linspace(0, 1, 9))), "task regression"),
        (lambda: given_split(make(9)), "gives no split"),
        (lambda: given_split(make(3, split=["train", "validation", "test"]), validation=0.1), "expected 0"),
    ],
)
def test_what_cannot_be_divided_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.long
def test_real_patients(real_data):
    data = load("BIDMC32RR")
    split = by_group(data)
    parts = [set(data.groups[rows]) for rows in split]
    assert sum(map(len, parts)) == len(set(data.groups))
    assert len(split.train) / len(data) == pytest.approx(0.7, abs=0.05)
