"""Lines of results: written, read, resumed; tables and the page that are made of them."""

import json

import numpy as np
import pytest

from benchmarks.quality.league import lines as results
from benchmarks.quality.league import play as playing
from benchmarks.quality.league.classifiers import CLASSIFIERS, ENVIRONMENT, Absent, Classifier, Outcome, ours
from benchmarks.quality.league.command import main, parser, wanted
from benchmarks.quality.league.data import IRREGULAR_SETS, LeagueSet
from benchmarks.quality.league.page import PAGES, rendered
from benchmarks.quality.league.ranking import rank
from benchmarks.quality.league.tables import (
    NOTHING,
    accuracy_table,
    complete,
    damage_table,
    frame_of,
    mean_over_seeds,
    ranking_table,
)
from neuralrde import Series

DETAILS = ("average precision", "log loss", "s, fit")


def line(name: str, classifier: str, accuracy: float, **others) -> dict:
    size = {"train": 10, "test": 20, "points": 30, "channels": 1, "classes": 2}
    about = {"split": "official", "damage": "none", "seed": 0, "set": name, "classifier": classifier}
    made = {"tag": "t", "commit": "c", "versions": {"numpy": "2"}, "date": "2026-11-17T00"}
    made |= {"machine": "m", "load": 0.1, "threads": "all"}
    seconds = {"fit_seconds": 1.0, "predict_seconds": 0.5}
    return {**about, "accuracy": accuracy, "log_loss": None, **seconds, **size, **made, **others}


@pytest.fixture
def lines() -> list[dict]:
    """Two sets, two seeds. `neural` has probabilities; `multirocket` lacks a set."""
    found = []
    for seed in (0, 1):
        found += [
            line("ERing", "neural", 0.9 + 0.02 * seed, seed=seed, log_loss=0.3),
            line("ACSF1", "neural", 0.8, seed=seed, log_loss=0.5),
            line("ERing", "minirocket", 0.7, seed=seed),
            line("ACSF1", "minirocket", 0.9, seed=seed),
            line("ERing", "multirocket", 0.8, seed=seed),
        ]
    return found


