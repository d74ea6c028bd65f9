"""Detects copies that need not be, or that hold the program up.

The rules here are about copies to devices and back: h2d-pageable, h2d-blocking, copies-exposed and
tensor-created-on-cpu. Those about copies within one memory are in `within_memory`, and in `keys` where attention needs
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers import copies
from traceanalyzer.analyzers.copies import host_tensors
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.rules.copies import within_memory
from traceanalyzer.rules.engine import avoidable_waits, program
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, summed
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN, EventSet
from traceanalyzer.structure.recording import Recording
from traceanalyzer.trace.document import TableRow

_PAGEABLE = page("h2d-pageable")
_BLOCKING = page("h2d-blocking")
_EXPOSED = page("copies-exposed")
_CREATED = page("tensor-created-on-cpu")

_OF_SLOT = 0.86
"""Share of a PCIe slot's bandwidth that pinned copies reach in practice (55 of 64 GB/s over PCIe 5: 54 on an H200)."""
_SLOW_SLOT = 12.0
"""GB/s of pinned copies over PCIe 3 x16 in practice, the slowest slot that is common: a card may be in an older one."""
_TWICE, _SURELY = 2, 0.8
"""So many times what a step copies must fit into the GPU's memory, beside activations, for that part of the copies to
go away for sure (own choice: inputs remain)."""
_CODE_PINNED = "x = x.pin_memory().to('cuda', non_blocking=True)  # or make it there: device='cuda'"
_SYNCHRONIZE = frozenset({"cudaStreamSynchronize", "hipStreamSynchronize"})
_AGAIN = 2
"""Steps without marks of the profiler in which something is seen to come again."""
_LAUNCH_NS = 20_000
"""Host time of an operator that launches one kernel, in eager mode on a common CPU."""
_TO_DEVICE = re.compile(r"HtoD|Host-to-Device", re.IGNORECASE)
"""Names of copies to a device, as nvprof and Nsight Systems print them."""
_MUCH, _MOST = 0.05, 0.5
"""Shares of the device's time from which on such copies are worth a finding, and one of medium severity (own
choice)."""
_NO_MEMORY = Text(
    "copies-no-host-memory",
    "the trace does not show whether copies come from pageable or pinned memory (only CUDA records it)",
)


def _host_to_device_copies(facts: Facts) -> list[copies.Copy]:
    """Select the copies that go from the host to a device.

    Raises:
        Missing: There are such copies, but none says which kind of host memory it reads.
    """
    rows = [row for row in facts.need("copies", copies.Copies).rows if row.kind == "HtoD"]
    if rows and all(row.host_memory is None for row in rows):
        raise Missing(_NO_MEMORY())
    return rows


def _printed_copies(facts: Facts, memory: str) -> list[TableRow]:
    """The rows of a table about copies to a device from one kind of host memory."""
    return [row for row in facts.rows(RowKind.COPY) if "HtoD" in row.name and memory in row.name]


def _pageable_in_trace(facts: Facts, limits: Limits) -> Drafts:
    from_host = _host_to_device_copies(facts)
    rows = [row for row in from_host if row.host_memory == "pageable" and row.calls > row.small_calls]
    exposed = facts.on_device(fsum(row.exposed_ns for row in rows))
    share = facts.step_share(exposed)
    if not rows or share <= limits["copy_share"]:
        return
    pinned = _fastest(row for row in from_host if row.host_memory == "pinned")
    where = tuple(CodePlace("copy", row.name, value=facts.per_step(row.time_ns), unit="ns") for row in rows)
    params = {
        "time": OfEvents(exposed),
        "share": OfEvents(exposed, is_share=True),
        "bytes": facts.per_step(_bytes(rows)),
    }
    advice = None if program.has_loader(facts) else _PAGEABLE.text("advice-own")
    if program.all_pinned(facts):
        advice = _PAGEABLE.text("advice-pinned")
    draft = Draft(
        (_PAGEABLE.evidence(limits, "copy_share", share, where),),
        _from_pinned_memory(facts, rows, exposed, pinned),
        params,
        ceiling="medium",
        confidence="A" if pinned else "B",
        advice=advice,
        code=_CODE_PINNED if advice else None,
    )
    yield _of_weights(facts, draft, rows, exposed) if program.copies_weights(facts) else draft


