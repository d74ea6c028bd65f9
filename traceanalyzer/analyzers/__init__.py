"""The analyses, in the order of the report; each answers one question, which its module states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from traceanalyzer.analyzers import (
    capture,
    communication,
    compilation,
    copies,
    host,
    idle,
    kernels,
    launches,
    loader,
    memory,
    modules,
    operators,
    optimizer,
    phases,
    serving,
    steps,
    waits,
)
from traceanalyzer.analyzers.communication import data_parallel, host_collectives
from traceanalyzer.analyzers.copies import host_tensors, within_memory
from traceanalyzer.analyzers.host import pauses, thread_contention
from traceanalyzer.analyzers.idle import gpu, step_idle
from traceanalyzer.analyzers.kernels import (
    accelerators,
    attribution,
    by_shape,
    classes,
    convolution_algorithms,
    convolution_norms,
    elementwise_chains,
    repeated_layers,
    roofline,
    sm_fill,
)
from traceanalyzer.analyzers.launches import graph_join, runtime_calls
from traceanalyzer.analyzers.launches.graph_join import tables as joined
from traceanalyzer.analyzers.loader import epochs
from traceanalyzer.analyzers.modules import python_lines
from traceanalyzer.analyzers.operators import loops, shape_costs
from traceanalyzer.analyzers.optimizer import nan_checks, passes, recomputation
from traceanalyzer.analyzers.ranks import rank_facts
from traceanalyzer.analyzers.serving import decode_graphs
from traceanalyzer.analyzers.waits import device_wide, distribution_checks, value_reads
from traceanalyzer.report.message import Message
from traceanalyzer.structure import missing, recording, resources, step_breakdown
from traceanalyzer.structure.context import Context
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
    Analyzer("host_owners", host.HostOwners, host.analyze, host.missing),
    Analyzer("capture", capture.Capture, capture.analyze, capture.missing),
    Analyzer("resources", resources.StepResources, resources.analyze, missing.steps),
    Analyzer("gpu", gpu.GpuMetrics, gpu.analyze, missing.gpu_window),
    Analyzer("accelerators", accelerators.Accelerators, accelerators.analyze, accelerators.missing),
    Analyzer("attribution", attribution.Attribution, attribution.analyze, attribution.missing),
    Analyzer("operators", operators.Operators, operators.by_name, missing.operators),
    Analyzer("operators_by_shape", operators.OperatorsByShape, operators.by_shape, missing.operators),
    Analyzer("kernels", kernels.Kernels, kernels.by_name, missing.kernels),
    Analyzer("idle", idle.Idle, idle.analyze, idle.missing),
    Analyzer("step_idle", step_idle.StepIdle, step_idle.analyze, step_idle.missing),
    Analyzer("launches", launches.LaunchFigures, launches.analyze, launches.missing),
    Analyzer("decode_graphs", decode_graphs.DecodeGraphs, decode_graphs.analyze, decode_graphs.missing),
    Analyzer(
        "synchronizations",
        waits.Synchronizations,
        waits.analyze,
        waits.missing,
    ),
    Analyzer("copies", copies.Copies, copies.analyze, copies.missing),
    Analyzer("dataloader", loader.DataLoader, loader.analyze, loader.missing),
    Analyzer("loader_epochs", epochs.LoaderEpochs, epochs.analyze, epochs.missing),
    Analyzer("device_syncs", device_wide.DeviceSyncs, device_wide.analyze, device_wide.missing),
    Analyzer("runtime_calls", runtime_calls.RuntimeCalls, runtime_calls.analyze, runtime_calls.missing),
    Analyzer("compilation", compilation.CompiledCode, compilation.analyze, compilation.missing),
    Analyzer("host_origins", host_tensors.HostOrigins, host_tensors.analyze, host_tensors.missing),
    Analyzer("repeats", loops.Repeats, loops.analyze, loops.missing),
    Analyzer("kernel_classes", classes.KernelClasses, classes.analyze, classes.missing),
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
    Analyzer("timeline", steps.Timeline, steps.analyze, missing.steps),
    Analyzer("kernels_by_operator", kernels.KernelsByOperator, kernels.by_operator, missing.kernels),
    Analyzer("kernels_by_shape", by_shape.KernelsByShape, by_shape.analyze, by_shape.missing),
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
    Analyzer("optimizers", optimizer.Optimizers, optimizer.analyze, optimizer.missing),
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
    Analyzer("host_pauses", pauses.HostPauses, pauses.analyze, pauses.missing),
    Analyzer(
        "thread_contention",
        thread_contention.ThreadContention,
        thread_contention.analyze,
        thread_contention.missing,
    ),
    Analyzer("conversions", within_memory.Conversions, within_memory.analyze, within_memory.missing),
    Analyzer("chains", elementwise_chains.Chains, elementwise_chains.analyze, elementwise_chains.missing),
    Analyzer("throughput", serving.ThroughputFigures, serving.analyze, serving.missing),
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
