"""The headline of runs of which only sums are known: printed tables, and traces without a device.

Sums do not show what waits for what: what bounds a step is the resource that takes longest, as far as rows show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import fsum
from typing import Any

from msgspec.structs import replace

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.tables.printed_times import is_wait
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class, operator_class
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines import whole_runs
from traceanalyzer.rules.engine.headlines.kind_of_work import (
    MOST,
    UNNAMED,
    computing,
    computing_of,
    moving,
    moving_of,
    own_time,
    work_times,
)
from traceanalyzer.rules.engine.headlines.named_operators import (
    HOST,
    of_pauses,
    with_collectives,
    with_operators,
    with_work_of_gpu,
)
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, unit
from traceanalyzer.rules.engine.headlines.typical import BUSY, WORTH
from traceanalyzer.rules.engine.headlines.whole_runs import MIXED, NO_COLUMNS, NOT_PRINTED
from traceanalyzer.structure.recording import Recording

_MUCH_INPUT = 0.4
"""Share of a step from which on waiting for a loader is what bounds a program on the CPU (own choice)."""
UNSEEN = 0.1
"""Greatest share of the profiled time in hidden rows that is ignored (own choice)."""
WITH_GPU = {
    "input": Text("headline-input-3", "Waiting for data: {part:part} of each step."),
    "host": Text("headline-host-3", "Limited by the CPU: it gives the GPU no work for {part:part} of each step."),
    "gpu-compute": Text(
        "headline-gpu-compute-5",
        "Limited by GPU compute: {most} {work}, {part:part} of each step.",
        note="most: mostly; work is such as: matrix multiplications and attention",
    ),
    "gpu-memory": Text(
        "headline-gpu-memory-4",
        "Limited by GPU memory bandwidth: {most} {work}, {part:part} of each step.",
        note="most: mostly; work is such as: elementwise kernels",
    ),
    UNNAMED: Text(
        "headline-gpu-3", "Limited by the GPU: {part:part} of each step; names of kernels do not tell its work."
    ),
    "communication": Text(
        "headline-communication-3",
        "Limited by communication: the GPU does nothing else for {part:part} of each step.",
    ),
}
"""Sentences about the mean step of ranks."""
WITHOUT_GPU = {
    "input": Text(
        "headline-cpu-input-4", "Waiting for data: {part:part} of {unit}.", note="unit is in the genitive: each step"
    ),
    "communication": Text(
        "headline-cpu-communication-4",
        "Limited by communication: {part:part} of {unit} are collectives and nothing else.",
        note="unit is in the genitive: each step",
    ),
    "host": HOST,
}
"""Sentences about a run without events of a device."""
_NO_GPU_RECORDED = Text("detail-no-gpu", "No GPU was recorded.")
_UNUSED = Text(
    "headline-cpu-unused-gpu-3",
    "The model runs on the CPU, {part:part} of {unit}; {device} is unused.",
    note="device is the name of a GPU; part reads: 21 of the 150 ms; unit is in the genitive: each step",
)
_THERE = Text(
    "detail-gpu-is-there",
    "The machine has a GPU ({device}), but the operators take as long as on a CPU.",
    note="device is the name of a GPU",
)
_OF_TABLE = {
    "input": Text(
        "headline-table-input-2", "Waiting for data: at least {time:ns} of {step:ns} per step ({share:share})."
    ),
    "host": Text(
        "headline-table-host-2",
        "Limited by the CPU: {time:ns} of {step:ns} per step ({share:share}), more than the GPU works.",
    ),
    "communication": Text(
        "headline-table-communication-2",
        "Limited by communication: collectives take {time:ns} of the GPU's time per step ({share:share}).",
        note="share is that of the profiled time",
    ),
    "gpu-compute": Text(
        "headline-table-gpu-compute-3",
        "Limited by GPU compute: mostly {work}, {time:ns} per step ({share:share}).",
        note="work is such as: matrix multiplications and attention; share is that of the profiled time",
    ),
    "gpu-memory": Text(
        "headline-table-gpu-memory-2",
        "Limited by GPU memory bandwidth: mostly {work}, {time:ns} per step ({share:share}).",
        note="work is such as: elementwise kernels; share is that of the profiled time",
    ),
    UNNAMED: Text(
        "headline-table-gpu-2",
        "Limited by the GPU: {time:ns} per step ({share:share}); names of kernels do not tell its work.",
        note="share is that of the profiled time",
    ),
    NOT_PRINTED: Text(
        "headline-table-gpu-not-printed-2",
        "Limited by the GPU: {time:ns} per step ({share:share}), mostly in rows that are not printed.",
        note="share is that of the profiled time",
    ),
    NO_COLUMNS: Text(
        "headline-table-gpu-no-columns-2",
        "Limited by the GPU: {time:ns} per step ({share:share}); the table has no columns of its times.",
        note="share is that of the profiled time",
    ),
    MIXED: Text(
        "headline-table-gpu-mixed-2",
        "Limited by the GPU: {time:ns} per step ({share:share}); no kind of work takes most of it.",
        note="share is that of the profiled time",
    ),
}
"""Sentences about a table."""
_TO_DO = {
    NOT_PRINTED: Text(
        "detail-print-more",
        "Sort by its time (sort_by='self_cuda_time_total') and print more rows.",
        note="sort_by='self_cuda_time_total' is code; its: of the GPU",
    ),
    NO_COLUMNS: Text("detail-copy-lines", "What it does is unknown: copy whole lines.", note="it is the GPU"),
}
"""What to do where a table does not show what the GPU works on."""
_AT_LEAST = {
    "host": Text(
        "headline-table-host-at-least-2",
        "Limited by the CPU: at least {time:ns} of {step:ns} per step ({share:share}).",
    )
}
"""The sentence for a table in which so much host time is not printed that it may be something else."""
_MAY_BE_WAITS = Text("detail-may-be-waits", "Rows that are not printed may be waits for the GPU.")
_UNKNOWN = Text(
    "headline-table-unseen-2",
    "No verdict: the GPU works {busy:share} of the profiled time, and {hidden:share} of CPU time is not printed.",
)
_RAISE_LIMIT = Text("detail-raise-limit", "Raise row_limit.", note="row_limit is code")
_UNSEEN_WAITS = Text(
    "detail-unseen-waits",
    "Raise row_limit: rows that are not printed may be waits for the GPU.",
    note="row_limit is code",
)
_NO_HOST = Text(
    "headline-table-no-host-2",
    "No verdict: the GPU works {time:ns} per step, but the table does not show the CPU's time.",
)
_NO_HOST_COLLECTIVES = Text(
    "headline-table-no-host-collectives-2",
    "No verdict without the CPU's time; collectives take {time:ns} of the GPU's {busy:ns} per step.",
)
_CPU_ONLY_WAITS = Text(
    "headline-table-cpu-only-waits-3",
    "The GPU was not recorded: the CPU waits for it {part:part} of {unit} in {call}.",
    note="unit is in the genitive: each step; call is a runtime call, such as cudaDeviceSynchronize",
)
_CPU_ONLY = Text(
    "headline-table-cpu-only-2",
    "No verdict: {sign} shows an accelerator, but only the CPU was recorded.",
    note="sign is the name of a call or of an operator",
)
_RECORD_BOTH = Text("detail-record-both", "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].")
_EVENT_SPANS = Text(
    "headline-table-event-spans-2",
    "No verdict: the times of {device} are spans between events, in which it may wait for the CPU.",
    note="device is such as CUDA",
)
_NO_DEVICE_TOTAL = Text(
    "headline-table-no-device-total-2",
    "No verdict: {device} shows an accelerator, but the table has no total of its time.",
    note="device is such as CUDA",
)
_PASTE_TOTALS = Text("detail-paste-totals", "Paste the totals below the table, too.")
_MOSTLY_HIDDEN = Text(
    "headline-table-mostly-hidden-2", "No verdict: {hidden:share} of the time is in rows that are not printed."
)
Parts = tuple[dict[str, float], dict[str, Text]]
"""Times of a step in ns by what bounds it, at most the step together, and the sentences."""


_ANY_WORK = frozenset({UNNAMED, MIXED, NOT_PRINTED, NO_COLUMNS})
"""What bounds a table in which the GPU works, but not mainly on one kind of work that is known."""


def verdict(facts: Facts, times: Mapping[str, float], texts: Mapping[str, Text]) -> StepBound | None:
    """What bounds a step by its sums: the GPU if it is busy, else the largest loss if it is large enough to name.

    Args:
        facts: Of the run.
        times: Times of a step in ns by what may bound it.
        texts: The sentences about them.
    """
    step = facts.step_ns
    if not step or facts.is_startup:
        return None
    large = {name: ns for name, ns in times.items() if ns >= (BUSY if name.startswith("gpu") else WORTH) * step}
    bound = max(large, key=lambda name: (name.startswith("gpu"), large[name]), default=None)
    if texts is WITHOUT_GPU and large.get("input", 0.0) >= _MUCH_INPUT * step:
        bound = "input"  # the rest is many things, none of which is as much
    if bound is None:
        return None
    said = _said(facts, bound, large[bound], texts)
    message = _sentence(facts, bound, texts)(**said)
    found = StepBound("gpu-compute" if bound in _ANY_WORK else bound, message, large[bound] / step)
    if texts is WITHOUT_GPU:
        return with_collectives(_on_cpu(facts, found, said), said, large.get("communication", 0.0))
    if texts is _AT_LEAST:
        found = found.and_says(_MAY_BE_WAITS)
    return found.qualified(_TO_DO[bound]) if bound in _TO_DO else found


def _said(facts: Facts, bound: str, time: float, texts: Mapping[str, Text]) -> dict[str, Any]:
    """The figures of the sentence about what bounds a step for a time."""
    step, is_printed = facts.step_ns, texts is _OF_TABLE or texts is _AT_LEAST
    said: dict[str, Any] = {"time": time, "step": step, "share": time / step} if is_printed else {"part": (time, step)}
    if bound == "gpu-compute":
        said |= {"work": computing(_by_class(facts))[0]} if is_printed else own_time(facts, computing_of(facts), time)
    if bound == "gpu-memory":
        said |= {"work": moving(_by_class(facts))[0]} if is_printed else own_time(facts, moving_of(facts), time)
    if texts is WITHOUT_GPU:
        said["unit"] = _unit(facts)
    return said


def _on_cpu(facts: Facts, found: StepBound, said: Mapping[str, Any]) -> StepBound:
    """What is said of a run without events of a device, with what takes its time."""
    if found.bound != "host":
        return found.and_says(_NO_GPU_RECORDED)
    return of_pauses(facts, said) or with_operators(facts, _of_unused(facts, found, said), said)


def _unit(facts: Facts) -> Message:
    """The unit of the figures: a step, or the run whose steps a table does not show."""
    return whole_runs.UNIT() if facts.is_whole_run else unit(facts.find("recording", Recording))


def _sentence(facts: Facts, bound: str, texts: Mapping[str, Text]) -> Text:
    """The sentence about what bounds a step, or a run whose steps a table does not show."""
    if texts is WITHOUT_GPU or not facts.is_whole_run:
        return texts[bound]
    return whole_runs.OF_RUN[f"{bound}-at-least" if texts is _AT_LEAST else bound]


def _of_unused(facts: Facts, found: StepBound, said: Mapping[str, Any]) -> StepBound:
    """That a device is there and unused, or else that none was recorded."""
    own = facts.step_resources
    if own is None or not own.unused_device:
        there = facts.summary.devices if facts.summary and own else ()
        found = found.and_says(_THERE, device=there[0].name or str(there[0].id)) if there else found
        return found.and_says(_NO_GPU_RECORDED)
    return replace(found, message=_UNUSED(device=own.unused_device, **said))


def parts(facts: Facts) -> Parts:
    """What may bound a table, as far as its sums and its rows show it."""
    budget = Budget.of(facts.resources, is_estimate=True)
    if _has_no_host(facts):
        return {}, _OF_TABLE
    if budget.critical == "loader":
        return _of_loader(budget)
    if budget.critical == "host":
        return _of_host(facts, budget)
    return _of_gpu(facts, budget)


def _of_gpu(facts: Facts, budget: Budget) -> Parts:
    """What the GPU works on; or it communicates."""
    time = communication(facts)
    if time >= MOST * budget.gpu:
        return {"communication": time}, _OF_TABLE
    return {_kind_of_work(facts): budget.gpu}, _OF_TABLE


def _of_loader(budget: Budget) -> Parts:
    """Waits for batches, as far as the device's and the rest of the host's time cannot hide them."""
    return {"input": min(budget.loader, budget.cap("loader", budget.loader))}, _OF_TABLE


def _of_host(facts: Facts, budget: Budget) -> Parts:
    """The host's time, as far as rows show it."""
    if not budget.gpu:
        return ({} if sign(facts) or _hidden_share(facts) >= MOST else {"host": budget.host}), WITHOUT_GPU
    unseen = unseen_waits(facts)
    if not unseen:
        return {"host": budget.host}, _OF_TABLE
    certain = budget.host - unseen
    if budget.loader > certain:
        return _of_loader(budget)
    return ({"host": certain} if certain > budget.gpu else {}), _AT_LEAST


