"""What would a step be with all fixes, and which findings does a first screen show as cards?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Finding, Headline, Relief, Report, Saving

_OUTCOME = Text(
    "outcome",
    "{before:ns} \u2192 {after:ns} {per} ({times:factor}x) {fixes}",
    note="no full stop; per: per step, or: in all; fixes: with all fixes",
)
_LITTLE = Text(
    "outcome-little",
    "{before:ns} {per}, {share:share} less {fixes}",
    note="no full stop; a time and how much shorter it gets; per: per step, or: in all; fixes: with all fixes",
)
_AT_BEST = Text(
    "outcome-at-best",
    "{before:ns} \u2192 {after:ns} {per} at best ({times:factor}x) {fixes}",
    note="no full stop; per: per step, or: in all; fixes: with all fixes",
)
_LITTLE_AT_BEST = Text(
    "outcome-at-best-little",
    "{before:ns} {per}, at best {share:share} less {fixes}",
    note="no full stop; a time and how much shorter it gets; per: per step, or: in all; fixes: with all fixes",
)
_PER_STEP = Text("outcome-per-step", "per step", note="within a phrase: 152 \u2192 93 ms per step (1.6x)")
_PER_TYPICAL_STEP = Text(
    "outcome-per-typical-step",
    "per typical step",
    note="where most of the trace is something else; within a phrase: 152 \u2192 93 ms per typical step (1.6x)",
)
IN_ALL = Text("outcome-in-all", "in all", note="of a whole run; within a phrase: 152 \u2192 93 s in all (1.6x)")
_ALL_FIXES = Text(
    "outcome-all-fixes-3", "with all {count:count} fixes", note="ends a phrase: 152 \u2192 93 ms per step (1.6x)"
)
_BOTH_FIXES = Text("outcome-both-fixes", "with both fixes", note="ends a phrase: 152 \u2192 93 ms per step (1.6x)")
_FIRST_FIXES = Text(
    "outcome-first-fixes",
    "with the first {count:count} fixes",
    note="ends a phrase: 152 \u2192 93 ms per step (1.6x); below it are more fixes than that",
    one="with the first fix",
)
_SOME_FIXES = Text(
    "outcome-some-fixes",
    "with {count:count} of these fixes",
    note="ends a phrase: 152 \u2192 93 ms per step (1.6x); below it are more fixes than that",
    one="with one of these fixes",
)
_FIXES = Text(
    "outcome-fixes",
    "with {count:count} fixes",
    note="ends a phrase: 152 \u2192 93 ms per step (1.6x)",
    one="with one fix",
)
_OVERLAP = Text(
    "outcome-fixes-overlap-2",
    "{fixes}, which overlap",
    note="fixes: with all 3 fixes; together they save less than their sum",
)
_OF_THE_FIRST = Text(
    "outcome-fixes-first",
    "{fixes}, nearly all by the first",
    note="fixes: with all 3 fixes; what is saved is saved by the first of them",
)
_SOME_MAY = Text(
    "outcome-fixes-questions-2",
    "{fixes}, of which {questions:number} may save nothing",
    note="fixes: with all 3 fixes; a fix may save nothing where something unknown decides",
)
_ALSO = Text(
    "outcome-also",
    "Counted, too: {fixes}.",
    note="after the first three fixes; fixes is a list such as: Drop gradients (2 ms)",
)
_PRICE = Text("outcome-also-saves-2", "{fix} ({time:rounded_ns})", note="fix is what to do, with what that saves")
_MOST = Text(
    "outcome-also-saves-most", "{fix} (up to {time:rounded_ns})", note="fix is what to do, with what that saves"
)
_LATER = Text(
    "outcome-also-saves-later-2", "{fix} ({time:rounded_ns} after these)", note="these: other fixes, which come first"
)
_LATER_MOST = Text(
    "outcome-also-saves-later-most",
    "{fix} (up to {time:rounded_ns} after these)",
    note="these: other fixes, which come first",
)
_ONE_FIX = Text("outcome-one-fix", "with the fix", note="ends a phrase: 152 \u2192 93 ms per step (1.6x)")
_END = Text("outcome-end", "{outcome}.", note="outcome: 152 \u2192 93 ms per step (1.6x) with all fixes")
_THEN = {
    "gpu": Text("outcome-then-gpu", "{outcome}; then the GPU is the limit.", "outcome: 152 \u2192 93 ms per step"),
    "host": Text("outcome-then-cpu", "{outcome}; then the CPU is the limit.", "outcome: 152 \u2192 93 ms per step"),
    "loader": Text(
        "outcome-then-loader", "{outcome}; then the DataLoader is the limit.", "outcome: 152 \u2192 93 ms per step"
    ),
    "communication": Text(
        "outcome-then-communication",
        "{outcome}; then communication is the limit.",
        "outcome: 152 \u2192 93 ms per step",
    ),
}
"""What bounds a step after all fixes, by resource."""
_BOUND_BY = {"input": "loader", "gpu-compute": "gpu", "gpu-memory": "gpu"}
"""Resources of headlines whose key differs from that of the resource."""
_WORTH_SAYING = 0.01
"""Share of a step by which all fixes make it shorter before that is said (own choice: less is noise)."""
_OVERLAPS = 1.05
"""How much more than together fixes save one by one, from which on that is said (own choice: less is rounding)."""
_ADDS = 0.01
"""Share of what all fixes save that a fix adds to others before it counts (own choice: less is noise)."""
_ROUNDED = ("plain_ns", "whole_ns")
"""How formats round a time."""
_PRECISE = 1.1
"""Factor from which on two digits tell enough."""
_NEARLY_ALL = 0.95
"""Share of what all fixes save from which on the first is said to save nearly all of it (own choice)."""
FIRST = 3
"""Number of findings that a first screen shows as cards."""


def outcome(headline: Headline, findings: Sequence[Finding]) -> Message | None:
    """What a step would be with all fixes, and what bounds it then; None without a saving.

    It is the most likely time; where only bounds are known, or each fix may save nothing, the least.

    Args:
        headline: The headline.
        findings: Those of its report, which say whether savings are of a whole run.
    """
    combined = headline.combined
    if combined is None or not combined.fixes:
        return None
    combined = replace(combined, fixes=_that_count(combined))
    savings = [findings[fix.finding].saving for fix in combined.fixes if fix.finding < len(findings)]
    questions = sum(saving is not None and saving.decided_by is not None for saving in savings)
    if questions == len(combined.fixes):
        combined, questions = replace(combined, point_ns_per_step=None), 0
    before, saved = _before(headline, combined), combined.point_ns_per_step or combined.wall_ns_per_step[1]
    if not before or not _WORTH_SAYING * before <= saved < before:
        return None
    fixes = _fixes(combined, savings, saved, questions, _how_many(headline, combined, findings))
    return _THEN.get(next_bottleneck(headline) or "", _END)(outcome=_after(combined, savings, (before, saved), fixes))


def _that_count(combined: Combined) -> tuple[Relief, ...]:
    """The fixes without the last ones, if these hardly add anything to those before them."""
    fixes, least = combined.fixes, _ADDS * combined.wall_ns_per_step[1]
    while len(fixes) > 1 and fixes[-1].wall_ns_per_step[1] < least:
        fixes = fixes[:-1]
    return fixes


def _after(combined: Combined, savings: Sequence[Saving | None], times: tuple[float, float], fixes: Message) -> Message:
    """The phrase on what a step takes after all fixes.

    Args:
        combined: All of them together.
        savings: Of each of them alone.
        times: What a step takes before, and what they save together, in ns.
        fixes: How many they are.
    """
    before, saved = times
    known = [saving for saving in savings if saving is not None]
    per = _PER_TYPICAL_STEP if any(saving.steps_share is not None for saving in known) else _PER_STEP
    per = IN_ALL if any(saving.is_of_whole_run for saving in known) else per
    is_likely = bool(combined.point_ns_per_step)
    if any(units.render(before, unit) == units.render(before - saved, unit) for unit in _ROUNDED):
        return (_LITTLE if is_likely else _LITTLE_AT_BEST)(before=before, share=saved / before, per=per(), fixes=fixes)
    factor = before / (before - saved)
    return (_OUTCOME if is_likely else _AT_BEST)(
        before=before,
        after=before - saved,
        times=float(f"{factor:.2g}" if factor >= _PRECISE else f"{factor:.3g}"),
        per=per(),
        fixes=fixes,
    )


def _how_many(headline: Headline, combined: Combined, findings: Sequence[Finding]) -> Message:
    """How many fixes are counted; of a report on one run as a reader counts them who sees the first cards.

    A card may add nothing to those before it, or only ask for another recording.
    """
    counted, count = {fix.finding for fix in combined.fixes}, len(combined.fixes)
    carded = [number for number, each in enumerate(findings) if any(each is card for card in first(findings))]
    while carded and carded[0] not in counted and not _has_price(findings[carded[0]]):
        carded = carded[1:]  # it asks for another recording, before all fixes
    if headline.run is None and not counted >= {*carded}:
        is_first = counted == {*carded[:count]}
        return (_FIRST_FIXES if is_first else _SOME_FIXES if counted <= {*carded} else _FIXES)(count=count)
    if count == 1:
        return _ONE_FIX()
    return _BOTH_FIXES() if count == 2 else _ALL_FIXES(count=count)


def _has_price(finding: Finding) -> bool:
    return finding.saving is not None or finding.once is not None


def _fixes(
    combined: Combined, savings: Sequence[Saving | None], saved: float, questions: int, fixes: Message
) -> Message:
    """The fixes, and whether some may save nothing, or all save less together than one by one.

    Args:
        combined: All of them together.
        savings: Of each of them alone.
        saved: What they save together, in ns.
        questions: How many of them may save nothing.
        fixes: How many they are.
    """
    if len(combined.fixes) == 1:
        return fixes
    if questions:
        return _SOME_MAY(fixes=fixes, questions=questions)
    is_likely = bool(combined.point_ns_per_step)
    alone = [(each.point_ns_per_step or 0.0) if is_likely else each.wall_ns_per_step[1] for each in savings if each]
    is_first = combined.fixes[0].finding == min(fix.finding for fix in combined.fixes)
    if is_first and alone and alone[0] >= _NEARLY_ALL * saved:
        return _OF_THE_FIRST(fixes=fixes)
    return _OVERLAP(fixes=fixes) if units.total(alone) > _OVERLAPS * saved else fixes


def first(findings: Sequence[Finding], most: int = FIRST) -> Sequence[Finding]:
    """The first findings, without those that save nothing yet or only inform, unless there are no others."""
    saving_now = [finding for finding in findings if not finding.latent and finding.severity != "info"]
    return (saving_now or findings)[:most]


def others(report: Report) -> Iterator[Message]:
    """The fixes that all fixes together count and no card of a first screen shows, each with what it saves.

    Nothing for several runs, whose fixes are counted each by itself.
    """
    if len(report.headlines) != 1 or (combined := report.headlines[0].combined) is None:
        return
    carded = first(report.findings)
    counted = (report.findings[fix.finding] for fix in _that_count(combined) if fix.finding < len(report.findings))
    rest = [_with_price(finding) for finding in counted if not any(finding is each for each in carded)]
    if rest and outcome(report.headlines[0], report.findings) is not None:
        yield _ALSO(fixes=rest)


def _with_price(finding: Finding) -> Message:
    """What to do, and what that saves most likely, or at most; of what saves nothing yet, after the fixes before it."""
    fix = finding.action or finding.title
    later, saving = finding.after_fixes_ns_per_step, finding.saving
    if finding.latent and later is not None:
        _, point, high = later
        return _LATER(fix=fix, time=point) if point else _LATER_MOST(fix=fix, time=high)
    if saving is None or finding.latent:
        return fix
    if saving.point_ns_per_step and saving.decided_by is None:
        return _PRICE(fix=fix, time=saving.point_ns_per_step)
    return _MOST(fix=fix, time=saving.wall_ns_per_step[1])


def _before(headline: Headline, combined: Combined) -> float | None:
    """The duration in ns of a step before all fixes; None if it is unknown."""
    if combined.step_ns or headline.resources:
        return combined.step_ns or (headline.resources.step_ns if headline.resources else None)
    share = combined.wall_share[1]
    return combined.wall_ns_per_step[1] / share if share else None


def next_bottleneck(headline: Headline) -> str | None:
    """The resource that bounds the step after all fixes; None if it already does, or if nothing of it is known."""
    following = headline.combined.next_bottleneck if headline.combined else None
    if headline.resources is not None and not getattr(headline.resources, f"{following}_ns", None):
        return None
    return None if following == _BOUND_BY.get(headline.bound, headline.bound) else following
