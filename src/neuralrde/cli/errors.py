"""Exit codes, and the error that carries one."""

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Refusal(Exception):
    """A sentence for the user: got, expected, what to write instead."""

    def __init__(self, message: str, code: int = FAILED):
        super().__init__(message)
        self.code = code