def _of_weights(facts: Facts, draft: Draft, rows: Sequence[copies.Copy], exposed: float) -> Draft:
    """The draft about weights of a model that is kept on the CPU: no copies at best, else pinned memory.

    Where twice what a step copies fits into the GPU's memory, most of the copies go away for sure.
    """
    least, time = draft.change.direct[0] if draft.change else 0.0, fsum(row.time_ns for row in rows)
    claims = {row.events: exposed * row.time_ns / time for row in rows}
    memory = min((device.memory_bytes or 0 for device in facts.summary.devices), default=0) if facts.summary else 0
    basis = _PAGEABLE.text("basis-weights")()
    if memory > _TWICE * facts.per_step(_bytes(rows)):
        least, basis = max(least, _SURELY * exposed), _PAGEABLE.text("basis-fit")(least=_SURELY, memory=memory)
    change = DeviceWork((least, exposed), basis, (least, exposed), claims)
    summary, advice = _PAGEABLE.text("summary-weights"), _PAGEABLE.text("advice-weights")
    return replace(draft, change=change, ceiling=None, summary=summary, advice=advice, code="")


def _from_pinned_memory(facts: Facts, rows: Sequence[copies.Copy], exposed: float, pinned: float) -> DeviceWork:
    """The copies as fast as pinned ones of the recording, else as fast as the GPU's slot allows at least and at most.

    What the next kernel needs still crosses the bus, so the copies keep that time; waits for them may go.
    """
    slow, fast = (pinned, pinned) if pinned else _bus(facts)
    least = max(0.0, exposed - facts.on_device(_bytes(rows) / slow))
    most = max(0.0, exposed - facts.on_device(_bytes(rows) / fast))
    most += facts.per_step(fsum(row.avoidable_ns or 0 for row in rows))
    time = fsum(row.time_ns for row in rows)
    basis = _PAGEABLE.text("basis")(bandwidth=slow) if pinned else _PAGEABLE.text("basis-2")(least=slow, most=fast)
    claims = {row.events: most * row.time_ns / time for row in rows}
    kept = {row.events: min(1.0, (row.bytes or 0) / fast / row.time_ns) for row in rows if row.time_ns}
    return DeviceWork((least, most), basis, (least, most), claims, kept=kept)


def _bus(facts: Facts) -> tuple[float, float]:
    """GB/s of pinned copies at least and at most: by the GPU's slot; where that is unknown, by the fastest copy."""
    recorded = facts.need("copies", copies.Copies).rows
    fastest = _fastest(row for row in recorded if row.host_memory is not None)
    slot = facts.gpu.bus * _OF_SLOT if facts.gpu and facts.gpu.bus else None
    if slot is None:
        return fastest or _SLOW_SLOT, max(fastest, _SLOW_SLOT)
    return max(fastest, min(slot, _SLOW_SLOT)), max(fastest, slot)


def _fastest(rows: Iterable[copies.Copy]) -> float:
    """Greatest bandwidth of the copies in GB/s; 0 if there are none."""
    return max((row.max_bandwidth_gb_per_s or 0 for row in rows), default=0)


def _bytes(rows: Iterable[copies.Copy]) -> int:
    return sum(row.bytes or 0 for row in rows)


def _of_tool(facts: Facts, limits: Limits) -> Drafts:
    """Copies to the device in a table of another tool, which does not say what memory they read."""
    rows = [row for row in facts.rows(RowKind.COPY) if _TO_DEVICE.search(row.name)]
    large = [row for row in rows if row.self_device_ns and row.self_device_ns > limits["call_ns"] * (row.calls or 1)]
    time = fsum(row.self_device_ns or 0 for row in large)
    share = time / facts.table.device_ns if facts.table and facts.table.device_ns else 0.0
    if share <= _MUCH:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_device_ns, unit="ns") for row in large)
    yield Draft(
        (_PAGEABLE.evidence(limits, "copy_share", share, where, subject=_PAGEABLE.text("subject-tool")()),),
        None,
        {"time": time, "share": share},
        severity="medium" if share >= _MOST else "low",
        confidence="C",
        title=_PAGEABLE.text("title-tool"),
        summary=_PAGEABLE.text("summary-tool"),
        advice=_PAGEABLE.text("advice-tool"),
    )


