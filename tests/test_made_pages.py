"""Pages of the documentation that are made of results say what the results say. `make test-docs` runs this."""

from benchmarks.quality.league.lines import read_lines
from benchmarks.quality.league.page import BLOCKS, MARK, PAGE, rendered
from reproduction.__main__ import main


def test_the_page_of_the_league_is_what_its_lines_say():
    """`python -m benchmarks league --page` makes it so."""
    text = PAGE.read_text("utf-8")
    assert {name for _, name, _ in MARK.findall(text)} == set(BLOCKS)
    assert rendered(text, read_lines()) == text


def test_the_page_of_the_reproduction_is_of_the_results(root, tmp_path):
    written = ["--html", tmp_path / "report.html", "--markdown", tmp_path / "page.md", "--images", tmp_path / "images"]
    assert main(["report", "--results", str(root / "results"), *map(str, written)]) == 0
    assert (tmp_path / "page.md").read_text("utf-8") == (root / "docs" / "reproduction.md").read_text("utf-8"), (
        "docs/reproduction.md is not what `python -m reproduction report` writes: run it."
    )
