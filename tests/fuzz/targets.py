"""What is fuzzed: well-formed files to begin with, how they are damaged, and what must hold of what is read."""

import gzip
import io
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .forge import change_arrays, change_json, change_npz, change_toml, gzipped, npz, odd_parquet
from .mutate import damage, edit_text, flip

Change = Callable[[bytes, random.Random], bytes]
MODELS = {"classifier", "regressor", "transformer"}


class Wrong(Exception):
    """Something was read that should not be: the worst outcome, as nobody would know."""


@dataclass(frozen=True)
class Input:
    """A file, or the files of a folder, as they are written before something reads them."""

    name: str
    files: dict[str, bytes]
    """By their paths in the folder; "" for a single file."""
    options: dict[str, Any] = field(default_factory=dict)
    original: dict[str, bytes] | None = None
    """Where a checksum must find any damage: what is read, if anything is, must be what these files say."""

    def write(self, folder: Path) -> Path:
        place = folder / self.name
        for path, content in self.files.items():
            file = place / path if path else place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return place


@dataclass(frozen=True)
class Target:
    make: Callable[[random.Random], Input]
    run: Callable[[Path, Input], None]
    seeds: Callable[[], list[Input]]
    """Undamaged inputs, most of which must be accepted: else the target itself is wrong."""
    share: int = 1
    """How many inputs of all."""


def targets() -> dict[str, Target]:
    """All of them. Those of tables come plain and gzipped."""
    found: dict[str, Target] = {}
    for name, seeds in TEXTS.items():
        found[name] = _reader(f"data.{name}", seeds, [edit_text, edit_text, damage], share=4)
        found[f"{name}.gz"] = _reader(f"data.{name}.gz", seeds, [edit_text], pack=gzipped, share=2)
    found["npz"] = _reader("data.npz", _npz_seeds, [change_npz, change_npz, damage], flips=True, share=4)
    found["parquet"] = _reader("data.parquet", _parquet_seeds, [damage, lambda _, rng: odd_parquet(rng)], share=3)
    found["folder"] = Target(_make_folder, _read_dataset, lambda: [Input("data", files) for files in FOLDERS], 3)
    for name in sorted(MODELS):
        found[name] = Target(
            _model_maker(name), _load_model, lambda name=name: [Input(f"{name}.nrde", {"": model(name)})], 6
        )
    found["checkpoint"] = Target(
        _archive_maker("checkpoint.nrde", checkpoint),
        _load_checkpoint,
        lambda: [Input("c.nrde", {"": checkpoint()})],
        4,
    )
    found["settings"] = Target(
        lambda rng: Input("settings.toml", {"": change_toml(SETTINGS, rng)}),
        _read_settings,
        lambda: [Input("settings.toml", {"": SETTINGS})],
        2,
    )
    return found


def chosen(names: Iterable[str]) -> dict[str, Target]:
    """The targets of these names, in one order, because an input's number chooses among them."""
    return {name: target for name, target in targets().items() if name in names}


# Readers.

