"""The error that clients see."""


class Refused(Exception):
    """What a client asked for and does not get, in a sentence.

    Args:
        status: HTTP's number for it.
        message: got, expected, why, what to write instead.
        retry_after: seconds after which it may work, if time is what it takes.

    >>> Refused(429, "Too many points.", retry_after=2).headers
    {'Retry-After': '2'}
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Of an HTTP response."""
        return {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}

    @property
    def body(self) -> dict[str, str]:
        """As the Open Inference Protocol has it."""
        return {"error": self.message}
