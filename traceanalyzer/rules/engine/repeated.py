"""Which findings do several runs of a document share, apart from the numbers?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Finding


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
