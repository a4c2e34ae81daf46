"""Ctrl-C and SIGTERM between steps, never inside one: JAX may crash when an exception is thrown into its compiler."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Terminated(KeyboardInterrupt):
    """SIGTERM came: `kill`, a batch system, or a container that is being stopped."""


# How a program that has changed nothing handles these signals, and what is raised for them instead.
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}

# What was asked for since the outermost `interrupts_between_steps` began.
_asked: type[KeyboardInterrupt] | None = None


@contextmanager
def interrupts_between_steps() -> Iterator[Callable[[], None]]:
    """Yields a function to call after every step. It raises KeyboardInterrupt if Ctrl-C came since, `Terminated` if
    SIGTERM did.

    A second signal does not wait. Uses may be nested. Nothing changes outside the main thread, or for a signal that the
    program handles itself.

    >>> with interrupts_between_steps() as stop_here:
    ...     stop_here()
    """
    global _asked
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = [number for number, usual in _DEFAULTS.items() if in_main_thread and signal.getsignal(number) is usual]
    if not ours:
        yield _stop_if_asked
        return
    _asked = None
    for number in ours:
        signal.signal(number, _ask)
    try:
        yield _stop_if_asked
        _stop_if_asked()
    finally:
        _asked = None
        for number in ours:
            signal.signal(number, _DEFAULTS[number])


def _ask(number, frame) -> None:
    global _asked
    if _asked is not None:
        raise _RAISED[number]
    _asked = _RAISED[number]


def _stop_if_asked() -> None:
    if _asked is not None:
        raise _asked
