"""Messages of the library, in the words of the command line: `columns=["a"]` is `--columns a` at a shell."""

import re
import shlex

from . import flags

# Flags for parameters of the estimators, and for what else a message may name.
_MODEL = ("model", "depth", "step", "every", "loss", "epochs", "learning_rate", "batch_size", "time_budget")
_FLAGS = {name: f"--{name.replace('_', '-')}" for name in (*flags.TABLE, "task", *_MODEL)} | {"random_state": "--seed"}
# Parameters of the estimators and of their parts that have no flag of their own, and where they are set.
SET = {
    name: name
    for name in (
        "class_weight",
        "patience",
        "shuffle",
        "validation_fraction",
        "transform",
        "windows",
        "optimizer",
        "augmentation",
        "members",
        "closed_form",
    )
}
SET |= {name: f"model.{name}" for name in ("state", "width", "layers", "readout", "solver", "blocks")}
SET |= {"shifts": "windows.shifts", "count": "windows.count", "fill": "transform.fill", "scale": "transform.scale"}
SET |= {name: f"optimizer.{name}" for name in ("weight_decay", "clip", "schedule")}
# What a switch is called that is off.
OFF = {"wide": "--long", "header": "--no-header"}

# Sentences that only help who writes Python, and what helps at a shell.
_SENTENCES = (
    (r"windows=Windows\((step=\d+), (depth=\d+)\)", r"\1 and \2"),
    (r"`model\.calibrate\(X, y\)`", "the library's `calibrate`"),
    (
        r"To count these values as missing write `np\.where\(np\.isinf\(values\), np\.nan, values\)` and fill them, "
        r"for example with `FillForward\(\)`\.",
        "Leave their cells empty to count them as missing.",
    ),
    (
        r"Leave the channel out, or fill it with a number of your own, `FillForward\(default=0\.0\)`\.",
        "Leave the channel out: name the others with --columns.",
    ),
    (
        r"Write `random_split\(dataset\)`(, `\w+\(dataset\)`)* or `\w+\(dataset\)`\.",
        "Give --divide random, class, group or order.",
    ),
    (r"Write `random_split\(dataset\)`\.", "Give --divide random."),
    (
        r"Write `Dataset\(\.\.\., groups=patients\)`, or `read\(path, group=\"patient\"\)`\.",
        "Name their column with --group.",
    ),
)
_NUMPY = re.compile(r"\bnp\.(?:str_|bool_?|u?int\d+|float\d+)\(((?:'[^']*'|\"[^\"]*\"|[^()])*)\)")
_READ = re.compile(r"`read\(path, ([^`]*)\)`")
_OBJECT = r"[A-Z]\w*\((?:[^()]|\([^()]*\))*\)"  # as Windows(step=8, scales=(1, 4)), which stays as it is
_VALUE = rf"{_OBJECT}|\[[^\]]*\]|'[^']*'|\"[^\"]*\"|\.\.\.|[-+\w.%]*\w|"
_OPTION = re.compile(rf"{_OBJECT}|(?<!\w\()(`?)\b({'|'.join([*_FLAGS, *SET])})=({_VALUE})(`?)")


def in_flags(message: str) -> str:
    """A message with flags where it has Python.

    >>> in_flags("Got columns=['acc_z'] and the columns ['x']. Write per_time=True, `wide=False` or `clip=0.5`.")
    "Got --columns acc_z and the columns ['x']. Write --per-time, --long or --set optimizer.clip=0.5."
    >>> in_flags("Got only one class, np.str_('yes'); write `id=` to name the column.")
    "Got only one class, 'yes'; write --id to name the column."
    """
    for python, words in _SENTENCES:
        message = re.sub(python, words, message)
    message = _NUMPY.sub(r"\1", message)
    message = _READ.sub(r"`\1`", message)
    return _OPTION.sub(_as_flag, message)


def _as_flag(found: re.Match) -> str:
    opened, name, value, closed = found.groups()
    if name is None or bool(opened) != bool(closed):  # a longer piece of code, of which this is only a part
        return found[0]
    if name not in _FLAGS:
        value = value.lower() if value in ("True", "False", "None") else value.strip("'\"")  # as TOML has them
        return f"--set {SET[name]}={value}".rstrip("=")
    flag = _FLAGS[name]
    if value in ("True", "False"):
        return flag if value == "True" else OFF.get(name, f"no {flag}")
    if value == "None":
        return f"no {flag}"
    if value == "[...]":
        return f"{flag} A,B,..."
    if value[:1] == "[":
        words = re.findall(r"'([^']*)'|\"([^\"]*)\"", value)
        return f"{flag} {shlex.quote(','.join(one or other for one, other in words))}"
    value = value[1:-1] if value[:1] in ("'", '"') else value
    return f"{flag} {value if value == '...' else shlex.quote(value)}" if value else flag
