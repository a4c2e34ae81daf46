"""Exit codes, and the error that carries one."""

FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 1, 2, 130, 143


class Refusal(Exception):
    """A sentence for the user: got, expected, what to write instead."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code


def is_termination(error: BaseException) -> bool:
    """Whether an interrupt came from SIGTERM, as from a scheduler, and not from Ctrl-C."""
    return type(error).__name__ == "Terminated"
