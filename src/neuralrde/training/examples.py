"""Examples: a model's inputs and targets, and predictions for many of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, Shaped

from .._types import AnyArray, Devices, Model, OnePerSeries, Selection
from ..devices import check_process, device_mesh, keep_programs, local_rows, replicate, shard_batch
from ..frozen import once_per_model
from ..processes import Processes

# Batches that wait: one is being computed with, and the next are there when it is done.
AHEAD = 3
# Sizes of batches for fewer examples than a whole one.
_FEW = (1, 8)


@contextmanager
def prefetched(batches: Iterable[Any], *, in_memory: bool = False, ahead: int = AHEAD) -> Iterator[Iterator[Any]]:
    """Make batches, in their order, in a thread of their own; it ends with the block, however that ends.

    An error in the thread is raised where its batch would have been taken. With `in_memory` there is nothing to wait
    for, and no thread.

    >>> with prefetched(number**2 for number in range(4)) as squares:
    ...     list(squares)
    [0, 1, 4, 9]
    """
    if in_memory:
        yield iter(batches)
        return
    source, end = iter(batches), object()
    pool = ThreadPoolExecutor(1, "neuralrde-prefetch")
    waiting = deque(pool.submit(next, source, end) for _ in range(ahead))

    def taken() -> Iterator[Any]:
        while (batch := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, source, end))
            yield batch

    try:
        yield taken()
    finally:
        pool.shutdown(cancel_futures=True)


@runtime_checkable
class Source(Protocol):
    """What a training takes: examples in memory (`Examples`), or elsewhere, such as a `neuralrde.Store`.

    Unless it is in memory, it also has a `fingerprint`.
    """

    @property
    def target(self) -> Any:
        """As `Examples` has it."""

    @property
    def weight(self) -> Any:
        """As `Examples` has it."""

    def __len__(self) -> int: ...

    def take(self, rows: Selection) -> "Examples":
        """Some of the examples, in memory."""
        ...


class Examples(eqx.Module):
    """A model's inputs, with targets, numbers of windows and weights. The first axis of every array is the example.

    Args:
        inputs: the arrays that the model is called with, `(x0, log_signatures)` for models driven by log-signatures,
            `(blocks,)` for the ODE-RNN.
        target: one per example; or, with `EveryState()`, one for z0 and one after every window.
            A class below 0, or NaN, is a target that is not known and not trained on.
        windows: each example's own number of windows, if examples were padded.
        weight: how much each example counts; None counts all alike.

    >>> examples = Examples((np.zeros((5, 3)), np.zeros((5, 10, 6))), np.array([0, 1, 1, 0, 1]))
    >>> len(examples), examples.take([0, 3]).target.tolist()
    (5, [0, 0])
    """

    inputs: tuple[Shaped[AnyArray, "examples ..."], ...]
    target: Shaped[AnyArray, "examples ..."] | None = None
    windows: Int[AnyArray, " examples"] | None = None
    weight: Float[AnyArray, " examples"] | None = None

    def __len__(self) -> int:
        return self.inputs[0].shape[0]

    def take(self, rows: Selection) -> "Examples":
        """Some of the examples, by numbers, a slice or a mask."""
        rows = np.arange(len(self))[rows]
        return jax.tree.map(lambda leaf: leaf[rows], self)

    def predictions(self, model: Model, keys: Array | None = None) -> Float[Array, "examples *out outputs"]:
        """The model's predictions; with a key per example as in training, with dropout, if the model has any."""

        def one(inputs, windows, key):
            options = {} if windows is None else {"windows": windows}
            options |= {} if key is None else {"key": jax.random.wrap_key_data(key)}
            return model(*inputs, **options)

        return jax.vmap(one)(self.inputs, self.windows, keys)


def predict(
    model: Model, examples: Source, *, batch: int = 32, mesh: Devices = None
) -> Float[np.ndarray, "examples *out outputs"]:
    """The model's prediction for each example, whatever the others are, but for rounding.

    All batches have one shape; fewer than nine examples are a batch of 1 or 8. So little is compiled.

    Args:
        model: an Equinox module that takes one example.
        examples: the examples, in memory or a source of them such as a `neuralrde.Store`; they need no targets.
        batch: examples at a time.
        mesh: the devices to work on, a list or a mesh; None takes all devices, as long as each has eight examples of a
            batch. Several processes (`jax.distributed`) must all call it, and all get all predictions; with
            `jax.local_devices()` one predicts alone.

    >>> from neuralrde.models import NeuralRDE
    >>> model = NeuralRDE(channels=3, outputs=2, depth=2, key=jax.random.key(0))
    >>> predict(model, Examples((np.zeros((5, 3), np.float32), np.zeros((5, 10, 6), np.float32)))).shape
    (5, 2)
    """
    check_process()
    keep_programs()
    size = next((size for size in _FEW if len(examples) <= size <= batch), batch)
    mesh = device_mesh(mesh, batch=size)
    size = batch_size(size, mesh)
    placed = _placed(model, mesh)
    parts, found = batches(examples, size, own=local_rows(mesh, size)), []
    with Processes(mesh).lost_explained(), prefetched(parts, in_memory=isinstance(examples, Examples)) as parts:
        for part, _ in parts:
            found.append(np.asarray(placed(Examples(part.inputs, windows=part.windows))))
    return np.concatenate(found)[: len(examples)]