LONG = [
    b"id,t,pulse,breath,target\n1,0.0,60,12.5,ill\n1,0.5,,13,ill\n1,1.5,62,12,ill\n2,0.0,90,20,well\n2,0.25,91,2,well\n",
    b'id;time;"pulse; raw";target\n"a b";0;60.5;no\n"a b";1;61.5;no\nc;0;90;yes\nc;2;;yes\n',
    b"id,date,x,y,target\n1,2024-01-01 00:00:00,1,2,3.5\n1,2024-01-02 00:00:00,2,3,3.5\n2,2024-01-01 12:00:00,3,4,4\n",
    b"t,x\n0,1\n1,2\n2,4\n3,8\n",
]
WIDE = [b"id,target,x0,x1,x2,x3\n1,a,1,2,3,4\n2,b,2,3,4,\n3,a,5,6,7,8\n", b"1,2,3,4\n2,3,4,5\n1,4,5,6\n"]
OPTIONS: list[dict[str, Any]] = [
    *[{}] * 18,
    *({"task": "regression"}, {"task": "classification"}),
    *({"id": "id", "time": "t", "target": "target"}, {"target": "target"}, {"wide": True}, {"wide": False}),
    *({"header": False}, {"columns": ["x"]}, {"per_time": True}, {"target": 0}),
]
TS = [
    b"# a comment\n@problemName one\n@timeStamps false\n@univariate true\n@equalLength true\n@seriesLength 4\n"
    b"@classLabel true a b\n@data\n1,2,3,4:a\n2,3,4,5:b\n3,4,?,6:a\n",
    b"@problemName two\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n@classLabel true 1 2\n"
    b"@data\n1,2,3:4,5,6:1\n1,2:4,NaN:2\n",
    b"@timeStamps true\n@targetLabel true\n@data\n(0,1.5),(1,2.5):(0,1),(1,?):0.5\n(0.5,1),(1.5,2):(0.5,1),(1.5,2):1\n",
]
ARFF = [
    b"% a comment\n@relation 'two words'\n@attribute att0 REAL\n@attribute 'att 1' numeric\n@attribute target "
    b"{'a b', c}\n@data\n1,2,'a b'\n3,?,c\n",
    b"@relation bags\n@attribute bag relational\n@attribute t0 numeric\n@attribute t1 numeric\n@end bag\n"
    b"@attribute target {cat,dog}\n@data\n'1.0,2.0\\n3.0,4.0',cat\n'5.0,6.0\\n7.0,?',dog\n",
]
JSONL = [
    b'{"id": 1, "t": 0, "x": 1.5, "target": "a"}\n{"id": 1, "t": 1, "x": null, "target": "a"}\n'
    b'{"id": "b", "t": 0, "x": 2, "target": "b"}\n',
    b'{"id": "a", "x": [1, 2.5, null], "y": [0, 1, 2], "target": 0.5}\n{"id": "b", "x": [4], "y": [7], "target": 1}\n',
    b'{"time": ["2024-01-01", "2024-01-02 12:00:00"], "x": [1, 2]}\n',
]
TEXTS: dict[str, Callable[[], list[bytes]]] = {
    "csv": lambda: LONG + WIDE,
    "tsv": lambda: [text.replace(b",", b"\t") for text in LONG[:1] + WIDE],
    "ts": lambda: TS,
    "arff": lambda: ARFF,
    "jsonl": lambda: JSONL,
}
_TABLE = b"t,x,y\n0,1,2\n1,2,3\n2,,4\n"
FOLDERS = [
    {"a.csv": _TABLE, "b.csv": _TABLE, "c.csv": _TABLE, "labels.csv": b"id,target,group\na,ill,1\nb,well,1\nc,ill,2\n"},
    {"train/ill/a.csv": _TABLE, "train/well/b.csv": _TABLE, "test/ill/c.csv": _TABLE, "test/well/d.csv": _TABLE},
    {"Set_TRAIN.ts": TS[0], "Set_TEST.ts": TS[0]},
    {"ill/a.csv": _TABLE, "well/b.csv.gz": gzipped(_TABLE), "README": b"about\n"},
]


@cache
def _npz_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=(4, 6, 2)), np.cumsum(rng.uniform(0.1, 1, (4, 6)), axis=1)
    return [
        npz({"X": values, "y": np.array(["a", "b", "a", "b"]), "times": times, "channels": np.array(["u", "v"])}),
        npz(
            {
                "X": values[..., 0].astype("f4"),
                "y": np.arange(4.0),
                "lengths": np.array([6, 3, 1, 6]),
                "ids": np.arange(4),
            }
        ),
        npz({"X": values, "y": np.arange(4) % 2, "classes": np.array(["a", "b"]), "is_train": np.array([1, 1, 0, 0])}),
    ]


@cache
def _parquet_seeds() -> list[bytes]:
    pyarrow = __import__("pyarrow.parquet")
    columns = {
        "id": [1, 1, 2, 2],
        "t": [0.0, 1.0, 0.0, 2.0],
        "x": [1.0, 2.0, None, 4.0],
        "target": ["a", "a", "b", "b"],
    }
    seeds = []
    for table in (pyarrow.table(columns), pyarrow.table({"x": [[1.0, 2.0], [3.0]], "target": [0.5, 1.5]})):
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file, write_page_checksum=True)
        seeds.append(file.getvalue())
    return seeds


