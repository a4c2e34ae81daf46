"""Exit codes, and the error that carries one."""

FAILED, WRONG_USE, LOST, INTERRUPTED, TERMINATED = 1, 2, 75, 130, 143


class Refusal(Exception):
    """A sentence for the user: got, expected, what to write instead."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return type(self), (str(self), self.code)  # from one of several processes to the others


def how_stopped(error: BaseException) -> tuple[str, int]:
    """The word and the exit code for an interrupt: by SIGTERM, as a scheduler sends it, or by Ctrl-C.

    >>> how_stopped(KeyboardInterrupt())
    ('Interrupted', 130)
    """
    # Training raises a KeyboardInterrupt of its own at SIGTERM. Ray makes an exit of it.
    terminated = type(error).__name__ == "Terminated" or isinstance(error, SystemExit)
    return ("Terminated", TERMINATED) if terminated else ("Interrupted", INTERRUPTED)


def is_lost(error: BaseException) -> bool:
    """Whether another of several processes was lost. The name, because its class is in a module that loads JAX."""
    return type(error).__name__ == "ProcessLost"
