"""The registry of readers is whole, it is open, and everything that names formats takes them from it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from neuralrde import LogSignatureClassifier, datasets
from neuralrde.datasets import Dataset, Reader, ReadError, endings, read, register_reader
from neuralrde.datasets._read import READERS
from neuralrde.paths import Series
from neuralrde.tools.cli import main


def test_no_two_readers_have_one_ending():
    assert max(Counter(ending for reader in READERS for ending in reader.endings).values()) == 1


def test_messages_and_the_command_line_know_all_endings(tmp_path, capsys):
    (tmp_path / "series.xyz").write_text("1,2\n")
    with pytest.raises(ReadError) as caught:
        read(tmp_path / "series.xyz")
    assert main(["data", "formats"]) == 0
    listed = capsys.readouterr().out
    for ending in endings():
        assert repr(ending) in str(caught.value)
        assert ending in listed
        assert main(["fit", f"nothere{ending}"]) == 1
        assert f"There is no file or folder nothere{ending}" in capsys.readouterr().err


def test_no_public_name_is_also_a_module():
    modules = {path.stem for path in Path(datasets.__file__).parent.glob("*.py")}
    assert not modules & set(datasets.__all__)


def read_blocks(path, *, task=None, name=None):
    """A format that nobody has: `{LABEL` opens a series, then one point per line."""
    blocks = [block.split("\n") for block in path.read_text("utf-8").strip().removeprefix("{").split("\n{")]
    points = [np.array([line.split() for line in lines], float) for _, *lines in blocks]
    return Dataset(Series.from_arrays(points, channels=["x", "y"]), [label for label, *_ in blocks], task=task,
                   name=name or path.stem)  # fmt: skip


@pytest.fixture
def blocks(monkeypatch):
    """The reader of the format, entered for one test."""
    monkeypatch.setattr("neuralrde.datasets._read.READERS", list(READERS))
    return register_reader(Reader("blocks of points", (".blocks",), read_blocks))


def write_blocks(path, *, samples):
    rng, lines = np.random.default_rng(0), []
    for sample in range(samples):
        lines.append("{up" if sample % 2 else "{down")
        values = np.cumsum(rng.normal(2 * (sample % 2) - 1, 0.2, size=(20, 2)), axis=0)
        lines += [" ".join(map(str, row)) for row in values.tolist()]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_reader_of_ones_own(blocks, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_blocks(tmp_path / "motions.blocks", samples=60)
    # `read`, a folder of such files, and an estimator. `{` is also how JSON lines begin: the ending counts.
    data = read(file)
    assert (len(data), data.classes, data.name) == (60, ("down", "up"), "motions")
    (tmp_path / "parts").mkdir()
    write_blocks(tmp_path / "parts" / "motions_TRAIN.blocks", samples=4)
    write_blocks(tmp_path / "parts" / "motions_TEST.blocks", samples=2)
    assert read(tmp_path / "parts").split.tolist() == ["train"] * 4 + ["test"] * 2
    model = LogSignatureClassifier(draws=20, random_state=0).fit(data.series, data.target)
    assert model.score(data.series, data.target) == 1.0
    with pytest.raises(ReadError, match=r"for a \.blocks file; expected it for tables only"):
        read(file, id="patient")
    # The command line: formats, `inspect`, `fit`, and `predict` with the run that `fit` made.
    assert ".blocks" in endings()
    assert main(["data", "formats"]) == 0
    assert "blocks of points" in capsys.readouterr().out
    assert main(["inspect", "motions.blocks"]) == 0
    assert "60 samples" in capsys.readouterr().out
    assert main(["fit", "motions.blocks", "--model", "closed-form", "--out", "run", "--no-plots"]) == 0
    assert main(["predict", "run", "motions.blocks", "--out", "predicted.csv"]) == 0
    assert len((tmp_path / "predicted.csv").read_text("utf-8").splitlines()) == 61
    assert main(["evaluate", "run"]) == 0
    assert main(["fit", "nothere.blocks"]) == 1
    assert "There is no file or folder nothere.blocks" in capsys.readouterr().err


def test_a_reader_must_be_whole_and_its_ending_new(blocks):
    with pytest.raises(ValueError, match="'blocks of points' has it"):
        register_reader(Reader("others", (".blocks",), read_blocks))
    with pytest.raises(ValueError, match=r"expected it with its dot, '\.raw'"):
        Reader("raw", ("raw",), read_blocks)
    with pytest.raises(ValueError, match="either `read` or `table`"):
        Reader("nothing", (".nothing",))