def _reader(
    name: str,
    seeds: Callable[[], list[bytes]],
    changes: list[Change],
    *,
    pack: Callable[[bytes], bytes] | None = None,
    flips: bool = False,
    share: int,
) -> Target:
    """A file to `read`, changed inside of its packing and outside. With checksums, flipped bits must be noticed."""
    packed = pack or (lambda content: content)

    def make(rng: random.Random) -> Input:
        content, options = rng.choice(seeds()), rng.choice(OPTIONS)
        whole = packed(content)
        if (pack or flips) and rng.random() < 0.3:
            return Input(name, {"": flip(whole, rng)}, {}, {"": whole})
        if pack and rng.random() < 0.4:
            return Input(name, {"": damage(whole, rng)}, options)
        return Input(name, {"": packed(rng.choice(changes)(content, rng))}, options)

    return Target(make, _read_dataset, lambda: [Input(name, {"": packed(content)}) for content in seeds()], share)


def _make_folder(rng: random.Random) -> Input:
    files = dict(rng.choice(FOLDERS))
    for _ in range(rng.choice([1, 1, 2])):
        path = rng.choice(sorted(files))
        match rng.randrange(6):
            case 0:
                del files[path]
            case 1:
                files[rng.choice(["d.csv", "labels.csv", "train/x.csv", "z.npz", "a.b.c", "ill/é.ts", path + "x"])] = (
                    files.pop(path)
                )
            case 2:
                files[path] = gzip.compress(files[path])
            case _:
                files[path] = rng.choice([edit_text, edit_text, damage])(files[path], rng)
        files = files or {"a.csv": b""}
    return Input("data", files, rng.choice(OPTIONS) if rng.random() < 0.3 else {})


def _read_dataset(path: Path, given: Input) -> None:
    from neuralrde.datasets import read

    data = read(path, **given.options)
    repr(data)
    if np.isinf(data.series.values).any() or len(data.series) == 0:
        raise Wrong("infinity, or nothing at all")
    if given.original is not None:
        with tempfile.TemporaryDirectory() as folder:
            first = read(Input(given.name, given.original).write(Path(folder)), **given.options)
        same = np.array_equal(first.series.values, data.series.values, equal_nan=True)
        if not same or np.asarray(first.target).tolist() != np.asarray(data.target).tolist():
            raise Wrong("damage that a checksum must find was read as other data")


# Model files and checkpoints.

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(12, 9, 2))
X[::3, 2, 1] = np.nan


@contextmanager
def models_in_place(names: Iterable[str]) -> Iterator[Path]:
    """A folder with a small fitted model of each of these kinds, the same one for all workers."""
    model.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(MODELS & set(names)):
            _fitted(name).save(Path(folder) / f"{name}.nrde")
        os.environ["FUZZ_MODELS"] = folder
        yield Path(folder)
        del os.environ["FUZZ_MODELS"]


def _fitted(name: str) -> Any:
    from neuralrde import Config, NeuralRDE
    from neuralrde.estimators import LogSignatureFeatures, NeuralRDEClassifier, NeuralRDERegressor

    small = Config(NeuralRDE, state=2, width=2, layers=1, readout="mean")
    sizes: dict[str, Any] = {"model": small, "windows": 4, "epochs": 1, "random_state": 0}
    match name:
        case "classifier":
            return NeuralRDEClassifier(**sizes, verbose=False).fit(X, np.arange(12) % 3)
        case "regressor":
            return NeuralRDERegressor(**sizes, verbose=False).fit(X, X[:, 0, 0])
        case _:
            return LogSignatureFeatures(draws=2).fit(X)


@cache
def model(name: str) -> bytes:
    return (Path(os.environ["FUZZ_MODELS"]) / f"{name}.nrde").read_bytes()


