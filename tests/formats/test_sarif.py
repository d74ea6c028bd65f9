"""Findings as SARIF."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.rules.judging import report
from tests.rules.loader.test_dataloader_bound import fires
from traceanalyzer.formats import render
from traceanalyzer.report.model import CodePlace

WHOLE = [{"physicalLocation": {"artifactLocation": {"uri": "trace.json"}}}]
"""Services that take SARIF refuse a result without a location."""


def sarif(*places: CodePlace) -> dict[str, Any]:
    """The one run, its finding seen at these places."""
    whole = report(fires(), "dataloader-bound")
    (finding,) = whole.findings
    evidence = msgspec.structs.replace(finding.evidence[0], where=places)
    whole = msgspec.structs.replace(whole, findings=(msgspec.structs.replace(finding, evidence=(evidence,)),))
    document = json.loads(render(whole, "sarif"))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    return dict(run)


def test_a_finding_is_a_result_of_its_rule() -> None:
    run = sarif()
    (result,) = run["results"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert result["ruleId"] == rule["id"] == "dataloader-bound"
    assert result["level"] == "error"
    assert "the program waits for its next batch" in result["message"]["text"]
    assert rule["helpUri"].startswith("https://docs.pytorch.org/")
    assert result["locations"] == WHOLE


def test_lines_of_the_project_are_locations() -> None:
    run = sarif(CodePlace("python", "src/train loop.py(12): step"), CodePlace("step", "3"))
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "src/train%20loop.py"},
        "region": {"startLine": 12},
    }


@pytest.mark.parametrize(
    "name",
    [
        "/usr/lib/python3.11/threading.py(5): run",
        "C:\\code\\train.py(5): run",
        "site-packages/torch/nn/module.py(5): call",
        "../other/train.py(5): run",
        "<built-in method item>",
        "train.py(0): run",
    ],
)
def test_what_is_in_no_project_is_at_the_trace(name: str) -> None:
    assert sarif(CodePlace("python", name))["results"][0]["locations"] == WHOLE


def test_each_line_is_there_once() -> None:
    twice = CodePlace("python", "train.py(12): step")
    assert len(sarif(twice, twice)["results"][0]["locations"]) == 1


@pytest.mark.parametrize("link", ["javascript:alert(1)", "http://", "https://example.com/a b", "file:///etc/passwd"])
def test_help_leads_to_pages_only(link: str) -> None:
    whole = report(fires(), "dataloader-bound")
    (finding,) = whole.findings
    whole = msgspec.structs.replace(whole, findings=(msgspec.structs.replace(finding, links=(link,)),))
    (rule,) = json.loads(render(whole, "sarif"))["runs"][0]["tool"]["driver"]["rules"]
    assert "helpUri" not in rule


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("train.py(12): step", "train.py"),
        ("<wrapped (by) src/train.py(12): step", " src/train.py"),
        ("javascript:alert.py(12): step", "javascript%3Aalert.py"),
    ],
)
def test_a_file_begins_after_the_last_bracket(name: str, uri: str) -> None:
    (location,) = sarif(CodePlace("python", name))["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == uri.strip()


def test_a_bare_suffix_is_no_file() -> None:
    assert sarif(CodePlace("python", "(.py(12): step"))["results"][0]["locations"] == WHOLE