def _pageable_in_table(facts: Facts, limits: Limits) -> Drafts:
    if facts.table is not None and facts.table.tool is not None:
        yield from _of_tool(facts, limits)
        return
    rows = _printed_copies(facts, "Pageable")
    large = [row for row in rows if row.self_device_ns and row.self_device_ns > limits["call_ns"] * (row.calls or 1)]
    time = facts.on_device(fsum(row.self_device_ns or 0 for row in large))
    share = time / facts.step_ns
    if share <= limits["copy_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_device_ns, unit="ns") for row in large)
    subject = _PAGEABLE.text("subject-table")()
    claims = {EventSet.copies(row.name): facts.on_device(row.self_device_ns or 0) for row in large}
    yield Draft(
        (_PAGEABLE.evidence(limits, "copy_share", share, where, subject=subject),),
        _held_up(facts)((0.0, time), _PAGEABLE.text("basis-table")(), claims=claims),
        {"time": time, "share": share},
        ceiling="medium",
        confidence="B",
        summary=_PAGEABLE.text("summary-table"),
    )


def _held_up(facts: Facts) -> type[HostTime | DeviceWork]:
    """Whose time is saved: such a copy takes time of the device and of the host; the longer one counts."""
    step = facts.resources
    return HostTime if (step.host_ns or 0) + (step.loader_ns or 0) > (step.gpu_ns or 0) else DeviceWork


def _blocking_in_trace(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in _host_to_device_copies(facts) if row.host_memory == "pinned" and row.synchronized_calls]
    avoidable = avoidable_waits.avoidable_per_step(facts, fsum(row.avoidable_ns or 0 for row in rows))
    share = facts.step_share(avoidable)
    if not rows or share <= limits["gain_share"]:
        return
    claims = {row.events: facts.per_step(row.avoidable_ns or 0) for row in rows}
    where = _callers(facts) or _copies_that_wait(facts, rows)
    params = {
        "calls": facts.per_step(sum(row.synchronized_calls or 0 for row in rows)),
        "wait": facts.per_step(fsum(row.synchronized_ns or 0 for row in rows)),
        "gain": OfEvents(avoidable),
    }
    evidence = _BLOCKING.evidence(limits, "gain_share", share, where, subject=avoidable_waits.SUBJECT())
    yield Draft((evidence,), avoidable_waits.change(avoidable, claims), params, ceiling="medium")


def _callers(facts: Facts) -> tuple[CodePlace, ...]:
    """The parts of the program that wait for streams in copying operators, those first that could save most."""
    waits = facts.find("synchronizations", Synchronizations)
    rows = [row for row in waits.rows if row.owner and row.call in _SYNCHRONIZE and row.avoidable_ns] if waits else []
    rows = [row for row in rows if "aten::copy_" in row.operators]
    rows.sort(key=lambda row: -(row.avoidable_ns or 0))
    return tuple(map(avoidable_waits.place, rows[:5]))


def _copies_that_wait(facts: Facts, rows: Sequence[copies.Copy]) -> tuple[CodePlace, ...]:
    """The copies with the time that each makes the host wait although it need not."""
    times = {row.name: facts.per_step(row.avoidable_ns or 0) for row in rows}
    return tuple(CodePlace("copy", name, value=time, unit="ns") for name, time in times.items())


def _blocking_in_table(facts: Facts, limits: Limits) -> Drafts:
    pinned = [row for row in _printed_copies(facts, "Pinned") if row.calls]
    waits = [row for row in facts.rows(RowKind.RUNTIME) if row.name in _SYNCHRONIZE and row.calls]
    copied = _calls(pinned)
    waited = _calls(waits)
    if not copied or not _wait_for_copies(waited, copied, limits["waits_per_copy"]):
        return
    wait = facts.per_step(fsum(row.self_cpu_ns or 0 for row in waits))
    if wait <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in (*waits, *pinned))
    subject = _BLOCKING.text("subject-table")()
    claims = {EventSet.copies(row.name): wait * (row.calls or 0) / copied for row in pinned}
    yield Draft(
        (_BLOCKING.evidence(limits, "waits_per_copy", waited / copied, where, subject=subject),),
        avoidable_waits.printed_change(facts, wait, claims),
        {"calls": facts.per_step(waited), "wait": wait},
        ceiling="medium",
        confidence="B",
        summary=_BLOCKING.text("summary-table"),
    )


def _wait_for_copies(waited: int, copied: int, lowest: float) -> bool:
    """Whether about each copy is waited for: there are at least so many waits for a copy, and not far more."""
    return lowest < waited / copied and lowest * waited < copied


def _calls(rows: Sequence[TableRow]) -> int:
    return sum(row.calls or 0 for row in rows)


