"""Windowed log-signatures: ours, pysiglib's, iisignature's and plain JAX's time for the same work.

iisignature has no windows. pysiglib has them as a stream, one after the other, which takes longer than a batch. So both
are handed the windows already cut out and copied, which is not timed. All answers are
compared before anything is timed.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import iisignature
import jax
import jax.numpy as jnp
import numpy as np
import pysiglib
import pysiglib.torch_api
import torch

from neuralrde import log_signatures
from neuralrde._cores import cores
from neuralrde.paths import cuts_by_count
from neuralrde.signatures import _jax_form
from neuralrde.signatures._spans import Spans

from ..timing import milliseconds, race, table

# samples, length, channels, step, depth
WORK = [
    (181, 17984, 6, 4, 3),
    (181, 17984, 6, 128, 3),
    (181, 17984, 6, 128, 2),
    (1000, 4000, 3, 8, 3),
    (1000, 4000, 3, 128, 3),
    (1000, 4000, 3, 128, 4),
    (181, 4096, 6, 64, 4),
    (64, 4096, 20, 64, 3),
    (64, 4096, 32, 64, 2),
    (1, 1_000_000, 5, 1000, 3),
]
PEERS = ["pysiglib", "iisignature", "plain JAX"]


def bandwidth(megabytes: int = 512) -> float:
    """Bytes a second that all cores together copy (read and written), for arrays far larger than the caches."""
    source = np.ones(megabytes << 17)
    target = np.zeros_like(source)
    parts = list(
        zip(
            np.array_split(source, cores()),
            np.array_split(target, cores()),
            strict=True,
        )
    )
    with ThreadPoolExecutor(len(parts)) as pool:
        copy = lambda: list(pool.map(lambda part: np.copyto(part[1], part[0]), parts))
        return 2 * source.nbytes / race({"copy": copy})["copy"]


def windows_of(path: np.ndarray, step: int) -> np.ndarray:
    """Full windows, cut out and copied: (samples * windows, step + 1, channels)."""
    samples, length, channels = path.shape
    count = (length - 1) // step
    index = np.arange(count)[:, None] * step + np.arange(step + 1)
    return np.ascontiguousarray(path[:, index].reshape(samples * count, step + 1, channels))


def measure(samples: int, length: int, channels: int, step: int, depth: int, speed: float) -> tuple[list, list]:
    rng = np.random.default_rng(0)
    path = (rng.normal(size=(samples, length, channels)).cumsum(axis=1) * 0.1).astype(np.float32)
    path = path[:, : (length - 1) // step * step + 1].copy()  # the peers know no shorter last window
    spans = Spans.between(cuts_by_count(path.shape[1], step))
    windows = windows_of(path, step)
    ours = log_signatures(path, depth, step=step)
    pysiglib.prepare_log_sig(channels, depth, 1)
    prepared = iisignature.prepare(channels, depth, "S")
    in_jax, bars = jnp.asarray(path), np.ones((len(windows), ours.shape[-1]), np.float32)

    plain = jax.jit(lambda p: _jax_form.words(p, spans, depth))
    compiled = jax.jit(lambda p: log_signatures(p, depth, step=step))
    pull_back = jax.jit(lambda p, bar: jax.vjp(lambda p: log_signatures(p, depth, step=step), p)[1](bar)[0])
    pull_back_plain = jax.jit(lambda p, bar: jax.vjp(lambda p: _jax_form.words(p, spans, depth), p)[1](bar)[0])
    in_torch = torch.from_numpy(windows).requires_grad_()
    with_graph = pysiglib.torch_api.log_sig(in_torch, depth, method=1, n_jobs=-1)
    in_jax_bars = jnp.ones(ours.shape, jnp.float32)

    theirs = pysiglib.log_sig(windows, depth, method=1, n_jobs=-1).reshape(ours.shape)
    assert np.abs(ours - theirs).max() < 1e-3 * np.abs(ours).max(), "pysiglib computes something else"
    forward = {
        "ours": lambda: log_signatures(path, depth, step=step),
        "ours in jit": lambda: compiled(in_jax).block_until_ready(),
        "pysiglib": lambda: pysiglib.log_sig(windows, depth, method=1, n_jobs=-1),
        "iisignature": lambda: iisignature.logsig(windows, prepared, "S"),
    }
    if windows.nbytes * channels ** (depth - 1) < 2e9:  # its signatures are kept for all windows at once
        forward["plain JAX"] = lambda: plain(in_jax).block_until_ready()
    there = race(forward)
    backward = {
        "ours": lambda: pull_back(in_jax, in_jax_bars).block_until_ready(),
        "pysiglib": lambda: torch.autograd.grad(with_graph, in_torch, torch.from_numpy(bars), retain_graph=True),
        "iisignature": lambda: iisignature.logsigbackprop(bars, windows, prepared, "S"),
        "plain JAX": lambda: pull_back_plain(in_jax, in_jax_bars).block_until_ready(),
    }
    # Backwards they are five to ten times slower again: measured where that stays within seconds.
    slow = {name for name in ("iisignature", "plain JAX") if there.get(name, 9.0) > 0.3}
    # Plain JAX takes gigabytes in its turn, after which ours would wait for memory, so the other two run apart.
    together = ("ours", "pysiglib")
    back = race({name: backward[name] for name in together})
    back |= race({name: run for name, run in backward.items() if name not in slow and name not in together})
    limit = (path.nbytes + ours.nbytes) / speed
    name = f"{samples} x {length}, {channels} channels, step {step}, depth {depth}"
    with_ratio = lambda t, p: f"{milliseconds(t[p])} ({t[p] / t['ours']:.1f}x)" if p in t else "-"
    first = [name, milliseconds(there["ours"]), milliseconds(there["ours in jit"])]
    first += [with_ratio(there, p) for p in PEERS]
    first += [f"{milliseconds(limit)} ({there['ours'] / limit:.1f}x)"]
    second = [name, milliseconds(back["ours"])]
    second += [with_ratio(back, p) for p in PEERS[:3]]
    return first, second


def main() -> None:
    print("# Windowed log-signatures, float32, milliseconds (in brackets: how many times longer than ours)\n")
    speed = bandwidth()
    print(f"All cores copy {speed / 1e9:.1f} GB/s; the last column is what the bytes of path and result would take.\n")
    rows = []
    for work in WORK:
        rows.append(measure(*work, speed))
        print(f"  measured {rows[-1][0][0]}", flush=True)
    print("\n" + table(["forward", "ours", "ours in jit", *PEERS, "memory"], [first for first, _ in rows]))
    print("\n" + table(["backward", "ours", *PEERS[:3]], [second for _, second in rows]))


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begin:.0f} s")
