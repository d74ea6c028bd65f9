"""What bounds the run, and what should be changed?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from traceanalyzer import analyzers, simulation
from traceanalyzer.analyzers.tables.parts import PrintedFigures
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Finding, Headline, Relief, Report, Saving
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import several_runs, trust
from traceanalyzer.simulation.critical_path import CriticalPath

_HEADLINE = Text("findings-headline", "What bounds it")
_TITLE = Text("findings-title", "What to change")
_RUN = Text(
    "findings-run", "{run}: {message}", note="run is a title or an identifier such as run-1; message is a sentence"
)
_NO_GAIN = Text("no-gain", "What will not help")
_KERNELS = Text(
    "no-gain-kernels-4",
    "Faster kernels alone: no gain, they run while the step waits for something else.",
    note="in a list of what would not make a step shorter",
)
_KERNELS_BESIDE = {
    "host": Text(
        "no-gain-kernels-cpu",
        "Faster kernels alone: no gain, they run while the step waits for the CPU.",
        note="in a list of what would not make a step shorter",
    ),
    "loader": Text(
        "no-gain-kernels-loader",
        "Faster kernels alone: no gain, they run while the step waits for the DataLoader.",
        note="in a list of what would not make a step shorter",
    ),
    "communication": Text(
        "no-gain-kernels-communication",
        "Faster kernels alone: no gain, they run while the step waits for communication.",
        note="in a list of what would not make a step shorter",
    ),
}
"""Why faster kernels do not help, by the resource that takes most of the rest of the critical path."""
_CPU = Text(
    "no-gain-cpu-2",
    "Faster Python, launches or loading: no gain, the step waits for the GPU {share:percent} of the time.",
    note="in a list of what would not make a step shorter",
)
_WRITTEN = (units.plain_time, units.whole_time)
"""How first screens write times; two that look alike need more digits."""
_WORTH_DIGITS = 0.02
"""Share of a step from which on a saving that its rounded times do not show is told with more digits (own choice)."""
_OFF_PATH = 0.8
"""Share of the GPU's work off the critical path from which on faster kernels are said not to help (own choice)."""
_ON_PATH = 0.95
"""Share of a step that the GPU's work is its critical path from which on nothing else helps (own choice)."""
_NO_VERDICT = frozenset({"none", "capture"})
"""Headlines that do not say what limits a step, so that nothing says what would not help."""
_OF_GPU = frozenset({"compute", "copy", "device_gap"})
"""Resources of the critical path that are work of the GPU."""
_DETAILS = Text("findings-details", "More about that")
_OUTCOME = Text(
    "outcome",
    "{before:ns} \u2192 {after:ns} {per} ({times:factor}x) {fixes}",
    note="no full stop; per: per step, or: in all; fixes: with all fixes",
)
_AT_BEST = Text(
    "outcome-at-best",
    "{before:ns} \u2192 {after:ns} {per} at best ({times:factor}x) {fixes}",
    note="no full stop; per: per step, or: in all; fixes: with all fixes",
)
_FINE = Text(
    "outcome-fine",
    "{before:exact_ns} \u2192 {after:exact_ns} {per} ({times:factor}x) {fixes}",
    note="no full stop; per: per step, or: in all; fixes: with all fixes",
)
_FINE_AT_BEST = Text(
    "outcome-fine-at-best",
    "{before:exact_ns} \u2192 {after:exact_ns} {per} at best ({times:factor}x) {fixes}",
    note="no full stop; per: per step, or: in all; fixes: with all fixes",
)
_PER_STEP = Text("outcome-per-step", "per step", note="within a phrase: 152 \u2192 93 ms per step (1.6x)")
IN_ALL = Text("outcome-in-all", "in all", note="of a whole run; within a phrase: 152 \u2192 93 s in all (1.6x)")
_ALL_FIXES = Text(
    "outcome-all-fixes-3", "with all {count:count} fixes", note="ends a phrase: 152 \u2192 93 ms per step (1.6x)"
)
_BOTH_FIXES = Text("outcome-both-fixes", "with both fixes", note="ends a phrase: 152 \u2192 93 ms per step (1.6x)")
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
RESOURCES = {
    "gpu": Text("advice-gpu", "GPU"),
    "host": Text("advice-host", "CPU"),
    "loader": Text("advice-loader", "DataLoader"),
    "communication": Text("advice-communication", "Communication"),
}
"""Resources that can bound a step, in the order of reports."""
_BOUND_BY = {"input": "loader", "gpu-compute": "gpu", "gpu-memory": "gpu"}
"""Resources of headlines whose key differs from that of the resource."""
_NOTHING = Text("findings-nothing", "No rule found anything to change.")
_UNJUDGED = Text(
    "findings-unjudged",
    "Nothing was judged: rules need the times of operators, kernels or parts of a program, and the text has none.",
)
_FEW_JUDGED = Text(
    "findings-few-judged-2",
    "No findings, but {rules:count} rules could not be applied to this trace.",
    one="No findings, but {rules:count} rule could not be applied to this trace.",
)
NEXT = Text("findings-next", "What to do next")
_NEXT_RANKS = Text(
    "findings-next-ranks",
    "Put the traces of all ranks into one folder and compare them: {command}.",
    note="command is code",
)
_NEXT_GRAPHS = Text(
    "findings-next-graphs", "Report on a trace that launches these graphs: {command}.", note="command is code"
)
_NEXT_DIFF = Text(
    "findings-next-diff", "Compare it with a trace of another version of the program: {command}.", "command is code"
)
_OF_ONE_RANK = frozenset({"detail-one-rank", "detail-equal-calls"})
"""Id of the qualifier of a headline that only all ranks can answer."""
_WORTH_SAYING = 0.01
"""Share of a step by which all fixes make it shorter before that is said (own choice: less is noise)."""
_OVERLAPS = 1.05
"""How much more than together fixes save one by one, from which on that is said (own choice: less is rounding)."""
_ADDS = 0.01
"""Share of what all fixes save that a fix adds to others before it counts (own choice: less is noise)."""
_PRECISE = 1.1
"""Factor from which on two digits tell enough."""
_NEARLY_ALL = 0.95
"""Share of what all fixes save from which on the first is said to save nearly all of it (own choice)."""
FIRST = 3
"""Number of findings that a first screen shows as cards."""
_TERMS = (
    Term(
        Text("define-saving", "Saving"),
        Text(
            "define-saving-estimate",
            "How much shorter a step gets with this fix alone: most likely (at least-at most).",
        ),
    ),
    Term(
        Text("define-severity-2", "Severity, Evidence"),
        Text(
            "define-severity-say-2",
            "Severity is how much is at stake. Evidence is measured, inferred from names and shapes, or a rule of "
            "thumb.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the headline, the findings, and what else there is to say about the headline."""
    del top
    if not report.headlines:
        return
    headlines = several_runs.headlines(report)
    is_story = bool(several_runs.of_one_program(report))  # which has the headlines then
    if not is_story:
        yield Section(
            "headline", _HEADLINE, messages=tuple(_opening(report, headlines)), topic=Topic.SUMMARY, is_essential=True
        )
    if report.source.format == "memory_snapshots":  # no rule compares two of them
        return
    runs = several_runs.named(report)
    shown = tuple(
        replace(each, run=runs.get(each.run or "", each.run)) for each in several_runs.findings(report).findings
    )
    said = tuple(others(report) if shown else silence(report))
    yield Section(
        "findings",
        NEXT if not shown and len(said) > 1 else _TITLE,
        messages=said,
        findings=shown,
        topic=Topic.SUMMARY,
        terms=_TERMS if shown else (),
        is_essential=True,
    )
    useless = tuple(_useless(report, shown))
    if useless and shown:
        yield Section("no_gain", _NO_GAIN, messages=useless, topic=Topic.SUMMARY, is_essential=True)
    details = tuple(_of_run(headline, detail, runs) for headline in headlines for detail in headline.details)
    if details:
        yield Section("headline_details", _DETAILS, messages=details, topic=Topic.SUMMARY)


def _useless(report: Report, shown: Sequence[Finding]) -> Iterator[Message]:
    """What would not make a step shorter, by the replay of the recorded dependencies; not where a finding does it."""
    path = report.result("critical_path", CriticalPath)
    if path is None or not path.step_ns or {headline.bound for headline in report.headlines} <= _NO_VERDICT:
        return
    helps = _helps(shown)
    slack, work = path.device_slack_ns_per_step or 0.0, path.device_ns_per_step or 0.0
    if work and slack >= _OFF_PATH * work and "gpu" not in helps:
        yield _KERNELS_BESIDE.get(_mostly_beside(path), _KERNELS)()
    on_path = units.total(part.ns_per_step for part in path.parts if part.resource in _OF_GPU)
    if on_path >= _ON_PATH * path.step_ns and not helps & {"host", "loader"}:
        yield _CPU(share=on_path / path.step_ns)


def _mostly_beside(path: CriticalPath) -> str:
    """What takes most of the critical path besides the GPU's work."""
    beside = (part for part in path.parts if part.resource not in _OF_GPU)
    return max(beside, key=lambda part: part.ns_per_step).resource


def _helps(shown: Sequence[Finding]) -> set[str]:
    """The resources of which less work makes a step shorter, as findings say."""
    savings = (each.saving for each in shown if not each.latent)
    return {each.resource for each in savings if each and each.wall_ns_per_step[1]}


def _opening(report: Report, headlines: Sequence[Headline]) -> Iterator[Message]:
    """The sentence of each headline, what qualifies it, and what a step would be with all fixes."""
    advised, runs = several_runs.advised(report), several_runs.named(report)
    yield from (_of_run(headline, headline.message, runs) for headline in headlines)
    for headline in headlines:
        if headline.qualifier is not None:
            yield _of_run(headline, headline.qualifier, runs)
        if headline in advised and (after := outcome(headline, report.findings)) is not None:
            yield _of_run(headline, after, runs)


def _of_run(headline: Headline, message: Message, runs: Mapping[str, str]) -> Message:
    return message if headline.run is None else _RUN(run=runs.get(headline.run, headline.run), message=message)


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
    if _look_alike(before, before - saved) and saved < _WORTH_DIGITS * before:
        return None
    fixes = _fixes(combined, savings, saved, questions)
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
    factor = before / (before - saved)
    is_in_all = any(saving is not None and saving.is_of_whole_run for saving in savings)
    after = before - saved
    coarse, fine = (_OUTCOME, _FINE) if combined.point_ns_per_step else (_AT_BEST, _FINE_AT_BEST)
    said = fine if _look_alike(before, after) else coarse
    return said(
        before=before,
        after=after,
        times=float(f"{factor:.2g}" if factor >= _PRECISE else f"{factor:.3g}"),
        per=(IN_ALL if is_in_all else _PER_STEP)(),
        fixes=fixes,
    )


def _look_alike(before: float, after: float) -> bool:
    """Whether two times in ns are the same where first screens write one of them."""
    return any(written(before) == written(after) for written in _WRITTEN)


def _fixes(combined: Combined, savings: Sequence[Saving | None], saved: float, questions: int) -> Message:
    """How many fixes it takes, and whether some may save nothing, or all save less together than one by one.

    Args:
        combined: All of them together.
        savings: Of each of them alone.
        saved: What they save together, in ns.
        questions: How many of them may save nothing.
    """
    count = len(combined.fixes)
    if count == 1:
        return _ONE_FIX()
    fixes = _BOTH_FIXES() if count == 2 else _ALL_FIXES(count=count)
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


def _is_unjudged(report: Report) -> bool:
    """Whether a text has only figures, or calls without the time of a program."""
    is_text = report.result("printed_figures", tuple[PrintedFigures, ...]) is not None
    return is_text and all(found.resources is None and found.bound == "none" for found in report.headlines)


def silence(report: Report) -> Iterator[Message]:
    """Sentences for a report without findings: how much was judged, and what to do next."""
    keys = {*analyzers.RESULTS, *(analyzer.key for analyzer in simulation.ANALYSES)}
    unable = sum(skipped.id not in keys for skipped in report.skipped)
    if unable:
        yield _FEW_JUDGED(rules=unable)
    else:
        yield _UNJUDGED() if _is_unjudged(report) else _NOTHING()
    if report.trace is not None:
        yield from _next(report)


def _next(report: Report) -> Iterator[Message]:
    """What to do next with a trace without findings; at least one thing."""
    found = [*trust.remedies(report)]
    if any(headline.qualifier is not None and headline.qualifier.id in _OF_ONE_RANK for headline in report.headlines):
        found.insert(0, _NEXT_RANKS(command="traceanalyzer ranks FOLDER"))
    if any(headline.bound == "capture" for headline in report.headlines):
        found.insert(0, _NEXT_GRAPHS(command=f"traceanalyzer report TRACE --graph-capture {report.source.name}"))
    measured = "FOLDER" if "ranks" in report.analyses else report.source.name
    yield from found or (_NEXT_DIFF(command=f"traceanalyzer diff {measured} OTHER"),)


def next_bottleneck(headline: Headline) -> str | None:
    """The resource that bounds the step after all fixes; None if it already does, or if nothing of it is known."""
    following = headline.combined.next_bottleneck if headline.combined else None
    if headline.resources is not None and not getattr(headline.resources, f"{following}_ns", None):
        return None
    return None if following == _BOUND_BY.get(headline.bound, headline.bound) else following
