"""Forgeries: files that are whole, with right checksums, and say something else inside."""

import gzip
import io
import json
import random
import re
import warnings
import zipfile
from typing import Any

import numpy as np

from .mutate import CELLS, damage, edit_text

# What may stand for a value in JSON or TOML: wrong types, and numbers that would allocate, loop or overflow.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 12, 100, 2**20, 10**6, 10**9, 2**31, 2**63, 10**30, 10**400, 0.5, -0.5),
    *(1e-320, 1e308, float("nan"), float("inf"), -float("inf"), "", "evil", "auto", "os.system", "<U400000000", "O"),
    *([], {}, [[]], [1, 2, 3], [None], {"evil": 1}, [[1, 2], [3]], "x" * 2000, {"pairs": [["a", 1]]}),
    *(
        {"array": ["a", "b"], "type": "<U400000000"},
        {"array": [1], "type": "V1000000000"},
        {"transform": {"transform": "compose"}},
    ),
    {"transform": {"transform": "spectrogram", "frame": 2 * 10**9}},
    {"part": {"name": "histogram", "bins": 10**9}},
]
_TYPES = ["<f4", "<f8", "<i4", "<i8", "<u8", "|b1", "<U3", ">f8", "<f2"]


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def change_json(value: Any, rng: random.Random) -> Any:
    """One place of a tree is replaced, removed, doubled, or takes the value of another."""
    places = list(_places(value))
    parent, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1:
            other, there = rng.choice(places)
            parent[key] = json.loads(json.dumps(other[there])) if there in _keys(other) else None
        case 2 if isinstance(parent, list):
            parent.insert(key, json.loads(json.dumps(parent[key])))
        case 3 if isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
            parent[key] = rng.choice([parent[key] + 1, parent[key] - 1, -parent[key], parent[key] * 10**6])
        case _:
            parent[key] = json.loads(json.dumps(rng.choice(VALUES)))
    return value


def _keys(tree: Any) -> Any:
    return tree if isinstance(tree, dict) else range(len(tree))


