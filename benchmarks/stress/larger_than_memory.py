"""Data larger than memory: seconds per GB, peak memory, killing and resuming, and training from the store.

    python -m benchmarks larger_than_memory [--gb 20] [--folder FOLDER] [STAGE ...]

Stages: make (simulate long Parquet tables), read (`cat`), prepare, train (an epoch), ratio (a part in memory and from
the store), kill (`prepare` of a part, killed ten times), formats (npy and Zarr, read by rows), ahead (our thread beside
Grain), clean. `prepare` and `train` run in processes of their own, whose peak memory the system tells. FOLDER holds all
data; `clean` removes it. Zarr and Grain are left out where they are not installed.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, CHANNELS, FILE = 2000, 4, 12_500  # points in a series; series in a file of half a GB
STEP, DEPTH = 32, 2
STAGES = ("make", "read", "prepare", "train", "ratio", "kill", "formats", "ahead", "clean")


def make(folder: Path, gb: float) -> None:
    """Random walks, the drift of whose first channel is the label: 20 bytes per row."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    files = max(1, round(gb * 1e9 / (20 * LENGTH * FILE)))
    rng = np.random.default_rng(0)
    # One pool of noise, and of it another permutation in every file: drawing takes longer than all else.
    pool = rng.normal(size=(2500, LENGTH, CHANNELS)).astype(np.float32)
    clock = np.arange(LENGTH, dtype=np.float32)
    for number in range(files):
        path = data / f"{number:04d}.parquet"
        if path.exists():
            continue
        named = [(f"x{i}", pa.float32()) for i in range(CHANNELS)]
        schema = pa.schema([("id", pa.int32()), ("time", pa.float32()), *named, ("label", pa.int8())])
        options: dict[str, Any] = {"compression": "none", "use_dictionary": ["id", "label"]}
        with parquet.ParquetWriter(path.with_suffix(".part"), schema, **options) as writer:
            for part in range(FILE // 500):  # row groups of a million rows
                chosen = rng.integers(len(pool), size=500)
                label = rng.integers(2, size=500)
                values = pool[chosen]
                values[..., 0] += 0.05 * (2 * label[:, None] - 1)
                walks = np.cumsum(values, axis=1, dtype=np.float32).reshape(-1, CHANNELS)
                first = number * FILE + part * 500
                columns = [np.repeat(np.arange(first, first + 500, dtype=np.int32), LENGTH), np.tile(clock, 500)]
                columns += [np.ascontiguousarray(walks[:, i]) for i in range(CHANNELS)]
                columns.append(np.repeat(label.astype(np.int8), LENGTH))
                writer.write_table(pa.table(columns, schema=schema))
        path.with_suffix(".part").rename(path)


def size_of(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e9


def drop_caches() -> bool:
    """Whether the system forgot what it has read."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def run(*command: str) -> tuple[dict[str, float], str]:
    """Seconds, those of all cores together, and peak resident memory in GB; and what it printed."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = child.stdout.read() if child.stdout else ""
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    cost = {"seconds": time.perf_counter() - begun, "core seconds": usage.ru_utime + usage.ru_stime}
    return cost | {"peak GB": usage.ru_maxrss * 1024 / 1e9}, said


def prepare_command(data: Path, store: Path) -> list[str]:
    windows = ["--step", str(STEP), "--depth", str(DEPTH), "--model", "neural-rde"]
    return [sys.executable, "-m", "neuralrde", "prepare", str(data), str(store), *windows, "--json"]


def read(folder: Path) -> dict[str, Any]:
    cold, gb = drop_caches(), size_of(folder / "data")
    begun = time.perf_counter()
    for path in sorted((folder / "data").iterdir()):
        subprocess.run(f"cat {path} > /dev/null", shell=True, check=True)
    seconds = time.perf_counter() - begun
    return {"gb": gb, "cold": cold, "seconds": seconds, "seconds per GB": seconds / gb}


def prepare(folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder / "store", ignore_errors=True)
    cold, gb = drop_caches(), size_of(folder / "data")
    cost, said = run(*prepare_command(folder / "data", folder / "store"))
    made = json.loads(said)
    rates = {f"{name} per GB": cost[name] / gb for name in ("seconds", "core seconds")}
    return {"gb": gb, "cold": cold, **cost, **rates, "series": made["series"], "store GB": size_of(folder / "store")}


def train(folder: Path) -> dict[str, Any]:
    """One epoch over the whole store."""
    drop_caches()
    cost, said = run(sys.executable, "-m", "benchmarks.stress.larger_than_memory", "child", str(folder), "whole")
    return {**cost, **json.loads(said.splitlines()[-1])}


def ratio(folder: Path) -> dict[str, Any]:
    """The same part in memory and from the store, in turn, in one process."""
    _, said = run(sys.executable, "-m", "benchmarks.stress.larger_than_memory", "child", str(folder), "ratio")
    return json.loads(said.splitlines()[-1])


def child(folder: Path, what: str) -> None:
    """Train on the store, in a process of its own."""
    import jax

    from neuralrde import NeuralRDE, Store
    from neuralrde.devices import use_all_cores
    from neuralrde.tools.stores._store import StoredExamples
    from neuralrde.training import CrossEntropy, Settings, fit

    use_all_cores()
    store = Store(folder / "store")

    def trained(source: Any, sizes: Any) -> float:
        channels = len(store.path_channels)
        model = NeuralRDE(channels=channels, outputs=2, depth=DEPTH, state=16, width=32, key=jax.random.key(0))
        model = model.fit_scale(sizes)
        begun = time.perf_counter()
        state = fit(model, source, loss=CrossEntropy(), settings=Settings(epochs=1, batch_size=256))
        trained.loss = state.history[-1]["loss"]  # type: ignore
        return time.perf_counter() - begun

    if what == "whole":
        examples = StoredExamples(store, target=store.target)
        begun = time.perf_counter()
        sizes = examples.sizes()
        scaled = time.perf_counter() - begun
        seconds = trained(examples, sizes)
        told = {"series per s": len(store) / seconds, "epoch s": seconds, "scale s": scaled, "loss": trained.loss}  # type: ignore
        print(json.dumps(told))
        return
    few = store[: min(len(store), 40_000)]
    part = StoredExamples(few, target=few.target)
    sizes, memory = part.sizes(), part.take(slice(None))
    trained(part.take(slice(512)), sizes)  # compiles
    best = {"memory": float("inf"), "store": float("inf")}
    losses = {}
    for _ in range(3):
        for name, source in (("memory", memory), ("store", part)):
            best[name] = min(best[name], trained(source, sizes))
            losses[name] = trained.loss  # type: ignore
    rates = {f"{name}, series per s": len(part) / seconds for name, seconds in best.items()}
    print(
        json.dumps({**rates, "share": best["memory"] / best["store"], "same loss": losses["memory"] == losses["store"]})
    )


def digests(store: Path) -> dict[str, str]:
    from hashlib import blake2b

    return {str(p.relative_to(store)): blake2b(p.read_bytes()).hexdigest() for p in store.rglob("*") if p.is_file()}


def kill(folder: Path) -> dict[str, Any]:
    """`prepare` of a part, killed ten times at random moments, beside one that was left alone."""
    part, whole, killed = folder / "part", folder / "uninterrupted", folder / "killed"
    for old in (part, whole, killed):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir()
    for path in sorted((folder / "data").iterdir())[:2]:
        (part / path.name).symlink_to(path)
    seconds = run(*prepare_command(part, whole))[0]["seconds"]
    rng, done = np.random.default_rng(1), []
    while len(done) < 10:
        process = subprocess.Popen(prepare_command(part, killed), stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(float(rng.uniform(0.3, 0.45)) * seconds)
        if process.poll() is not None:  # it was quicker: begin anew
            shutil.rmtree(killed)
            continue
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done.append(len(list((killed / "shards").glob("*.npy"))) if (killed / "shards").exists() else 0)
    run(*prepare_command(part, killed))
    same = digests(whole) == digests(killed)
    return {"gb": size_of(part), "shards after each kill": done, "identical": same, "files": len(digests(whole))}


def formats(folder: Path) -> dict[str, Any]:
    """Random rows of one array: .npy by reads and by a map, and Zarr v3 with a chunk per row in shards."""
    try:
        import zarr
    except ImportError:
        zarr = None
    array = np.random.default_rng(0).normal(size=(20_000, 63, 15)).astype(np.float32)
    place = folder / "formats"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    np.save(place / "rows.npy", array)
    rows = np.random.default_rng(1).permutation(len(array))[:8192].reshape(-1, 256)
    size, found = array[0].nbytes, {}
    descriptor = os.open(place / "rows.npy", os.O_RDONLY)
    mapped = np.load(place / "rows.npy", mmap_mode="r")

    def reads(batch):
        out = np.empty((len(batch), *array.shape[1:]), np.float32)
        for view, row in zip(out, batch, strict=True):
            os.preadv(descriptor, [view], 128 + int(row) * size)
        return out

    ways = {"npy, reads": reads, "npy, memory map": lambda batch: mapped[batch]}
    if zarr is not None:
        stored = zarr.create_array(
            str(place / "rows.zarr"), shape=array.shape, dtype="f4", chunks=(1, *array.shape[1:]),
            shards=(2000, *array.shape[1:]), compressors=None,
        )  # fmt: skip
        stored[:] = array
        ways["zarr v3, shards"] = lambda batch: stored.oindex[np.sort(batch)]
    for name, way in ways.items():
        for state in ("cold", "warm"):
            if state == "cold" and not drop_caches():
                continue
            begun = time.perf_counter()
            for batch in rows if name != "zarr v3, shards" else rows[:4]:
                way(batch)
            count = rows.size if name != "zarr v3, shards" else rows[:4].size
            found[f"{name}, {state}, µs per row"] = (time.perf_counter() - begun) / count * 1e6
    os.close(descriptor)
    shutil.rmtree(place)
    return found


def ahead(folder: Path) -> dict[str, Any]:
    """Seconds that a device waits for 256 batches while it computes for 5 ms each, cold: our thread beside Grain."""
    from neuralrde import Store
    from neuralrde.training.examples import prefetched

    store = Store(folder / "store")
    order = np.random.default_rng(0).permutation(len(store))[: 256 * 256].reshape(-1, 256)

    def waited(batches) -> float:
        waiting, begun = 0.0, time.perf_counter()
        for _ in batches:
            waiting += time.perf_counter() - begun
            time.sleep(0.005)
            begun = time.perf_counter()
        return waiting

    def plain():
        return waited(store.take(rows) for rows in order)

    def thread():
        with prefetched(store.take(rows) for rows in order) as batches:
            return waited(batches)

    def by_grain(grain):
        class Rows:
            def __len__(self):
                return order.size

            def __getitem__(self, number):
                return store.take(order.ravel()[number : number + 1])

        joined = lambda parts: [np.concatenate([part.inputs[1] for part in parts])]
        data = grain.MapDataset.source(Rows()).batch(256, batch_fn=joined)
        return waited(data.to_iter_dataset(grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)))

    ways = {"none": plain, "our thread": thread}
    try:
        import grain

        ways["Grain, 4 threads"] = lambda: by_grain(grain)
    except ImportError:
        pass
    found = {}
    for name, way in ways.items():
        drop_caches()
        found[f"{name}, ms per batch"] = 1e3 * way() / len(order)
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", type=float, default=20.0)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/neuralrde-larger-than-memory"))
    parser.add_argument("stages", nargs="*", default=STAGES)
    told = parser.parse_args(arguments)
    if told.stages and told.stages[0] == "child":
        return child(Path(told.stages[1]), told.stages[2])
    for stage in told.stages:
        if stage == "clean":
            shutil.rmtree(told.folder, ignore_errors=True)
            continue
        begun = time.perf_counter()
        found = make(told.folder, told.gb) if stage == "make" else globals()[stage](told.folder)
        found = found or {"seconds": time.perf_counter() - begun, "gb": size_of(told.folder / "data")}
        shown = {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}
        print(f"{stage}: {json.dumps(shown, ensure_ascii=False)}", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(sys.argv[1:])
