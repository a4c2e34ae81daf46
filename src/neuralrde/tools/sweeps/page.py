"""Results as a page: one HTML file that loads nothing, light or dark as the reader's system is."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ..assessment.metrics import title_of
from .results import names, short, summarise

_TEMPLATE = Path(__file__).with_name("page_template.html")
_SHOWN = ("status", "value", "objective", "epochs", "seconds", "host", "key")


def as_page(
    lines: Sequence[Mapping[str, Any]], *, name: str = "sweep", total: int | None = None, running: bool = False
) -> str:
    """The text of an HTML file.

    >>> line = {"key": "a", "point": {"data": "hearts"}, "status": "done", "metric": "accuracy", "value": 0.9}
    >>> "hearts" in as_page([line], name="demo", total=2)
    True

    Args:
        lines: of results.
        name: the page's title.
        total: how many runs there will be; None if these are all.
        running: whether more is to come, so that the page loads itself anew.
    """
    total = max(len(lines), total or 0)
    failed = sum(line.get("status") == "failed" for line in lines)
    said = f"{len(lines)} of {total} runs" + (f", {failed} failed" if failed else "")
    groups = summarise(lines)
    columns = names(group.point for group in groups)
    rows = [
        [
            *(group.point.get(name) for name in columns),
            *(title_of(group.metric), group.mean, group.deviation, len(group.values)),
            sum(group.seconds) / len(group.seconds) if group.seconds else None,
        ]
        for group in groups
    ]
    over_seeds = table([*columns, "metric", "mean", "deviation", "seeds", "seconds"], rows, id="groups")
    columns = names(line["point"] for line in lines)
    shown = [name for name in _SHOWN if any(line.get(name) is not None for line in lines)]
    rows = []
    for line in lines:
        found = {**line, "status": f"failed: {line['error']}"} if line.get("error") else line
        rows.append([*(line["point"].get(name) for name in columns), *(found.get(name) for name in shown)])
    body = [
        f'<p class="state">{said}</p>',
        f'<div class="share"><div style="width: {100 * len(lines) / max(1, total):.1f}%"></div></div>',
        f"<h2>Over seeds</h2>{over_seeds}",
        f"<h2>Runs</h2>{table([*columns, *shown], rows, id='runs')}",
    ]
    return page(name, "\n".join(body), refresh=5 if running else 0)


def page(title: str, body: str, *, refresh: int = 0) -> str:
    """The text of an HTML file with our look; its tables can be sorted.

    Args:
        title: as text.
        body: as HTML.
        refresh: seconds after which it loads itself anew; 0 never does.
    """
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(title=escape(title), body=body, refresh=refresh)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], *, id: str) -> str:
    """Cells carry their value for the sort: a number as it is, not as it is shown."""
    marks = [' class="number"' if any(_is_number(row[k]) for row in rows) else "" for k in range(len(header))]
    head = "".join(
        f'<th scope="col"{mark}><button type="button">{escape(name)}</button></th>'
        for name, mark in zip(header, marks, strict=True)
    )
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table id="{id}"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(value: Any) -> str:
    key, mark = (json.dumps(value), ' class="number"') if _is_number(value) else (short(value), "")
    return f'<td{mark} data-key="{escape(key, quote=True)}">{escape(short(value))}</td>'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
