"""Reads a trace or document, analyzes it, applies the rules, and puts everything into a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer import analyzers, simulation
from traceanalyzer._version import __version__
from traceanalyzer.analyzers import compilation, hangs, tables
from traceanalyzer.analyzers.compilation import logged
from traceanalyzer.analyzers.hangs import watchdog_logs
from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.analyzers.steps import trace_doubts
from traceanalyzer.config import Config
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.graph_captures import GraphCaptures, doubts_with, join_with
from traceanalyzer.inputs import opening, saved_reports
from traceanalyzer.inputs.opening import Content
from traceanalyzer.knowledge import gpus
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.report import model, whole_trace
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import RecordingOptions, ReportDevice, ReportSource, TraceSummary
from traceanalyzer.report.warnings import warning
from traceanalyzer.rules.engine import selection
from traceanalyzer.rules.engine.facts import sources
from traceanalyzer.rules.engine.headlines import without_whole
from traceanalyzer.rules.engine.runner import Advice, judge
from traceanalyzer.simulation import memory_replay
from traceanalyzer.simulation import model as causal_model
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.graph_stacks import GraphStacks
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Device, Loss, Trace, TraceInfo, all_tables

ANALYSES = (*analyzers.ANALYSES, *simulation.ANALYSES)
"""The analyses of a trace, in the order of the report."""


class StepChoice(msgspec.Struct, frozen=True):
    """Which steps count: an inclusive range of step numbers, and how many of the first to leave out."""

    first: int | None = None
    last: int | None = None
    skip_warmup: int = 0

    @property
    def is_everything(self) -> bool:
        """Whether all steps count because no choice was made."""
        return self == StepChoice()

    def of(self, steps: Steps) -> Steps:
        """Select the chosen ones of a trace's steps.

        Raises:
            UsageError: No step is left.
        """
        numbers = [int(name) for name in steps.names]
        chosen = [
            i
            for i, n in enumerate(numbers)
            if i >= self.skip_warmup
            and (self.first is None or n >= self.first)
            and (self.last is None or n <= self.last)
        ]
        if not chosen:
            known = f"the trace has steps {numbers[0]} to {numbers[-1]}" if numbers else "the trace has no steps"
            raise UsageError(f"no step is left to analyze: {known}")
        return steps.take(slice(chosen[0], chosen[-1] + 1))


class SideRecordings(msgspec.Struct, frozen=True):
    """What else was recorded of the program of a trace."""

    compile_logs: tuple[CompileLog, ...] = ()
    captures: GraphCaptures = msgspec.field(default_factory=GraphCaptures)
    graph_stacks: GraphStacks | None = None
    is_stacks_named: bool = False
    """Whether the user named the file with stacks, so that it must be of this trace."""


def analyze(
    measured: Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot,
    steps: StepChoice | None = None,
    config: Config | None = None,
    compile_logs: Sequence[CompileLog] = (),
    graph_captures: Iterable[str | Path | Trace] = (),
    *,
    graph_stacks: str | Path | None = None,
    jobs: int = 1,
) -> model.Report:
    """Analyze a trace, the tables of a text, a compile log, or what torch writes of a hang or of its memory.

    Args:
        measured: What `load` returned.
        steps: The steps of a trace that count; all by default. Tables then hold what starts within them.
        config: Settings of a project; `traceanalyzer.config.load` reads them.
        compile_logs: Structured compile logs of the same program; `inputs.opening.read_compile_logs` reads them.
        graph_captures: Recordings of the captures of the graphs that the trace launches: files, or what `load`
            returned. The time of the graphs is joined with the operators of the one that agrees.
        graph_stacks: File with the lines that made the kernels of its graphs, as `dump_kernel_py_stacks` of torch
            writes it.
        jobs: Most processes that analyze a large trace, as of `load`.

    Raises:
        UnusableInputError: A capture cannot be read, or none of them agrees; or a log is of another program.
        UsageError: None of the chosen steps is in the trace, or steps, logs or captures were given for what is none.
    """
    stacks = None if graph_stacks is None else opening.read_graph_stacks(graph_stacks)
    side = SideRecordings(tuple(compile_logs), GraphCaptures(tuple(graph_captures)), stacks, stacks is not None)
    return _analyze(measured, steps, config or Config(), side, jobs)


def _analyze(
    measured: Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot,
    steps: StepChoice | None,
    config: Config,
    side: SideRecordings,
    jobs: int,
    *,
    for_screen: bool = False,
) -> model.Report:
    if isinstance(measured, Trace):
        return _analyze_trace(measured, steps, config, side, jobs, for_screen=for_screen)
    what = _WITHOUT_EVENTS[type(measured)]
    if side.compile_logs:
        raise UsageError(f"{measured.name}: {what}; a compile log explains only a trace")
    if side.captures.named:
        raise UsageError(f"{measured.name}: {what}; captures of graphs are joined only with traces")
    if side.is_stacks_named:
        raise UsageError(f"{measured.name}: {what}; stacks of graphs are joined only with traces")
    if steps is not None and not steps.is_everything:
        raise UsageError(f"{measured.name}: {what}; steps can only be chosen of a trace")
    if isinstance(measured, FlightDump):
        return analyze_dumps({measured.rank or 0: measured}, measured.name, config)
    if isinstance(measured, LoggedHang):
        return analyze_hang_logs([measured], measured.name, config)
    if isinstance(measured, MemorySnapshot):
        return _analyze_snapshot(measured, config)
    return _analyze_log(measured, config) if isinstance(measured, CompileLog) else _analyze_document(measured, config)


_WITHOUT_EVENTS = {
    CompileLog: "is a compile log",
    FlightDump: "is a dump of the flight recorder",
    LoggedHang: "is the log of a hang",
    MemorySnapshot: "is a memory snapshot",
    TableDocument: "contains printed tables",
}


def report_on(
    content: Content,
    name: str,
    steps: StepChoice | None = None,
    config: Config | None = None,
    side: SideRecordings | None = None,
    jobs: int = 1,
    *,
    for_screen: bool = False,
) -> model.Report:
    """The report on the content of a file: made from a trace or from tables, or the saved one.

    Args:
        content: What `inputs.opening.read` returned.
        name: Name of the file, for errors.
        steps: As of `analyze`.
        config: Settings of a project; a saved report was made with its own.
        side: Further recordings of the same program.
        jobs: As of `analyze`.
        for_screen: Whether the report is for the first screen alone, so that results which only files show may lack.

    Raises:
        UnusableInputError: It is a saved difference; or as of `analyze`.
        UsageError: As of `analyze`; or steps, logs or captures were given for a saved report.
    """
    if isinstance(content, Difference):
        raise UnusableInputError(f"{name}: {saved_reports.DIFFERENCE}")
    if isinstance(content, model.Report):
        if steps is not None and not steps.is_everything:
            raise UsageError(f"{name}: is a saved report; steps can only be chosen of a trace")
        if side is not None and side.compile_logs:
            raise UsageError(f"{name}: is a saved report; a compile log explains only a trace")
        if side is not None and side.captures.named:
            raise UsageError(f"{name}: is a saved report; captures can only be joined with a trace")
        if side is not None and side.is_stacks_named:
            raise UsageError(f"{name}: is a saved report; stacks can only be joined with a trace")
        return content
    return _analyze(content, steps, config or Config(), side or SideRecordings(), jobs, for_screen=for_screen)


def _analyze_trace(
    trace: Trace, steps: StepChoice | None, config: Config, side: SideRecordings, jobs: int, *, for_screen: bool
) -> model.Report:
    rules = selection.choose(config)
    trace = _with_stacks(trace, side)
    context = context_of(trace, steps, _gpu(trace.info.devices, config), side.compile_logs)
    is_joined = not side.compile_logs or logged.is_of_trace(context)
    if is_joined is False:
        raise UnusableInputError(f"{', '.join(log.name for log in side.compile_logs)}: {logged.ANOTHER_PROGRAM}")
    joined = join_with(context, side.captures)
    later = [one for one in ANALYSES if for_screen and one.is_for_files]
    results, skipped = analyzers.run(context, [one for one in ANALYSES if one not in later], jobs)
    doubts = trace_doubts.analyze(context)
    if joined is not None:
        of_graphs, not_of_graphs = analyzers.run_joined(joined)
        results, skipped = results | of_graphs, skipped | not_of_graphs
        doubts = tuple(doubts_with(joined.result, doubts))
    doubts = (*doubts, *compilation.doubts(results.get("compilation")))
    summary = summary_of(trace, context)
    model_of_step = causal_model.of(context)
    skipped |= {one.key: reason for one in later if (reason := one.missing(context)) is not None}
    known = analyzers.OnDemand(context, results, [one for one in later if one.key not in skipped])
    facts = sources.of_trace(summary, known, skipped, context.gpu, model_of_step, is_cut=trace.is_cut)
    advice = judge(facts, rules)
    losses = _losses(trace, side, is_joined=is_joined)
    return report_of(source_of(trace), summary, results, skipped, (*losses, *doubts), advice)


def _with_stacks(trace: Trace, side: SideRecordings) -> Trace:
    """The trace with the stacks of its graphs.

    Raises:
        UnusableInputError: The user named the stacks, and they are of no graph of the trace.
    """
    stacks = side.graph_stacks
    if stacks is None:
        return trace
    if side.is_stacks_named and stacks.of_node.keys().isdisjoint(distinct(trace.device.graph_node).tolist()):
        raise UnusableInputError(f"{stacks.name}: has no stack of a node of the graphs in {trace.info.name}")
    return replace(trace, graph_stacks=stacks)


def _losses(trace: Trace, side: SideRecordings, *, is_joined: bool | None) -> Iterator[Loss]:
    """What could not be read of a trace and of its compile logs, and whether it is unknown that they belong to it."""
    yield from trace.losses
    for log in side.compile_logs:
        yield from log.losses
    if is_joined is None:
        yield Loss("q-compile-log-unmatched", len(side.compile_logs))


def context_of(
    trace: Trace, steps: StepChoice | None, gpu: Gpu | None, compile_logs: tuple[CompileLog, ...] = ()
) -> Context:
    """What analyses of a trace share, over the steps that count."""
    context = Context(trace, gpu=gpu, compile_logs=compile_logs)
    if steps is not None and not steps.is_everything:
        context = Context(trace, steps.of(context.steps), gpu, compile_logs)
    return context


def source_of(trace: Trace) -> ReportSource:
    """Source facts of a report on a trace."""
    return ReportSource(trace.info.name, "kineto", trace.info.size_bytes)


def _gpu(devices: Iterable[Device], config: Config) -> Gpu | None:
    """Peak figures of the device: those of the table, overridden by the project's configuration."""
    if not config.gpu:
        return None
    known = gpus.only(devices) or Gpu("configured", "configuration")
    return replace(known, **{"source": "configuration", **config.gpu})


