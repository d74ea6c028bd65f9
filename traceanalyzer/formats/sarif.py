"""Renders findings as SARIF 2.1.0, so that code reviews show findings with a Python line beside the code.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from traceanalyzer.formats import cards
from traceanalyzer.formats.html.figures import rounded
from traceanalyzer.formats.html.summary import step_ns
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.model import CodePlace, Finding, Report
from traceanalyzer.report.names import clean
from traceanalyzer.sections import several_runs

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note", "info": "note"}
_LINE = re.compile(r"(?<=[^()])\.py\((?P<line>\d{1,9})\)")
"""Pattern of file and line in a frame, `train.py(12): step`; the file begins after any earlier bracket."""
_OUTSIDE = re.compile(r"^(/|[A-Za-z]:)|(^|/)(site-packages|dist-packages|lib/python[\d.]+)/|(^|/)\.\.(/|$)")
"""Pattern of files that are not part of a project."""


def render(report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str:
    """Render one run with all findings; equal reports give equal bytes."""
    del top
    language = language.of_report(report)
    shown = rounded(language, step_ns(report))
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(report, language)},
                "results": [_result(f, report, shown) for f in several_runs.findings(report).findings],
                "columnKind": "unicodeCodePoints",
                "properties": {"verdicts": [clean(shown.say(headline.message)) for headline in report.headlines]},
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _driver(report: Report, language: Language) -> dict[str, Any]:
    """The tool, and the rules with findings."""
    rules = {finding.rule: finding for finding in reversed(report.findings)}
    return {
        "name": report.generator.name,
        "semanticVersion": report.generator.version,
        "rules": [
            {
                "id": rule,
                "shortDescription": {"text": clean(language.say(finding.title))},
                "help": {"text": clean(language.say(finding.advice))},
                **({"helpUri": finding.links[0]} if any(map(cards.is_page, finding.links[:1])) else {}),
            }
            for rule, finding in sorted(rules.items())
        ],
    }


def _result(finding: Finding, report: Report, language: Language) -> dict[str, Any]:
    card = cards.card(finding, language)
    action = None if finding.action is None else language.sentence(card.action)
    text = " ".join(clean(part) for part in (action, card.summary, card.saves, card.advice) if part)
    return {
        "ruleId": finding.rule,
        "level": _LEVELS.get(finding.severity, "note"),
        "message": {"text": text},
        "locations": [_location(*line) for line in lines(finding)] or [_whole(report)],
        "partialFingerprints": {"rule/v1": f"{finding.rule}/{finding.run or ''}"},
        "properties": {
            "severity": finding.severity,
            "confidence": finding.confidence,
            "latent": finding.latent,
            "savingNsPerStep": finding.saving.wall_ns_per_step if finding.saving else None,
        },
    }


def lines(finding: Finding) -> list[tuple[str, int]]:
    """File and line of each place of a finding in the files of a project, without duplicates."""
    places = (_line(place) for evidence in finding.evidence for place in evidence.where if place.kind == "python")
    return list(dict.fromkeys(found for found in places if found is not None))


def _whole(report: Report) -> dict[str, Any]:
    """The trace file as the location of findings without a line, because consumers of SARIF require a location."""
    return {"physicalLocation": {"artifactLocation": {"uri": quote(clean(report.source.name))}}}


def _location(path: str, line: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": quote(path)}, "region": {"startLine": line}}}


def _line(place: CodePlace) -> tuple[str, int] | None:
    name = clean(place.name)
    match = _LINE.search(name)
    if match is None:
        return None
    begin = max(name.rfind(bracket, 0, match.start()) for bracket in "()") + 1
    file = name[begin : match.start("line") - 1]
    path = PurePosixPath(file.strip().replace("\\", "/")).as_posix()
    if _OUTSIDE.search(path) or int(match["line"]) < 1:
        return None
    return path, int(match["line"])
