"""Ctrl-C and SIGTERM between steps, never inside one: JAX may crash when an exception is thrown into its compiler."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Terminated(KeyboardInterrupt):
    """SIGTERM came: `kill`, a batch system, or a container that is being stopped."""


# How a program that has changed nothing handles these signals, and what is raised for them instead.
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
# Seconds in which a second signal is the same one: a scheduler sends it to a process
# and to its parent, which passes it on.
_ONCE = 0.3
# What was asked for since the outermost `interrupts_between_steps` began, and when.
_asked: type[KeyboardInterrupt] | None = None
_asked_at = 0.0


@contextmanager
def interrupts_between_steps(
    total: Callable[..., tuple[float, ...]] = lambda *numbers: numbers,
) -> Iterator[Callable[[], None]]:
    """Yields a function to call after every step: KeyboardInterrupt if Ctrl-C came since, `Terminated` if SIGTERM did.

    With `total=Processes(...).sum` it raises in all processes after the same step. A second signal does not wait. Uses
    may be nested. Nothing changes outside the main thread, or for a signal that the program handles itself.

    >>> with interrupts_between_steps() as stop_here:
    ...     stop_here()
    """
    global _asked

    def stop_here() -> None:
        interrupted, terminated = total(_asked is KeyboardInterrupt, _asked is Terminated)
        if interrupted or terminated:
            raise Terminated if terminated else KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = [number for number, usual in _DEFAULTS.items() if in_main_thread and signal.getsignal(number) is usual]
    if not ours:
        yield stop_here
        return
    _asked = None
    for number in ours:
        signal.signal(number, _ask)
    try:
        yield stop_here
        if _asked is not None:
            raise _asked
    finally:
        _asked = None
        for number in ours:
            signal.signal(number, _DEFAULTS[number])


def _ask(number, frame) -> None:
    global _asked, _asked_at
    if _asked is None:
        _asked, _asked_at = _RAISED[number], time.monotonic()
    elif time.monotonic() - _asked_at > _ONCE:
        raise _RAISED[number]
