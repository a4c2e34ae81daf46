"""Several versions of each example, from which every epoch draws one."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from .examples import Examples


@dataclass(frozen=True, eq=False)
class RandomChoice:
    """Training examples in several versions; every epoch draws one version of each example.

    A series that is cut at other points (`window_cuts(series, step=..., shift=...)`) is the same path, and a model of
    paths should predict the same. So shifted windows can be versions. So can some epochs of `Augmented`, made once.

    Args:
        versions: several `Examples`, with the same examples in the same order; targets may differ.
        seed: seed of the draws.

    >>> low, high = (Examples((np.full((4, 1), value),), np.arange(4)) for value in (0.0, 1.0))
    >>> RandomChoice([low, high]).epoch(0).inputs[0].ravel().tolist()
    [0.0, 1.0, 0.0, 0.0]
    """

    versions: Sequence[Examples]
    seed: int = 0

    def __post_init__(self):
        if len({len(version) for version in self.versions}) != 1:
            raise ValueError(
                f"Got versions of {[len(version) for version in self.versions]} examples; expected the same examples "
                "in each, at least one version."
            )
        object.__setattr__(self, "versions", with_as_many_windows(self.versions))

    def __len__(self) -> int:
        return len(self.versions[0])

    def epoch(self, number: int) -> Examples:
        """The examples of an epoch; (seed, number) alone decide."""
        drawn = np.random.default_rng([self.seed, number, 2]).integers(len(self.versions), size=len(self))

        def one_of_each(*leaves):
            chosen = np.array(leaves[0])
            for version, leaf in enumerate(leaves[1:], 1):
                chosen[drawn == version] = np.asarray(leaf)[drawn == version]
            return chosen

        return jax.tree.map(one_of_each, *self.versions)


def with_as_many_windows(versions: Sequence[Examples]) -> list[Examples]:
    """The versions, padded with windows in which nothing happens, so that all have the same shape."""
    # The log-signatures: a number of an example's fold may come after them.
    place = max(
        (i for i, array in enumerate(versions[0].inputs) if array.ndim > 2), default=len(versions[0].inputs) - 1
    )
    shapes = [[array.shape[1:] for array in version.inputs] for version in versions]
    if all(shape == shapes[0] for shape in shapes) and all(version.windows is None for version in versions):
        return list(versions)
    for shape in shapes:
        if any(own != first for i, (own, first) in enumerate(zip(shape, shapes[0], strict=True)) if i != place):
            raise ValueError(
                f"Got versions with inputs of shapes {shapes[0]} and {shape}; expected them to differ in the number of "
                "windows only, because windows without a change can be put after the others. Train such a model, "
                "`CubicCDE` for example, on one version."
            )
    counts = [version.inputs[place].shape[1] for version in versions]
    most, padded = max(counts), []
    for version, windows in zip(versions, counts, strict=True):
        count = np.full(len(version), windows) if version.windows is None else np.asarray(version.windows)
        inputs = list(version.inputs)
        others = [(0, 0)] * (inputs[place].ndim - 2)
        inputs[place] = np.pad(inputs[place], [(0, 0), (0, most - windows), *others])
        padded.append(Examples(tuple(inputs), version.target, windows=count.astype(np.int32), weight=version.weight))
    return padded
