"""The analyses of printed tables. A table has no timeline: what needs one is skipped, with the reason.

The kind of program is found as for a trace, as far as rows show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from traceanalyzer.analyzers.tables import grouping, parts, printed_memory, ranks, runs, throughput
from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.frameworks import FrameworkEvidence
from traceanalyzer.structure.recording.workload import FEW_KERNELS, HARDLY_ANY_NS, STARTUP_SHARE, WorkloadEvidence
from traceanalyzer.trace.document import TableDocument, TableRow
from traceanalyzer.trace.model import Loss

_NO_TIMELINE = Text(
    "skip-no-timeline",
    "a printed table has sums but no timeline; export the trace (prof.export_chrome_trace) and report on that",
)

_HIDDEN = 0.01
"""Share of time in rows that are not printed that is worth a warning (own choice: below, no ranking changes)."""

NEEDS_TIMELINE = ("step_breakdown", "gpu", "kernels_by_operator")

RESULTS = {
    "tables": tuple[grouping.PrintedTable, ...],
    "runs": tuple[PrintedRun, ...],
    "printed_throughput": tuple[throughput.PrintedThroughput, ...],
    "printed_ranks": tuple[ranks.PrintedRanks, ...],
    "printed_figures": tuple[parts.PrintedFigures, ...],
    "printed_memory": printed_memory.PrintedMemory,
}
"""Types of the results of a document by key; `recording`, of the first run, is that of a trace. Memory is there only if
the text speaks of it."""

_BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d{0,2}\Z|_backward")
_ALL = 0.99
"""Share of the device's time in printed kernels and copies from which on these are all there are (own choice)."""
_MOSTLY_HIDDEN = 0.5
"""Own choice: with most of the time in rows that are not printed, what is not there proves nothing."""
_PARTLY_HIDDEN = 0.01
"""Own choice: with this share of time in rows that are not printed, an optimizer or a backward pass may be among them:
their ranges have hardly any self time, by which tables are sorted most often."""
_UPDATES = re.compile(r"^(?:aten::)?(?:_fused_(?:adamw?|sgd|adagrad)_|(?:_foreach_)?addc(?:div|mul)_)\Z")
"""Operators that hardly anything but an optimizer calls: they update parameters in place."""
_TRAINING = ("ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "enumerate(DataPipe)", "DistributedDataParallel")


def run(document: TableDocument, views: Sequence[RunView]) -> tuple[dict[str, Any], dict[str, Message]]:
    """Run every analysis that tables allow.

    Args:
        document: The tables.
        views: The same tables by run, as `grouping.group` joins them.

    Returns:
        The results by key, and for each analysis that needs more the reason.
    """
    printed_runs = runs.analyze_all(tuple(views))
    results: dict[str, Any] = {
        "tables": grouping.list_tables(document, views),
        "runs": printed_runs,
        "printed_throughput": throughput.analyze(document, printed_runs),
        "printed_ranks": ranks.analyze(printed_runs),
        "printed_figures": parts.figures_of(document),
    }
    if (memory := printed_memory.analyze(document)) is not None:
        results["printed_memory"] = memory
    if printed_runs and printed_runs[0].tool is None:
        results["recording"] = recording(views[0], printed_runs[0])
    return results, {key: _NO_TIMELINE() for key in NEEDS_TIMELINE}


def _has_unknown_spans(run: PrintedRun) -> bool:
    """Whether it is unknown how long the device works, because its times are spans between events."""
    return run.has_event_spans and run.device_ns is None and not run.is_of_single_calls


def _has_no_steps(run: PrintedRun) -> bool:
    """Whether everything counts as one step, because no row shows steps."""
    return run.steps_from is None and not run.is_of_single_calls


def _lacks_device_columns(run: PrintedRun) -> bool:
    """Whether the totals have times of the device, but no row has."""
    return run.device_ns is not None and run.device_hidden_ns is None and not run.device_from_operators


def doubts(results: Mapping[str, Any]) -> tuple[Loss, ...]:
    """Count what lowers the confidence of a document's figures."""
    every_run: tuple[PrintedRun, ...] = results["runs"]
    printed = tuple(run for run in every_run if run.tool is None)
    shares = {run.id: max(run.cpu_hidden_share or 0, run.device_hidden_share or 0) for run in printed}
    hidden = {run: share for run, share in shares.items() if share > _HIDDEN}
    checks: tuple[tuple[str, str, Callable[[PrintedRun], object]], ...] = (
        ("q-total-from-shares", "q-totals-from-shares", lambda run: run.totals_from_shares),
        ("q-total-cannot-be", "q-totals-cannot-be", lambda run: run.total_cannot_be),
        # rows count nested operators several times, and no total is printed
        (
            "q-no-self-times",
            "q-no-self-times-in-tables",
            lambda run: (run.cpu_ns, run.device_ns, run.total_cannot_be) == (None, None, False),
        ),
        (
            "q-event-spans-in-table",
            "q-event-spans-in-tables",
            _has_unknown_spans,
        ),
        (
            "q-event-spans-beyond-host",
            "q-event-spans-beyond-hosts",
            lambda run: run.has_event_spans and run.device_ns is not None,
        ),
        ("q-device-columns-missing", "q-device-columns-missing-in-tables", _lacks_device_columns),
        ("q-device-time-of-operators", "q-device-times-of-operators", lambda run: run.device_from_operators),
        ("q-single-calls-in-table", "q-single-calls-in-tables", lambda run: run.is_of_single_calls),
        ("q-gpu-annotation-in-total", "q-gpu-annotation-in-totals", lambda run: run.annotations_in_total),
        (
            "q-no-steps-in-table",
            "q-no-steps-in-tables",
            _has_no_steps,
        ),
    )
    every = len(printed)
    return (
        *_once("q-table-truncated", "q-tables-truncated", every, [*hidden], share=max(hidden.values(), default=0)),
        *(
            doubt
            for one, several, applies in checks
            for doubt in _once(one, several, every, [run.id for run in printed if applies(run)])
        ),
        *throughput.doubts(printed, results["printed_throughput"]),
    )


def _once(one: str, several: str, every: int, ids: list[str], **params: float) -> Iterator[Loss]:
    """A doubt about one run, or the same about several of all."""
    if len(ids) == 1:
        yield Loss(one, 1, {"run": ids[0], **params})
    elif ids:
        yield Loss(several, len(ids), {"all": every, **params})


def recording(view: RunView, run: PrintedRun) -> Recording:
    """What the rows of one run show; a table has no timeline, so it has no window and no steps one by one."""
    rows = [row for row, _ in view.by_name]
    startup = run.startup_ns or 0
    whole = (run.wall_estimate_ns_per_step or 0) * run.steps
    frameworks = tuple(_frameworks(rows))
    kind, evidence = _workload(rows, frameworks, _most_hidden(run))
    if whole and startup >= STARTUP_SHARE * whole:
        kind = "start-up"
        evidence = (WorkloadEvidence("loading", time_ns=startup),)
    ids = {framework.id for framework in frameworks}
    named = next((known.id for known in FRAMEWORKS if known.is_named and known.id in ids), None)
    return Recording(
        workload=kind,
        evidence=evidence,
        framework=named,
        frameworks=frameworks,
        window=None,
        steps_from=run.steps_from,
        steps=(),
        all_steps_count=False,
        typical_step_ns=run.wall_estimate_ns_per_step,
        typical=None,
        has_hardly_any_work=is_hardly_any(run),
        device_busy_ns=run.device_ns or 0,
        startup_ns=startup,
    )


def _most_hidden(run: PrintedRun) -> float:
    """Share of the time in rows that are not printed; without a total it may be any, and counts as all."""
    known = [share for share in (run.cpu_hidden_share, run.device_hidden_share) if share is not None]
    return max(known, default=1.0)


def is_hardly_any(run: PrintedRun) -> bool:
    """Whether the device did too little work to decide what bounds the program; unknown if kernels are not printed."""
    kernels = sum(kernel.calls or 0 for kernel in run.kernels)
    printed = sum(row.device_self_ns or 0 for row in run.kernels) + sum(copy.device_ns or 0 for copy in run.copies)
    if not run.device_ns or not kernels or printed < _ALL * run.device_ns:
        return False
    is_step = run.steps_from is not None and kernels >= FEW_KERNELS
    return kernels == 1 or (run.device_ns < HARDLY_ANY_NS and not is_step)


def _frameworks(rows: list[TableRow]) -> Iterator[FrameworkEvidence]:
    for known in FRAMEWORKS:
        if known.names is None:
            continue
        named = [row for row in rows if known.names.compiled.search(row.name)]
        if named:
            events = sum(row.calls or 1 for row in named)
            yield FrameworkEvidence(known.id, "mark", named[0].name, events, len({row.name for row in named}))


def _workload(
    rows: list[TableRow], frameworks: tuple[FrameworkEvidence, ...], hidden: float
) -> tuple[str, tuple[WorkloadEvidence, ...]]:
    """The kind of program and why. Without a backward pass it is inference, but rows that are not printed may have one.

    Args:
        rows: The rows of a run.
        frameworks: Frameworks of which they show signs.
        hidden: Share of the time in rows that are not printed.
    """
    server = _server(frameworks)
    if server is not None:
        return "serving", (WorkloadEvidence("framework", server.name, server.events),)
    backward = _first(rows, _BACKWARD)
    optimizer = next((row for row in rows if marks.is_optimizer_step(row.name)), None)
    update = _first(rows, _UPDATES)
    if not (backward or optimizer or update):
        return _without_training(hidden)
    trains = bool(optimizer or update) or any(row.name.startswith(_TRAINING) for row in rows)
    if not trains and hidden < _PARTLY_HIDDEN:
        return "micro-benchmark", (WorkloadEvidence("backward-without-optimizer", backward),)
    return "training", tuple(_of_training(optimizer, update, backward))


def _first(rows: list[TableRow], pattern: re.Pattern[str]) -> str | None:
    """The first name of a row that a pattern finds something in."""
    return next((row.name for row in rows if pattern.search(row.name)), None)


def _server(frameworks: tuple[FrameworkEvidence, ...]) -> FrameworkEvidence | None:
    """The first framework that serves requests."""
    serving = {known.id for known in FRAMEWORKS if known.role == "serving"}
    return next((framework for framework in frameworks if framework.id in serving), None)


def _without_training(hidden: float) -> tuple[str, tuple[WorkloadEvidence, ...]]:
    """What a program without signs of training is: inference only if nearly all rows are printed."""
    if hidden >= _MOSTLY_HIDDEN:
        return "fragment", (WorkloadEvidence("hidden-rows"),)
    if hidden >= _PARTLY_HIDDEN:
        return "fragment", (WorkloadEvidence("no-backward-printed"),)
    return "inference", (WorkloadEvidence("no-backward"),)


def _of_training(optimizer: TableRow | None, update: str | None, backward: str | None) -> Iterator[WorkloadEvidence]:
    """The signs of training: calls of an optimizer or its arithmetic, and an operator of the backward pass."""
    if optimizer is not None:
        yield WorkloadEvidence("optimizer-steps", optimizer.name, optimizer.calls)
    elif update is not None:
        yield WorkloadEvidence("optimizer-operators", update)
    if backward is not None:
        yield WorkloadEvidence("backward-operators", backward)