def sign(facts: Facts) -> str | None:
    """The sign that an accelerator took part although its events were not recorded.

    In a table a call or an operator, else columns of times that are not its own.
    """
    if facts.view is None:
        own = facts.step_resources
        return own.unread_device if own else None
    view = facts.view
    rows = [row for row, kind in view.by_name if kind is RowKind.RUNTIME or marks.is_of_accelerator(row.name)]
    if rows:
        return max(rows, key=lambda row: row.self_cpu_ns or 0).name
    return next((table.device for table in view.tables if table.device), None) if _has_device_times(facts) else None


def unseen(facts: Facts) -> StepBound | None:
    """The headline of a table that does not show what its device or its host does with its time; else None."""
    table = facts.table
    busy = facts.resources.gpu_ns
    if table is None:
        return None
    if busy is None:
        return _without_device(facts)
    if _has_no_host(facts):
        time = communication(facts)
        if time >= MOST * busy:
            return StepBound("none", _NO_HOST_COLLECTIVES(busy=busy, time=time), None)
        return with_work_of_gpu(facts, StepBound("none", _NO_HOST(time=busy), None))
    if not unseen_waits(facts):
        return None
    message = _UNKNOWN(busy=busy / facts.step_ns, hidden=table.cpu_hidden_share)
    return StepBound("none", message, None).qualified(_UNSEEN_WAITS)


