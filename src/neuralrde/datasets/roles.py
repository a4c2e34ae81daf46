"""What the caller says of a table, and which of its columns is what."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import setting
from .files import ReadError

# Names by which a column is known for what it is, unless the caller says otherwise; any case.
USUAL = {
    "id": ("id",),
    "time": ("time", "t", "timestamp"),
    "target": ("target", "label", "class"),
    "group": ("group", "patient", "subject", "speaker"),
    "split": ("split",),
}
_DUPLICATES = ("error", "mean", "first", "last")
_ONE_EACH = ("id", "time", "group", "split", "sensor", "value")


@dataclass(frozen=True)
class TableOptions:
    """What the caller says of a table; `read` explains each."""

    target: str | int | Sequence[str] | None = None
    id: str | int | None = None
    time: str | int | None = None
    group: str | int | None = None
    split: str | int | None = None
    columns: Sequence[str] | None = None
    wide: bool | None = None
    per_time: bool = False
    header: bool | None = None
    labels: str | Path | None = None
    labels_id: str | None = None
    time_format: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    duplicates: str = "error"
    drop_unlabelled: bool = False
    sensor: str | int | None = None
    value: str | int | None = None
    one_hot: Sequence[str] | bool | None = None

    def check(self, file: str | Path) -> None:
        """Refuse values that an option cannot have, and options that contradict each other."""
        thousands, decimal = self.thousands, self.decimal
        got = ""
        if self.duplicates not in _DUPLICATES:
            got = f"{setting('duplicates', self.duplicates)}; expected one of {list(_DUPLICATES)}"
        elif decimal not in (None, ".", ","):
            got = f'{setting("decimal", decimal)}; expected "." or ","'
        elif thousands is not None and (len(thousands) != 1 or thousands.isalnum()):
            got = f'{setting("thousands", thousands)}; expected one sign, such as "," or " "'
        elif thousands is not None and thousands == (decimal or "."):
            got = f"{setting('thousands', thousands)} and {setting('decimal', thousands)}; expected different signs"
        elif wrong := [name for name in ("columns", "one_hot") if isinstance(getattr(self, name), str)]:
            got = f"{setting(wrong[0], getattr(self, wrong[0]))}; expected a list of names"
        elif self.value is not None and self.sensor is None:
            got = f"{setting('value', self.value)} alone; expected {setting('sensor')} too, which names the channels"
        elif self.labels_id is not None and self.labels is None:
            got = f"{setting('labels_id', self.labels_id)}; expected {setting('labels')} too, the file with it"
        if got:
            raise ReadError(file, f"Got {got}.")

    @property
    def targets(self) -> tuple[str, ...]:
        if self.target is None:
            return ()
        return (str(self.target),) if isinstance(self.target, str | int) else tuple(map(str, self.target))


@dataclass(frozen=True)
class Roles:
    """Which column of a table is what; None where there is no such column."""

    id: str | None
    time: str | None
    target: tuple[str, ...]
    group: str | None
    split: str | None
    sensor: str | None
    value: str | None
    channels: tuple[str, ...]
    # Words of a column that are channels, by `columns=["sex=f", ...]`.
    words: dict[str, list[str]] = field(default_factory=dict)
    # The roles that were not given but known by the columns' names.
    guessed: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The columns that hold names rather than numbers."""
        return [name for name in (self.id, *self.target, self.group, self.split, self.sensor) if name is not None]

    @property
    def numeric(self) -> list[str]:
        """The columns that hold the values of channels."""
        return [self.value] if self.value is not None else list(dict.fromkeys(self.channels))

    @property
    def all(self) -> list[str]:
        """Every column that has a role."""
        time = [] if self.time is None else [self.time]
        return list(dict.fromkeys([*self.numeric, *self.words, *self.labels, *time]))


def find_roles(names: Sequence[str], file: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Roles:
    """Which column is what: as given, or else by the usual names; all other columns are channels."""
    targets = options.targets
    roles = {role: str(name) for role in _ONE_EACH if (name := getattr(options, role)) is not None}
    for role, name in [*roles.items(), *(("target", name) for name in targets)]:
        if name not in names:
            got = f"{setting(role, name)} and the columns {few(names)}"
            raise ReadError(file, f"Got {got}; expected the name of one of them.")
    if len({*roles.values(), *targets}) < len(roles) + len(targets):
        raise ReadError(file, f"Got one column for two of {roles | {'target': targets}}; expected a column for each.")
    # `sex=f`, which is no column, is the word f of the column sex.
    columns, words = None if options.columns is None else list(map(str, options.columns)), {}
    for column in columns or ():
        name, sign, word = column.partition("=")
        if column not in names and sign and name in names:
            words.setdefault(name, []).append(word)
    used = {*(columns or ()), *words, *roles.values(), *targets}
    free = [name for name in names if name not in used]
    usual = {**USUAL, "value": ("value",)}
    known = {role: next((name for name in free if name.lower() in usual[role]), None) for role in usual}
    value = known.pop("value")
    given = {*roles, "target"} if targets else {*roles}
    guessed = {role: name for role, name in known.items() if name is not None and role not in given}
    targets = targets or ((guessed["target"],) if "target" in guessed else ())
    roles |= {role: name for role, name in guessed.items() if role != "target"}
    if "sensor" in roles and "value" not in roles:
        if value is None:
            got = f"{setting('sensor', roles['sensor'])} and the columns {few(names)}"
            raise ReadError(file, f"Got {got}; expected {setting('value')}, the column of numbers.")
        roles["value"] = value
    if "sensor" in roles:
        channels = []
    elif columns is None:
        channels = [name for name in names if name not in {*roles.values(), *targets}]
    else:
        channels = [name for name in columns if name in names or name.partition("=")[0] not in words]
        if absent := [name for name in channels if name not in names]:
            raise ReadError(file, f"Got no column {few(absent)}; expected one of the columns {few(names)}.")
    taken = {name: role for role, name in roles.items() if role != "time"} | dict.fromkeys(targets, "target")
    if both := [name for name in (*channels, *words) if name in taken]:
        raise ReadError(
            file,
            f"Got the column {both[0]!r} as {taken[both[0]]} and as a channel; expected one of them, because a channel "
            f"is what a model sees. Leave {both[0]!r} out of the columns ({setting('columns', [...])}), or name "
            f"another {setting(taken[both[0]])}.",
        )
    if not channels and channels_needed and "sensor" not in roles:
        raise ReadError(file, f"Got only the columns {few(names)}; expected a channel beside them.")
    one_each = {role: roles.get(role) for role in _ONE_EACH}
    return Roles(**one_each, target=targets, channels=tuple(channels), words=words, guessed=tuple(guessed))


def few(names: Sequence[str]) -> str:
    return f"{list(names)}" if len(names) <= 12 else f"{[*names[:10]]} and {len(names) - 10} more"
