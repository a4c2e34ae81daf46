"""Lyndon words: they index the log-signature, and their bracketings are a basis of the free Lie algebra.

A word is a tuple of channel numbers. It is Lyndon if it comes strictly before all its proper suffixes in the
dictionary. Everything here is combinatorics on Python integers; nothing touches data.
"""

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ..paths.checks import check_fits, check_whole
from ..paths.windows import depths_of

Word = tuple[int, ...]
Basis = Literal["words", "brackets", "expanded"]
BASES: tuple[Basis, ...] = ("words", "brackets", "expanded")


@lru_cache(maxsize=256, typed=True)  # typed, because 2.0 is refused even after 2
def log_signature_channels(channels: int, depth: int) -> int:
    """Number of channels of a depth-N log-signature: the paper's β(v, N), by Witt's formula.

        β(v, N) = Σ_{k ≤ N} 1/k Σ_{i divides k} μ(k/i) v^i,    μ the Möbius function

    >>> log_signature_channels(6, depth=3)
    91
    """
    check_channels_and_depth(channels, depth)
    channels, depth = int(channels), int(depth)  # NumPy's integers overflow
    return sum(_words_of_length(channels, length) for length in range(1, depth + 1))


def _words_of_length(channels: int, length: int) -> int:
    divisors = [i for i in range(1, length + 1) if length % i == 0]
    return sum(_moebius(length // i) * channels**i for i in divisors) // length


def _moebius(n: int) -> int:
    sign = 1
    for prime in range(2, n + 1):
        if n % prime == 0:
            n //= prime
            if n % prime == 0:
                return 0
            sign = -sign
    return sign


@lru_cache(maxsize=64)
def lyndon_words(channels: int, depth: int) -> tuple[Word, ...]:
    """All Lyndon words over `channels` letters of length at most `depth`: shorter ones first, then as in a dictionary.

    This is the order of the channels of a log-signature, in the words basis and in the brackets basis alike.

    >>> lyndon_words(2, depth=3)
    ((0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1))
    """
    count = log_signature_channels(channels, depth)
    channels, depth = int(channels), int(depth)
    # A tuple takes 40 bytes and 8 for each letter, and two lists point to it.
    check_fits(
        count * (56 + 8 * depth),
        f"The {count:,} Lyndon words over {channels} letters up to length {depth}",
        "Take a smaller depth or fewer channels.",
    )
    # Duval's algorithm makes them in the order of the dictionary.
    words, word = [], [-1]
    while word:
        word[-1] += 1
        words.append(tuple(word))
        prefix = len(word)
        while len(word) < depth:
            word.append(word[-prefix])
        while word and word[-1] == channels - 1:
            word.pop()
    return tuple(sorted(words, key=len))


def factorise(word: Word) -> tuple[Word, Word]:
    """The standard factorisation of a Lyndon word into two: the second is its longest proper Lyndon suffix.

    >>> factorise((0, 0, 1))
    ((0,), (0, 1))
    """
    if len(word) < 2:
        raise ValueError(f"Got the word {word}; only a Lyndon word of at least two letters has a factorisation.")
    # The longest proper Lyndon suffix is the smallest proper suffix in the dictionary.
    cut = min(range(1, len(word)), key=lambda i: word[i:])
    return word[:cut], word[cut:]


def bracketing(word: Word):
    """The bracket of a Lyndon word as nested pairs of channel numbers, by its standard factorisation.

    >>> bracketing((0, 0, 1))
    (0, (0, 1))
    """
    if len(word) == 1:
        return word[0]
    left, right = factorise(word)
    return bracketing(left), bracketing(right)


@lru_cache(maxsize=16)
def brackets_to_expanded(channels: int, depth: int) -> sparse.csr_array:
    """Matrix whose column for a Lyndon word is its bracket written out in the tensor algebra (levels 1 to depth)."""
    words = lyndon_words(channels, depth)
    expansions: dict[Word, dict[Word, int]] = {}
    for word in words:
        expansions[word] = _expand(word, expansions)
    rows = [word_position(w, channels) for word in words for w in expansions[word]]
    columns = [i for i, word in enumerate(words) for _ in expansions[word]]
    values = [value for word in words for value in expansions[word].values()]
    shape = (signature_channels(channels, depth), len(words))
    return sparse.csr_array((np.array(values, float), (rows, columns)), shape=shape)


def _expand(word: Word, expansions: dict[Word, dict[Word, int]]) -> dict[Word, int]:
    """[u, v] = uv - vu, from the expansions of the shorter words u and v."""
    if len(word) == 1:
        return {word: 1}
    left, right = (expansions[part] for part in factorise(word))
    out: dict[Word, int] = {}
    for u, a in left.items():
        for v, b in right.items():
            out[u + v] = out.get(u + v, 0) + a * b
            out[v + u] = out.get(v + u, 0) - a * b
    return {w: value for w, value in out.items() if value}


@lru_cache(maxsize=16)
def brackets_to_words(channels: int, depth: int) -> sparse.csr_array:
    """Matrix from bracket coordinates to coefficients of Lyndon words: unipotent, the identity up to depth 2."""
    positions = [word_position(word, channels) for word in lyndon_words(channels, depth)]
    return brackets_to_expanded(channels, depth)[positions]


@lru_cache(maxsize=16)
def words_to_brackets(channels: int, depth: int) -> sparse.csr_array:
    """The inverse of `brackets_to_words`, exactly: both have whole numbers as entries."""
    matrix = brackets_to_words(channels, depth)
    words = lyndon_words(channels, depth)
    # A bracket is its own word plus words later in the dictionary, so the system is solved from the first word on:
    # c(w) = words(w) - sum of matrix[w, v] c(v) over the words v before w.
    inverse: dict[int, dict[int, float]] = {}
    for i in sorted(range(len(words)), key=lambda i: words[i]):
        row = {i: 1.0}
        for j, entry in zip(*_row(matrix, i), strict=True):
            if j != i:
                for k, value in inverse[j].items():
                    row[k] = row.get(k, 0.0) - entry * value
        inverse[i] = {k: value for k, value in row.items() if value}
    rows = [i for i, row in inverse.items() for _ in row]
    columns = [k for row in inverse.values() for k in row]
    values = [value for row in inverse.values() for value in row.values()]
    return sparse.csr_array((values, (rows, columns)), shape=matrix.shape)


def _row(matrix: sparse.csr_array, i: int) -> tuple[list[int], list[float]]:
    span = slice(matrix.indptr[i], matrix.indptr[i + 1])
    return matrix.indices[span].tolist(), matrix.data[span].tolist()


@lru_cache(maxsize=16)
def basis_matrix(channels: int, depth: int, old: Basis, new: Basis) -> sparse.csr_array:
    """The linear map from log-signatures in one basis to those in another."""
    if old == "expanded":
        positions = [word_position(word, channels) for word in lyndon_words(channels, depth)]
        shape = (len(positions), signature_channels(channels, depth))
        to_words = sparse.csr_array((np.ones(len(positions)), (range(len(positions)), positions)), shape=shape)
        return to_words if new == "words" else words_to_brackets(channels, depth) @ to_words
    if new == "words":
        return brackets_to_words(channels, depth)
    if old == "words":
        to_brackets = words_to_brackets(channels, depth)
        return to_brackets if new == "brackets" else brackets_to_expanded(channels, depth) @ to_brackets
    return brackets_to_expanded(channels, depth)


def word_position(word: Word, channels: int) -> int:
    """Where a word stands in a flattened signature: after all shorter words, then in the order of the dictionary.

    >>> word_position((1, 0), channels=2)
    4
    """
    position = 0
    for letter in word:
        position = position * channels + letter
    return position + signature_channels(channels, len(word) - 1)


def signature_channels(channels: int, depth: int) -> int:
    """Number of channels of a depth-N signature, v + v² + ... + v^N (the leading 1 is not stored).

    >>> signature_channels(3, depth=2)
    12
    """
    return sum(int(channels) ** level for level in range(1, int(depth) + 1))


def check_channels_and_depth(channels: int, depth: int) -> None:
    check_whole("channels", channels, high=np.inf, because="a path needs a value to follow")
    check_whole("depth", depth, high=np.inf, because="depth 1 already keeps only increments")


def basis_channels(
    channels: int, depth: int | tuple[int, ...], basis: Basis = "words", *, scales: tuple[float, ...] = (1,)
) -> int:
    """Number of channels of a log-signature in a basis: β(v, N), or v + ... + v^N when expanded; at all scales.

    >>> basis_channels(3, 2), basis_channels(3, (3, 2, 2), scales=(1, 2, 4))
    (6, 26)
    """
    check_basis(basis)

    def size(depth: Any) -> int:
        words = log_signature_channels(channels, depth)  # which checks both numbers
        return signature_channels(channels, depth) if basis == "expanded" else words

    if not isinstance(depth, tuple | list):
        return len(scales) * size(depth)
    return sum(map(size, depths_of(depth, scales)))


def check_basis(basis: str) -> None:
    if basis not in BASES:
        raise ValueError(f"Got basis={basis!r}; expected one of {', '.join(map(repr, BASES))}.")
