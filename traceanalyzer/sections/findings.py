"""What bounds the run, and what should be changed?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from traceanalyzer import analyzers, simulation
from traceanalyzer.analyzers.tables.parts import PrintedFigures
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Headline, Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import outcome, several_runs, trust
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
_OFF_PATH = 0.8
"""Share of the GPU's work off the critical path from which on faster kernels are said not to help (own choice)."""
_ON_PATH = 0.95
"""Share of a step that the GPU's work is its critical path from which on nothing else helps (own choice)."""
_NO_VERDICT = frozenset({"none", "capture"})
"""Headlines that do not say what limits a step, so that nothing says what would not help."""
_OF_GPU = frozenset({"compute", "copy", "device_gap"})
"""Resources of the critical path that are work of the GPU."""
_DETAILS = Text("findings-details", "More about that")
RESOURCES = {
    "gpu": Text("advice-gpu", "GPU"),
    "host": Text("advice-host", "CPU"),
    "loader": Text("advice-loader", "DataLoader"),
    "communication": Text("advice-communication", "Communication"),
}
"""Resources that can bound a step, in the order of reports."""
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
    said = tuple(outcome.others(report) if shown else silence(report))
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
        if headline in advised and (after := outcome.outcome(headline, report.findings)) is not None:
            yield _of_run(headline, after, runs)


def _of_run(headline: Headline, message: Message, runs: Mapping[str, str]) -> Message:
    return message if headline.run is None else _RUN(run=runs.get(headline.run, headline.run), message=message)


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
