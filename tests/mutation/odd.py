"""Values that no writer means, as tokens of JSON (and mostly of TOML)."""

from __future__ import annotations

import json
import random

NUMBERS = (
    "0",
    "-0.0",
    "-1",
    "1",
    "1.5",
    "0.1e1",
    "1e400",
    "-1e400",
    "1e308",
    "5e-324",
    "1e18",
    "NaN",
    "Infinity",
    "-Infinity",
    "inf",
    "nan",
    "-nan",
    "N/A",
    str(2**31),
    str(2**63 - 1),
    str(-(2**63)),
    str(2**63),
    str(2**64),
    "9" * 40,
    "9" * 400,
    "9007199254740993",
    "1712195495519689.047",
    "-1712195495519689.047",
    "00012",
    "0x10",
    "1_000",
    "+3",
)

TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "nan",
    "1e400",
    "9" * 400,
    "a" * 5000,
    "aten::" + "x" * 3000,
    "ünïcödé 模型 🙂",
    "\u202eright to left",
    "\x00\x1b[31m\x07\r\n\t",
    "<script>alert(1)</script>",
    "=HYPERLINK(1)",
    "../../etc/passwd",
    "%s %d {0} {name}",
    "`|*_[x](y)",
    "[[1, 2], [3]]",
    "{}",
    "[",
    '"',
    "\\",
    "\u2028",
    "ProfilerStep#999999999999999999999",
    "ProfilerStep#-1",
    "stream 7",
    "ncclDevKernel_AllReduce",
    "nn.Module: X_0",
    "<built-in>",
    "[memory]",
    "(((" * 300,
    ",".join("1" * 300),
    "true",
    "X",
    "a<" * 400,
    "void f<" + "int, " * 500 + ">",
    "\ufffe\ufeff",
)

RAW_TEXTS = (r'"\ud800"', r'"\udfff\ud800"', r'"\u0000"', r'"\x"', '"\x01"', '"unclosed', '"a"b"')
"""Values that only the text of a file can contain."""

OTHERS = (
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "[[[]]]",
    '[1, "a", null, {}]',
    '{"a": {"b": [1]}}',
    "[-1]",
    "[0, 0, 0, 0, 0]",
    "[1e30]",
    "[9223372036854775807, 9223372036854775807]",
    '["float", 3]',
    "[[2, 3], [], [null], [[1]]]",
    "[" * 40 + "]" * 40,
    "",
)


def odd_text(rng: random.Random) -> bytes:
    """A strange text, without quotes."""
    return rng.choice(TEXTS).encode("utf-8", "replace")


def odd_value(rng: random.Random) -> bytes:
    """A token of JSON that surprises."""
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(NUMBERS).encode()
    if kind < 0.75:
        return json.dumps(rng.choice(TEXTS), ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace")
    return rng.choice(OTHERS if kind < 0.95 else RAW_TEXTS).encode("utf-8", "surrogatepass")
