"""A report in brief is short, counts what it leaves out, and says what would refute each finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from msgspec.structs import replace

import traceanalyzer as ta
from tests.cli.running import FIXTURES, ROOT, TRAINING, assert_one_line, call
from tests.formats.samples import EVERY, HOSTILE, marked, names, report_of
from traceanalyzer.comparison.verification import verify
from traceanalyzer.formats import brief, language
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.brief import SCHEMA_VERSION, finding_ids, numbered
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.selection import Once
from traceanalyzer.sections import several_runs

pytest.importorskip("babel", reason="babel is not installed")

SCHEMA = json.loads((ROOT / "docs" / "brief.schema.json").read_text("utf-8"))
ARTICLE = FIXTURES / "key_averages" / "article.md"


def written(report: Report, top: int | None = None) -> Any:
    """The brief of a report, which is valid."""
    text = brief.render(report, top)
    assert len(text) <= brief.LIMIT
    document = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def with_findings(report: Report, *findings: Finding) -> Report:
    return replace(report, findings=findings)


def long(finding: Finding, text: str) -> Finding:
    said = Message("x", {}, text)
    evidence = tuple(replace(e, subject=said, where=e.where * 5) for e in finding.evidence) * 4
    return replace(finding, title=said, action=said, advice=said, not_when=said, code=text, evidence=evidence)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_a_brief_of_any_fixture_is_short_valid_and_always_the_same(path: Path) -> None:
    report = report_of(path)
    document = written(report)
    assert document["schema_version"] == SCHEMA_VERSION
    told = len(document["findings"]) + len(document["more_findings"]) + document["left_out"]["findings"]
    assert told == len(report.findings)
    assert len(document["verdicts"]) + document["left_out"]["verdicts"] == len(report.headlines)
    assert len(document["warnings"]) + document["left_out"]["warnings"] == len(report.warnings)
    assert document["left_out"]["not_judged"] == len(report.skipped)
    assert brief.render(report) == brief.render(ta.analyze(ta.load(path)))


def test_what_a_brief_says_of_a_training() -> None:
    """The figures are those of the report; the most important thing is in the first lines."""
    report = report_of(TRAINING)
    document = written(report)
    (verdict,) = document["verdicts"]
    assert (verdict["bound"], verdict["sentence"]) == ("input", "Waiting for data: 3.5 of the 7.1 ms of each step.")
    assert verdict["step_ns"] == round(report.headlines[0].resources.step_ns)  # type: ignore[union-attr]
    assert verdict["steps"] == 5
    first = document["findings"][0]
    assert first["id"] == "h2d-pageable"
    assert first["claim"] == "Copies to the GPU come from pageable memory"
    assert first["action"] == "Pin the input memory: pin_memory=True"
    assert first["lines"] == ["train.py:41 train"]
    assert first["saves_ns"] == [692564, 1026437]
    assert first["evidence"][0]["where"] == "copy Memcpy HtoD (Pageable -> Device)"
    assert first["next"] == "traceanalyzer verify gpu_training.json.gz AFTER --finding h2d-pageable"
    assert "no shorter" in first["refuted_if"]
    undecided = next(each for each in document["findings"] if each["id"] == "dataloader-bound")
    assert (undecided["saves_ns"][0], undecided["likely_ns"]) == (0, None)
    assert undecided["decided_by"] == "it takes free CPU cores; try it, then compare with traceanalyzer diff"


def test_there_are_at_most_three_rows_of_evidence_and_the_others_are_counted() -> None:
    report = report_of(TRAINING)
    finding = next(finding for finding in report.findings if finding.rule == "dataloader-bound")
    assert [len(proof.where) for proof in finding.evidence] == [5]
    document = written(with_findings(report, finding))
    rows = document["findings"][0]["evidence"]
    assert [row["where"] for row in rows] == ["step 4", "step 6", "step 5"]
    assert [row["what"] is None for row in rows] == [False, True, True]
    assert document["left_out"]["evidence"] == 2


def test_many_findings_get_a_line_each_and_the_rest_is_counted() -> None:
    report = report_of(TRAINING)
    document = written(with_findings(report, *(report.findings[:1] * 60)))
    told, lines = len(document["findings"]), len(document["more_findings"])
    assert told >= 3
    assert (lines, document["left_out"]["findings"]) == (20, 40 - told)
    assert [each["id"] for each in document["findings"][:2]] == ["h2d-pageable", "h2d-pageable#2"]
    assert document["more_findings"][0]["id"] == f"h2d-pageable#{told + 1}"


def test_the_number_of_findings_with_evidence_can_be_limited() -> None:
    document = written(report_of(TRAINING), top=2)
    assert [len(document[key]) for key in ("findings", "more_findings")] == [2, len(report_of(TRAINING).findings) - 2]
    run = call("report", TRAINING, "--format", "brief", "--top", "2", "-q")
    assert len(json.loads(run.out)["findings"]) == 2


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names_neither_lengthen_nor_break_it(name: str) -> None:
    report = marked(name)
    assert brief.render(report).isprintable() or "\n" in brief.render(report)
    document = written(with_findings(report, *(long(finding, name * 50) for finding in report_of(TRAINING).findings)))
    assert document["left_out"]["shortened"] > 0 or len(name) < 3


@given(names)
def test_any_names_are_short(name: str) -> None:
    many = [long(finding, name * 200) for finding in report_of(TRAINING).findings]
    assert written(with_findings(report_of(TRAINING), *many))["verdicts"]


def test_a_text_is_cut_between_words_and_counted() -> None:
    report = report_of(TRAINING)
    told = written(with_findings(report, long(report.findings[0], "some words " * 60)))
    assert told["findings"][0]["claim"].endswith(("some ...", "words ..."))
    assert told["left_out"]["shortened"] >= 4


def test_ids_are_those_of_verify() -> None:
    after = FIXTURES / "synthetic" / "gpu_training_fed.json.gz"
    checked = verify(TRAINING, after)
    assert tuple(each.id for each in checked.findings) == finding_ids(report_of(TRAINING))
    assert list(numbered("aba")) == ["a", "b", "a#2"]


def test_ids_in_a_document_name_the_run() -> None:
    document = written(report_of(ARTICLE))
    (finding,) = document["findings"]
    assert finding["id"] == "run-1/h2d-pageable"
    assert finding["next"] == "traceanalyzer verify article.md#run-1 AFTER --finding h2d-pageable"
    assert verify(f"{ARTICLE}#run-1", f"{ARTICLE}#run-1", findings=["h2d-pageable"]).findings[0].id == "h2d-pageable"


def test_what_refutes_a_finding_depends_on_what_it_promises() -> None:
    sure, *_, no_time = report_of(TRAINING).findings
    assert sure.saving is not None
    low = replace(sure.saving, wall_ns_per_step=(2e6, 3e6))
    assert brief.refuted_if(replace(sure, saving=low), ENGLISH) == (
        "Refuted if its events take less time after the change and the step gets no shorter; it promised too much if "
        "the step gains less than 2.0 ms."
    )
    without_events = brief.refuted_if(replace(sure, saving=low, where=()), ENGLISH)
    assert without_events is not None
    assert without_events.startswith("Refuted if the finding is gone")
    none = brief.refuted_if(replace(sure, saving=replace(low, wall_ns_per_step=(0.0, 3e6))), ENGLISH)
    assert none is not None
    assert "does not refute it" in none
    settled = brief.refuted_if(no_time, ENGLISH)
    assert settled is not None
    assert "threshold" in settled
    assert brief.refuted_if(replace(no_time, evidence=()), ENGLISH) is None


def test_a_saved_report_has_the_same_brief_in_every_language(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    assert call("report", TRAINING, "-o", saved, "-q").code == 0
    runs = [call("render", saved, "--format", "brief", "--lang", code) for code in language.CODES]
    assert {run.out for run in runs} == {brief.render(report_of(TRAINING))}
    assert call("report", TRAINING, "-o", tmp_path / "x.brief.json", "-q").code == 0
    assert (tmp_path / "x.brief.json").read_text("utf-8") == runs[0].out
    assert call("report", TRAINING, "-o", tmp_path / "x.brief.json", "-q").code == 0, "its own files are overwritten"


def test_no_command_takes_a_part_for_a_report(tmp_path: Path) -> None:
    part, whole = tmp_path / "x.brief.json", tmp_path / "finding.json"
    assert call("report", TRAINING, "-o", part, "-q").code == 0
    assert call("finding", TRAINING, "h2d-pageable", "-o", whole, "-q").code == 0
    for file in (part, whole):
        for command in (("render", file), ("report", file), ("diff", file, TRAINING)):
            assert "name the report or the trace" in assert_one_line(call(*command))
    (tmp_path / "trace.json.gz").write_bytes(TRAINING.read_bytes())
    assert call("report", tmp_path, "-q", "--format", "json").code == 0, "in a folder they are no inputs"


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("my trace.json", "'my trace.json'"),
        ("a\nb", "TRACE"),
        ("x" * 200, "TRACE"),
        ("-o.json", "./-o.json"),
        ("$(reboot).json", "'$(reboot).json'"),
        ("#1.json", "'#1.json'"),
    ],
)
def test_no_name_of_a_file_becomes_a_command(name: str, typed: str) -> None:
    report = report_of(TRAINING)
    named = replace(report, source=replace(report.source, name=name))
    assert brief.calls(named)[0] == f"traceanalyzer finding {typed} ID"


def test_no_id_of_a_saved_report_becomes_a_command() -> None:
    report = report_of(TRAINING)
    crafted = with_findings(report, replace(report.findings[0], rule="x; reboot"))
    assert written(crafted)["findings"][0]["next"].endswith(" --finding 'x; reboot'")


def test_what_is_saved_once_or_in_a_whole_run_is_no_saving_of_a_step() -> None:
    report = report_of(TRAINING)
    finding = report.findings[0]
    assert finding.saving is not None
    once = replace(finding, saving=None, once=Once((1e6, 2e6), 1.5e6, 0.1))
    whole = replace(finding, saving=replace(finding.saving, is_of_whole_run=True))
    told = written(with_findings(report, once, whole))["findings"]
    assert [(each["once_ns"], each["is_of_whole_run"]) for each in told] == [([1000000, 2000000], False), (None, True)]
    assert told[0]["saves_ns"] is None


def test_what_a_later_run_has_settled_is_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(TRAINING)
    monkeypatch.setattr(several_runs, "settled", lambda _: frozenset({0}))
    document = written(report)
    assert document["left_out"]["findings"] == 1
    assert document["findings"][0]["id"] == finding_ids(report)[1]


def test_each_finding_is_a_line() -> None:
    lines = brief.render(report_of(TRAINING)).splitlines()
    (first,) = (line for line in lines if line.startswith('  {"id":"h2d-pageable"'))
    assert json.loads(first.strip().rstrip(","))["id"] == "h2d-pageable"