def _without_device(facts: Facts) -> StepBound | None:
    """The headline of a table without times of a device if one took part, or if most rows are not printed."""
    found = sign(facts)
    columns = next((table.device for table in facts.view.tables if table.device), None) if facts.view else None
    if facts.table is not None and facts.table.has_event_spans:
        return StepBound("none", _EVENT_SPANS(device=columns or found), None)
    if columns and _has_device_times(facts):
        return StepBound("none", _NO_DEVICE_TOTAL(device=columns), None).qualified(_PASTE_TOTALS)
    if found:
        message = _of_waits(facts) or _CPU_ONLY(sign=found)
        return StepBound("none", message, None).qualified(_RECORD_BOTH)
    hidden = _hidden_share(facts)
    if hidden < MOST:
        return None
    return StepBound("none", _MOSTLY_HIDDEN(hidden=hidden), None).qualified(_RAISE_LIMIT)


def _of_waits(facts: Facts) -> Message | None:
    """What the host waits in for a device that was not recorded, if that is a good part of the step."""
    waits = [row for row in facts.rows(RowKind.RUNTIME) if is_wait(row)]
    time = facts.per_step(fsum(row.self_cpu_ns or 0 for row in waits))
    if not waits or time < WORTH * facts.step_ns:
        return None
    call = max(waits, key=lambda row: row.self_cpu_ns or 0).name
    return _CPU_ONLY_WAITS(part=(time, facts.step_ns), unit=_unit(facts), call=call)


