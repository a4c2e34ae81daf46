"""Several models of one kind as one: their outputs are averaged, and they are trained side by side."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._types import AnyArray, State
from ..frozen import Frozen, once_per_model
from .base import AbstractModel, as_model
from .conditioning import LabelScale
from .readouts import Count


class Ensemble(AbstractModel):
    """Models of one kind from different initial weights. The prediction is the mean of their outputs.

    Their arrays are stacked, so that all of them are computed, and trained, as one.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde import Config, NeuralRDE
    >>> model = Ensemble.of(Config(NeuralRDE), 3, channels=2, outputs=1, depth=2, key=jax.random.key(0))
    >>> model(jnp.zeros(2), jnp.ones((5, 3))).shape, model.each(jnp.zeros(2), jnp.ones((5, 3))).shape
    ((1,), (3, 1))
    """

    members: AbstractModel
    """One model, each of whose arrays has a first axis of members."""
    number: int = eqx.field(static=True)

    @staticmethod
    def of(config: Callable, members: int, *, key: PRNGKeyArray, **sizes: Any) -> "Ensemble":
        """Models that a `Config` makes, each with its own random key."""
        inputs = {name: sizes[name] for name in ("depth", "scales") if name in sizes}
        make = lambda key: as_model(config(key=key, **sizes), **inputs)
        return Ensemble(eqx.filter_vmap(make)(jax.random.split(key, members)), members)

    def __call__(self, *inputs: Any, windows: Count | None = None) -> Float[Array, "*out outputs"]:
        return self.each(*inputs, windows=windows).mean(axis=0)

    def each(
        self, *inputs: Any, windows: Count | None = None, key: PRNGKeyArray | None = None
    ) -> Float[Array, "members *out outputs"]:
        """Every member's own output; with a key, each with a dropout of its own, if it has any."""
        options = {} if windows is None else {"windows": windows}
        keys = jax.random.split(key, self.number) if key is not None and self.members.takes_key else None
        with_key = lambda key: options if key is None else {**options, "key": key}
        return self._of_each(lambda member, key: member(*inputs, **with_key(key)), keys)

    # For a series that is still arriving; see `AbstractDrivenModel`. The first axis of a state's arrays is the member.

    def start(self, x0: Float[AnyArray, " channels"]) -> State:
        return self._of_each(lambda member, _: member.start(x0), None)

    def advance(self, state: State, log_signature: Float[AnyArray, " controls"]) -> State:
        return self._of_each(lambda member, own: member.advance(own, log_signature), state)

    def output(self, state: State) -> Float[Array, " outputs"]:
        return self._of_each(lambda member, own: member.output(own), state).mean(axis=0)

    def _of_each(self, function: Callable, states: State) -> State:
        # One after the other: each is then a product of a whole batch and a matrix, which is what XLA is fast at.
        arrays, rest = eqx.partition(self.members, eqx.is_array)
        return jax.lax.map(lambda own: function(eqx.combine(own[0], rest), own[1]), (arrays, states))

    @property
    def many_devices(self) -> bool:
        return self.members.many_devices

    @property
    def ignores_padding(self) -> bool:
        return self.members.ignores_padding

    @property
    def first(self) -> Any:
        """One of the members. What it takes as inputs, all of them take."""
        return _first_of(self)

    def inputs(self, path: Any, times: Any, cuts: Any, **since: Any) -> tuple[Any, ...]:
        return self.first.inputs(path, times, cuts, **since)

    def fit_inputs(self, inputs: tuple[Any, ...], *, windows: Any = None) -> Self:
        """The ensemble with statistics of the training set's inputs, the same for all members."""
        return self._with_statistics(self.first.fit_inputs(inputs, windows=windows))

    def with_labels(self, labels: LabelScale) -> Self:
        return self._with_statistics(self.first.with_labels(labels))

    def _with_statistics(self, member: AbstractModel) -> Self:
        """The ensemble with one member's frozen arrays in all members."""

        def shared(theirs, own):
            if not isinstance(own, Frozen):
                return theirs
            return Frozen(jax.device_put(np.broadcast_to(np.asarray(own.array), (self.number, *own.array.shape))))

        members = jax.tree.map(shared, self.members, member, is_leaf=lambda node: isinstance(node, Frozen))
        return Ensemble(members, self.number)  # type: ignore


@once_per_model
def _first_of(ensemble: "Ensemble") -> Any:
    return jax.tree.map(_first, ensemble.members)


def _first(leaf: Any) -> Any:
    """The first member's part of an array that has an axis of members; by NumPy, which neither compiles nor copies."""
    if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
        return np.asarray(leaf)[0]
    return leaf[0] if eqx.is_array(leaf) else leaf


class CrossFitted(AbstractModel):
    """An ensemble in training, called with the number of an example's fold after the model's inputs.

    It gives every member's output. That of the member with this number has no gradient, so that each learns from all
    series but those of its own fold. A fold of -1 is left out by nobody.
    """

    ensemble: Ensemble
    takes_key: ClassVar[bool] = True

    @property
    def many_devices(self) -> bool:
        return self.ensemble.many_devices

    def inputs(self, path, times, cuts, **since):
        return self.ensemble.inputs(path, times, cuts, **since)

    def __call__(
        self, *inputs: Any, windows: Count | None = None, key: PRNGKeyArray | None = None
    ) -> Float[Array, "members *out outputs"]:
        *own, fold = inputs
        outputs = self.ensemble.each(*own, windows=windows, key=key)
        left_out = (jnp.arange(self.ensemble.number) == fold).reshape(-1, *[1] * (outputs.ndim - 1))
        return jnp.where(left_out, jax.lax.stop_gradient(outputs), outputs)


def out_of_fold(
    outputs: Float[np.ndarray, "samples members *out"], fold: Int[np.ndarray, " samples"]
) -> Float[np.ndarray, "samples *out"]:
    """Pick, of every member's outputs, those of the member that has not learned from the sample.

    >>> import numpy as np
    >>> out_of_fold(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0])).tolist()
    [2.0, 3.0]
    """
    return outputs[range(len(fold)), fold]
