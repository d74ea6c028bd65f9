"""The headline of runs of which only sums are known: printed tables, and traces without a device.

Sums do not show what waits for what: what bounds a step is the resource that takes longest, as far as rows show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import fsum
from typing import Any

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.tables.printed_times import is_wait
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class, operator_class
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines import whole_runs
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST, UNNAMED, computing, computing_of, work_times
from traceanalyzer.rules.engine.headlines.named_operators import with_operators, with_work_of_gpu
from traceanalyzer.rules.engine.headlines.typical import BUSY, WORTH, StepBound
from traceanalyzer.rules.engine.headlines.whole_runs import MIXED, NO_COLUMNS, NOT_PRINTED

UNSEEN = 0.1
"""Greatest share of the profiled time in hidden rows that is ignored (own choice)."""
WITH_GPU = {
    "input": Text(
        "headline-input-2",
        "Bound by input: for {part:part} of each step the GPU does nothing while the program waits for its DataLoader.",
    ),
    "host": Text(
        "headline-host-2",
        "Bound by the host: for {part:part} of each step the GPU does nothing because the CPU gives it no work.",
    ),
    "gpu-compute": Text(
        "headline-gpu-compute-3",
        "Bound by GPU compute: the GPU works for {part:part} of each step, mostly on {work}.",
        note="work is such as: matrix products and attention",
    ),
    "gpu-memory": Text(
        "headline-gpu-memory-2",
        "Bound by GPU memory: the GPU works for {part:part} of each step, mostly on operations that move data.",
    ),
    UNNAMED: Text(
        "headline-gpu-2",
        "Bound by the GPU: it works for {part:part} of each step. The names of its kernels "
        "do not show what most of this time is spent on.",
    ),
    "communication": Text(
        "headline-communication-2",
        "Bound by communication: for {part:part} of each step the GPU only communicates, or waits for other ranks.",
    ),
}
"""Sentences about the mean step of ranks."""
WITHOUT_GPU = {
    "input": Text(
        "headline-cpu-input-2",
        "Bound by input: {part:part} of each step is waiting for the DataLoader. No GPU was recorded.",
    ),
    "communication": Text(
        "headline-cpu-communication-2",
        "Bound by communication: for {part:part} of each step collectives run and no "
        "operator is recorded. No GPU was recorded.",
    ),
    "host": Text(
        "headline-cpu-host-2",
        "Bound by the CPU: {part:part} of each step pass in the program itself. No GPU was recorded.",
    ),
}
"""Sentences about a run without events of a device."""
_UNUSED = Text(
    "headline-cpu-unused-gpu",
    "The model runs on the CPU: {part:part} of each step pass in the program itself. Nothing was launched on {device}.",
    note="device is the name of a GPU; part reads: 21 % of the 150 ms",
)
_OF_TABLE = {
    "input": Text(
        "headline-table-input",
        "Bound by input: at least {share:share} of the profiled time ({time:ns} of {step:ns} per step) is waiting for "
        "the DataLoader that other work cannot hide.",
    ),
    "host": Text(
        "headline-table-host",
        "Bound by the host: {share:share} of the profiled time ({time:ns} of {step:ns} per step) is CPU work, and the "
        "GPU works for less.",
    ),
    "communication": Text(
        "headline-table-communication",
        "Bound by communication: collectives take {time:ns} of the GPU's time per step, {share:share} of the profiled "
        "time.",
    ),
    "gpu-compute": Text(
        "headline-table-gpu-compute-2",
        "Bound by GPU compute: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "{work}.",
        note="work is such as: matrix products and attention",
    ),
    "gpu-memory": Text(
        "headline-table-gpu-memory",
        "Bound by GPU memory: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "operations that move data.",
    ),
    UNNAMED: Text(
        "headline-table-gpu",
        "Bound by the GPU: it works for {time:ns} per step, {share:share} of the profiled time. The names of its "
        "kernels do not show what most of this time is spent on.",
    ),
    NOT_PRINTED: Text(
        "headline-table-gpu-not-printed",
        "Bound by the GPU: it works for {time:ns} per step, {share:share} of the profiled time. Most of what it does "
        "is in rows that are not printed. Sort by its time (sort_by='self_cuda_time_total') and print more rows.",
        note="sort_by='self_cuda_time_total' is code",
    ),
    NO_COLUMNS: Text(
        "headline-table-gpu-no-columns",
        "Bound by the GPU: it works for {time:ns} per step, {share:share} of the profiled time. What it does is "
        "unknown, because the table has no columns of its times: copy whole lines.",
    ),
    MIXED: Text(
        "headline-table-gpu-mixed",
        "Bound by the GPU: it works for {time:ns} per step, {share:share} of the profiled time. No kind of work takes "
        "most of it.",
    ),
}
"""Sentences about a table."""
_AT_LEAST = {
    "host": Text(
        "headline-table-host-at-least",
        "Bound by the host: at least {share:share} of the profiled time ({time:ns} of {step:ns} per step) is CPU work, "
        "and the GPU works for less. Rows that are not printed may be waits for the GPU.",
    )
}
"""The sentence for a table in which so much host time is not printed that it may be something else."""
_UNKNOWN = Text(
    "headline-table-unseen",
    "It is unknown what bounds a step of {step:ns}: the GPU works for {busy:share} of the profiled time, and "
    "{hidden:share} of the host's time is in rows that are not printed, which may be waits for the GPU. Raise "
    "row_limit.",
    note="row_limit is code",
)
_NO_HOST = Text(
    "headline-table-no-host",
    "It is unknown what bounds a step: the GPU works for {time:ns} of it, and the table does not show how long the "
    "host takes.",
)
_NO_HOST_COLLECTIVES = Text(
    "headline-table-no-host-collectives",
    "It is unknown what bounds a step, because the table does not show how long the host takes. Of the {busy:ns} per "
    "step for which the GPU works, collectives take {time:ns}.",
)
_CPU_ONLY_WAITS = Text(
    "headline-table-cpu-only-waits",
    "The GPU was not recorded, only the CPU: for {part:part} of each step the host waits for it in {call}. Record with "
    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
    note="call is the name of a runtime call, such as cudaDeviceSynchronize; part reads: 7 of the 10 s",
)
_CPU_ONLY = Text(
    "headline-table-cpu-only",
    "It is unknown what bounds a step of {step:rounded_ns}: {sign} shows an accelerator, but only the CPU was "
    "recorded. Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].",
    note="sign is the name of a call or of an operator",
)
_EVENT_SPANS = Text(
    "headline-table-event-spans",
    "It is unknown what bounds a step of {step:rounded_ns}: the printed times of {device} are spans between events, in "
    "which it may wait for the host.",
    note="device is such as CUDA",
)
_NO_DEVICE_TOTAL = Text(
    "headline-table-no-device-total",
    "It is unknown what bounds a step of {step:rounded_ns}: {device} shows an accelerator, but the table does not "
    "say for how long it works in all. Paste the totals below the table, too.",
    note="device is such as CUDA",
)
_MOSTLY_HIDDEN = Text(
    "headline-table-mostly-hidden",
    "It is unknown what bounds a step of {step:rounded_ns}: {hidden:share} of the time is in rows that are not "
    "printed. Raise row_limit.",
    note="row_limit is code",
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
    if bound is None:
        return None
    time, share = large[bound], large[bound] / step
    is_printed = texts is _OF_TABLE or texts is _AT_LEAST
    said: dict[str, Any] = {"time": time, "step": step, "share": share} if is_printed else {"part": (time, step)}
    if bound == "gpu-compute":
        said["work"] = computing(_by_class(facts)) if is_printed else computing_of(facts)
    message = _sentence(facts, bound, texts)(**said)
    if bound == "host" and texts is WITHOUT_GPU:
        message = with_operators(facts, _of_unused(facts, message, said))
    return StepBound("gpu-compute" if bound in _ANY_WORK else bound, message, share)


def _sentence(facts: Facts, bound: str, texts: Mapping[str, Text]) -> Text:
    """The sentence about what bounds a step, or a run whose steps a table does not show."""
    if facts.table is None or facts.table.steps_from is not None:
        return texts[bound]
    if texts is WITHOUT_GPU:
        return whole_runs.WITHOUT_GPU[bound] if bound in whole_runs.WITHOUT_GPU else texts[bound]
    return whole_runs.OF_RUN[f"{bound}-at-least" if texts is _AT_LEAST else bound]


def _of_unused(facts: Facts, message: Message, said: Mapping[str, Any]) -> Message:
    """That a device is there and unused, or else the message."""
    own = facts.step_resources
    return _UNUSED(device=own.unused_device, **said) if own and own.unused_device else message


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


def unseen(facts: Facts) -> Message | None:
    """The headline of a table that does not show what its device or its host does with its time; else None."""
    table = facts.table
    busy = facts.resources.gpu_ns
    step = facts.step_ns
    if table is None:
        return None
    if busy is None:
        return _without_device(facts)
    if _has_no_host(facts):
        time = communication(facts)
        return (
            _NO_HOST_COLLECTIVES(busy=busy, time=time)
            if time >= MOST * busy
            else with_work_of_gpu(facts, _NO_HOST(time=busy))
        )
    return _UNKNOWN(step=step, busy=busy / step, hidden=table.cpu_hidden_share) if unseen_waits(facts) else None


def _without_device(facts: Facts) -> Message | None:
    """The headline of a table without times of a device if one took part, or if most rows are not printed."""
    step, found = facts.step_ns, sign(facts)
    columns = next((table.device for table in facts.view.tables if table.device), None) if facts.view else None
    if facts.table is not None and facts.table.has_event_spans:
        return _EVENT_SPANS(step=step, device=columns or found)
    if columns and _has_device_times(facts):
        return _NO_DEVICE_TOTAL(step=step, device=columns)
    if found:
        return _of_waits(facts) or _CPU_ONLY(step=step, sign=found)
    hidden = _hidden_share(facts)
    return _MOSTLY_HIDDEN(step=step, hidden=hidden) if hidden >= MOST else None


def _of_waits(facts: Facts) -> Message | None:
    """What the host waits in for a device that was not recorded, if that is a good part of the step."""
    waits = [row for row in facts.rows(RowKind.RUNTIME) if is_wait(row)]
    time = facts.per_step(fsum(row.self_cpu_ns or 0 for row in waits))
    if not waits or time < WORTH * facts.step_ns:
        return None
    call = max(waits, key=lambda row: row.self_cpu_ns or 0).name
    return _CPU_ONLY_WAITS(part=(time, facts.step_ns), call=call)


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