def _exposed_in_trace(facts: Facts, limits: Limits) -> Drafts:
    """A finding for each direction in which the device only copies for much of each step."""
    recorded = facts.need("copies", copies.Copies).rows
    rows = [
        row for row in recorded if 2 * (row.calls - row.small_calls) >= facts.steps
    ]  # one may start before its step
    yield from _only_copied(facts, limits, [row for row in rows if row.kind == "DtoH"])
    to_device = [row for row in rows if row.kind == "HtoD" and row.host_memory == "pinned"]
    for draft in _only_copied(facts, limits, to_device):
        summary, advice = _EXPOSED.text("summary-to-device"), _EXPOSED.text("advice-to-device")
        yield replace(draft, summary=summary, advice=advice, code="")


def _only_copied(facts: Facts, limits: Limits, rows: Sequence[copies.Copy]) -> Drafts:
    """What these copies take while no kernel runs, if that is much; without small ones."""
    large = {row: max(0.0, row.exposed_ns - limits["small_ns"] * row.small_calls) for row in rows if row.bytes}
    total = fsum(large.values())
    exposed = min(facts.per_step(total), facts.need_step_resources().only_copies_ns or 0.0)
    share = facts.step_share(exposed)
    if share <= limits["step_share"]:
        return
    if not _comes_again(facts):
        raise Missing(_EXPOSED.text("no-steps")())
    claims = {row.events: exposed * ns / total for row, ns in large.items() if ns}
    where = tuple(CodePlace("copy", events.name, value=ns, unit="ns") for events, ns in claims.items())
    yield Draft(
        (_EXPOSED.evidence(limits, "step_share", share, where),),
        DeviceWork((0.0, exposed), _EXPOSED.text("basis")(), (0.0, exposed), claims, is_awaited=True),
        {"bytes": facts.per_step(_bytes(rows)), "time": exposed, "share": share},
        ceiling="high",
    )


def _comes_again(facts: Facts) -> bool:
    """Whether what is in each step comes again: there are several steps, or the profiler marked the one."""
    return facts.steps >= _AGAIN or _steps_from(facts) == "ProfilerStep"


def _created_in_trace(facts: Facts, limits: Limits) -> Drafts:
    origins = facts.need("host_origins", host_tensors.HostOrigins).rows
    if origins and not _comes_again(facts):
        raise Missing(_CREATED.text("no-steps")())
    often = limits["calls_per_step"] * facts.steps
    rows = tuple(row for row in origins if row.calls >= often and 2 * row.steps >= facts.steps)
    time = facts.per_step(fsum(row.making_ns + row.moving_ns for row in rows))
    if not rows or time / facts.step_ns <= limits["host_share"]:
        return
    where = tuple(_origin(row, facts.per_step(row.making_ns + row.moving_ns)) for row in rows)
    calls = facts.per_step(fsum(row.calls for row in rows))
    params = {
        "calls": calls,
        "time": OfEvents(time),
        "share": OfEvents(time, is_share=True),
        "operator": rows[0].operator,
    }
    idle = min(facts.per_step(sum(row.making_ns for row in rows)), facts.idle_per_step("cpu_operators"))
    claims = summed((row.events, facts.per_step(row.making_ns + row.moving_ns)) for row in rows)
    change = HostTime(
        (max(0.0, time - calls * _LAUNCH_NS), time),
        _CREATED.text("basis")(launch=_LAUNCH_NS),
        claims=claims | ({EventSet.idle("cpu_operators"): idle} if idle else {}),
        within=host_tensors.tensors_at(rows=rows),
        device=ITS_OWN,
    )
    yield Draft((_CREATED.evidence(limits, "host_share", time / facts.step_ns, where),), change, params)


def _steps_from(facts: Facts) -> str | None:
    """What shows the steps of the program; None where nothing does."""
    recording = facts.find("recording", Recording)
    return recording.steps_from if recording else None


def _origin(row: host_tensors.HostOrigin, time_ns: float) -> CodePlace:
    kind, name = ("operator", row.operator) if row.python_line is None else ("python", row.python_line)
    return CodePlace(kind, name, row.shapes, time_ns, "ns", row.first_start_ns)


RULES = (
    _PAGEABLE.rule(trace=_pageable_in_trace, table=_pageable_in_table),
    _BLOCKING.rule(trace=_blocking_in_trace, table=_blocking_in_table),
    _EXPOSED.rule(trace=_exposed_in_trace),
    _CREATED.rule(trace=_created_in_trace),
    *within_memory.RULES,
)