def _archive_maker(name: str, content: Callable[[], bytes]) -> Callable[[random.Random], Input]:
    def make(rng: random.Random) -> Input:
        if rng.random() < 0.4:
            return Input(name, {"": damage(content(), rng)}, {"damaged": True})
        return Input(name, {"": _resealed(content(), rng)})

    return make


def _model_maker(name: str) -> Callable[[random.Random], Input]:
    return _archive_maker(f"{name}.nrde", lambda: model(name))


def _resealed(content: bytes, rng: random.Random) -> bytes:
    """Another header or other arrays under a right checksum, as anyone can write it."""
    import safetensors.numpy

    from neuralrde.training.archive import _checksum

    size = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["neuralrde"])
    arrays = safetensors.numpy.load(content)
    if rng.random() < 0.8:
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            header = change_json(header, rng)
    else:
        arrays = {
            n: a for n, a in change_arrays(arrays, rng).items() if a.dtype.str in ("<f2", "<f4", "<f8", "<i4", "<i8")
        }
    text = json.dumps(header)
    return safetensors.numpy.save(arrays, metadata={"neuralrde": text, "sha256": _checksum(text, arrays)})


def _load_model(path: Path, given: Input) -> None:
    from neuralrde.estimators import load

    predicted = _predictions(load(path))
    if not np.isfinite(predicted).all():
        raise Wrong("predictions that are not finite")
    if given.options.get("damaged") and not np.array_equal(predicted, _undamaged(path.stem)):
        raise Wrong("other predictions from a damaged file")


@cache
def _undamaged(name: str) -> np.ndarray:
    from neuralrde.estimators import load

    return _predictions(load(Path(os.environ["FUZZ_MODELS"]) / f"{name}.nrde"))


def _predictions(estimator: Any) -> np.ndarray:
    if hasattr(estimator, "transform"):
        return estimator.transform(X)
    if hasattr(estimator, "predict_proba"):
        estimator.predict(X)
        return estimator.predict_proba(X)
    return estimator.predict(X)


@cache
def _start() -> Any:
    import jax
    import optax

    from neuralrde.models import NeuralRDE
    from neuralrde.training.checkpoint import TrainingState

    model = NeuralRDE(channels=2, outputs=1, depth=1, state=2, width=2, layers=1, key=jax.random.key(0))
    return TrainingState.start(model, optax.adam(1e-3))


@cache
def checkpoint() -> bytes:
    from neuralrde.training.checkpoint import save_checkpoint

    folder = Path(tempfile.mkdtemp())
    state = _start().after(_start().model, _start().optimizer, {"monitored": 0.5, "seconds": 1.5, "epoch": 1})
    save_checkpoint(folder / "c.nrde", state, fingerprint="one")
    content = (folder / "c.nrde").read_bytes()
    shutil.rmtree(folder)
    return content


def _load_checkpoint(path: Path, given: Input) -> None:
    from neuralrde.training.checkpoint import load_checkpoint

    state = load_checkpoint(path, _start(), fingerprint="one")
    for name in ("best_epoch", "epoch", "failures"):
        if type(getattr(state, name)) is not int or getattr(state, name) < 0:
            raise Wrong(f"{name}={getattr(state, name)!r}")
    for name in ("best_loss", "rate_factor", "seconds"):
        if type(getattr(state, name)) not in (int, float) or getattr(state, name) != getattr(state, name):
            raise Wrong(f"{name}={getattr(state, name)!r}")
    if not all(isinstance(record, dict) for record in state.history):
        raise Wrong(f"history={state.history!r}")


# Settings of a run.

SETTINGS = b"""data = "hearts.csv"
seed = 0
divide = "auto"

[table]
id = "patient"
target = "ill"

[model]
name = "log-ncde"
state = 8

[windows]
depth = 2
step = 32

[optimizer]
clip = 1.0
schedule = {name = "cosine", warmup = 0.1}

[training]
patience = "none"
"""


def _read_settings(path: Path, given: Input) -> None:
    from neuralrde.estimators import NeuralRDEClassifier
    from neuralrde.tools.cli.settings import estimator_of, settings_of

    estimator_of(NeuralRDEClassifier, settings_of(path, table={}, estimator={}))
