"""Scores findings against what an expert expects of the corpus (`expected/corpus.toml`, written before the rules)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import corpus_files
from traceanalyzer.report.model import Finding, Report

EXPECTED = Path(__file__).parent / "expected" / "corpus.toml"
DIFFERENCES = Path(__file__).parent / "expected" / "differences.toml"
"""Where the rules and the expert disagree after a second look, and why."""

FOLDERS = {"trace": "corpus", "document": "documents"}


@dataclass(frozen=True)
class Score:
    """One trace, or one run of a table document."""

    name: str
    run: str | None
    headline: str
    expected_headline: str
    findings: tuple[Finding, ...]
    expected: dict[str, str]
    """Expected rules with the reason for each."""
    tolerated: dict[str, str]
    forbidden: dict[str, str]
    differences: dict[str, str] = field(default_factory=dict)
    """Rules, or `headline`, to why the expert was not followed."""

    @property
    def found(self) -> dict[str, Finding]:
        """The findings by rule."""
        return {finding.rule: finding for finding in self.findings}

    @property
    def true(self) -> list[str]:
        """Rules that fired as expected."""
        return [rule for rule in self.expected if rule in self.found]

    @property
    def missed(self) -> list[str]:
        """Expected rules that did not fire."""
        return [rule for rule in self.expected if rule not in self.found]

    @property
    def false(self) -> list[str]:
        """Found, neither expected nor tolerated."""
        return [rule for rule in self.found if rule not in self.expected and rule not in self.tolerated]


def scores(shared: Path) -> Iterator[Score]:
    """One for each entry of the expectations.

    Args:
        shared: The folder that holds corpus/ and documents/.
    """
    differences = tomllib.loads(DIFFERENCES.read_text("utf-8")).get("difference", [])
    reports: dict[str, Report] = {}
    for kind, folder in FOLDERS.items():
        for entry in tomllib.loads(EXPECTED.read_text("utf-8"))[kind]:
            name = entry["name"]
            if name not in reports:
                reports[name] = corpus_files.report_of(shared / folder / name)
            own = [d for d in differences if d["name"] == name and d.get("run") == entry.get("run")]
            yield _score(entry, reports[name], {d["rule"]: d["why"] for d in own})


def _score(entry: dict[str, Any], report: Report, differences: dict[str, str]) -> Score:
    run = entry.get("run")
    headline = next((found.bound for found in report.headlines if found.run == run), "none")
    return Score(
        name=entry["name"],
        run=run,
        headline=headline,
        expected_headline=entry["headline"],
        findings=tuple(finding for finding in report.findings if finding.run == run),
        expected=_why(entry, "expected"),
        tolerated=_why(entry, "tolerated"),
        forbidden=_why(entry, "forbidden"),
        differences=differences,
    )


def _why(entry: dict[str, Any], key: str) -> dict[str, str]:
    return {item["rule"]: item["why"] for item in entry.get(key, [])}