def _analyze_document(document: TableDocument, config: Config) -> model.Report:
    rules = selection.choose(config)
    views = tables.grouping.group(document)
    results, skipped = tables.run(document, views)
    source = ReportSource(document.name, "key_averages", document.size_bytes)
    memory = sources.of_printed_memory(results.get("printed_memory"))
    advice = judge((*memory, *sources.of_tables(views, results, _gpu((), config))), rules)
    others = without_whole.headlines(results, {headline.run for headline in advice.headlines})
    advice = replace(advice, headlines=(*advice.headlines, *others))
    return report_of(source, None, results, skipped, (*document.losses, *tables.doubts(results)), advice)


def _analyze_log(log: CompileLog, config: Config) -> model.Report:
    code = compilation.of_logs((log,))
    advice = judge(sources.of_log(code), selection.choose(config))
    source = ReportSource(log.name, "compile_log", log.size_bytes)
    doubts = (*log.losses, *compilation.doubts(code))
    return report_of(source, None, {"compilation": code}, {}, doubts, advice)


def _analyze_snapshot(snapshot: MemorySnapshot, config: Config) -> model.Report:
    found = snapshots.analyze(snapshot)
    results = {"memory_snapshot": found, "memory_replay": memory_replay.analyze(snapshot, found)}
    advice = judge(sources.of_snapshot(results), selection.choose(config))
    source = ReportSource(snapshot.name, "memory_snapshot", snapshot.size_bytes)
    return report_of(source, None, results, {}, snapshot.losses, advice)


