"""Damage to bytes, to lines of text, and to the cells of a table."""

import random
import re

# What readers stumble over: numbers beyond their types, words for nothing, marks of the formats, odd letters.
CELLS = [
    *("", " ", "0", "-0", "1", "-1", "1.5", "nan", "NaN", "inf", "-inf", "Infinity", "1e308", "1e400", "-1e-320"),
    *("9" * 400, "0." + "1" * 400, "2147483648", "18446744073709551616", "1_000", "1,000.5", "1.234,5", "0x10", "1e"),
    *(
        "?",
        "None",
        "null",
        "true",
        "False",
        "#N/A",
        "NA",
        "-",
        "--",
        "a",
        "é",
        "日本",
        "\x00",
        "\x1a",
        "\ufeff",
        "\x7f",
    ),
    *("2024-02-29", "2024-02-30", "29.02.2024", "02/29/2024", "2024-02-29T12:00:00Z", "9999-12-31", "0001-01-01"),
    *("12:00", "25:61:61", "2024-02-29 12:00+02:00", '"', "'", '""', '"a', "a\nb", "(", ")", "(0,1)", ":", ",", ";"),
    *(
        "\t",
        "@data",
        "@classLabel",
        "@relation",
        "@attribute",
        "{",
        "}",
        "{a,b}",
        "%",
        "#",
        "\\n",
        "'1,2\\n3,4'",
        "../x",
    ),
    *("id", "t", "time", "target", "split", "train", "test", "x" * 3000),
]
_SEPARATORS = re.compile(r"([,;:\t\n ])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def flip(content: bytes, rng: random.Random) -> bytes:
    """One to eight bits."""
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 8]) if content else 0):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def overwrite(content: bytes, rng: random.Random) -> bytes:
    start, length = _span(content, rng, 16)
    return (
        content[:start]
        + rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])
        + content[start + length :]
    )


def truncate(content: bytes, rng: random.Random) -> bytes:
    return (
        content[: rng.randrange(len(content) + 1)] if rng.random() < 0.8 else content[rng.randrange(len(content) + 1) :]
    )


def remove(content: bytes, rng: random.Random) -> bytes:
    start, length = _span(content, rng, 64)
    return content[:start] + content[start + length :]


def duplicate(content: bytes, rng: random.Random) -> bytes:
    start, length = _span(content, rng, len(content))
    return content[: start + length] * rng.choice([1, 1, 2]) + content[start:]


def insert(content: bytes, rng: random.Random) -> bytes:
    start, _ = _span(content, rng, 1)
    new = rng.choice([rng.randbytes(rng.randrange(1, 9)), rng.choice(CELLS).encode()])
    return content[:start] + new + content[start:]


def _span(content: bytes, rng: random.Random, longest: int) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content) - start, rng.randrange(1, max(2, longest + 1)))


BYTES = [flip, overwrite, truncate, remove, duplicate, insert]


def damage(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        content = rng.choice(BYTES)(content, rng)
    return content


def edit_text(content: bytes, rng: random.Random) -> bytes:
    """Lines and cells are removed, doubled, exchanged and replaced; rarely the encoding changes."""
    text = content.decode("utf-8", "surrogateescape")
    for _ in range(rng.choice([1, 1, 1, 1, 2, 5])):
        text = rng.choice([_lines, _cells, _cells, _cells, _numbers, _endings])(text, rng)
    if rng.random() < 0.05:
        return text.encode(rng.choice(["utf-16", "utf-8-sig", "latin-1", "utf-32"]), "replace")
    return text.encode("utf-8", "surrogateescape")


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case 3:
            lines[i:i] = [rng.choice(lines)] * rng.choice([1, 2, 30])
        case _:
            lines.insert(i, rng.choice(CELLS))
    return "\n".join(lines)


def _cells(text: str, rng: random.Random) -> str:
    """Separators are cells too: they may be lost, doubled or replaced."""
    cells = _SEPARATORS.split(text)
    # A place in the header as often as one in the data: it is short and decides much.
    i = rng.randrange(len(cells)) if rng.random() < 0.7 else rng.randrange(min(len(cells), 24))
    match rng.randrange(4):
        case 0:
            del cells[i]
        case 1:
            cells.insert(i, cells[rng.randrange(len(cells))])
        case _:
            cells[i] = rng.choice(CELLS)
    return "".join(cells)


def _numbers(text: str, rng: random.Random) -> str:
    """Two numbers change places, or one becomes another."""
    found = list(_NUMBER.finditer(text))
    if len(found) < 2:
        return text
    a, b = sorted(rng.sample(range(len(found)), 2))
    a, b = found[a], found[b]
    first = rng.choice([b.group(), str(rng.choice([0, -1, 10**6, 10**9, 2**63, 1e300, float(a.group()) * 10]))])
    return text[: a.start()] + first + text[a.end() : b.start()] + a.group() + text[b.end() :]


def _endings(text: str, rng: random.Random) -> str:
    match rng.randrange(4):
        case 0:
            return text.replace("\n", "\r\n")
        case 1:
            return text.replace(",", rng.choice([";", "\t", "|", ", "]))
        case 2:
            return text.replace("\n", "\r")
        case _:
            return text + rng.choice(["\n\n", "\x00", "\x1a", "# end", ",,,,"])