def cells(table: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    return {row[0]: row[1:] for row in rows}


def test_of_two_lines_about_a_run_the_later_counts(tmp_path):
    path = tmp_path / "folder" / "lines.jsonl"
    assert results.read_lines(path) == []
    for accuracy in (0.1, 0.2):
        results.append_line(line("ERing", "neural", accuracy), path)
    results.append_line(line("ACSF1", "neural", 0.5), path)
    assert [found["accuracy"] for found in results.read_lines(path)] == [0.2, 0.5]
    results.tidy(path)
    assert [json.loads(text)["accuracy"] for text in path.read_text("utf-8").splitlines()] == [0.5, 0.2]


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "lines.jsonl"
    results.append_line(line("ERing", "neural", 0.1), path)
    with path.open("a") as file:
        file.write('{"set": "ER')
    with pytest.raises(ValueError, match="line 2 is no result"):
        results.read_lines(path)


def test_only_what_is_missing_is_run(lines):
    keys = [results.key_of(one) for one in lines]
    new = ("official", "cut", 0, "ERing", "neural")
    assert results.still_to_run([*keys, new], lines, tag="t", again=False) == [new]
    assert results.still_to_run([*keys, new], lines, tag="t", again=True) == [new]  # of this tag already
    assert results.still_to_run([*keys, new], lines, tag="u", again=True) == [*keys, new]


def test_the_tag_is_of_the_library_as_it_is():
    results.code_tag.cache_clear()
    first = results.code_tag()
    results.code_tag.cache_clear()
    assert results.code_tag() == first
    assert len(first) == 10


@pytest.fixture
def toy(monkeypatch):
    """A set that is there at once, and classifiers that cost nothing."""
    labels = np.array(["a", "b"] * 4)
    data = LeagueSet("toy", Series(np.zeros((8, 3, 1))), labels, np.arange(4), np.arange(4, 8))
    monkeypatch.setattr(playing, "prepared", lambda *key: data)
    calls = []

    def constant(train, known, test, seed):
        calls.append(seed)
        probability = np.tile([0.75, 0.25], (len(test), 1))
        return Outcome(np.full(len(test), "a"), 1.0, 2.0, probability, ("a", "b"))

    def broken(*_):
        raise RuntimeError("too warm")

    for name, run in {"constant": constant, "broken": broken, "nobody": ours("NoSuchClassifier")}.items():
        monkeypatch.setitem(CLASSIFIERS, name, Classifier(name, name, run))
    return calls


def test_every_run_is_a_line_and_failures_stop_nothing(toy, tmp_path, capsys):
    path = tmp_path / "lines.jsonl"
    keys = [("official", "none", seed, "toy", name) for seed in (0, 1) for name in ("broken", "nobody", "constant")]
    failed = playing.play(keys, tag="x", path=path)
    found = results.read_lines(path)
    assert [(one["classifier"], one["seed"]) for one in found] == [("constant", 0), ("constant", 1)]
    assert found[0]["accuracy"] == 0.5
    assert found[0]["log_loss"] == pytest.approx(-(np.log(0.75) + np.log(0.25)) / 2)
    assert (found[0]["tag"], found[0]["train"], found[0]["classes"]) == ("x", 4, 2)
    assert len([text for text in failed if "too warm" in text]) == 2
    assert len([text for text in failed if "has no NoSuchClassifier" in text]) == 1  # said once
    assert results.still_to_run(keys, found, tag="x", again=False) == [key for key in keys if key[-1] != "constant"]


def test_a_classifier_that_does_not_exist_yet_is_absent():
    with pytest.raises(Absent, match="has no NoSuchClassifier"):
        ours("NoSuchClassifier")(Series(np.zeros((2, 3, 1))), np.array(["a", "b"]), Series(np.zeros((1, 3, 1))), 0)


@pytest.mark.slow  # Numba compiles for half a minute
@pytest.mark.skipif(not ENVIRONMENT.exists(), reason=f"no {ENVIRONMENT.name}: `make {ENVIRONMENT.name}/ready` makes it")
def test_the_peers_learn_what_is_easy():
    """Slow and fast waves of different lengths, with missing values; a label of many letters comes back whole."""
    rng = np.random.default_rng(0)
    labels = np.array(["slow", "very fast"] * 20)
    waves = [np.sin(np.arange(40 + i) * (0.2 if i % 2 == 0 else 0.9) + rng.uniform(0, 6)) for i in range(40)]
    waves[3][5:8] = np.nan
    series = Series.from_arrays(waves)
    found = CLASSIFIERS["minirocket"].run(series[:30], labels[:30], series[30:], 0)
    assert found.predicted.tolist() == labels[30:].tolist()
    assert found.versions["aeon"]
    assert found.probability is None


def test_the_table_has_means_and_ranks_of_those_with_all_sets(lines):
    found = cells(accuracy_table(lines, bold="*{}*"))
    assert found["set"] == ["neural", "minirocket", "multirocket"]
    assert list(found)[2:4] == ["ACSF1", "ERing"]
    assert found["ERing"] == ["*91.0*", "70.0", "80.0"]
    assert found["ACSF1"] == ["80.0", "*90.0*", "-"]
    assert found["mean"] == ["85.5", "80.0", "-"]
    assert found["mean rank"] == ["1.50", "1.50", "-"]
    assert found["sets on which it is best"] == ["1", "1", "-"]
    assert found["deviation of the mean over seeds"] == ["0.5", "0.0", "-"]
    assert found["log loss"] == ["0.400", "-", "-"]
    assert found["seconds, fit"] == ["2.0", "2.0", "-"]
    assert found["seeds on all sets"] == ["2", "2", "0"]


def test_published_classifiers_stand_beside_ours():
    own = [line(name, "neural", 0.9) for name in IRREGULAR_SETS]
    lines = results.of_league([*own, line("ERing", "neural", 0.1)], "irregular")
    found = cells(accuracy_table(lines))
    assert found["set"][:2] == ["neural", "ROCKET"]
    assert len(found["set"]) == 13
    assert list(found)[2:16] == list(IRREGULAR_SETS)
    assert found["PLAID"][:3] == ["90.0", "90.1", "91.1"]
    assert found["won : lost against ROCKET"][:3] == ["12 : 2", "-", "2 : 10"]  # better on PLAID and PhysioNet 2012
    assert found["mean"][:3] == ["90.0", "72.1", "65.6"]
    assert found["seconds, fit"] == ["14.0", *["-"] * 12]
    assert found["seeds on all sets"] == ["1", *["-"] * 12]


def test_of_two_classes_the_rarer_is_ranked():
    """Of three deaths two come first; a reader of AUROC alone would not see that half of the alarms are false."""
    labels = np.array(["alive"] * 8 + ["dead"] * 4)
    test = np.arange(5, 12)
    risk = np.array([0.8, 0.2, 0.1, 0.9, 0.3, 0.7, 0.05])
    found = Outcome(labels[test], 0, 0, np.stack([1 - risk, risk], axis=1), ("alive", "dead"))
    scores = playing.ranked(found, labels, test)
    assert scores["auroc"] == pytest.approx((3 + 2 + 2 + 0) / 12)
    assert scores["average_precision"] == pytest.approx((1 / 1 + 2 / 3 + 3 / 4 + 4 / 7) / 4)
    assert playing.ranked(Outcome(labels[test], 0, 0), labels, test) == {}
    assert playing.ranked(found, np.array([*labels[:-1], "unknown"]), test) == {}


def test_two_classes_are_ranked_beside_published_values():
    own = [line("PhysioNet2012", "neural", 0.9, auroc=0.86 + 0.02 * seed, average_precision=0.5, seed=seed)
           for seed in (0, 1)]  # fmt: skip
    own += [line("PhysioNet2012Static", "neural", 0.9, auroc=0.9, average_precision=0.6, log_loss=0.25)]
    own += [line("PLAID", "neural", 0.9, classes=11)]
    found = cells(ranking_table(results.of_league(own, "irregular")))
    assert found["AUROC"] == ["PhysioNet2012", *DETAILS, "PhysioNet2012Static", *DETAILS]
    assert found["neural"] == ["0.870", "0.500", "-", "1.0", "0.900", "0.600", "0.250", "1.0"]
    assert found["RIFC"] == ["0.827", *["-"] * 7]
    assert ranking_table([line("PLAID", "neural", 0.9, classes=11)]) == NOTHING


def test_what_damage_costs_is_of_sets_and_seeds_that_both_have(lines):
    assert damage_table(lines) == NOTHING
    hurt = [line(name, "neural", 0.6, damage="cut", seed=1) for name in ("ERing", "ACSF1")]
    hurt += [line("ERing", "minirocket", 0.1, damage="cut", seed=1)]  # lacks a set
    found = cells(damage_table(lines + hurt))
    assert found["neural"] == ["86.0", "60.0 (-26.0)", "26.0"]
    assert "minirocket" not in found


def test_ranks_tell_apart_what_differs():
    """On 12 sets `a` always beats `b` by a little and `c` by much, in a way that ranks alone see."""
    rows = [line(f"s{i:02}", name, 0.9 - gap - 0.01 * i) for i in range(12)
            for name, gap in (("neural", 0.0), ("minirocket", 0.01 + 0.001 * i), ("statistics", 0.3))]  # fmt: skip
    found = rank(complete(mean_over_seeds(frame_of(rows))))
    assert found.ranks == {"neural": 1.0, "minirocket": 2.0, "statistics": 3.0}
    assert found.friedman == pytest.approx(np.exp(-12), rel=1e-6)  # chi-squared of 24 with two degrees of freedom
    # The least p-value of 12 signed ranks is 2 / 2^12; Holm multiplies the first of three by three, and none is less.
    assert all(p == pytest.approx(3 * 2 / 2**12, rel=0.6) for p in found.pairs.values())
    assert found.cliques == []


@pytest.mark.parametrize("league", PAGES)
def test_the_page_can_be_made_of_any_lines(lines, league):
    text = PAGES[league].read_text("utf-8")
    for some in (
        [],
        lines[:1],
        lines,
        results.of_league(lines, "irregular"),
        [*lines, line("ERing", "neural", 0.5, split="walker", seed=2345)],
    ):
        page = rendered(text, some)
        assert rendered(page, some) == page
    with pytest.raises(ValueError, match=r"league: acuracy .*expected one of players"):
        rendered("<!-- league: acuracy -->\n<!-- /league -->", [])


def test_options_are_checked():
    keys = wanted(parser().parse_args(["--sets", "ERing", "--classifiers", "neural", "--damage", "none,cut"]))
    assert keys == [("official", damage, seed, "ERing", "neural") for damage in ("none", "cut") for seed in (0, 1, 2)]
    walker = wanted(parser().parse_args(["--splits", "walker", "--classifiers", "neural"]))
    assert (len(walker), walker[0]) == (10, ("walker", "none", 2345, "SelfRegulationSCP1", "neural"))
    league = wanted(parser().parse_args(["--league", "irregular", "--seeds", "0", "--damage", "none,cut"]))
    assert {key[3] for key in league if key[1] == "none"} == set(IRREGULAR_SETS)
    assert {key[3] for key in league if key[1] == "cut"} == {"JapaneseVowels"}  # only some sets are damaged
    with pytest.raises(SystemExit, match=r"Got --sets ERong; expected names among ACSF1"):
        wanted(parser().parse_args(["--sets", "ERong"]))
    with pytest.raises(SystemExit, match=r"Got --seeds x; expected whole numbers"):
        wanted(parser().parse_args(["--seeds", "x"]))


def test_tables_are_printed_without_running(lines, monkeypatch, capsys):
    monkeypatch.setattr(results, "read_lines", lambda: lines)
    main(["--table"])
    assert "# Accuracy in %, damage: none" in capsys.readouterr().out
