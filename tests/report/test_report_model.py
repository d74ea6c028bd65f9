"""A report is plain data: JSON and back is the identity."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given

from tests.builders.situations import SITUATIONS, Situation
from tests.random_traces import Plan, plans
from tests.reading import assert_reads_back, plain, read_built
from traceanalyzer.pipeline import ANALYSES, analyze
from traceanalyzer.report.model import SCHEMA_VERSION, Report


def assert_survives_json(report: Report) -> None:
    stored = msgspec.json.encode(report)
    again = msgspec.json.decode(stored, type=Report)
    assert msgspec.json.encode(again) == stored
    assert_reads_back(stored, report)
    for key, result in report.analyses.items():
        assert again.result(key, type(result)) is again.result(key, type(result)), "it was converted twice"


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_reports_survive_json(situation: Situation) -> None:
    assert_survives_json(analyze(read_built(situation.build(), situation.layout)))


@given(plans)
def test_reports_of_any_trace_survive_json(plan: Plan) -> None:
    assert_survives_json(analyze(read_built(plan.build())))


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_results_come_back_as_their_own_types(situation: Situation) -> None:
    report = analyze(read_built(situation.build(), situation.layout))
    for analyzer in ANALYSES:
        result = report.result(analyzer.key, analyzer.result)
        assert (result is None) == (analyzer.key not in report.analyses)
        if result is not None:
            assert isinstance(result, analyzer.result)
            assert json.loads(msgspec.json.encode(result)) == plain(report)[analyzer.key]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_every_analysis_has_a_result_or_a_reason(situation: Situation) -> None:
    report = analyze(read_built(situation.build(), situation.layout))
    keys = {analyzer.key for analyzer in ANALYSES}
    skipped = [entry.id for entry in report.skipped if entry.id in keys]  # the others are rules
    assert sorted([*report.analyses, *skipped]) == sorted(analyzer.key for analyzer in ANALYSES)
    assert all(entry.reason.text for entry in report.skipped)


def test_a_report_names_its_version() -> None:
    report = analyze(read_built(SITUATIONS[0].build()))
    assert report.schema_version == SCHEMA_VERSION == 1
    assert (report.generator.name, report.source.format) == ("traceanalyzer", "kineto")
