"""The base class of fields. With a window's log-signature, a field becomes an autonomous field of z."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float

from ..errors import warn
from ..paths.checks import check_fits
from ..signatures.bases import Basis

# More weights than this are a mistaken depth more often than a wish.
_MANY_WEIGHTS = 50_000_000
# A weight in float32, its gradient and Adam's two moments, at the least; measured in training, with a batch.
_LEAST_BYTES, _USUAL_BYTES = 16, 108

# z -> dz/du, for u from 0 to 1 across one window.
Autonomous = Callable[[Float[Array, " state"]], Float[Array, " state"]]


class AbstractControlledField(eqx.Module):
    """A vector field that an input, of whatever kind, turns into an autonomous one."""

    state: eqx.AbstractVar[int]
    """Number of channels of the hidden state z."""
    controls: eqx.AbstractVar[int]
    """Number of channels of the input."""

    @abstractmethod
    def contract(self, control: Float[Array, " controls"]) -> Autonomous:
        """The autonomous field for one input."""

    def prepare(self) -> "AbstractControlledField":
        """Does once per solve what does not depend on the input. By default it does nothing."""
        return self


class AbstractField(AbstractControlledField):
    """A vector field driven by log-signatures.

    Its one duty is `contract`: the log-signature of a window turns it into the autonomous field F of the
    log-ODE (definition A.6 of the paper), z' = F(z) for unit time. Nothing else is required, so a new field is one
    small file. A zero log-signature must give F = 0, so that series of different lengths can be padded.
    """

    basis: eqx.AbstractClassVar[Basis]
    """The basis in which the log-signature must be written."""

    @abstractmethod
    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        """The autonomous field of one window."""

    def prepare(self) -> "AbstractField":
        return self


def check_controls(field: AbstractControlledField, size: int) -> None:
    """Raise, with what to write instead, unless log-signatures of `size` channels are what the field was built for."""
    if size == field.controls:
        return
    if not isinstance(field, AbstractField):
        raise ValueError(f"Got inputs of {size} channels; expected {field.controls}, as {type(field).__name__} has.")
    raise ValueError(
        f"Got log-signatures of {size} channels; expected {field.controls} ({field.basis} basis), "
        f"because that is what this {type(field).__name__} was built for. Compute them with the field's "
        "own depth and basis, for example `log_signatures(path, depth, step=..., "
        f"basis={field.basis!r})`."
    )


def check_size(weights: int, *, controls: int, state: int) -> None:
    """Say how large a field would be before it is made: refuse what cannot be trained here, warn of what is very large.

    The number of log-signature channels grows like the channels of the path to the power of the depth, and every one of
    them has its own part of the last layer.
    """
    what = (
        f"The {weights / 1e6:,.0f} million weights of a field of {controls:,} log-signature channels and state {state}"
    )
    instead = "Take a smaller depth, fewer channels, or a smaller state or width."
    check_fits(weights * _LEAST_BYTES, f"{what}, with gradients and Adam's moments,", instead)
    if weights > _MANY_WEIGHTS:
        warn(f"{what} take some {weights * _USUAL_BYTES / 1e9:,.0f} GB in training. {instead}")
