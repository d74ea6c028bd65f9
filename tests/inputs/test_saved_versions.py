"""What earlier versions saved still renders, in every format and language, and is still an input."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from scripts.texts import Found, collect
from tests.builders.saved import DIFFERENCES, REPORTS, TEXTS, VERSIONS, SavedFile, saved_files
from tests.cli.running import FIXTURES, call
from tests.formats.samples import report_of
from traceanalyzer._version import __version__
from traceanalyzer.comparison import diff
from traceanalyzer.formats import EVERY, FORMATS, language, render, spreadsheet, workbook
from traceanalyzer.formats import difference as difference_formats
from traceanalyzer.formats.language import CODES
from traceanalyzer.inputs import saved_reports
from traceanalyzer.readers.source import open_source
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.message import fields
from traceanalyzer.report.model import Report
from traceanalyzer.report.units import UNITS

DOCS = Path(__file__).parents[2] / "docs"
UNFILLED = re.compile(r"\{\w+:(?:" + "|".join(map(re.escape, sorted(filter(None, UNITS)))) + r")\}")
"""A field of a text that nothing filled."""

each_report = pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.id)
each_difference = pytest.mark.parametrize("file", DIFFERENCES, ids=lambda file: file.id)
each_version = pytest.mark.parametrize("version", VERSIONS)
each_language = pytest.mark.parametrize("lang", CODES)


@cache
def texts() -> tuple[Found, ...]:
    """Every text of today; finding them reads the whole package."""
    return tuple(collect())


def content(file: SavedFile) -> Any:
    return json.loads(gzip.decompress(file.path.read_bytes()))


def report(file: SavedFile) -> Report:
    with open_source(file.path, lambda _: None) as source:
        found = saved_reports.read(source)
    assert isinstance(found, Report)
    return found


def difference(file: SavedFile) -> Difference:
    with open_source(file.path, lambda _: None) as source:
        found = saved_reports.read(source)
    assert isinstance(found, Difference)
    return found


def messages(node: Any) -> Iterator[dict[str, Any]]:
    """Every message in a saved report, including messages in the parameters of others."""
    if isinstance(node, dict):
        if node.keys() == {"id", "params", "text"}:
            yield node
        for child in node.values():
            yield from messages(child)
    elif isinstance(node, list):
        for child in node:
            yield from messages(child)


# Reading back


@each_report
def test_a_saved_report_is_read_whole(file: SavedFile) -> None:
    """A report that is read and written again contains everything that was saved; later versions may add fields."""
    assert _lost(content(file), json.loads(render(report(file), "json"))) == []


@each_difference
def test_a_saved_difference_is_read_whole(file: SavedFile) -> None:
    assert _lost(content(file), json.loads(difference_formats.answer(difference(file)).render("json"))) == []


def test_something_lost_would_be_noticed() -> None:
    assert _lost({"a": [{"b": 1, "c": None}]}, {"a": [{"b": 1, "c": None, "d": 2}]}) == []
    assert _lost({"a": [{"b": 1, "c": None}]}, {"a": [{"b": 1}]}) == ["/a/0/c"]
    assert _lost({"a": [1, 2]}, {"a": [1]}) == ["/a"]
    assert _lost({"a": 1}, {"a": 2}) == ["/a"]


def _lost(saved: Any, written: Any, place: str = "") -> list[str]:
    """The places whose value is missing."""
    if isinstance(saved, dict) and isinstance(written, dict):
        return [
            lost
            for key, value in saved.items()
            for lost in (_lost(value, written[key], f"{place}/{key}") if key in written else [f"{place}/{key}"])
        ]
    if isinstance(saved, list) and isinstance(written, list) and len(saved) == len(written):
        pairs = enumerate(zip(saved, written, strict=True))
        return [lost for index, (one, other) in pairs for lost in _lost(one, other, f"{place}/{index}")]
    return [] if saved == written else [place]


@each_report
def test_a_saved_report_keeps_to_the_schema_of_today(file: SavedFile) -> None:
    schema = json.loads((DOCS / "report.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(content(file))


@each_difference
def test_a_saved_difference_keeps_to_the_schema_of_today(file: SavedFile) -> None:
    schema = json.loads((DOCS / "difference.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(content(file))


# Rendering


@each_report
@each_language
@pytest.mark.parametrize("form", FORMATS)
def test_a_saved_report_renders(file: SavedFile, form: str, lang: str) -> None:
    saved = report(file)
    text = render(saved, form, language=language.of(lang))
    wanted = {finding.rule for finding in saved.findings} if form == "sarif" else {saved.source.name[:18]}
    assert [name for name in wanted if name not in text.replace("\\", "")] == []
    assert UNFILLED.search(text) is None


@each_report
@each_language
def test_a_saved_report_fills_tables(file: SavedFile, lang: str) -> None:
    saved = report(file)
    tables = spreadsheet.csv_files(saved, language.of(lang))
    assert tables
    assert all(len(text.splitlines()) > 1 for text in tables.values())
    assert workbook.workbook(saved, language.of(lang))[:2] == b"PK"


@each_difference
@each_language
@pytest.mark.parametrize("form", difference_formats.FORMATS)
def test_a_saved_difference_renders(file: SavedFile, form: str, lang: str) -> None:
    saved = difference(file)
    text = difference_formats.answer(saved, language.of(lang)).render(form)
    assert saved.base.name in text.replace("\\", "")
    assert UNFILLED.search(text) is None


@pytest.mark.parametrize("form", EVERY)
def test_the_command_renders_a_saved_report(tmp_path: Path, form: str) -> None:
    run = call("render", REPORTS[1].path, "--format", form, "-o", tmp_path / "out", "-q")
    assert (run.code, run.err) == (0, "")
    written = [path for path in (tmp_path, *tmp_path.rglob("*")) if path.is_file()]
    assert written
    assert all(path.stat().st_size for path in written)


# Texts


def test_every_saved_message_is_translated_or_falls_back_to_its_english_text() -> None:
    """A text that is still known under its id finds its quantities in what was saved."""
    known = {text.id: text for text in texts()}
    for file in (*REPORTS, *DIFFERENCES):
        saved = [message for message in messages(content(file)) if message["id"] in known]
        assert saved
        for message in saved:
            names = {name for name, _ in fields(known[message["id"]].english)}
            assert names <= message["params"].keys(), (file.name, message["id"])


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.id)
def test_other_quantities_are_another_id(file: SavedFile) -> None:
    """A text of an earlier version has the same fields in the same units today, or another id."""
    today = {text.id: sorted(fields(text.english)) for text in texts()}
    before = {id_: sorted(fields(english)) for id_, english in content(file).items()}
    assert len(before) > 1000
    changed = {id_: (old, today[id_]) for id_, old in before.items() if id_ in today and today[id_] != old}
    assert changed == {}, "give the text with other fields a new id"


@each_language
def test_a_message_without_a_text_today_is_shown_in_english(lang: str) -> None:
    for file in REPORTS:
        saved = content(file)
        for message in messages(saved):
            message["id"] = f"was-{message['id']}"
        spoken = language.of(lang)
        headlines = list(messages(saved["headlines"]))
        assert headlines
        for message in headlines:
            assert spoken.quantity(message, "") == message["text"]


# As an input


@pytest.mark.parametrize("file", [f for f in REPORTS if len(f.of) == 1], ids=lambda file: file.id)
def test_a_saved_report_is_compared_with_one_of_today(file: SavedFile) -> None:
    """Both versions compute the same step time for a trace."""
    found = diff(report(file), report_of(FIXTURES / file.of[0]))
    assert found.comparability.obstacle is None
    assert found.verdict.outcome in ("no-change", "inconclusive")
    assert not found.verdict.change_share
    for form in difference_formats.FORMATS:
        assert difference_formats.answer(found).render(form)


def ranks(version: str) -> list[SavedFile]:
    return [file for file in REPORTS if file.version == version and file.name.startswith("command_rank")]


@each_version
def test_saved_reports_of_ranks_are_joined(version: str) -> None:
    run = call("ranks", *(file.path for file in ranks(version)), "--format", "json", "-q")
    assert (run.code, run.err) == (0, "")
    joined = json.loads(run.out)
    assert joined["source"]["format"] == "kineto-ranks"
    assert [rank["rank"] for rank in joined["analyses"]["ranks"]["ranks"]] == [0, 1]


@each_version
def test_a_saved_rank_is_joined_with_a_trace(version: str) -> None:
    first, second = ranks(version)
    run = call("ranks", first.path, FIXTURES / second.of[0], "--format", "json", "-q")
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out)["analyses"]["ranks"]["missing"] == []


def test_the_version_of_today_has_a_folder() -> None:
    """`scripts/save_version.py` writes it; the tests above hold later versions to it."""
    assert VERSIONS[-1] == __version__
    assert {file.path.is_file() for file in saved_files()} == {True}


def test_old_versions_said_nowhere_where() -> None:
    """Reports of 0.1.0 have no highlights, and what is fixed is never said to be saved from them."""
    old = [finding for file in REPORTS if file.version == "0.1.0" for finding in report(file).findings]
    assert old
    assert {finding.where for finding in old} == {()}
