"""What bounds a run of which only a printed table is known: its sums, and what its rows show."""

from __future__ import annotations

from math import fsum

from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.kinds import RowKind, is_sync
from traceanalyzer.knowledge.marks import is_of_accelerator
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.causes import MIXED, UNNAMED, gpu_bound, printed_communication

_WORTH = 0.1
"""Share of the GPU's time from which on communication is named (own choice: as for operators)."""
_MOSTLY = 0.5
"""Share of the profiled time in waits for the device, and of device time in collectives, from which on they are named
(own choice: most of it)."""

TEXTS = {
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
        "headline-table-gpu-compute",
        "Bound by GPU compute: the GPU works for {time:ns} per step, {share:share} of the profiled time, mostly on "
        "matrix products, convolutions and attention.",
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
    MIXED: Text(
        "headline-table-gpu-mixed",
        "Bound by the GPU: it works for {time:ns} per step, {share:share} of the profiled time. No kind of work takes "
        "most of it.",
    ),
}
"""Sentences by what bounds a run."""
AT_LEAST = {
    "host": Text(
        "headline-table-host-at-least",
        "Bound by the host: at least {share:share} of the profiled time ({time:ns} of {step:ns} per step) is CPU work, "
        "and the GPU works for less. Rows that are not printed may be waits for the GPU.",
    )
}
"""The sentence for a table in which so much host time is not printed that it may be something else."""
_UNSEEN = 0.1
"""Greatest share of the profiled time in hidden rows that is ignored (own choice)."""
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
_COMMUNICATES = Text(
    "headline-table-communicates",
    "{headline} Communication takes {time:ns} ({share:share}) of the GPU's time per step.",
    note="headline is a sentence",
)
_COMMUNICATES_AT_LEAST = Text(
    "headline-table-communicates-at-least",
    "{headline} Communication takes at least {time:ns} ({share:share}) of the GPU's time per step; {hidden:share} of "
    "it is in rows that are not printed.",
    note="headline is a sentence; it is the GPU's time",
)
_WAITING = Text(
    "headline-table-waiting",
    "The program mostly waits for the device: {share:share} of the profiled time ({time:ns} of {step:ns} per step) is "
    "in {call}. What the device does meanwhile was not recorded.",
    note="call is the name of a runtime call, such as cudaDeviceSynchronize",
)


Parts = tuple[dict[str, float], dict[str, Text] | None]
"""Times of a step in ns by what bounds it, at most the step together, and the sentences; None: those without a GPU."""


def parts(facts: Facts) -> Parts:
    """What bounds a table, as far as its sums and its rows show it."""
    budget = Budget.of(facts.resources, is_estimate=True)
    if _has_no_host(facts):
        return {}, TEXTS
    critical = budget.critical
    if critical == "loader":
        return _loader(budget)
    if critical == "host":
        return _host(facts, budget)
    communication = printed_communication(facts)
    if communication >= _MOSTLY * budget.gpu:
        return {"communication": communication}, TEXTS
    return {gpu_bound(facts): budget.gpu}, TEXTS


def with_communication(facts: Facts, bound: str, message: Message) -> Message:
    """The headline of a table, with what communication takes of the GPU's time if it is much, and with hidden rows."""
    run = facts.table
    if run is None or not run.device_ns or bound == "communication":
        return message
    time = printed_communication(facts)
    share = time / facts.on_device(run.device_ns)
    if share < _WORTH:
        return message
    hidden = run.device_hidden_share or 0.0
    text = _COMMUNICATES if hidden < _UNSEEN else _COMMUNICATES_AT_LEAST
    return text(headline=message, time=time, share=share, hidden=hidden)


def _has_no_host(facts: Facts) -> bool:
    """Whether the GPU's time is known, but nothing of the host's, as in tables that somebody shortened."""
    return facts.resources.gpu_ns is not None and facts.resources.host_ns is None


def _loader(budget: Budget) -> Parts:
    """Waits for batches, as far as the device's and the rest of the host's time cannot hide them."""
    return {"input": min(budget.loader, budget.cap("loader", budget.loader))}, TEXTS


def _host(facts: Facts, budget: Budget) -> Parts:
    """The host's time, as far as rows show it."""
    if not budget.gpu:
        has_sign = facts.view is not None and sign(facts.view)
        return ({} if has_sign else {"host": budget.host}), None
    unseen = unseen_waits(facts)
    if not unseen:
        return {"host": budget.host}, TEXTS
    certain = budget.host - unseen
    if budget.loader > certain:
        return _loader(budget)
    return ({"host": certain} if certain > budget.gpu else {}), AT_LEAST


def waiting(facts: Facts) -> Message | None:
    """The headline of a table without device times whose program mostly waits for the device; None for all others."""
    if facts.view is None or facts.resources.gpu_ns is not None:
        return None
    waits = [row for row, kind in facts.view.by_name if kind is RowKind.RUNTIME and is_sync(row.name)]
    time = facts.per_step(fsum(row.self_cpu_ns or 0 for row in waits))
    if not waits or time < _MOSTLY * facts.step_ns:
        return None
    call = max(waits, key=lambda row: row.self_cpu_ns or 0).name
    return _WAITING(time=time, step=facts.step_ns, share=time / facts.step_ns, call=call)


def unseen_waits(facts: Facts) -> float:
    """Host time per step that may be waits for the device in rows that are not printed, in ns; 0 if it is little.

    It may be all of their time, even more than that of the device: the host also waits for work that was launched
    before the profile began, and for other ranks.
    """
    run = facts.table
    if run is None or not run.cpu_hidden_ns or not facts.resources.gpu_ns:
        return 0.0
    waits = facts.per_step(run.cpu_hidden_ns)
    return waits if waits >= _UNSEEN * facts.step_ns else 0.0


def unseen(facts: Facts) -> Message | None:
    """The headline of a table that does not show what the host does with its time, or no such time; else None."""
    if facts.table is not None and _has_no_host(facts):
        time, busy = printed_communication(facts), facts.resources.gpu_ns or 0.0
        return _NO_HOST_COLLECTIVES(busy=busy, time=time) if time >= _MOSTLY * busy else _NO_HOST(time=busy)
    if facts.table is None or not unseen_waits(facts):
        return None
    busy = (facts.resources.gpu_ns or 0.0) / facts.step_ns
    return _UNKNOWN(step=facts.step_ns, busy=busy, hidden=facts.table.cpu_hidden_share)


def sign(view: RunView) -> str | None:
    """What shows that an accelerator took part: a call or an operator, else columns of times that are not its own."""
    rows = [row for row, kind in view.by_name if kind is RowKind.RUNTIME or is_of_accelerator(row.name)]
    if rows:
        return max(rows, key=lambda row: row.self_cpu_ns or 0).name
    has_times = any(row.device_total_ns or row.device_avg_ns for row, _ in view.by_name)
    return next((table.device for table in view.tables if table.device), None) if has_times else None
