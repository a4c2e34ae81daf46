"""Ctrl-C between steps, never inside one: JAX may crash when an exception is thrown into its compiler."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Whether Ctrl-C came since the outermost `interrupts_between_steps` began; None outside of any.
_asked: bool | None = None


@contextmanager
def interrupts_between_steps() -> Iterator[Callable[[], None]]:
    """Gives a function to call after every step: it raises KeyboardInterrupt if Ctrl-C came since.

    A second Ctrl-C does not wait. May be used inside itself. Outside the main thread, or where a program handles the
    signal its own way, nothing is changed.

    >>> with interrupts_between_steps() as stop_here:
    ...     stop_here()
    """
    global _asked
    old = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or old is not signal.default_int_handler:
        yield _stop_if_asked
        return
    _asked = False
    signal.signal(signal.SIGINT, _ask)
    try:
        yield _stop_if_asked
        _stop_if_asked()
    finally:
        _asked = None
        signal.signal(signal.SIGINT, old)


def _ask(number, frame) -> None:
    global _asked
    if _asked:
        raise KeyboardInterrupt
    _asked = True


def _stop_if_asked() -> None:
    if _asked:
        raise KeyboardInterrupt
