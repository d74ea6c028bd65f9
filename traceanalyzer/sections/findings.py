"""What bounds the run, and what should be changed?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from traceanalyzer import analyzers, simulation
from traceanalyzer.analyzers.tables.parts import PrintedFigures
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Headline, Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import several_runs

_HEADLINE = Text("findings-headline", "What bounds it")
_TITLE = Text("findings-title", "What to change")
_RUN = Text("findings-run", "{run}: {message}", note="run is an identifier such as run-1; message is a sentence")
_COMBINED = Text(
    "findings-all-fixes",
    "All fixes: {saving:estimate} per step of {step:ns}.",
    note="saving is an interval such as 56 ms (42-80)",
)
_THEN = {
    "gpu": Text("findings-then-gpu", "{all} Then the GPU is the limit.", "all is a sentence"),
    "host": Text("findings-then-host", "{all} Then the CPU is the limit.", "all is a sentence"),
    "loader": Text("findings-then-loader", "{all} Then the DataLoader is the limit.", "all is a sentence"),
    "communication": Text("findings-then-communication", "{all} Then communication is the limit.", "all is a sentence"),
}
"""What bounds a step after all fixes, by resource."""
RESOURCES = {
    "gpu": Text("advice-gpu", "GPU"),
    "host": Text("advice-host", "Host"),
    "loader": Text("advice-loader", "DataLoader"),
    "communication": Text("advice-communication", "Communication"),
}
"""Resources that can bound a step, in the order of reports."""
_BOUND_BY = {"input": "loader", "gpu-compute": "gpu", "gpu-memory": "gpu"}
"""Resources of headlines whose key differs from that of the resource."""
ORDER = Text("findings-order", "Sorted by severity, then by saving. Savings overlap, so they cannot be added up.")
_NOTHING = Text("findings-nothing", "No rule found anything to change.")
_UNJUDGED = Text(
    "findings-unjudged",
    "Nothing was judged: rules need the times of operators, kernels or parts of a program, and the text has none.",
)
_FEW_JUDGED = Text(
    "findings-few-judged",
    "No findings, but {rules:count} rules could not be applied. The reasons:",
    one="No findings, but {rules:count} rule could not be applied. The reason:",
)
_REASON = Text(
    "findings-reason",
    "{rules:count} rules: {reason}.",
    note="reason is a clause without a full stop",
    one="{rules:count} rule: {reason}.",
)
_OTHERS = Text(
    "findings-other-reasons", "Other reasons: {rules:count} rules.", one="Another reason: {rules:count} rule."
)
_REASONS = 3
"""Number of reasons shown (own choice: the first cover most rules; the list of skipped rules has all)."""
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
    if not several_runs.of_one_program(report):  # else the story has them
        yield Section(
            "headline",
            _HEADLINE,
            messages=tuple(_of_run(h, h.message) for h in several_runs.headlines(report)),
            topic=Topic.SUMMARY,
            is_essential=True,
        )
    several = [(h, h.combined) for h in several_runs.advised(report) if h.combined and len(h.combined.fixes) > 1]
    combined = tuple(_of_run(headline, _together(headline, combined)) for headline, combined in several)
    shown = several_runs.findings(report).findings
    order = (ORDER(),) if len(shown) > 1 else ()
    messages = (*combined, *order) if shown else tuple(silence(report))
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
    most, share = combined.wall_ns_per_step[1], combined.wall_share[1]
    whole = combined.step_ns or (headline.resources.step_ns if headline.resources else most / share if share else None)
    together = _COMBINED(saving=saving, step=whole)
    following = _THEN.get(next_bottleneck(headline) or "")
    return following(all=together) if following else together


def _is_unjudged(report: Report) -> bool:
    """Whether a text has only figures, or calls without the time of a program."""
    is_text = report.result("printed_figures", tuple[PrintedFigures, ...]) is not None
    return is_text and all(found.resources is None and found.bound == "none" for found in report.headlines)


def silence(report: Report) -> Iterator[Message]:
    """Sentences for a report without findings, the most frequent reasons first."""
    keys = {*analyzers.RESULTS, *(analyzer.key for analyzer in simulation.ANALYSES)}
    by_reason: defaultdict[str, list[Message]] = defaultdict(list)
    for skipped in report.skipped:
        if skipped.id not in keys:
            by_reason[skipped.reason.text].append(skipped.reason)
    if not by_reason:
        yield _UNJUDGED() if _is_unjudged(report) else _NOTHING()
        return
    ordered = sorted(by_reason.values(), key=lambda same: (-len(same), same[0].text))
    yield _FEW_JUDGED(rules=sum(map(len, ordered)))
    for same in ordered[:_REASONS]:
        yield _REASON(rules=len(same), reason=same[0])
    if len(ordered) > _REASONS:
        yield _OTHERS(rules=sum(map(len, ordered[_REASONS:])))


def next_bottleneck(headline: Headline) -> str | None:
    """The resource that bounds the step after all fixes; None if it already bounds the step."""
    following = headline.combined.next_bottleneck if headline.combined else None
    return None if following == _BOUND_BY.get(headline.bound, headline.bound) else following
