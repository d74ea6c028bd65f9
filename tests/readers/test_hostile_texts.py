"""Whatever a text holds, reading it gives a report or a one-line error, never another exception.

Two ways to make texts: pieces of the grammar in any order, which hypothesis makes small, and damage to real texts.
"""

from __future__ import annotations

import io
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.builders import compile_log
from tests.conftest import FULL
from tests.mutation import damage
from tests.mutation.bases import FIXTURES
from traceanalyzer import readers
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs.sniffing import peek
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument

EXAMPLES = 20_000 if FULL else 300
SEEDS = range(20_000 if FULL else 300)

HEADER = "| Name | Self CPU % | Self CPU | CPU total % | CPU total | CPU time avg | # of Calls |"
ROW = "| aten::mm | 40.00% | 4.000ms | 50.00% | 5.000ms | 1.667ms | 3 |"
PIECES = (
    *(
        "\n",
        "\n",
        "\n",
        "\r",
        "\r\n",
        "\x1b[K",
        "\x1b[2K\r",
        "\x1b[1A",
        "\b\b\b",
        "\0",
        "\ufeff",
        "\u2028",
        "\x85",
        "\t",
    ),
    *(HEADER, ROW, HEADER.replace("|", " "), ROW.replace("|", "  "), HEADER.replace("|", "│"), "text without bars"),
    *("|", "| | |", "\\|", "│", "---", "-----  -----", "|---|---|---|", "====  ====", "+----+----+", "Name", " ", "  "),
    *(
        "Self CPU time total: 3.000ms",
        " time total:",
        "<br>",
        "</td>",
        "&#0;",
        "&#9999999;",
        "<p>",
        "```",
        "## Run",
        "===",
    ),
    *(
        "12.00%",
        "nan%",
        "1.000us",
        "99999999999999s",
        "12 iB",
        "1.5 Kb",
        "--",
        "0",
        "[[2, 3], []]",
        "[[",
        "...",
        "GFLOPs",
    ),
    *(
        "1,2.5 it/s",
        "7 samples/s",
        "for _ in range(10):",
        "model.py(3): f",
        "Input Shapes",
        "Source Location",
        "CUDA total",
    ),
    *(
        compile_log.broke("0/0", "a.py", 9, "why"),
        compile_log.measured("0/0", "f", "a.py", 1, 1.5),
        "\t",
        '{"a": ',
        "[" * 99,
    ),
    *(
        '"cache_bypass_reason": "\\x"',
        '"time_taken_ns": 99999999999999999999',
        '{"traceEvents": [',
        '{"ph": "X"}',
        "]}",
    ),
)
"""What the readers look for."""

texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
encodings = st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])


def reported(data: bytes) -> None:
    """Read it as every command does, and report on it; errors that are not the reader's own fail the test."""
    peek(io.BytesIO(data), "x.txt", len(data))
    found = refusal = None
    try:
        found = readers.read(Source(io.BytesIO(data), "x.txt", len(data), lambda _: None))
    except UnusableInputError as error:
        refusal = str(error)
    assert refusal is None or refusal.isprintable()
    if isinstance(found, TableDocument | CompileLog):
        report = traceanalyzer.analyze(found)
        assert traceanalyzer.render(report, "json")
        assert not [skipped.id for skipped in report.skipped if skipped.reason.id.endswith("-failed")]


@given(text=texts, encoding=encodings)
@settings(max_examples=EXAMPLES)
def test_pieces_in_any_order(text: str, encoding: str) -> None:
    reported(text.encode(encoding))


@cache
def _texts() -> list[bytes]:
    drawn = "\n".join((HEADER, "|---|---|---|---|---|---|---|", ROW, ROW, "Self CPU time total: 10.000ms"))
    files = (file for file in sorted((FIXTURES / "key_averages").iterdir()) if file.stat().st_size < 20_000)
    return [compile_log.whole().encode(), drawn.encode(), *(file.read_bytes() for file in files)]


def _damaged(seed: int) -> bytes:
    rng = random.Random(seed)
    data = rng.choice(_texts())
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice((*damage.BLUNT, *damage.TEXT, *damage.TEXT))(rng, data)
    return data


@pytest.mark.parametrize("part", range(10))
def test_damaged_texts(part: int) -> None:
    failed = {seed: _failure(_damaged(seed)) for seed in SEEDS[part::10]}
    assert {seed: failure for seed, failure in failed.items() if failure} == {}


def _failure(text: bytes) -> str:
    """The error that is no refusal of the text; nothing if it was reported on or refused."""
    try:
        reported(text)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
