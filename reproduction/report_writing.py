"""The report as one HTML page that needs nothing else, and as Markdown."""

import base64
import html
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..plots import save
from .report_content import Section

TITLE = "Neural RDEs: the paper's results, run again"
_STYLE = """
:root { color: #1f2430; background: #fff; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
body { max-width: 68rem; margin: 2.5rem auto 5rem; padding: 0 1.5rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 1.5rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .6rem; padding-top: .8rem; border-top: 1px solid #d5d9e0; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p { max-width: 46rem; margin: .5rem 0; }
nav a { margin-right: 1rem; }
a { color: #0b6e99; }
code { font-size: .9em; background: #f3f5f8; padding: .05em .3em; border-radius: 3px; }
pre { font-size: .8rem; background: #f3f5f8; padding: .6rem .8rem; border-radius: 3px; overflow-x: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; margin: .9rem 0; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #1f2430; vertical-align: bottom; }
th, td { padding: .3rem .8rem .3rem 0; }
td { border-bottom: 1px solid #e6e9ee; vertical-align: top; white-space: nowrap; }
td:last-child { white-space: normal; }
td.value { font-weight: 600; }
tr.absent td { color: #8a92a0; font-weight: 400; }
img { max-width: 100%; height: auto; margin: .8rem 0; display: block; }
"""


def as_html(sections: Sequence[Section]) -> str:
    headings = [section.title for section in sections if section.level == 2]
    links = "".join(f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title in headings)
    body = "\n".join(_section_html(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{TITLE}</h1><nav>{links}</nav>\n{body}\n</body></html>\n"
    )


def as_markdown(sections: Sequence[Section], images: Path, beside: Path) -> str:
    """Pictures are written to `images`, and linked from a file in the folder `beside`."""
    parts = [f"# {TITLE}", "Made by `neuralrde report` from `results/`; do not edit."]
    for section in sections:
        parts += [f"{'#' * section.level} {section.title}", *section.text]
        if section.rows:
            lines = [section.header, ["---"] * len(section.header), *section.rows]
            parts.append("\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines))
        if section.commands:
            parts.append("\n".join(["```sh", *section.commands, "```"]))
        for name, picture in section.pictures.items():
            file = save(picture, images / f"reproduction-{name}.png")
            parts.append(f"![{section.title}]({Path(os.path.relpath(file, beside)).as_posix()})")
    return "\n\n".join(parts) + "\n"


def _section_html(section: Section) -> str:
    parts = [f'<h{section.level} id="{_anchor(section.title)}">{html.escape(section.title)}</h{section.level}>']
    parts += [f"<p>{_inline(text)}</p>" for text in section.text]
    if section.rows:
        value = section.header.index("here") if "here" in section.header else -1
        head = "".join(f"<th>{html.escape(name)}</th>" for name in section.header)
        parts.append(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>')
        parts += [_row_html(row, value) for row in section.rows]
        parts.append("</tbody></table></div>")
    if section.commands:
        parts.append(f"<pre>{html.escape(chr(10).join(section.commands))}</pre>")
    for picture in section.pictures.values():
        parts.append(f'<img alt="{html.escape(section.title)}" src="data:image/png;base64,{_embedded(picture)}">')
    return "\n".join(parts)


def _row_html(row: Sequence[str], value: int) -> str:
    absent = value >= 0 and row[value].startswith("not ")
    cells = "".join(
        f"<td{' class=value' if number == value else ''}>{_inline(cell)}</td>" for number, cell in enumerate(row)
    )
    return f"<tr{' class=absent' if absent else ''}>{cells}</tr>"


def _inline(text: str) -> str:
    """The little Markdown that sentences have: code, bold, emphasis."""
    text = html.escape(text)
    for pattern, tag in ((r"`([^`]+)`", "code"), (r"\*\*([^*]+)\*\*", "strong"), (r"\*([^*]+)\*", "em")):
        text = re.sub(pattern, rf"<{tag}>\1</{tag}>", text)
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _embedded(picture: Any) -> str:
    stream = io.BytesIO()
    picture.savefig(stream, format="png")
    return base64.b64encode(stream.getvalue()).decode()