class _Rest:
    """What a model is beside its arrays: two models that are alike share their compiled programs."""

    def __init__(self, tree: Any, rest: Model, mesh: Mesh):
        self.tree, self.rest, self.mesh = tree, rest, mesh
        self.key = (tree, jax.tree.structure(rest), tuple(jax.tree.leaves(rest)), mesh)
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Rest) and self.key == other.key)


@once_per_model
def _placed(model: Model, mesh: Mesh) -> Callable[[Examples], Array]:
    """The predictions of a model whose arrays are put on these devices, once."""
    model = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, model)
    arrays, rest = eqx.partition(replicate(model, mesh), eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    rest = _Rest(tree, rest, mesh)
    share = (lambda part: part) if mesh.size == 1 else partial(shard_batch, mesh=mesh)
    return lambda part: _predictions(rest, leaves, share(part))


@partial(jax.jit, static_argnums=0)
def _predictions(rest: _Rest, leaves: list[Array], examples: Examples) -> Any:
    everywhere, shared = PartitionSpec(), PartitionSpec("batch")
    several = len({device.process_index for device in rest.mesh.devices.flat}) > 1

    def share(leaves, examples):
        own = examples.predictions(eqx.combine(jax.tree.unflatten(rest.tree, leaves), rest.rest))
        return jax.lax.all_gather(own, "batch", tiled=True) if several else own

    if rest.mesh.size == 1:
        return share(leaves, examples)
    specs = {"in_specs": (everywhere, shared), "out_specs": everywhere if several else shared, "check_vma": False}
    return jax.shard_map(share, mesh=rest.mesh, **specs)(leaves, examples)


def batch_size(wanted: int, mesh: Mesh) -> int:
    """The next size that can be shared out over the devices."""
    return -(-wanted // mesh.size) * mesh.size


def batches(
    examples: Source,
    count: int,
    size: int | None = None,
    *,
    seed: int | None = None,
    epoch: int = 0,
    own: Int[np.ndarray, " own"] | None = None,
) -> Iterator[tuple[Examples, Float[np.ndarray, " own"]]]:
    """All examples, `count` at a time, and how much each of them counts; padded to one size, by the last of a batch.

    They come in an order that only (seed, epoch) decides, or as they are. With `own` places in a batch (`local_rows`),
    only the examples there: each of several processes reads its own.
    """
    order = (
        np.arange(len(examples)) if seed is None else np.random.default_rng([seed, epoch]).permutation(len(examples))
    )
    places = np.arange(size or count) if own is None else own
    for start in range(0, len(examples), count):
        rows = order[start : start + count]
        batch = examples.take(rows[np.minimum(places, len(rows) - 1)])
        weights = (places < len(rows)).astype(np.float32)
        yield batch, weights if batch.weight is None else (weights * np.asarray(batch.weight)).astype(np.float32)


def as_weights(
    weight: OnePerSeries, count: int, what: str = "weight", each: str = "example", of: str = ""
) -> Float[np.ndarray, " examples"]:
    """Weights in float32, as they are used; an error for those with which a weighted mean would mean nothing."""
    with np.errstate(over="ignore"):
        weight = np.asarray(weight, np.float64).astype(np.float32)
    if weight.shape != (count,):
        raise ValueError(f"Got {what} of shape {weight.shape}{of}; expected ({count},), one weight per {each}.")
    if (wrong := ~(np.isfinite(weight) & (weight >= 0))).any():
        raise ValueError(
            f"Got {what} {weight[wrong][0]:g} for {each} {int(wrong.argmax())}{of}; expected finite numbers of 0 or "
            f"more, because a weight says how often one counts. Write 0 for one that should not count."
        )
    return weight


def check_weights(examples: Source, what: str) -> None:
    """Refuse wrong weights of examples, and those of which none is above 0."""
    if examples.weight is not None and not as_weights(examples.weight, len(examples), of=f" of the {what}").any():
        raise ValueError(
            f"Got weights that are all 0 for the {what}; expected at least one above 0, to learn from. Look at "
            "class_weight or sample_weight, if they were given."
        )


def targets_at_cuts(
    targets: Shaped[np.ndarray, "samples length *outputs"], cuts: Int[np.ndarray, "*samples cuts"]
) -> Shaped[np.ndarray, "samples cuts *outputs"]:
    """Pick, of targets at every point, those at the ends of windows, where a model with `EveryState()` predicts.

    Of two equal cuts (a series that has ended) the second has no known target, so that nothing is counted twice.

    >>> targets_at_cuts(np.array([[0, 1, 2, 3, 4], [5, 6, 7, 7, 7]]), np.array([[0, 2, 4], [0, 2, 2]]))
    array([[ 0,  2,  4],
           [ 5,  7, -1]])
    """
    cuts = np.broadcast_to(cuts, (len(targets), np.shape(cuts)[-1]))
    rows = np.arange(len(targets))[:, None]
    chosen = np.array(targets[rows, cuts])
    chosen[:, 1:][np.diff(cuts, axis=1) == 0] = np.nan if chosen.dtype.kind == "f" else -1
    return chosen


def is_known(target: Any) -> Any:
    """Tell where there is a target: numbers that are not NaN, classes from 0."""
    return ~jnp.isnan(target) if jnp.issubdtype(target.dtype, jnp.floating) else target >= 0
