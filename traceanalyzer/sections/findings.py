"""What bounds the run, and what should be changed?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats import finding_texts, several_runs, silence
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Headline, Report
from traceanalyzer.report.section import Section, Term, Topic

_HEADLINE = Text("findings-headline", "What bounds it")
_TITLE = Text("findings-title", "What to change")
_RUN = Text("findings-run", "{run}: {message}", note="run is an identifier such as run-1; message is a sentence")
_COMBINED = Text(
    "findings-together",
    "All fixes together: a step gets shorter by {saving:estimate}, {share:estimated_share} of it. Then the next "
    "bottleneck is: {resource}.",
    note="saving and share are intervals such as 25-31 ms; resource is GPU, Host, DataLoader or Communication",
)
_COMBINED_ONLY = Text(
    "findings-together-only",
    "All fixes together: a step gets shorter by {saving:estimate}, {share:estimated_share} of it.",
    note="saving and share are intervals such as 25-31 ms",
)
ORDER = Text(
    "findings-order",
    "Sorted by severity, then by saving. Savings overlap: do not add them up.",
)
_TERMS = (
    Term(
        Text("define-saving", "Saving"),
        Text(
            "define-saving-estimate",
            "How much shorter a step gets with this fix alone: most likely (at least-at most).",
        ),
    ),
    Term(
        Text("define-severity", "Severity, Confidence"),
        Text(
            "define-severity-say",
            "Severity is how much is at stake. Confidence A is exact evidence, B is inferred from names and shapes, C "
            "is a heuristic.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the headline and the findings."""
    del top
    if not report.headlines:
        return
    yield Section(
        "headline",
        _HEADLINE,
        messages=tuple(_of_run(h, h.message) for h in several_runs.headlines(report)),
        topic=Topic.SUMMARY,
        is_essential=True,
    )
    several = [(h, h.combined) for h in report.headlines if h.combined and len(h.combined.fixes) > 1]
    combined = tuple(_of_run(headline, _together(headline, found)) for headline, found in several)
    shown = several_runs.findings(report).findings
    order = (ORDER(),) if len(shown) > 1 else ()
    messages = (*combined, *order) if shown else tuple(silence.messages(report))
    yield Section(
        "findings",
        _TITLE,
        messages=messages,
        findings=shown,
        topic=Topic.SUMMARY,
        terms=_TERMS if shown else (),
        is_essential=True,
    )


def _of_run(headline: Headline, message: Message) -> Message:
    return message if headline.run is None else _RUN(run=headline.run, message=message)


def _together(headline: Headline, combined: Combined) -> Message:
    saving = (combined.wall_ns_per_step[0], combined.point_ns_per_step, combined.wall_ns_per_step[1])
    share = (combined.wall_share[0], None, combined.wall_share[1])
    following = finding_texts.next_bottleneck(headline)
    if following is None:
        return _COMBINED_ONLY(saving=saving, share=share)
    known = finding_texts.RESOURCES.get(following)
    return _COMBINED(saving=saving, share=share, resource=following if known is None else known())
