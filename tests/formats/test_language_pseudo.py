"""In the pseudo-language every translated text is accented and bracketed: a plain word has escaped translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.formats.pseudo import pseudo
from tests.formats.samples import FIXTURES, TRAINING, report_of
from tests.reading import plain
from traceanalyzer import sections
from traceanalyzer.formats import cards, markdown, render, terminal
from traceanalyzer.formats.terminal import elements
from traceanalyzer.knowledge import frameworks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean

PSEUDO = pseudo()
WORD = re.compile(r"[A-Za-z]{2,}")
_CODE = re.compile(r"```.*?```|(`+).*?\1", re.DOTALL)
_TAG = re.compile(r"<!--.*?-->|</?(?:details|summary)>|https?://\S+")
_ESCAPE = re.compile(r"\\(?=[^A-Za-z0-9\s])|\u200b")

each_input = pytest.mark.parametrize(
    "path",
    [
        TRAINING,
        *(FIXTURES / "synthetic" / f"{name}.json.gz" for name in ("ddp_nccl", "serving_graphs", "rocm_training")),
    ],
    ids=lambda path: path.name,
)


def names(report: Report) -> set[str]:
    """What a report shows as it is: names out of the trace, code, and identifiers that the user could type."""
    found = {report.source.name, *(skipped.id for skipped in report.skipped)}
    for finding in report.findings:
        found |= {finding.rule, *finding.links}
        found |= {line.partition("#")[0].strip() for line in (finding.code or "").splitlines()}
        found |= set(re.findall(r"[\w.]+\(", finding.code or ""))  # code that a comment names
        found |= {place.name for evidence in finding.evidence for place in evidence.where}
        found |= {clean(name) for name in _params(finding.summary)}
        found |= {line.partition(" (")[0] for line in cards.card(finding, PSEUDO).lines}
    if report.trace is not None:
        found |= {report.trace.steps_from or "", *report.trace.options.__struct_fields__}
    roof = (plain(report).get("roofline") or {}).get("roof") or {}
    found |= {roof.get("name", ""), roof.get("source", "")}
    recording = plain(report).get("recording") or {}
    found |= {clean(evidence["name"] or "") for evidence in recording.get("evidence", ())}
    found |= {recording.get("framework") or "", frameworks.title(recording.get("framework") or "")}
    for run in plain(report).get("runs", ()):
        found |= {run["id"], clean(run["title"] or ""), run["steps_from"] or ""}
    return found | set(_cells(report))


def _params(value: Any) -> Iterator[str]:
    """The texts that fill a message, which are names, also of messages within it."""
    if isinstance(value, Message):
        value = value.params
    if isinstance(value, dict):
        for key in value.keys() - {"id", "text"}:
            yield from _params(value[key])
    elif isinstance(value, str):
        yield value


def _cells(report: Report) -> Iterator[str]:
    """Names in sections: those of the trace, and of devices, steps, types and operations of a library."""
    for section in sections.build(report, markdown.TOP):
        yield from (clean(name) for message in section.messages for name in _params(message))
        for table in section.tables:
            for row in table.rows:
                for value, column in zip(row, table.columns, strict=True):
                    if isinstance(value, str) and column.unit == "":
                        yield clean(value)
                        yield elements.NOISE.sub("", clean(value))
                    elif isinstance(value, Message):  # a name with a word beside it: forward (inferred)
                        yield from (clean(param) for param in value.params.values() if isinstance(param, str))


def escaped(text: str, report: Report) -> set[str]:
    """Plain words that are not names."""
    text = " ".join(text.split())
    for name in sorted((" ".join(name.split()) for name in names(report)), key=len, reverse=True):
        text = text.replace(name, " ") if name else text
    return set(WORD.findall(text))


_WARNINGS = PSEUDO.text(Text("markdown-fold-quality", "What was recorded, and warnings"))
_FIRST_SENTENCE = re.compile(r"   ⟦[^⟧]")
"""Begin of a line below the title of a card, which is the first sentence of a message."""


@each_input
def test_markdown_is_translated_to_the_last_word(path: Path) -> None:
    report = report_of(path)
    text = _ESCAPE.sub("", _TAG.sub(" ", _CODE.sub(" ", render(report, "markdown", None, PSEUDO))))
    cut = [line for line in text.splitlines() if _WARNINGS in line or _FIRST_SENTENCE.match(line)]
    assert len(cut) <= 1 + 2 * 3  # the first warning, and two lines of each of three cards
    assert all(0 <= line.count("⟦") - line.count("⟧") <= 1 for line in cut)
    whole = [line for line in text.splitlines() if line not in cut]
    assert sum(line.count("⟦") for line in whole) == sum(line.count("⟧") for line in whole) > 100
    assert not escaped(text, report)


@each_input
def test_the_screen_is_translated_to_the_last_word(path: Path) -> None:
    report = report_of(path)
    text = terminal.render(report, markdown.TOP, width=1000, language=PSEUDO)
    assert text.count("⟦") == text.count("⟧") > 30
    assert not escaped(text, report)


@pytest.mark.parametrize("name", ["two_in_a_row", "torch213_shapes_memory", "without_totals"])
def test_reports_on_tables_are_translated_too(name: str) -> None:
    report = report_of(FIXTURES / "key_averages" / f"{name}.txt")
    text = _ESCAPE.sub("", _TAG.sub(" ", _CODE.sub(" ", render(report, "markdown", None, PSEUDO))))
    assert not escaped(text, report)


def test_words_in_cells_are_texts() -> None:
    """A string in a cell is a name; words are `Text`s, or this test could not tell them apart."""
    report = report_of(TRAINING)
    causes = [t for s in sections.build(report, 5) for t in s.tables if t.id == "idle_causes"]
    assert causes
    assert all(isinstance(row[1], Text | Message) for table in causes for row in table.rows)


def test_it_would_be_seen() -> None:
    """A text of no catalog stays plain, and this is how the other tests would see it."""
    report = report_of(TRAINING)
    assert escaped(PSEUDO.text(Text("of-no-catalog", "Forgotten words")), report) == {"Forgotten", "words"}
    assert not escaped(PSEUDO.text(Text("trace-title", "Trace")), report)


def test_fields_stay_fields() -> None:
    assert PSEUDO.text(Text("report-title", "Profile of {name}"), name="{a.b}") == "⟦Ƥřǿƒīŀḗ ǿƒ {a.b}⟧"
    assert PSEUDO.quantity(1_500_000, "ns") == "⟦1.500 ⟦ḿş⟧⟧"
