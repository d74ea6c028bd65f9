"""What is done to a file: to its bytes, its encoding, its compression, and the numbers and texts in it."""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Callable, Sequence

from tests.mutation import trees
from tests.mutation.odd import odd_text, odd_value

Damage = Callable[[random.Random, bytes], bytes]

_LONGEST_RUN = 3000
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|[\[\]{}:,]')
_WORD = re.compile(rb"\S+")


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    """A few bits are wrong."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20)) if data else 0):
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def _run(rng: random.Random, data: bytes) -> slice:
    first = rng.randrange(len(data) + 1)
    return slice(first, first + rng.choice((1, 2, 16, rng.randint(1, _LONGEST_RUN))))


def replace_run(rng: random.Random, data: bytes) -> bytes:
    """Replace some bytes by others."""
    run = _run(rng, data)
    size = len(data[run])
    filling = rng.choice((bytes(size), b" " * size, rng.randbytes(size), b"9" * size, b'"' * size, b"\n" * size))
    return data[: run.start] + filling + data[run.start + size :]


def delete_run(rng: random.Random, data: bytes) -> bytes:
    """Some bytes are missing."""
    run = _run(rng, data)
    return data[: run.start] + data[run.stop :]


def duplicate_run(rng: random.Random, data: bytes) -> bytes:
    """Repeat some bytes, or copy them to another place."""
    run = _run(rng, data)
    place = rng.choice((run.start, rng.randrange(len(data) + 1)))
    return data[:place] + data[run] + data[place:]


def truncate(rng: random.Random, data: bytes) -> bytes:
    """Cut the end of the file, or replace it by zeros."""
    size = rng.choice((rng.randrange(len(data) + 1), max(0, len(data) - rng.randint(1, 200)), rng.randrange(200)))
    return data[:size] + rng.choice((b"", b"", bytes(min(len(data), 4096))))


def encode_otherwise(rng: random.Random, data: bytes) -> bytes:
    """Another encoding, or marks of one."""
    text = data.decode("utf-8", "replace")
    return rng.choice(
        (
            lambda: b"\xef\xbb\xbf" + data,
            lambda: b"\xef\xbb\xbf\xef\xbb\xbf" + data,
            lambda: text.encode("utf-16"),
            lambda: text.encode("utf-16-be"),
            lambda: text.encode("utf-32"),
            lambda: text.replace("e", "é").encode("latin-1", "replace"),
            lambda: data.replace(b"\n", b"\r\n"),
            lambda: data.replace(b"\n", b"\r"),
            lambda: data.replace(b" ", b"\xc2\xa0"),
            lambda: b"\n \t" + data + b"\x1a",
        )
    )()


def odd_tokens(rng: random.Random, data: bytes) -> bytes:
    """Replace values of JSON in the text, whatever is around them."""
    found = _near(rng, _TOKEN, data)
    for start, end in sorted(rng.sample(found, min(len(found), rng.choice((1, 1, 4)))), reverse=True):
        data = data[:start] + odd_value(rng) + data[end:]
    return data


def odd_words(rng: random.Random, data: bytes) -> bytes:
    """Words of a text are replaced, removed or joined."""
    found = _near(rng, _WORD, data)
    for start, end in sorted(rng.sample(found, min(len(found), rng.choice((1, 3, 10)))), reverse=True):
        word = data[start:end]
        other = rng.choice(
            (odd_value(rng), odd_text(rng), b"", word * 2, word[::-1], b"-" * rng.randint(1, 60), b"nan")
        )
        data = data[:start] + other + data[end + rng.choice((0, 0, 1)) :]
    return data


def _near(rng: random.Random, pattern: re.Pattern[bytes], data: bytes) -> list[tuple[int, int]]:
    """Matches in a stretch of the data, all of it if it is short."""
    first = max(0, rng.randrange(-10_000, len(data) + 1))
    return [match.span() for match in pattern.finditer(data, first, first + 20_000)]


def disturb_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines are removed, repeated, exchanged, split or indented."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 2, 8))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        line = lines[at]
        middle = rng.randrange(len(line) + 1)
        lines[at : at + 1] = rng.choice(
            (
                [],
                [line, line],
                [lines[other]],
                [line[:middle], line[middle:]],
                [b"    " + line],
                [line[:middle] + lines[other]],
                [line * rng.randint(2, 30)],
                [line, b"[" + line + b"]"],
            )
        ) or [b""]
    return b"\n".join(lines)


_OVERWRITES = (
    b"\r",
    b"\r\r",
    b"\r\x1b[K",
    b"\x1b[2K\r",
    b"\x1b[1A",
    b"\x1b[1A\x1b[2K",
    b"\x1b[",
    b"\x1b]0;title\x07",
    b"\x08" * 9,
)


def overwrite_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines are overwritten by others, as progress bars are: carriage returns, codes that erase, backspaces."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(len(lines))
        later = rng.choice((b"text without bars", b"", b"| " * 9, rng.choice(lines), lines[at][:20]))
        code = rng.choice(_OVERWRITES)
        lines[at] = rng.choice((lines[at] + code + later, later + code + lines[at], lines[at] + code))
    return b"\n".join(lines)


def mix_encodings(rng: random.Random, data: bytes) -> bytes:
    """Some lines are in another encoding, as where several programs append to one file."""
    lines = data.split(b"\n")
    first = rng.randrange(len(lines))
    for at in range(first, min(len(lines), first + rng.choice((1, 5, 1000)))):
        text = lines[at].decode("utf-8", "replace")
        lines[at] = text.encode(rng.choice(("utf-16", "utf-16-be", "utf-32", "cp1251", "utf-7")), "replace")
    return b"\n".join(lines)


def within_binary(rng: random.Random, data: bytes) -> bytes:
    """All of it, or the lines near a header, are part of a file of another program, such as a database."""
    lines = data.split(b"\n")
    headers = [at for at, line in enumerate(lines) if b"Name" in line or b"{" in line]
    if headers and rng.random() < 0.7:
        at = max(0, rng.choice(headers) - rng.randrange(4))
        data = rng.choice((b"\n", b"\r", b"\0", b"\r\n")).join(lines[at : at + rng.randrange(1, 9)])
    size = rng.randrange(5000)
    around = rng.choice((bytes, rng.randbytes, lambda n: rng.randbytes(n).replace(b"\n", b"\r"), lambda n: b"|" * n))
    return rng.choice((b"SQLite format 3\0", b"\x7fELF", b"PK\3\4", b"")) + around(size) + data + around(size)


def join_with_itself(rng: random.Random, data: bytes) -> bytes:
    """The file was written twice, or its beginning is in it again."""
    return rng.choice((data + data, data[: rng.randrange(len(data) + 1)] + data, b"[" + data + b"," + data + b"]"))


BLUNT: Sequence[Damage] = (
    flip_bits,
    replace_run,
    delete_run,
    duplicate_run,
    truncate,
    encode_otherwise,
    join_with_itself,
)
"""What can happen to any file."""
JSON: Sequence[Damage] = (odd_tokens, odd_tokens, *trees.CHANGES, *trees.CHANGES)
TEXT: Sequence[Damage] = (
    odd_words,
    odd_words,
    disturb_lines,
    disturb_lines,
    overwrite_lines,
    overwrite_lines,
    mix_encodings,
    within_binary,
)


def pack(rng: random.Random, data: bytes) -> bytes:
    """A gzip stream of the data, mostly in order."""
    return rng.choice((_sound, _sound, _sound, *_GZIP))(rng, data)


def sound_gzip(data: bytes) -> bytes:
    """A gzip stream of the data; the same bytes each time."""
    return gzip.compress(data, 6, mtime=0)


def _sound(_: random.Random, data: bytes) -> bytes:
    return sound_gzip(data)


def _in_members(rng: random.Random, data: bytes) -> bytes:
    cut = rng.randrange(len(data) + 1)
    between = rng.choice((b"", b"", b"\0" * 10, b"garbage"))
    return _sound(rng, data[:cut]) + between + _sound(rng, data[cut:])


def _wrong_end(rng: random.Random, data: bytes) -> bytes:
    packed = _sound(rng, data)
    return packed[:-8] + rng.choice((zlib.crc32(data).to_bytes(4, "little"), rng.randbytes(4))) + rng.randbytes(4)


def _odd_head(rng: random.Random, data: bytes) -> bytes:
    """Flags that announce fields which are not there, and unknown methods."""
    packed = bytearray(_sound(rng, data))
    packed[rng.choice((2, 3, 3, 3))] = rng.randrange(256)
    return bytes(packed)


_GZIP: Sequence[Damage] = (
    lambda rng, data: truncate(rng, _sound(rng, data)),
    lambda rng, data: flip_bits(rng, _sound(rng, data)),
    lambda rng, data: replace_run(rng, _sound(rng, data)),
    lambda rng, data: delete_run(rng, _sound(rng, data)),
    lambda rng, data: _sound(rng, data) + rng.choice((rng.randbytes(50), b"\0" * 1000, b"\x1f\x8b", data[:100])),
    lambda rng, data: _sound(rng, _sound(rng, data)),
    _in_members,
    _wrong_end,
    _odd_head,
)