def analyze_dumps(dumps: Mapping[int, FlightDump], name: str, config: Config | None = None) -> model.Report:
    """Report on the dumps of the flight recorders of a run.

    Args:
        dumps: The dumps by rank.
        name: Name of the run.
        config: Settings of a project.
    """
    return _of_hang(dumps, list(dumps.values()), ReportSource(name, "flight_recorder", None), config)


def analyze_hang_logs(logs: Sequence[LoggedHang], name: str, config: Config | None = None) -> model.Report:
    """Report on what the watchdogs of a run said in the logs of its job.

    Args:
        logs: The logs, at least one.
        name: Name of the run.
        config: Settings of a project.
    """
    return _of_hang(watchdog_logs.dumps_of(logs), logs, ReportSource(name, "watchdog", None), config)


def _of_hang(
    dumps: Mapping[int, FlightDump],
    files: Sequence[FlightDump | LoggedHang],
    source: ReportSource,
    config: Config | None,
) -> model.Report:
    found = hangs.analyze(dumps)
    advice = judge(sources.of_dumps(found), selection.choose(config or Config()))
    sizes = [file.size_bytes for file in files]
    size = sum(size or 0 for size in sizes) if all(sizes) else None
    losses = [loss for file in files for loss in file.losses]
    return report_of(replace(source, size_bytes=size), None, {"hangs": found}, {}, losses, advice)


