"""The report, written: one HTML page that needs nothing else, and Markdown with pictures beside it."""

import base64
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from neuralrde.plots import save

from .report_content import Section, content
from .results import read_results

TITLE = "Neural RDEs: the paper's results, run again"


def write_report(results: Path, *, html: Path, markdown: Path, images: Path) -> None:
    """Tables and pictures of all lines in a folder of results."""
    lines = read_results(results)
    if not lines:
        raise ValueError(
            f"There are no results in {results}; expected files .jsonl. Write `python -m reproduction run` first."
        )
    sections = content(lines)
    html.parent.mkdir(parents=True, exist_ok=True)
    html.write_text(as_html(sections), encoding="utf-8")
    markdown.parent.mkdir(parents=True, exist_ok=True)
    markdown.write_text(as_markdown(sections, images, markdown.parent), encoding="utf-8")


def as_html(sections: Sequence[Section]) -> str:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"anchor": _anchor, "inline": _inline, "embedded": _embedded}
    return environment.get_template("report.html.jinja").render(title=TITLE, sections=sections)


def as_markdown(sections: Sequence[Section], images: Path, beside: Path) -> str:
    """Pictures are written to `images`, and linked from a file in the folder `beside`."""
    parts = [f"# {TITLE}", "Written by `python -m reproduction report` from `results/`; do not edit."]
    for section in sections:
        parts += [f"{'#' * section.level} {section.title}", *section.text]
        if section.rows:
            lines = [section.header, ["---"] * len(section.header), *section.rows]
            escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in escaped))
        if section.commands:
            parts.append("\n".join(["```sh", *section.commands, "```"]))
        for name, picture in section.pictures.items():
            file = save(picture, images / f"reproduction-{name}.png")
            parts.append(f"![{section.title}]({Path(os.path.relpath(file, beside)).as_posix()})")
    return "\n\n".join(parts) + "\n"


def _inline(text: str) -> Markup:
    """The little Markdown that sentences use: code, bold, emphasis."""
    escaped = str(escape(text))
    for pattern, tag in ((r"`([^`]+)`", "code"), (r"\*\*([^*]+)\*\*", "strong"), (r"\*([^*]+)\*", "em")):
        escaped = re.sub(pattern, rf"<{tag}>\1</{tag}>", escaped)
    return Markup(escaped)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _embedded(picture: Any) -> str:
    stream = io.BytesIO()
    picture.savefig(stream, format="png")
    return base64.b64encode(stream.getvalue()).decode()
