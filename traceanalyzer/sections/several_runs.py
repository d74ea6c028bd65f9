"""Merges findings and headlines that many tables of a document have in common, apart from their numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.tables.grouping import MOST_COMPARED
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Headline, Report
from traceanalyzer.report.names import clean

MOST = MOST_COMPARED
"""Most tables that are shown one by one without merging."""
_NAMED = 3
_SHORT = 40
"""Most characters of a title that stands before sentences in place of an id (own choice: half a line)."""
_COMMON = 0.3
"""Least share of operators that two runs of one program have in common (own choice: other models have fewer)."""

_SAME_FINDING = Text(
    "several-runs-finding",
    "In {tables:count} tables ({runs}), {subject}: {range}. In {first}: {summary}",
    note="subject says what was measured, range is an interval; summary is a sentence about the table first",
)
_SAME_HEADLINE = Text(
    "several-runs-headline-2",
    "{tables:count} of {total:count} tables are limited alike ({runs}), with shares of {low:share} to {high:share}; "
    "the figures are those of {first}.",
    note="after a sentence about what bounds the table first; the shares are how much of a step that takes",
)
_SAME_HEADLINE_ALONE = Text(
    "several-runs-headline-unknown-2",
    "{tables:count} of {total:count} tables are limited alike ({runs}); the figures are those of {first}.",
    note="after a sentence about what bounds the table first",
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


def of_one_program(report: Report) -> tuple[PrintedRun, ...]:
    """Runs of a document that measure one program before and after changes; empty for any other report."""
    runs = report.result("runs", tuple[PrintedRun, ...]) or ()
    are_runs = 1 < len(runs) <= MOST and all(run.id.startswith("run-") for run in runs)
    if not are_runs or len({run.steps_from is None for run in runs}) > 1:
        return ()
    if not all(run.wall_estimate_ns_per_step for run in runs):
        return ()
    names = [{row.name for row in run.operators} for run in (runs[0], runs[-1])]
    return runs if len(names[0] & names[1]) >= _COMMON * min(map(len, names)) > 0 else ()


def named(report: Report) -> dict[str, str]:
    """Short titles of the runs by their ids, where each of a few runs has one of its own; ranks keep their numbers."""
    runs = [run for run in report.result("runs", tuple[PrintedRun, ...]) or () if run.id.startswith("run-")]
    titles = {run.id: clean(run.title or "") for run in runs}
    are_short = all(0 < len(title) <= _SHORT for title in titles.values())
    is_clear = 1 < len(set(titles.values())) == len(runs) <= MOST
    return titles if are_short and is_clear else {}


def settled(report: Report) -> frozenset[int]:
    """Positions of findings of earlier runs that are no advice any more: the last run is no slower and lacks them."""
    runs = of_one_program(report)
    if not runs:
        return frozenset()
    last = {finding.rule for finding in report.findings if finding.run == runs[-1].id}
    before, after = (run.wall_estimate_ns_per_step or 0.0 for run in (runs[0], runs[-1]))
    earlier = ((n, f) for n, f in enumerate(report.findings) if f.run in {run.id for run in runs[:-1]})
    return frozenset(n for n, finding in earlier if after <= before and finding.rule not in last)


class MergedFindings(msgspec.Struct, frozen=True):
    """Findings, with those of many tables merged."""

    findings: tuple[Finding, ...]
    position: tuple[int | None, ...]
    """For each finding of the report, its position among these; None for what a later run has settled."""


def findings(report: Report) -> MergedFindings:
    """Merge findings, in the order of the report, with the most severe of merged findings shown."""
    shown: list[list[Finding]] = []
    place: dict[object, int] = {}
    position: list[int | None] = []
    done = settled(report)
    for number, finding in enumerate(report.findings):
        if number in done:
            position.append(None)
            continue
        key: object = (finding.rule, finding.title.id, finding.runs) if len(finding.runs) > MOST else number
        if key in place and any(other.run == finding.run for other in shown[place[key]]):
            key = number  # a rule that finds several things in each table: they stay apart
        if key not in place:
            place[key] = len(shown)
            shown.append([])
        shown[place[key]].append(finding)
        position.append(place[key])
    return MergedFindings(tuple(map(_joined, shown)), tuple(position))


def advised(report: Report) -> tuple[Headline, ...]:
    """Headlines whose fixes are advice: not those of runs that a later one has settled in part."""
    done = settled(report)
    return tuple(
        headline
        for headline in report.headlines
        if headline.combined is None or not any(fix.finding in done for fix in headline.combined.fixes)
    )


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
    }
    differ = len(set(shares)) > 1
    same_in = _SAME_HEADLINE(**common, low=min(shares), high=max(shares)) if differ else _SAME_HEADLINE_ALONE(**common)
    others = (first.qualifier, *first.details) if first.qualifier else first.details
    return msgspec.structs.replace(first, run=None, qualifier=same_in, details=others)


def _runs(ids: Sequence[str]) -> Message | str:
    named = ", ".join(ids[:_NAMED])
    return named if len(ids) <= _NAMED else _AND_MORE(named=named, hidden=len(ids) - _NAMED)
