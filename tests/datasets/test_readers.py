"""The table of readers is whole, and what names formats takes them from it."""

from collections import Counter
from pathlib import Path

import pytest

from neuralrde import datasets
from neuralrde.cli import main
from neuralrde.datasets import ReadError, endings, read
from neuralrde.datasets.readers import READERS


def test_every_reader_gives_series_or_a_table_with_names():
    for reader in READERS:
        assert (reader.read is None) != (reader.load is None)
        assert (reader.load is None) == (reader.names is None)
    assert max(Counter(ending for reader in READERS for ending in reader.endings).values()) == 1
    assert set(endings(tables=True)) < set(endings())


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
