"""What can go wrong with data: a file that does not say what it should, a data set that cannot be had."""


class ReadError(ValueError):
    """A file does not hold what its reader expects; the message names the file, the line and what to do."""

    def __init__(self, file: object, message: str, *, line: int | None = None):
        where = f"{file}" if line is None else f"{file}, line {line}"
        super().__init__(f"{where}: {message}")


class DatasetUnavailable(FileNotFoundError):
    """A data set is not here and cannot be fetched; the message says which file to put where."""
