"""What a store says is not believed: files have names of ours, and a checksum guards every number."""

import json
import shutil
import stat

import numpy as np
import pytest

from neuralrde import Store, Windows, prepare
from neuralrde.tools.stores import StoreError

SHARD = "shards/00000.npy"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(6, 21, 2)))
    prepare(folder / "x.npy", folder / "store", windows=Windows(step=5, depth=2), labels=[0, 1] * 3, workers=1)
    return folder / "store"


@pytest.fixture
def store(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def test_a_forged_name_is_never_used(store, tmp_path):
    """Not even that of a manifest with the right checksum."""
    from neuralrde.tools.stores.files import sealed

    manifest = json.loads((store / "manifest.json").read_text("utf-8"))
    manifest.pop("checksum")
    manifest["shards"][0]["file"] = manifest["series"]["file"] = str(tmp_path / "another")
    (store / "manifest.json").write_bytes(sealed(manifest))
    assert Store(store).take([0]).inputs[1].shape == (1, 4, 6)
    (store / SHARD).unlink()
    with pytest.raises(StoreError, match=r"00000\.npy is damaged: it is not there"):
        Store(store).take([0])


def everything(place):
    store = Store(place)
    taken = store.take(slice(None))
    told = repr((store.transform, store.windows, store.channels, store.path_channels, store.classes, store.model))
    return told, *(array.tobytes() for array in (*taken.inputs, taken.target)), store.ragged, store.mixed


def test_any_flipped_bit_of_the_manifest_is_refused_or_harmless(store):
    path = store / "manifest.json"
    whole, expected, refused = path.read_bytes(), everything(store), 0
    rng = np.random.default_rng(0)
    for bit in rng.choice(8 * len(whole), 400, replace=False).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert everything(store) == expected, (bit, bytes(damaged[max(0, bit // 8 - 20) : bit // 8 + 20]))
        except StoreError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize("text", ["", "[]", "null", '{"format": 2}', '{"format": 2, "checksum": "x"}', '{"format": 1}'])
def test_what_is_no_manifest_is_refused_with_a_sentence(store, text):
    (store / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest\.json is damaged|a store of format"):
        Store(store)


def test_a_damaged_series_is_named_when_it_is_read(store):
    shard = store / SHARD
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    opened = Store(store)
    opened.take([0])  # the others can be read
    with pytest.raises(StoreError, match=r"00000\.npy is damaged: series 5 has another checksum"):
        opened.take([0, 5])
    with pytest.raises(StoreError, match=r"00000\.npy is damaged: its checksum"):
        opened.verify()
    shard.write_bytes(whole[:-4])
    with pytest.raises(StoreError, match="another size"):
        Store(store).verify()


def test_a_file_that_is_missing_is_named(store):
    (store / SHARD).unlink()
    with pytest.raises(StoreError, match=r"00000\.npy is damaged: it is not there"):
        Store(store).verify()
    (store / "series.npz").unlink()
    with pytest.raises(StoreError, match=r"series\.npz is damaged: it is not there"):
        Store(store)


def test_only_its_owner_reads_a_store(made):
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.rglob("*") if path.is_file()} == {0o600}


def test_a_damaged_beginning_of_a_store_is_named(made, store, monkeypatch):
    """A preparation goes on from a plan, which has a checksum too; a damaged shard's record is made again."""
    again = lambda: prepare(made.parent / "x.npy", store, windows=Windows(step=5, depth=2), labels=[0, 1] * 3)
    shutil.rmtree(store)
    monkeypatch.setattr("neuralrde.tools.stores._prepare._finish", lambda *_: None)
    with pytest.raises(StoreError, match="has not ended"):
        again()
    monkeypatch.undo()
    for name in ("plan.json", "index.npz"):
        file = store / "work" / name
        whole = file.read_bytes()
        middle = len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(StoreError, match=f"{name} is damaged"):
            again()
        file.write_bytes(whole)
    record = store / "work" / "00000.npz"
    record.write_bytes(b"x" + record.read_bytes()[1:-30])
    assert again().fingerprint == Store(made).fingerprint
