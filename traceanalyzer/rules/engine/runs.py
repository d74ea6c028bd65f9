"""Compares the runs of a document of printed tables: their steps, in headlines, and the findings that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Headline

_MOST_RUNS = 5
"""Runs that are compared (own choice): a list of more is a series of measurements, and its table says enough."""
_FACTOR = 1.1
"""Least factor between two runs that is worth a sentence (own choice: less is between two runs of one program)."""

_LESS = Text(
    "detail-run-shorter",
    "A step takes {step:ns}; in {other} it takes {before:ns}, {times:factor} times as long.",
    note="other is the id of an earlier run, such as run-1",
)
_MORE = Text(
    "detail-run-longer",
    "A step takes {step:ns}, {times:factor} times as long as in {other} ({before:ns}).",
    note="other is the id of an earlier run, such as run-1",
)


def compared(headlines: Sequence[Headline], counted: Collection[str | None] = ()) -> tuple[Headline, ...]:
    """Add to the headlines of later runs how their step compares with that of the first.

    Ranks of one run, tables of unknown origin, and more than a few runs are left as they are; so are runs of which
    only one shows its steps, because a step is not compared with a whole profile.

    Args:
        headlines: One for each run.
        counted: Ids of the runs whose number of steps is known.
    """
    runs = [headline for headline in headlines if (headline.run or "").startswith("run-")]
    if not 1 < len(runs) == len(headlines) <= _MOST_RUNS:
        return tuple(headlines)
    first, *others = runs
    return (first, *(_beside(other, first, counted) for other in others))


def _beside(headline: Headline, first: Headline, counted: Collection[str | None]) -> Headline:
    if (headline.run in counted) != (first.run in counted):
        return headline
    step, before = (each.resources.step_ns if each.resources else None for each in (headline, first))
    if not step or not before:
        return headline
    params = {"step": step, "other": first.run, "before": before}
    if before >= _FACTOR * step:
        said = _LESS(**params, times=before / step)
    elif step >= _FACTOR * before:
        said = _MORE(**params, times=step / before)
    else:
        return headline
    return msgspec.structs.replace(headline, details=(said, *headline.details))


def marked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Add to each finding the runs that have it."""
    runs: defaultdict[object, dict[str, None]] = defaultdict(dict)
    for finding in findings:
        if finding.run is not None:
            runs[_subject(finding)][finding.run] = None
    return tuple(
        msgspec.structs.replace(finding, runs=tuple(found))
        if finding.run is not None and len(found := runs[_subject(finding)]) > 1
        else finding
        for finding in findings
    )


def _subject(finding: Finding) -> object:
    """The content of a finding without its numbers: its texts, the names in them, and its first place."""
    texts = (finding.title, finding.summary, finding.advice, finding.not_when)
    places = [evidence.where[0] for evidence in finding.evidence[:1] if evidence.where]
    return (
        finding.rule,
        finding.latent,
        finding.blocked_by,
        finding.code,
        tuple(map(_words, texts)),
        tuple((place.kind, place.name, place.shapes) for place in places),
    )


def _words(message: Message) -> tuple[object, ...]:
    """The id of a text and the names that fill it."""
    return (message.id, *_names(message.params.values()))


def _names(values: Iterable[object]) -> Iterable[str]:
    for value in values:
        if not isinstance(value, int | float | None):
            yield str(value)
