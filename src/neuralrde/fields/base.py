"""What every field is: something that, given a window's log-signature, becomes an autonomous field of z."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float

from ..signatures.bases import Basis

# z -> dz/du, for u from 0 to 1 across one window.
Autonomous = Callable[[Float[Array, " state"]], Float[Array, " state"]]


class AbstractField(eqx.Module):
    """A vector field driven by log-signatures.

    Its one duty is `contract`: the log-signature of a window turns it into the autonomous field F of the
    log-ODE (definition A.6 of the paper), z' = F(z) for unit time. Nothing else is asked, so that a new field
    is one small file. A zero log-signature must give F = 0: that is what lets ragged series be padded.
    """

    state: eqx.AbstractVar[int]
    """Number of channels of the hidden state z."""
    controls: eqx.AbstractVar[int]
    """Number of channels that drive the field: the length of a log-signature."""
    basis: eqx.AbstractClassVar[Basis]
    """The basis in which the log-signature must be written."""

    @abstractmethod
    def contract(self, log_signature: Float[Array, " controls"]) -> Autonomous:
        """The autonomous field of one window."""

    def prepare(self) -> "AbstractField":
        """What does not depend on the window, done once a solve. By default nothing."""
        return self


def check_controls(field: AbstractField, size: int) -> None:
    """Raise, with what to write instead, unless log-signatures of `size` channels are what the field was built for."""
    if size != field.controls:
        raise ValueError(
            f"Got log-signatures of {size} channels; expected {field.controls} ({field.basis} basis), "
            f"because that is what this {type(field).__name__} was built for. Compute them with the field's "
            "own depth and basis, for example `log_signatures(path, depth, step=..., "
            f"basis={field.basis!r})`."
        )
