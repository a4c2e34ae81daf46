"""The base class of solvers, which carry a state through the log-ODEs of all windows."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from ..fields import AbstractControlledField


class AbstractSolver(eqx.Module):
    """A solver of the log-ODEs. A new solver is one file: a subclass with `integrate`."""

    many_devices: ClassVar[bool] = True
    """Whether it works where a batch is shared out over several devices."""

    @abstractmethod
    def integrate(
        self,
        field: AbstractControlledField,
        z0: Float[Array, " state"],
        log_signatures: Float[Array, "windows controls"],
        *,
        substeps: int,
        gradient: Any,
        every_window: bool,
    ) -> Float[Array, "*windows state"]:
        """The state after the last window, or after every window, (windows, state).

        Args:
            field: the field, prepared once per solve.
            z0: the initial state, in the precision of the solve.
            log_signatures: one per window, for at least one window.
            substeps: steps per window, for solvers with steps of equal length.
            gradient: how the solve is differentiated, for solvers that leave that open.
            every_window: whether to return the states after all windows.
        """
