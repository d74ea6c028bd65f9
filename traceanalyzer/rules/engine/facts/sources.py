"""Makes facts: of a trace, of the runs of tables, of a compile log, of dumps, of a snapshot, of several ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.printed_memory import PrintedMemory
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Resources, TraceSummary
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.selection import Chosen
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.recording import Recording, TypicalStep
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.typical import mean

_UNRELIABLE = 0.4
"""Share of idle time without explanation from which on the explanations are chance (own choice)."""
_NEARLY_ALL = 0.9
"""Share of a step that the device works from which on it bounds the step, whatever the host does (own choice)."""
_NO_COLLECTIVES = Text("skip-no-shared-collectives", "no collective was found on several ranks")
_ALONE = Text("skip-in-each-rank", "this rule looks at the trace of each rank, not at all ranks together")


def of_trace(
    summary: TraceSummary,
    results: Mapping[str, Any],
    reasons: Mapping[str, Message],
    gpu: Gpu | None = None,
    model: Model | None = None,
    *,
    is_cut: bool = False,
) -> tuple[Facts, ...]:
    """The one run of a trace, by its typical step; none if it has no step of any length."""
    recording = results.get("recording")
    if not isinstance(recording, Recording) or recording.typical is None:
        return ()
    found = recording.typical.resources
    host = None if is_partial(recording.typical) or _waits_unseen(results, found) else found.host_ns
    communication = found.exposed_communication_ns if found.gpu_ns is None else found.communication_ns
    resources = Resources(found.step_ns, found.gpu_ns, host, found.loader_ns, communication)
    steps = recording.typical.steps
    facts = Facts(
        resources, steps, summary=summary, gpu=gpu, results=results, reasons=reasons, model=model, is_cut=is_cut
    )
    return (facts,)


def _waits_unseen(results: Mapping[str, Any], found: StepResources) -> bool:
    """Whether devices other than GPUs worked; the host may have waited for them unnoticed."""
    others = results.get("accelerators")
    return found.gpu_ns is None and isinstance(others, Accelerators) and bool(others.devices)


def is_partial(typical: TypicalStep) -> bool:
    """Whether much idle time has no explanation, so that events are missing and host time is unknown.

    Launched work that waits although nothing recorded delays it (`pending`) counts, because the event that it waits for
    is missing. If a sampling profiler kept only half of a training's events, the host would otherwise be blamed for
    delays by other ranks.
    """
    unknown = fsum(row.ns_per_step for row in typical.idle if row.cause in ("unknown", "pending"))
    return unknown > _UNRELIABLE * fsum(row.ns_per_step for row in typical.idle)


def of_tables(views: Iterable[RunView], results: Mapping[str, Any], gpu: Gpu | None = None) -> tuple[Facts, ...]:
    """One for each run whose totals are printed and not 0: else it is unknown how much anything matters.

    Args:
        views: The tables of each run, for rules that look at single rows.
        results: Results of the analyses by key; `runs` has one for each view.
        gpu: Peak figures of the device, if they are known.
    """
    found = []
    for view, run in zip(views, results["runs"], strict=True):
        if run.wall_estimate_ns_per_step:
            resources = _printed_resources(run, run.wall_estimate_ns_per_step)
            of_all = {key: results[key] for key in ("printed_ranks",) if key in results}
            found.append(Facts(resources, run.steps, run.id, run, view, gpu=gpu, results=of_all))
    return tuple(found)


def _printed_resources(run: PrintedRun, step_ns: float) -> Resources:
    """Time per step of each resource; host time is what remains without loader, waits for the device, and profiler."""
    loader = run.dataloader_ns or 0
    gpu = None if run.device_ns is None else mean(run.device_ns, run.steps)
    host = None
    if run.cpu_ns is not None and run.tool is None:
        others = loader + (run.sync_ns or 0) + (run.profiler_ns or 0) + (run.outside_ns or 0)
        if gpu is not None and gpu >= _NEARLY_ALL * step_ns:  # what is not printed can only be waits for the device
            others += run.cpu_hidden_ns or 0
        host = mean(max(0, run.cpu_ns - others), run.steps)
    return Resources(
        step_ns=step_ns,
        gpu_ns=gpu,
        host_ns=host,
        loader_ns=mean(loader, run.steps),
        communication_ns=None,
    )


def of_log(code: CompiledCode) -> tuple[Facts, ...]:
    """The one run of a compile log, which has no steps."""
    return (Facts(Resources(0.0, None, None, None, None), 0, results={"compilation": code}),)


def of_dumps(found: Hangs) -> tuple[Facts, ...]:
    """The one run whose ranks wrote dumps of the flight recorder, which have no steps."""
    return (Facts(Resources(0.0, None, None, None, None), 0, results={"hangs": found}),)


def of_snapshot(results: Mapping[str, Any]) -> tuple[Facts, ...]:
    """The one program whose memory a snapshot shows, without steps.

    Args:
        results: Results of the analyses of snapshots by key.
    """
    return (Facts(Resources(0.0, None, None, None, None), 0, results=results),)


def of_printed_memory(found: PrintedMemory | None) -> tuple[Facts, ...]:
    """The program of whose memory a text speaks, without steps; none if it speaks of none."""
    if found is None:
        return ()
    return (Facts(Resources(0.0, None, None, None, None), 0, results={"printed_memory": found}),)


def of_ranks(summary: TraceSummary, results: Mapping[str, Any]) -> tuple[Facts, ...]:
    """Facts of the typical step of all ranks; of the mean step where a rank's is not known; none without steps.

    Communication is only what links do: waiting for other ranks takes nothing of them.
    """
    mean = results.get("resources")
    ranks = results.get("ranks")
    recording = results.get("recording")
    if not isinstance(mean, StepResources) or not isinstance(ranks, Ranks):
        return ()
    typical = recording.typical if isinstance(recording, Recording) else None
    found = mean if typical is None else typical.resources
    is_cpu = found.gpu_ns is None
    communication = found.exposed_communication_ns if is_cpu else found.communication_ns
    if communication is not None:
        communication = max(0.0, communication - ((ranks.exposed_wait_ns if is_cpu else ranks.wait_ns) or 0.0))
    host = None if typical is not None and is_partial(typical) else found.host_ns
    resources = Resources(found.step_ns, found.gpu_ns, host, found.loader_ns, communication)
    reasons = {"communication": _NO_COLLECTIVES(), "passes": _ALONE()}
    return (Facts(resources, mean.steps, summary=summary, results=results, reasons=reasons),)


def applicable(chosen: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Rules about communication; all others judge each rank by itself."""
    return tuple(entry for entry in chosen if "communication" in entry.rule.tags)
