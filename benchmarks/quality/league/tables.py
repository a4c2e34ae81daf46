"""Tables of the league, from its lines: accuracy, what damage costs, random splits, sizes of the sets."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from reproduction.published import PUBLISHED_LATER

from ...timing import table
from .classifiers import CLASSIFIERS
from .damage import DAMAGES
from .data import LEAGUES, SETS, VARIANTS
from .lines import KEY, Line

NOTHING = "No results yet."
GAP = "-"
RIVALS = ("multirocket-hydra", "ROCKET")  # the strongest of each league, against whom sets won and lost are counted


def frame_of(
    lines: Sequence[Line], *, split: str = "official", damage: str | None = "none", variants: bool = False
) -> pd.DataFrame:
    """The lines of a split and a damage (None: of all), a row each; with variants of sets or without."""
    rows = [line for line in lines if line["split"] == split and damage in (None, line["damage"])]
    rows = [line for line in rows if variants or line["set"] not in VARIANTS]
    return pd.DataFrame(rows, columns=None if rows else [*KEY, "accuracy"])


def mean_over_seeds(frame: pd.DataFrame, what: str = "accuracy") -> pd.DataFrame:
    """A row per set and a column per classifier, ours first and published ones last; NaN where there is no line."""
    wide = frame.assign(**{what: frame[what].astype(float)}).pivot_table(
        index="set", columns="classifier", values=what, aggfunc="mean", dropna=False
    )
    names = [name for name in dict.fromkeys([*CLASSIFIERS, *frame["classifier"]]) if name in wide.columns]
    return wide.reindex(index=_ordered(frame["set"]), columns=names)


def complete(wide: pd.DataFrame) -> pd.DataFrame:
    """The classifiers that have run on every set: only their means and ranks can be compared."""
    return wide.dropna(axis=1)


def accuracy_table(lines: Sequence[Line], *, damage: str = "none", bold: str = "{}") -> str:
    """Accuracy in % per set and classifier, the mean over seeds; below, what sums them up.

    Classifiers that have run on fewer than half of the sets are left out.
    """
    frame = frame_of(lines, damage=damage)
    if frame.empty:
        return NOTHING
    wide = mean_over_seeds(frame)
    wide = wide.dropna(axis=1, thresh=(len(wide) + 1) // 2)
    rows, best_on = [], (wide.ge(wide.max(axis=1) - 1e-9, axis=0)).sum()
    for name, row in wide.iterrows():
        best = row.max() - 1e-9
        rows.append([name, *(_percent(value, bold if value >= best else "{}") for value in row)])
    full, seconds, loss = complete(wide), _seconds(frame), mean_over_seeds(frame, "log_loss").mean()
    ranks = full.rank(axis=1, ascending=False).mean()
    # A seed counts when it has been run on all sets.
    by_seed = frame.pivot_table(index=["classifier", "seed"], columns="set", values="accuracy").dropna().mean(axis=1)
    seeds, deviation = by_seed.groupby("classifier").size(), by_seed.groupby("classifier").std(ddof=0)
    seeds = seeds.reindex(wide.columns, fill_value=0)
    sums = {
        "mean": lambda name: f"{100 * full[name].mean():.1f}",
        "deviation of the mean over seeds": lambda name: f"{100 * deviation[name]:.1f}" if seeds[name] > 1 else GAP,
        "mean rank": lambda name: f"{ranks[name]:.2f}",
        "sets on which it is best": lambda name: str(best_on[name]),
        "log loss": lambda name: f"{loss[name]:.3f}" if np.isfinite(loss[name]) else GAP,
        "seconds, fit": lambda name: _number(seconds["fit_seconds"][name]),
        "seconds, predict": lambda name: _number(seconds["predict_seconds"][name]),
    }
    for title, cell in sums.items():
        cells = [cell(name) if name in full else GAP for name in wide]
        rows += [[title, *cells]] if set(cells) != {GAP} else []
    for rival in (name for name in RIVALS if name in wide):
        gaps = wide.sub(wide[rival], axis=0).round(9)
        cells = [f"{(gaps[name] > 0).sum()} : {(gaps[name] < 0).sum()}" if name != rival else GAP for name in wide]
        rows.append([f"won : lost against {rival}", *cells])
    rows.append(["seeds on all sets", *(str(seeds[name]) if name in CLASSIFIERS else GAP for name in wide)])
    return table(["set", *wide], rows)


def ranking_table(lines: Sequence[Line]) -> str:
    """AUROC on the sets of two classes; of those with variants, what else matters where a class is rare."""
    frame = frame_of(lines, variants=True)
    frame = frame[frame["set"].isin({line["set"] for line in lines if line.get("classes") == 2})]
    if "auroc" not in frame or frame["auroc"].isna().all():
        return NOTHING
    sets, heads, columns = _ordered(frame["set"]), [], []
    details = {"average_precision": ("average precision", 3), "log_loss": ("log loss", 3), "fit_seconds": ("s, fit", 1)}
    for name in sets:
        own = frame[frame["set"] == name].groupby("classifier").mean(numeric_only=True)
        wanted = details if name in {*VARIANTS, *VARIANTS.values()} else {}
        for what, (title, digits) in {"auroc": (name, 3), **wanted}.items():
            heads.append(title)
            columns.append({one: _number(value, digits) for one, value in own.get(what, pd.Series()).items()})
    names = mean_over_seeds(frame, "auroc").dropna(axis=1, how="all").columns
    return table(["AUROC", *heads], [[name, *(column.get(name, GAP) for column in columns)] for name in names])


def damage_table(lines: Sequence[Line]) -> str:
    """Mean accuracy in % with each damage, and the points lost by it, over the sets and seeds that both have."""
    frame = frame_of(lines, damage=None)
    kinds = [kind for kind in DAMAGES if kind != "none" and (frame["damage"] == kind).any()]
    if not kinds:
        return NOTHING
    sets, rows = set(frame[frame["damage"] != "none"]["set"]), []
    for name in CLASSIFIERS:
        own = frame[frame["classifier"] == name]
        pairs = [_with_and_without(own, kind, sets) for kind in kinds]
        known = [pair for pair in pairs if pair is not None]
        if known:
            cells = [
                GAP if pair is None else f"{_percent(pair[1])} ({100 * (pair[1] - pair[0]):+.1f})" for pair in pairs
            ]
            mean = _percent(float(np.mean([plain - hurt for plain, hurt in known])))
            rows.append([name, _percent(known[0][0]), *cells, mean if len(known) == len(kinds) else GAP])
    return table(["classifier", "none", *kinds, "mean loss"], rows) if rows else NOTHING


def split_table(lines: Sequence[Line], split: str) -> str:
    """Accuracy in % over random splits, mean and standard deviation, beside published values on such splits."""
    frame = frame_of(lines, split=split)
    if frame.empty:
        return NOTHING
    sets = _ordered(frame["set"])
    rows = []
    for name in CLASSIFIERS:
        own = [frame[(frame["classifier"] == name) & (frame["set"] == one)]["accuracy"] for one in sets]
        if any(len(values) for values in own):
            cells = [f"{100 * v.mean():.1f} ± {100 * v.std(ddof=0):.1f} ({len(v)})" if len(v) else GAP for v in own]
            rows.append([name, *cells])
    known = [PUBLISHED_LATER.get(one, {}) for one in sets]
    for name in dict.fromkeys(name for one in known for name in one):
        cells = ["{} ± {}".format(*one[name]) if name in one else GAP for one in known]
        rows.append([f"{name}, published", *cells])
    return table(["classifier", *sets], rows)


def sets_table(lines: Sequence[Line]) -> str:
    """How large the sets are."""
    frame = frame_of(lines)
    if frame.empty:
        return NOTHING
    sizes = ["train", "test", "points", "channels", "classes"]
    first = frame.groupby("set")[sizes].first()
    return table(
        ["set", *sizes], [[name, *(str(first[size][name]) for size in sizes)] for name in _ordered(first.index)]
    )


def _with_and_without(own: pd.DataFrame, kind: str, sets: set[str]) -> tuple[float, float] | None:
    """Mean accuracy undamaged and damaged; None unless every set has a seed that was run both ways."""
    own = own[own["set"].isin(sets)]
    wide = own.pivot_table(index=["set", "seed"], columns="damage", values="accuracy")
    if not {"none", kind} <= set(wide.columns):
        return None
    both = wide[["none", kind]].dropna().groupby("set").mean()
    return (both["none"].mean(), both[kind].mean()) if set(both.index) == sets else None


def _seconds(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """For one pass over all sets."""
    return {what: mean_over_seeds(frame, what).sum(min_count=1) for what in ("fit_seconds", "predict_seconds")}


def _ordered(names) -> list[str]:
    found = set(names)
    known = next((sets for sets in LEAGUES.values() if found <= {*sets, *VARIANTS}), SETS)
    return [name for name in known if name in found] + sorted(found - set(known))


def _number(value: float, digits: int = 1) -> str:
    return GAP if np.isnan(value) else f"{value:.{digits}f}"


def _percent(value: float, form: str = "{}") -> str:
    return GAP if np.isnan(value) else form.format(f"{100 * value:.1f}")
