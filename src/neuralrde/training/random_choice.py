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
    """Padded with windows in which nothing happens, so that all have the same shape."""
    shapes = [version.inputs[-1].shape[1:] for version in versions]
    if len(set(shapes)) == 1 and all(version.windows is None for version in versions):
        return list(versions)
    most = max(shape[0] for shape in shapes)
    padded = []
    for version in versions:
        *others, windows = version.inputs
        count = np.full(len(version), windows.shape[1]) if version.windows is None else np.asarray(version.windows)
        space = np.zeros((len(version), most - windows.shape[1], *windows.shape[2:]), windows.dtype)
        inputs = (*others, np.concatenate([np.asarray(windows), space], axis=1))
        padded.append(Examples(inputs, version.target, windows=count.astype(np.int32), weight=version.weight))
    return padded
