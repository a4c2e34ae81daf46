"""Results as a page: one HTML file that loads nothing, light or dark as the reader's system is."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ..assessment.metrics import title_of
from .results import Group, names, short, summarise

_TEMPLATE = Path(__file__).with_name("page_template.html")


def as_page(
    lines: Sequence[Mapping[str, Any]],
    *,
    name: str = "sweep",
    total: int | None = None,
    running: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The text of an HTML file.

    >>> line = {"key": "a", "point": {"data": "hearts"}, "status": "done", "metric": "accuracy", "value": 0.9}
    >>> "hearts" in as_page([line], name="demo", total=2)
    True

    Args:
        lines: of results.
        name: the page's title.
        total: how many runs there will be; None if these are all.
        running: of tasks that run now, their point, epoch and loss. While there are any, the page loads itself anew.
    """
    groups = summarise(lines)
    total = max(len(lines), total or 0)
    counts = {state: sum(line.get("status") == state for line in lines) for state in ("done", "pruned", "failed")}
    said = [f"{len(lines)} of {total} runs"]
    said += [f"{len(running)} running"] if running else []
    said += [f"{number} {state}" for state, number in counts.items() if number and state != "done"]
    share = f"{100 * len(lines) / total if total else 100:.1f}"
    body = [
        f'<p class="state">{escape(", ".join(said))}</p>',
        f'<div class="share"><div style="width: {share}%"></div></div>',
        _running(running),
        f"<h2>Over seeds</h2>{table(*_group_rows(groups), id='groups')}",
        f"<h2>Runs</h2>{table(*_run_rows(lines), id='runs')}",
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


def _group_rows(groups: Sequence[Group]) -> tuple[list[str], list[list[Any]]]:
    columns = names(group.point for group in groups)
    rows = [
        [
            *(group.point.get(name) for name in columns),
            title_of(group.metric),
            group.mean,
            group.deviation,
            len(group.values),
            sum(group.seconds) / len(group.seconds) if group.seconds else None,
        ]
        for group in groups
    ]
    return [*columns, "metric", "mean", "deviation", "seeds", "seconds"], rows


def _run_rows(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    columns = names(line["point"] for line in lines)
    others = ("status", "value", "objective", "epochs", "seconds", "attempts", "host", "key")
    shown = [name for name in others if any(line.get(name) is not None for line in lines)]
    rows = []
    for line in lines:
        rows.append([*(line["point"].get(name) for name in columns), *(line.get(name) for name in shown)])
        if line.get("error"):
            rows[-1][len(columns)] = f"{line['status']}: {line['error']}"
    return [*columns, *shown], rows


def _running(running: Sequence[Mapping[str, Any]]) -> str:
    if not running:
        return ""
    columns = names(task["point"] for task in running)
    rows = [[*(task["point"].get(name) for name in columns), task["epoch"], task["loss"]] for task in running]
    return f"<h2>Running</h2>{table([*columns, 'epoch', 'loss'], rows, id='running')}"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], *, id: str) -> str:
    """Cells carry their value for the sort: a number as it is, not as it is shown."""
    right = [any(_is_number(row[k]) for row in rows) for k in range(len(header))]
    mark = lambda k: ' class="number"' if right[k] else ""
    head = "".join(
        f'<th scope="col"{mark(k)}><button type="button">{escape(name)}</button></th>' for k, name in enumerate(header)
    )
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table id="{id}"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(value: Any) -> str:
    number = _is_number(value)
    key = json.dumps(value) if number else short(value)
    mark = ' class="number"' if number else ""
    return f'<td{mark} data-key="{escape(key, quote=True)}">{escape(short(value))}</td>'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
