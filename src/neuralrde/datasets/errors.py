"""What can go wrong with data: a file that does not say what it should, a data set that cannot be had."""


class ReadError(ValueError):
    """A file does not hold what its reader expects; the message names the file, the line and what to do."""

    def __init__(self, file: object, message: str, line: int | None = None):
        super().__init__(str(file), message, line)

    def __str__(self) -> str:
        file, message, line = self.args
        return f"{file}: {message}" if line is None else f"{file}, line {line}: {message}"


class DatasetUnavailable(FileNotFoundError):
    """A data set is not here and cannot be fetched; the message says which file to put where."""
