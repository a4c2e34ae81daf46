"""Solving neural RDEs: our time, memory and share of the machine's peak beside torchdiffeq's and Diffrax's.

Losses and gradients are compared before anything is timed.
"""

import multiprocessing
from functools import partial
from typing import Any

import numpy as np

from ..timing import milliseconds, table
from .processes import Run, race
from .training_steps import (
    CHANNELS,
    LAYERS,
    STATE,
    WIDTH,
    WINDOWS,
    flops,
    make_data,
    make_weights,
    ours,
    with_diffrax,
    with_torchdiffeq,
)

ADJOINT, BACKPROP = "torchdiffeq adjoint", "torchdiffeq odeint"
# Diffrax as its documentation has it, jit of vmap; and with the batch shared out over the cores by our `devices`.
DIFFRAX, DIFFRAX_SHARED = "Diffrax", "Diffrax, shared out"
# Batch, depth, and how many times faster than each peer we mean to be at least.
WORK = [
    (32, 2, {ADJOINT: 17, BACKPROP: 9}),
    (181, 2, {ADJOINT: 6, BACKPROP: 4, DIFFRAX: 10, DIFFRAX_SHARED: None}),
    (181, 3, {ADJOINT: 9, BACKPROP: 6}),
]


def product(size: int = 2048) -> Run:
    """A matrix product that keeps all cores at their peak: each multiplies matrices of its own."""
    import jax
    import jax.numpy as jnp

    from neuralrde.devices import device_mesh, shard_batch, use_all_cores

    cores = use_all_cores()
    matrices = shard_batch(jnp.ones((cores, size, size)), device_mesh())
    multiply = jax.jit(lambda a: (a @ a)[:, 0, 0])
    return lambda: np.asarray(multiply(matrices))


# In single examples gradients agree to 1e-5, but for one in thirty or so, where a ReLU's input is zero to rounding and
# opens here and not there. The adjoint's gradients are approximate by themselves, and at the kinks of ReLU more so.
TOLERANCES = {ADJOINT: 5e-2, BACKPROP: 5e-3, DIFFRAX: 5e-3, DIFFRAX_SHARED: 5e-3}


def check_agreement(results: dict[str, Any]) -> None:
    loss, gradients = results["ours"]
    for way in TOLERANCES.keys() & results.keys():
        theirs, their_gradients = results[way]
        assert abs(theirs - loss) < 1e-4 * abs(loss), (way, theirs, loss)
        for name, gradient in gradients.items():
            off = np.linalg.norm(their_gradients[name] - gradient) / np.linalg.norm(gradient)
            assert off < TOLERANCES[way], (way, name, off)


def main() -> None:
    print(f"# Training steps: {WINDOWS} windows of {CHANNELS} channels, state {STATE}, trunk {LAYERS} x {WIDTH}, rk4\n")
    rows, shares = [], []
    for batch, depth, targets in WORK:
        problem = make_weights(depth), make_data(batch, depth), depth
        peers = {
            ADJOINT: partial(with_torchdiffeq, *problem, adjoint=True),
            BACKPROP: partial(with_torchdiffeq, *problem, adjoint=False),
            DIFFRAX: partial(with_diffrax, *problem, share=False),
            DIFFRAX_SHARED: partial(with_diffrax, *problem, share=True),
        }
        ways = {"ours": partial(ours, *problem)} | {name: peers[name] for name in targets}
        ways |= {"forward": partial(ours, *problem, backward=False), "product": product}
        found = race(ways, check=check_agreement)
        name, (seconds, memory) = f"batch {batch}, depth {depth}", found["ours"]
        allowed = found[ADJOINT][1] + 4 * batch * WINDOWS * STATE
        row = [name, f"{milliseconds(seconds)} ms, {memory / 1e6:.0f} MB"]
        for peer in peers:
            if peer not in targets:
                row.append("-")
                continue
            theirs, their_memory = found[peer]
            aim = "" if targets[peer] is None else f" ({targets[peer]}x)"
            row.append(f"{milliseconds(theirs)} ms = {theirs / seconds:.1f}x{aim}, {their_memory / 1e6:.0f} MB")
        rows.append([*row, f"{allowed / 1e6:.0f} MB"])
        peak = multiprocessing.cpu_count() * 2 * 2048**3 / found["product"][0]
        there, both = flops(batch, depth)
        rates = [there / found["forward"][0], both / seconds]
        shares.append([name, f"{peak / 1e9:.0f}", *(f"{rate / 1e9:.0f} = {rate / peak:.0%}" for rate in rates)])
        print(f"  measured {name}", flush=True)
    print("\n" + table(["forward + backward", "ours", *peers, "memory allowed"], rows))
    print("\nIn brackets: the ratio aimed at. Memory allowed: the adjoint's, and a state for each window.\n")
    print(table(["GFLOP/s, all cores", "matrix product", "forward", "forward + backward"], shares), flush=True)