def _places(tree: Any):
    for key in list(_keys(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def change_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """One array is lost, renamed, or gets another shape, type or other numbers."""
    arrays = dict(arrays)
    name = rng.choice(sorted(arrays)) if arrays else "evil"
    array = np.atleast_1d(arrays.get(name, np.zeros(3)))
    match rng.randrange(6):
        case 0:
            arrays.pop(name, None)
        case 1:
            arrays[rng.choice(["evil", "X", "y", "times", name + "2"])] = arrays.pop(name, array)
        case 2 if array.dtype.kind in "biuf":
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(rng.choice(_TYPES))
        case 3:
            shapes = [array.ravel(), array[None], array[..., None], array[:0], np.concatenate([array.ravel()] * 2)]
            arrays[name] = rng.choice(shapes)
        case _ if array.dtype.kind == "f" and array.size:
            array = array.copy()
            array.flat[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e38, 0.0])
            arrays[name] = array
        case _:
            arrays[name] = np.array(rng.choice(CELLS)) if rng.random() < 0.5 else array[::-1].copy()
    return arrays


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore
    return file.getvalue()


def change_npz(content: bytes, rng: random.Random) -> bytes:
    """Inside the zip, whose checksums are right afterwards: arrays, or the bytes and headers of members."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    if rng.random() < 0.4:
        return npz(change_arrays(arrays, rng))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", rng.choice([8, 0, 12, 14])) as new:
        names = old.namelist()
        changed = rng.choice(names)
        for name in names:
            member = old.read(name)
            if name == changed:
                member = rng.choice([damage, _npy_header])(member, rng)
                name = rng.choice([name, name, name, name[:-4], "../" + name, name + ".npy", "/" + name])
            with warnings.catch_warnings(action="ignore"):  # of a name that comes twice
                for _ in range(2 if rng.random() < 0.02 else 1):
                    new.writestr(zipfile.ZipInfo(name), member)
    return out.getvalue()


def _npy_header(member: bytes, rng: random.Random) -> bytes:
    """What the header of an array says of its type, order and shape."""
    size = int.from_bytes(member[8:10], "little")
    header, numbers = member[10 : 10 + size].decode("latin-1"), member[10 + size :]
    lies = [
        (r"'shape': \([^)]*\)", lambda: f"'shape': ({rng.choice([0, 1, 7, 10**6, 10**13, -1, '1.5', 'x'])}, 2)"),
        (
            r"'descr': '[^']*'",
            lambda: f"'descr': '{rng.choice([*_TYPES, 'O', '<U400000000', 'V9', '<M8[s]', '<c16', 'x'])}'",
        ),
        (r"'fortran_order': \w+", lambda: f"'fortran_order': {rng.choice(['True', '1', 'None', 'x'])}"),
        (r"\{", lambda: rng.choice(["", "{{", "[", "__import__('os')", "{'a': 1, ", "(" * 200])),
    ]
    pattern, lie = rng.choice(lies)
    header = re.sub(pattern, lambda _: lie(), header, count=1)
    return member[:8] + len(header).to_bytes(2, "little") + header.encode("latin-1") + numbers


def odd_parquet(rng: random.Random) -> bytes:
    """A whole Parquet file whose columns are of types that series rarely have."""
    import decimal

    import pyarrow
    from pyarrow import parquet

    rows = rng.choice([0, 1, 6])
    some = lambda values: [rng.choice([*values, None]) for _ in range(rows)]
    kinds = [
        lambda: pyarrow.array(some([0.0, 1.5, float("nan"), float("inf")]), pyarrow.float64()),
        lambda: pyarrow.array(some([0, 1, 2**62]), pyarrow.int64()),
        lambda: pyarrow.array(some([0, 2**63]), pyarrow.uint64()),
        lambda: pyarrow.array(some(["a", "b", "", "1"]), pyarrow.string()),
        lambda: pyarrow.array(some(["a", "b"]), pyarrow.string()).dictionary_encode(),
        lambda: pyarrow.array(some([True, False]), pyarrow.bool_()),
        lambda: pyarrow.array(some([b"a", b"\xff"]), pyarrow.binary()),
        lambda: pyarrow.array(some([decimal.Decimal("1.5")]), pyarrow.decimal128(10, 2)),
        lambda: pyarrow.array(some([0, 10**15, -(10**15)]), pyarrow.timestamp(rng.choice(["s", "ms", "us", "ns"]))),
        lambda: pyarrow.array(some([0, 10**5]), pyarrow.date32()),
        lambda: pyarrow.array(some([0, 10**5]), pyarrow.duration("s")),
        lambda: pyarrow.array(some([[1.0, 2.0], [], [None], [float("inf")]]), pyarrow.list_(pyarrow.float64())),
        lambda: pyarrow.array(some([["a"], []]), pyarrow.list_(pyarrow.string())),
        lambda: pyarrow.array(some([[[1.0]], [[]]]), pyarrow.list_(pyarrow.list_(pyarrow.float64()))),
        lambda: pyarrow.array(some([{"a": 1}]), pyarrow.struct([("a", pyarrow.int64())])),
        lambda: pyarrow.array([None] * rows, pyarrow.null()),
    ]
    names = [
        rng.choice(["id", "t", "x", "y", "target", "split", "", "é", "__index_level_0__"])
        for _ in range(rng.randrange(1, 6))
    ]
    table = pyarrow.table([rng.choice(kinds)() for _ in names], names=names)
    if rng.random() < 0.3:
        pandas = json.dumps(change_json({"index_columns": ["id"], "columns": [{"name": "x"}], "creator": {}}, rng))
        table = table.replace_schema_metadata({b"pandas": rng.choice([pandas.encode(), b"{", b"\xff", b"[]", b"null"])})
    file = io.BytesIO()
    try:
        parquet.write_table(table, file)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):  # times that this unit cannot hold
        return b"PAR1PAR1"
    return file.getvalue()


def change_toml(content: bytes, rng: random.Random) -> bytes:
    """Values of settings become others, in TOML's own spelling where there is one."""
    lines = content.decode().split("\n")
    i = rng.randrange(len(lines))
    if "=" in lines[i] and rng.random() < 0.7:
        value = rng.choice(VALUES)
        spelled = (
            json.dumps(value) if rng.random() < 0.5 else rng.choice(["inf", "nan", "1979-05-27", "{a = 1}", "'x'"])
        )
        lines[i] = f"{lines[i].partition('=')[0]}= {spelled}"
        return "\n".join(lines).encode()
    return edit_text(content, rng)
