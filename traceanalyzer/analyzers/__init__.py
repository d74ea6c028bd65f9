"""The analyses, in the order of the report; each answers one question, which its module states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from traceanalyzer.analyzers import (
    accelerators,
    attribution,
    capture,
    chains,
    communication,
    compilation,
    convolution_algorithms,
    convolution_norms,
    copies,
    data_parallel,
    dataloader,
    decode_graphs,
    device_copies,
    device_wide_syncs,
    distribution_checks,
    gpu,
    graph_join,
    host_collectives,
    host_origins,
    host_owners,
    host_pauses,
    idle,
    kernel_classes,
    kernels,
    kernels_by_shape,
    launches,
    loader_epochs,
    memory,
    missing,
    modules,
    nan_checks,
    operators,
    optimizers,
    passes,
    phases,
    python_lines,
    rank_facts,
    recomputation,
    recording,
    repeated_layers,
    repeats,
    resources,
    roofline,
    runtime_calls,
    shape_costs,
    sm_fill,
    step_breakdown,
    synchronizations,
    thread_contention,
    throughput,
    timeline,
    value_reads,
)
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.graph_join import tables as joined
from traceanalyzer.analyzers.idle import repeated_steps
from traceanalyzer.report.message import Message
from traceanalyzer.trace.model import all_tables


class Analyzer(msgspec.Struct, frozen=True):
    """One analysis: its key in the report, the data that it needs, and its function."""

    key: str
    result: type[msgspec.Struct]
    analyze: Callable[[Context], msgspec.Struct]
    missing: Callable[[Context], Message | None]
    """The reason why it cannot run on this trace, or None."""


ANALYZERS: tuple[Analyzer, ...] = (
    Analyzer("recording", recording.Recording, recording.analyze, missing.steps),
    Analyzer("step_breakdown", step_breakdown.StepBreakdown, step_breakdown.analyze, missing.steps),
    Analyzer("phases", phases.Phases, phases.analyze, phases.missing),
    Analyzer("host_owners", host_owners.HostOwners, host_owners.analyze, host_owners.missing),
    Analyzer("capture", capture.Capture, capture.analyze, capture.missing),
    Analyzer("resources", resources.StepResources, resources.analyze, missing.steps),
    Analyzer("gpu", gpu.GpuMetrics, gpu.analyze, missing.gpu_window),
    Analyzer("accelerators", accelerators.Accelerators, accelerators.analyze, accelerators.missing),
    Analyzer("attribution", attribution.Attribution, attribution.analyze, attribution.missing),
    Analyzer("operators", operators.Operators, operators.by_name, missing.operators),
    Analyzer("operators_by_shape", operators.OperatorsByShape, operators.by_shape, missing.operators),
    Analyzer("kernels", kernels.Kernels, kernels.by_name, missing.kernels),
    Analyzer("idle", idle.Idle, idle.analyze, idle.missing),
    Analyzer("step_idle", repeated_steps.StepIdle, repeated_steps.analyze, repeated_steps.missing),
    Analyzer("launches", launches.LaunchFigures, launches.analyze, launches.missing),
    Analyzer("decode_graphs", decode_graphs.DecodeGraphs, decode_graphs.analyze, decode_graphs.missing),
    Analyzer(
        "synchronizations",
        synchronizations.Synchronizations,
        synchronizations.analyze,
        synchronizations.missing,
    ),
    Analyzer("copies", copies.Copies, copies.analyze, copies.missing),
    Analyzer("dataloader", dataloader.DataLoader, dataloader.analyze, dataloader.missing),
    Analyzer("loader_epochs", loader_epochs.LoaderEpochs, loader_epochs.analyze, loader_epochs.missing),
    Analyzer("device_syncs", device_wide_syncs.DeviceSyncs, device_wide_syncs.analyze, device_wide_syncs.missing),
    Analyzer("runtime_calls", runtime_calls.RuntimeCalls, runtime_calls.analyze, runtime_calls.missing),
    Analyzer("compilation", compilation.CompiledCode, compilation.analyze, compilation.missing),
    Analyzer("host_origins", host_origins.HostOrigins, host_origins.analyze, host_origins.missing),
    Analyzer("repeats", repeats.Repeats, repeats.analyze, repeats.missing),
    Analyzer("kernel_classes", kernel_classes.KernelClasses, kernel_classes.analyze, kernel_classes.missing),
    Analyzer(
        "repeated_layers",
        repeated_layers.RepeatedLayers,
        repeated_layers.analyze,
        repeated_layers.missing,
    ),
    Analyzer("roofline", roofline.Roofline, roofline.analyze, roofline.missing),
    Analyzer("communication", communication.Communication, communication.analyze, communication.missing),
    Analyzer("host_collectives", host_collectives.HostCollectives, host_collectives.analyze, host_collectives.missing),
    Analyzer("rank_facts", rank_facts.RankFacts, rank_facts.analyze, rank_facts.missing),
    Analyzer("memory", memory.MemoryUse, memory.analyze, memory.missing),
    Analyzer("modules", modules.Modules, modules.analyze, modules.missing),
    Analyzer("python_lines", python_lines.PythonLines, python_lines.analyze, python_lines.missing),
    Analyzer("timeline", timeline.Timeline, timeline.analyze, missing.steps),
    Analyzer("kernels_by_operator", kernels.KernelsByOperator, kernels.by_operator, missing.kernels),
    Analyzer("kernels_by_shape", kernels_by_shape.KernelsByShape, kernels_by_shape.analyze, kernels_by_shape.missing),
    Analyzer("shape_costs", shape_costs.ShapeCosts, shape_costs.analyze, shape_costs.missing),
    Analyzer("sm_fill", sm_fill.SmFill, sm_fill.analyze, sm_fill.missing),
    Analyzer(
        "convolution_norms",
        convolution_norms.ConvolutionNorms,
        convolution_norms.analyze,
        convolution_norms.missing,
    ),
    Analyzer(
        "convolution_algorithms",
        convolution_algorithms.ConvolutionAlgorithms,
        convolution_algorithms.analyze,
        convolution_algorithms.missing,
    ),
    Analyzer("optimizers", optimizers.Optimizers, optimizers.analyze, optimizers.missing),
    Analyzer("passes", passes.Passes, passes.analyze, passes.missing),
    Analyzer("nan_checks", nan_checks.NanChecks, nan_checks.analyze, nan_checks.missing),
    Analyzer("recomputation", recomputation.Recomputation, recomputation.analyze, recomputation.missing),
    Analyzer("value_reads", value_reads.ValueReads, value_reads.analyze, value_reads.missing),
    Analyzer(
        "distribution_checks",
        distribution_checks.DistributionChecks,
        distribution_checks.analyze,
        distribution_checks.missing,
    ),
    Analyzer("host_pauses", host_pauses.HostPauses, host_pauses.analyze, host_pauses.missing),
    Analyzer(
        "thread_contention",
        thread_contention.ThreadContention,
        thread_contention.analyze,
        thread_contention.missing,
    ),
    Analyzer("conversions", device_copies.Conversions, device_copies.analyze, device_copies.missing),
    Analyzer("chains", chains.Chains, chains.analyze, chains.missing),
    Analyzer("throughput", throughput.ThroughputFigures, throughput.analyze, throughput.missing),
    Analyzer("data_parallel", data_parallel.DataParallel, data_parallel.analyze, data_parallel.missing),
)

_BEFORE_ALL = 1
"""The first analyses, which compute data for nearly all others; they run before the others are shared."""

_TOGETHER = (
    ("host_owners", "idle", "step_idle", "synchronizations", "replay", "critical_path"),
    ("operators", "convolution_norms", "conversions"),
    ("memory", "python_lines"),
)
"""Analyses that need the same of the trace, so that the process that begins with one runs all of them; they are begun
first, because they take longest."""

_MOST_SHARING = 2
"""Processes that share the analyses. Each computes and keeps intermediate results of its own, so more processes gain
little and take memory."""

WORTHWHILE_EVENTS = 200_000
"""Number of events from which on several processes run the analyses; fewer events take only some tenths of a second."""

JOINED: tuple[Analyzer, ...] = (
    Analyzer("joined_operators", joined.JoinedOperators, joined.by_name, missing.operators),
    Analyzer("joined_operators_by_shape", joined.JoinedOperatorsByShape, joined.by_shape, missing.operators),
    Analyzer("joined_modules", joined.JoinedModules, joined.by_module, modules.missing),
    Analyzer("joined_python_lines", joined.JoinedLines, joined.by_line, python_lines.missing),
    Analyzer("joined_roofline", roofline.Roofline, roofline.analyze, roofline.missing),
    Analyzer("joined_kernels_by_operator", kernels.KernelsByOperator, kernels.by_operator, missing.kernels),
)
"""Analyses of replayed graphs, joined with the calls of their capture; they run if a matching capture was given."""

RESULTS: dict[str, type[msgspec.Struct]] = {
    **{analyzer.key: analyzer.result for analyzer in ANALYZERS},
    "graph_join": graph_join.GraphJoin,
    **{analyzer.key: analyzer.result for analyzer in JOINED},
}
"""The type of every result of a trace by its key."""


def run(
    context: Context,
    analyses: Sequence[Analyzer] = ANALYZERS,
    jobs: int = 1,
    worthwhile: int = WORTHWHILE_EVENTS,
) -> tuple[dict[str, msgspec.Struct], dict[str, Message]]:
    """Run every analysis for which the trace has the data.

    Args:
        context: The trace.
        analyses: In the order of the results.
        jobs: Greatest number of processes; it does not change the results.
        worthwhile: Number of events from which on more than one process is used.

    Returns:
        The results by key, and for each analysis that did not run the reason.
    """
    if jobs < 2 or sum(map(len, all_tables(context.trace).values())) < worthwhile:
        return _run(analyses, context)
    from traceanalyzer.analyzers import sharing  # noqa: PLC0415 - what starts processes is for large traces alone

    first, rest = analyses[:_BEFORE_ALL], analyses[_BEFORE_ALL:]
    done = [_run(first, context)]
    tasks = _tasks(rest)
    done += sharing.shared(len(tasks), lambda number: _run(tasks[number], context), min(jobs, _MOST_SHARING))
    results = {key: result for part, _ in done for key, result in part.items()}
    skipped = {key: reason for _, part in done for key, reason in part.items()}
    keys = [analysis.key for analysis in analyses]
    return {key: results[key] for key in keys if key in results}, {key: skipped[key] for key in keys if key in skipped}


def _tasks(analyses: Sequence[Analyzer]) -> list[list[Analyzer]]:
    """What one process runs without a break: analyses that belong together, and each of the others."""
    together = [[analysis for analysis in analyses if analysis.key in keys] for keys in _TOGETHER]
    alone = [[analysis] for analysis in analyses if not any(analysis.key in keys for keys in _TOGETHER)]
    return [task for task in (*together, *alone) if task]


def run_joined(join: graph_join.Join) -> tuple[dict[str, msgspec.Struct], dict[str, Message]]:
    """Run the analyses of graphs that were joined with captures.

    Returns:
        The results by key, and for each analysis that did not run the reason.
    """
    results, skipped = _run(JOINED, join.context) if join.context is not None else ({}, {})
    return {"graph_join": join.result, **results}, skipped


def _run(chosen: Sequence[Analyzer], context: Context) -> tuple[dict[str, msgspec.Struct], dict[str, Message]]:
    skipped = {a.key: reason for a in chosen if (reason := a.missing(context)) is not None}
    results = {a.key: a.analyze(context) for a in chosen if a.key not in skipped}
    return results, skipped
