"""Small charts as SVG, drawn in the colours of the page around them."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from .summary import Group

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 760, 250, 20, 22, 34
# More rows are no chart any more; the table below has all of them.
_MOST = 20


def chart_of_groups(groups: Sequence[Group], labels: Sequence[str], *, title: str) -> str:
    """A row per group, the best first: a dot per seed, and the mean with one deviation to either side."""
    shown = groups[:_MOST]
    ends = [value for group in shown for value in group.values]
    ends += [
        group.mean + sign * (group.deviation or 0.0) for group in shown if group.mean is not None for sign in (-1, 1)
    ]
    place, ticks = _scale(min(ends), max(ends), _LEFT, _WIDTH - _RIGHT)
    height = _TOP + _ROW * len(shown) + 26
    parts = [_axis(place, ticks, _TOP - 6, height - 22)]
    for row, (group, label) in enumerate(zip(shown, labels, strict=False)):
        y = _TOP + _ROW * row + _ROW / 2
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(_cut(label))}</text>')
        if group.mean is not None and group.deviation is not None:
            low, high = place(group.mean - group.deviation), place(group.mean + group.deviation)
            parts.append(f'<line class="bar" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
        parts += [f'<circle class="seed" cx="{place(value):.1f}" cy="{y}" r="2.5"/>' for value in group.values]
        if group.mean is not None:
            value = f"{group.mean:.4g}" + (f" ± {group.deviation:.2g}" if group.deviation is not None else "")
            parts.append(
                f'<circle class="mean" cx="{place(group.mean):.1f}" cy="{y}" r="5"><title>{value}</title></circle>'
            )
    more = f" (the best {_MOST} of {len(groups)})" if len(groups) > _MOST else ""
    return _figure(title + more, height, parts)


def chart_of_trials(lines: Sequence[Mapping[str, Any]], *, title: str) -> str:
    """A dot per trial that ran to its end, and the best so far as a line."""
    done = sorted((line["search"][1], line["objective"]) for line in lines if line.get("objective") is not None)
    if not done:
        return ""
    bottom, left = 190, 60
    across, _ = _scale(0, max(1, done[-1][0]), left, _WIDTH - _RIGHT)
    up, ticks = _scale(min(value for _, value in done), max(value for _, value in done), bottom, _TOP)
    parts = []
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{left}" x2="{_WIDTH - _RIGHT}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    best, path = done[0][1], []
    for number, value in done:
        path.append(f"{across(number):.1f},{up(best):.1f}")
        best = min(best, value)
        path.append(f"{across(number):.1f},{up(best):.1f}")
        parts.append(
            f'<circle class="seed" cx="{across(number):.1f}" cy="{up(value):.1f}" r="4">'
            f"<title>trial {number}: {value:.4g}</title></circle>"
        )
    parts.append(f'<polyline class="best" points="{" ".join(path)}"/>')
    parts.append(f'<text x="{left}" y="{bottom + 24}">trial 0</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 24}" text-anchor="end">trial {done[-1][0]}</text>')
    return _figure(title, bottom + 36, parts)


def _figure(title: str, height: float, parts: Sequence[str]) -> str:
    inside, top = "".join(parts), _TOP - 14
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 {top} {_WIDTH} {height - top:.0f}" '
        f'role="img" aria-label="{escape(title, quote=True)}">{inside}</svg></figure>'
    )


def _axis(place: Callable[[float], float], ticks: Sequence[float], top: float, bottom: float) -> str:
    return "".join(
        f'<line class="grid" x1="{place(tick):.1f}" x2="{place(tick):.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text x="{place(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:.4g}</text>'
        for tick in ticks
    )


def _scale(low: float, high: float, start: float, end: float) -> tuple[Callable[[float], float], list[float]]:
    """From values to places, and round values for the axis."""
    if high <= low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first = -(-low // step)
    ticks = [step * (first + k) for k in range(int((high - first * step) / step) + 1)]
    return lambda value: start + (value - low) / (high - low) * (end - start), ticks


def _cut(label: str) -> str:
    return label if len(label) <= 40 else f"{label[:38]} …"
