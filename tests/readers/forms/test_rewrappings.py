"""Whatever copying does to a text, the report on it is the same: twenty invented tables, and the ways to re-wrap them.

`make test` tries a few ways for each table, `make check-full` all of them.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from zlib import crc32

import pytest

from tests.conftest import FULL
from tests.readers.forms import examples
from tests.readers.forms.test_forms import report_of
from tests.rules.judging import table
from traceanalyzer.analyzers.tables.parts import PrintedFigures
from traceanalyzer.analyzers.tables.runs import PrintedRun

_WRAPPED = "wrapped at 100"
"""Only tables of torch show by their dashes what belongs together."""
_TRIED = 6
"""Ways that are tried for each table in the small sample."""


def _torch(number: int) -> str:
    """An invented table of torch: host and device in different relations."""
    device = number % 3 > 0
    rows = [
        {
            "Name": name,
            "Self CPU %": f"{share:.2f}%",
            "Self CPU": f"{share * 10:.3f}ms",
            "CPU total": f"{share * 10:.3f}ms",
        }
        | ({"Self CUDA": f"{share * number:.3f}ms", "CUDA total": f"{share * number:.3f}ms"} if device else {})
        | {"# of Calls": 10 * number}
        for name, share in (
            ("aten::mm", 50.0),
            ("aten::copy_", 30.0 - number),
            ("aten::add_", 20.0),
            ("aten::to", number),
        )
    ]
    return table(rows, cpu="1.000s", device=f"{100.0 * number:.3f}ms" if device else None)


TABLES = {
    **{f"torch {number}": _torch(number) for number in range(1, 5)},
    **{
        name.lower(): getattr(examples, name)
        for name in (
            "NSYS",
            "NSYS_RANGES",
            "NVPROF",
            "LIGHTNING",
            "ADVANCED",
            "CPROFILE",
            "LINES",
            "ASCEND",
            "PADDLE",
            "BY_HAND",
            "BY_HAND_OF_STAGES",
            "DEEPSPEED_FLOPS",
            "DEEPSPEED_TIMERS",
            "MEGATRON",
            "PYINSTRUMENT",
            "DMON",
        )
    },
}


def _each(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(change, text.split("\n")))


def _notebook(text: str) -> str:
    output = {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    cell = {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["p"], "outputs": [output]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _numbered(text: str) -> str:
    return "\n".join(f"2024-05-01 10:00:{at % 60:02d},123 - INFO - {line}" for at, line in enumerate(text.split("\n")))


WAYS: dict[str, Callable[[str], str]] = {
    "no trailing blanks": _each(str.rstrip),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "carriage returns only": lambda text: text.replace("\n", "\r"),
    "colours": _each(lambda line: f"\x1b[1;32m{line}\x1b[0m"),
    "mail": _each(lambda line: f"> {line}"),
    "mail of mail": _each(lambda line: f">> {line}".rstrip()),
    "compose log": _each(lambda line: f"trainer-1  | {line}"),
    "rank": _each(lambda line: f"[rank0]: {line}"),
    "comment": _each(lambda line: f"# {line}"),
    "indentation": _each(lambda line: f"        {line}"),
    "time stamps": _numbered,
    "box": _each(lambda line: f"│ {line} │"),
    "HTML": lambda text: f"<pre>{html.escape(text)}</pre>",
    "notebook": _notebook,
    "notebook in one line": lambda text: json.dumps(json.loads(_notebook(text))),
    "string of a notebook": lambda text: json.dumps({"cells": [], "text": text}),
    "no-break blanks": lambda text: text.replace(" ", "\xa0"),
    "HTML blanks": lambda text: html.escape(text).replace(" ", "&nbsp;"),
    "full-width blanks": lambda text: text.replace(" ", "\u3000"),
    "progress bar": lambda text: f"100%|####| 8/8 [00:01<00:00]\r{text}",
    "code block": lambda text: f"It is slow:\n\n```\n{text}\n```\n\nWhy?\n",
    "details": lambda text: f"<details><summary>profile</summary>\n\n```\n{text}\n```\n</details>\n",
    _WRAPPED: _each(lambda line: "\n".join(line[at : at + 100] for at in range(0, len(line), 100))),
}


def _said(text: str) -> tuple[object, ...]:
    """What a report says: headlines, findings, runs and figures, whatever the lines are."""
    report = report_of(text)
    return (
        [headline.message for headline in report.headlines],
        [(finding.rule, finding.summary, finding.saving) for finding in report.findings],
        report.result("runs", tuple[PrintedRun, ...]),
        report.result("printed_figures", tuple[PrintedFigures, ...]),
    )


def _tried(name: str) -> list[str]:
    """The ways that are tried: all, or some that follow from the name."""
    ways = [way for way in WAYS if way != _WRAPPED or name.startswith("torch")]
    return ways if FULL else sorted(ways, key=lambda way: crc32(f"{name} {way}".encode()))[:_TRIED]


CASES = [(name, way) for name in TABLES for way in _tried(name)]


def test_there_are_twenty_tables_and_twenty_three_ways() -> None:
    assert (len(TABLES), len(WAYS)) == (20, 23)


@pytest.mark.parametrize(("name", "way"), CASES, ids=[f"{name}: {way}" for name, way in CASES])
def test_a_report_does_not_depend_on_how_a_text_was_copied(name: str, way: str) -> None:
    assert _said(WAYS[way](TABLES[name])) == _said(TABLES[name])