def _has_device_times(facts: Facts) -> bool:
    """Whether a table shows that a device worked, or that memory of it was used."""
    return facts.view is not None and any(
        row.device_total_ns or row.device_avg_ns or row.device_mem_bytes or row.self_device_mem_bytes
        for row, _ in facts.view.by_name
    )


def _hidden_share(facts: Facts) -> float:
    """Share of the host's time in rows that a table does not print."""
    return (facts.table.cpu_hidden_share or 0.0) if facts.table is not None else 0.0


def unseen_waits(facts: Facts) -> float:
    """Host time per step that may be waits for the device in rows that are not printed, in ns; 0 if it is little.

    It may be all of their time, even more than that of the device: the host also waits for work that was launched
    before the profile began, and for other ranks.
    """
    run = facts.table
    if run is None or not run.cpu_hidden_ns or not facts.resources.gpu_ns:
        return 0.0
    waits = facts.per_step(run.cpu_hidden_ns)
    return waits if waits >= UNSEEN * facts.step_ns else 0.0


def _has_no_host(facts: Facts) -> bool:
    """Whether the GPU's time is known, but nothing of the host's, as in tables that somebody shortened."""
    return facts.resources.gpu_ns is not None and facts.resources.host_ns is None


def communication(facts: Facts) -> float:
    """Device time per step in collectives; 0 if none is printed."""
    return facts.on_device(_by_class(facts)["communication"])


