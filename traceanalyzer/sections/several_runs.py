"""Merges findings and headlines that many tables of a document have in common, apart from their numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from traceanalyzer.analyzers.tables.grouping import MOST_COMPARED
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Headline, Report

MOST = MOST_COMPARED
"""Most tables that are shown one by one without merging."""
_NAMED = 3

_SAME_FINDING = Text(
    "several-runs-finding",
    "In {tables:count} tables ({runs}), {subject}: {range}. In {first}: {summary}",
    note="subject says what was measured, range is an interval; summary is a sentence about the table first",
)
_SAME_HEADLINE = Text(
    "several-runs-headline",
    "{tables:count} of {total:count} tables ({runs}), shares of {low:share} to {high:share}. In {first}: {headline}",
    note="headline is a sentence about the table first; the shares are how much of a step the bound takes",
)
_SAME_HEADLINE_ALONE = Text(
    "several-runs-headline-unknown",
    "{tables:count} of {total:count} tables ({runs}). In {first}: {headline}",
    note="headline is a sentence about the table first",
)
_AND_MORE = Text(
    "several-runs-more", "{named} and {hidden:count} more", note="named is a list of identifiers such as run-1, run-2"
)
_TITLE = Text("several-runs-title", "{title}, in {tables:count} tables", note="title is that of a finding")
_SHARES = Text("several-runs-shares", "{low:share} to {high:share}", note="an interval")
_TIMES = Text("several-runs-times", "{low:ns} to {high:ns}", note="an interval")
_SIZES = Text("several-runs-sizes", "{low:bytes} to {high:bytes}", note="an interval")
_NUMBERS = Text("several-runs-numbers", "{low:number} to {high:number}", note="an interval")
_RANGES = {"share": _SHARES, "ns": _TIMES, "bytes": _SIZES}


@dataclass(frozen=True)
class MergedFindings:
    """Findings, with those of many tables merged."""

    findings: tuple[Finding, ...]
    position: tuple[int, ...]
    """For each finding of the report, its position among these."""


def findings(report: Report) -> MergedFindings:
    """Merge findings, in the order of the report, with the most severe of merged findings shown."""
    shown: list[list[Finding]] = []
    place: dict[object, int] = {}
    position = []
    for number, finding in enumerate(report.findings):
        key: object = (finding.rule, finding.title.id, finding.runs) if len(finding.runs) > MOST else number
        if key in place and any(other.run == finding.run for other in shown[place[key]]):
            key = number  # a rule that finds several things in each table: they stay apart
        if key not in place:
            place[key] = len(shown)
            shown.append([])
        shown[place[key]].append(finding)
        position.append(place[key])
    return MergedFindings(tuple(map(_joined, shown)), tuple(position))


def _joined(same: Sequence[Finding]) -> Finding:
    first = same[0]
    if len(same) == 1 or not first.evidence:
        return first
    proof = first.evidence[0]
    values = [finding.evidence[0].observed for finding in same if finding.evidence]
    summary = _SAME_FINDING(
        tables=len(same),
        runs=_runs([finding.run or "" for finding in same]),
        subject=proof.subject,
        range=_RANGES.get(proof.unit, _NUMBERS)(low=min(values), high=max(values)),
        first=first.run,
        summary=first.summary,
    )
    title = _TITLE(title=first.title, tables=len(same))
    return msgspec.structs.replace(first, run=None, title=title, summary=summary)


def headlines(report: Report) -> tuple[Headline, ...]:
    """As they are for a few runs; for many one for each kind of bound, with the runs of which it holds."""
    if len(report.headlines) <= MOST:
        return report.headlines
    kinds: defaultdict[tuple[str, str], list[Headline]] = defaultdict(list)
    for headline in report.headlines:
        kinds[headline.bound, headline.message.id].append(headline)
    return tuple(_summed_up(same, len(report.headlines)) for same in kinds.values())


def _summed_up(same: Sequence[Headline], total: int) -> Headline:
    first = same[0]
    if len(same) == 1:
        return first
    shares = [headline.share for headline in same if headline.share is not None]
    common = {
        "tables": len(same),
        "total": total,
        "runs": _runs([headline.run or "" for headline in same]),
        "first": first.run,
        "headline": first.message,
    }
    differ = len(set(shares)) > 1
    message = _SAME_HEADLINE(**common, low=min(shares), high=max(shares)) if differ else _SAME_HEADLINE_ALONE(**common)
    return msgspec.structs.replace(first, run=None, message=message)


def _runs(ids: Sequence[str]) -> Message | str:
    named = ", ".join(ids[:_NAMED])
    return named if len(ids) <= _NAMED else _AND_MORE(named=named, hidden=len(ids) - _NAMED)
