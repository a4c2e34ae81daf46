"""`neuralrde report`: the paper's tables and pictures from the lines in results/, as a page and as Markdown."""

from pathlib import Path
from typing import Annotated

import typer

from .errors import Refusal


def report(
    results: Annotated[Path, typer.Option(help="The folder of the lines.")] = Path("results"),
    html: Annotated[Path, typer.Option(help="The page to write, with its pictures inside.")] = Path("report.html"),
    markdown: Annotated[Path, typer.Option(help="The Markdown to write.")] = Path("docs/reproduction.md"),
    images: Annotated[Path, typer.Option(help="The folder for its pictures.")] = Path("docs/images"),
) -> None:
    """Tables and pictures of all runs, ours beside the published.

    A self-contained HTML page, and Markdown with pictures beside it. Nothing is trained; `neuralrde
    reproduce` does that.
    """
    from ..experiments import read_results
    from .report_content import content
    from .report_writing import as_html, as_markdown

    lines = read_results(results)
    if not lines:
        raise Refusal(f"There are no results in {results}; expected files .jsonl. Run `neuralrde reproduce` first.")
    found = content(lines)
    html.parent.mkdir(parents=True, exist_ok=True)
    html.write_text(as_html(found), encoding="utf-8")
    markdown.parent.mkdir(parents=True, exist_ok=True)
    markdown.write_text(as_markdown(found, images, markdown.parent), encoding="utf-8")
    print(f"{html}\n{markdown}")
