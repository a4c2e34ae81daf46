"""Names of data sets that may become names of folders."""

import re

_LONGEST = 60  # letters take up to 4 bytes, and file systems allow 255


def safe_name(name: object, otherwise: str = "data") -> str:
    """A name as one part of a path: letters, digits, `-`, `_` and `.`; never empty, hidden or a way out.

    Data files carry names of their own, and results are kept under them: what a file says must not choose
    where they go. Of a path the last part is kept, and other characters become `_`.

    >>> safe_name("EigenWorms"), safe_name("two words"), safe_name("../../outside"), safe_name("..")
    ('EigenWorms', 'two_words', 'outside', 'data')

    Args:
        name: what a file, or a user, says.
        otherwise: what takes its place if nothing of it is left.
    """
    last = re.split(r"[/\\]", str(name).strip())[-1]
    safe = re.sub(r"[^\w.-]+", "_", last)
    return safe.strip("._-")[:_LONGEST].strip("._-") or otherwise
