"""What bounds the run, and what to change?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.renderers import several_runs, silence
from traceanalyzer.renderers.finding_texts import RESOURCES
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Headline, Report
from traceanalyzer.report.section import Section, Term, Topic

_HEADLINE = Text("findings-headline", "What bounds it")
_TITLE = Text("findings-title", "What to change")
_RUN = Text("findings-run", "{run}: {message}", note="run is an identifier such as run-1; message is a sentence")
_COMBINED = Text(
    "findings-combined",
    "All fixes together: at least {low:ns}, at most {high:ns} less per step ({low_share:share} to {high_share:share}). "
    "Then the next bottleneck is: {resource}.",
    note="resource is GPU, Host, DataLoader or Communication",
)
ORDER = Text(
    "findings-order",
    "Sorted by severity, then by saving. Savings overlap: do not add them up.",
)
_TERMS = (
    Term(
        Text("define-saving", "Saving"),
        Text(
            "define-saving-say",
            "What a step gets shorter by, at least and at most: never more than the other resources allow, because "
            "they take their time whatever one of them does.",
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
    """The headline, then the findings."""
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
    combined = tuple(_of_run(headline, _together(found)) for headline, found in several)
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


def _together(combined: Combined) -> Message:
    resource = RESOURCES.get(combined.next_bottleneck)
    return _COMBINED(
        low=combined.wall_ns_per_step[0],
        high=combined.wall_ns_per_step[1],
        low_share=combined.wall_share[0],
        high_share=combined.wall_share[1],
        resource=combined.next_bottleneck if resource is None else resource(),
    )
