"""Pages of the documentation that are made of results say what the results say. `make test-docs` runs this."""

import pytest

from benchmarks.quality.league.lines import of_league, read_lines
from benchmarks.quality.league.page import BLOCKS, MARK, PAGES, rendered
from reproduction.__main__ import main


@pytest.mark.parametrize("league", PAGES)
def test_the_page_of_a_league_is_what_its_lines_say(league):
    """`python -m benchmarks league --page` makes it so."""
    text = PAGES[league].read_text("utf-8")
    assert rendered(text, of_league(read_lines(), league)) == text


def test_every_table_is_on_a_page():
    assert {name for path in PAGES.values() for _, name, _ in MARK.findall(path.read_text("utf-8"))} == set(BLOCKS)


def test_the_page_of_the_reproduction_is_of_the_results(root, tmp_path):
    written = ["--html", tmp_path / "report.html", "--markdown", tmp_path / "page.md", "--images", tmp_path / "images"]
    assert main(["report", "--results", str(root / "results"), *map(str, written)]) == 0
    assert (tmp_path / "page.md").read_text("utf-8") == (root / "docs" / "reproduction.md").read_text("utf-8"), (
        "docs/reproduction.md is not what `python -m reproduction report` writes: run it."
    )