def report_of(
    source: ReportSource,
    summary: TraceSummary | None,
    results: Mapping[str, Any],
    skipped: Mapping[str, Message],
    doubts: Iterable[Loss],
    advice: Advice,
) -> model.Report:
    """Put everything that was found into a report."""
    return model.Report(
        schema_version=model.SCHEMA_VERSION,
        generator=model.Generator("traceanalyzer", __version__),
        source=source,
        trace=summary,
        warnings=tuple(warning(doubt.id, doubt.count, doubt.params) for doubt in doubts),
        analyses=dict(results),
        headlines=advice.headlines,
        findings=_of_whole_trace(advice.findings, results.get("recording")),
        skipped=(*(model.Skipped(key, reason) for key, reason in skipped.items()), *advice.skipped),
    )


def _of_whole_trace(findings: tuple[model.Finding, ...], recording: Recording | None) -> tuple[model.Finding, ...]:
    """The findings of a trace; where it has no steps, what they say and save is of all of it, not of a step."""
    if recording is None or recording.steps_from != WHOLE:
        return findings
    told: tuple[model.Finding, ...] = whole_trace.everywhere(findings)
    return tuple(
        finding if finding.saving is None else replace(finding, saving=replace(finding.saving, is_of_whole_run=True))
        for finding in told
    )


def summary_of(trace: Trace, context: Context) -> TraceSummary:
    """Facts about the recording as a whole."""
    info = trace.info
    return TraceSummary(
        events=sum(map(len, all_tables(trace).values())),
        span_ns=info.span_ns,
        base_ns=None if info.base_ns is None else info.base_ns + info.origin_ns,
        devices=tuple(msgspec.convert(device, ReportDevice, from_attributes=True) for device in info.devices),
        rank=info.rank,
        world_size=info.world_size,
        options=msgspec.convert(info.options, RecordingOptions, from_attributes=True),
        steps_from=context.steps.found_by,
        torch_version=_torch_version(info),
        writer=info.writer,
    )


def _torch_version(info: TraceInfo) -> str | None:
    """The version of torch that ran, as far as the file shows."""
    recorded = info.capture.versions.torch if info.capture else None
    return recorded or ("<1.12" if info.has_old_categories else None)