def _kind_of_work(facts: Facts) -> str:
    """Kind of work that takes half of all of the GPU's time; else `MIXED`, or why less than half is known."""
    times = _by_class(facts)
    whole = facts.table.device_ns if facts.table and not facts.table.annotations_in_total else None
    least = MOST * max(times.total(), whole or 0)
    compute, moving = work_times(times)
    if max(compute, moving) >= least > 0:
        return "gpu-compute" if compute >= moving else "gpu-memory"
    if compute + moving + times["communication"] >= least > 0:
        return MIXED
    return _why_unnamed(facts)


def _why_unnamed(facts: Facts) -> str:
    """Why it is unknown what most of the GPU's time is spent on: it is not printed, or names do not tell."""
    run, view = facts.table, facts.view
    if run is None or view is None:
        return UNNAMED
    columns = {name for table in view.tables for name in table.columns}
    if not columns & {"self_device_ns", "device_total_ns", "device_avg_ns"}:
        return NO_COLUMNS
    return NOT_PRINTED if (run.device_hidden_share or 0.0) >= MOST else UNNAMED


def _by_class(facts: Facts) -> Counter[str]:
    """Device time by class, from the printed kernels or operators, whichever names classify more time."""
    kernels: Counter[str] = Counter()
    for kernel in if_known(lambda: facts.kernels):
        kernels[kernel_class(kernel.name).value] += kernel.total_ns
    operators: Counter[str] = Counter()
    for row in if_known(lambda: facts.operators):
        operators[operator_class(row.name).value] += row.device_self_ns
    return max(kernels, operators, key=lambda found: found.total() - found[KernelClass.OTHER.value])
