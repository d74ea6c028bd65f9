"""Detects faults of memory: nearly full or hardly used, growing from step to step, taken again and again.

The rules are memory-near-limit, memory-headroom, memory-growth, alloc-churn, allocator-malloc-in-step and
cache-emptied-in-step. Those about snapshots of memory are in `snapshots` and `savings`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import fsum
from statistics import fmean, median
from typing import Any

from msgspec.structs import replace

from traceanalyzer.analyzers.launches import runtime_calls
from traceanalyzer.analyzers.memory import DeviceMemoryUse, MemoryUse
from traceanalyzer.analyzers.memory.cache_clears import CacheClears, clears_at
from traceanalyzer.analyzers.optimizer.kept_graphs import KeptGraphs
from traceanalyzer.rules.engine import idle_time, places, program
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.rules.memory import savings, snapshots
from traceanalyzer.structure.events import ITS_OWN, EventSet
from traceanalyzer.structure.host_activity import is_free

_NEAR_LIMIT = page("memory-near-limit")
_HEADROOM = page("memory-headroom")
_GROWTH = page("memory-growth")
_CHURN = page("alloc-churn")
_MALLOC = page("allocator-malloc-in-step")
_EMPTIED = page("cache-emptied-in-step")

_CPU = "CPU"
_TAKING = frozenset({"cudaMalloc", "hipMalloc", "cudaHostAlloc", "hipHostMalloc", "cudaMallocHost", "hipHostAlloc"})
"""Calls that take memory from the driver."""
_PREPARING = 0.6
"""Share of the idle time that host code outside of operators may have where a larger batch helps (own choice): what
prepares samples there takes longer for more of them."""
_RISING = 0.8
"""Share of the steps that must end above the one before (own choice: a sawtooth falls as often as it rises)."""
_SOON = 1000
"""Steps until the device is full that make the risk high (own choice: within an hour of most trainings)."""
_GROWING = 3
"""Steps that must evaluate more of earlier graphs than the one before to show that these are kept (graph-grows)."""
_HOLDERS = 2
"""Operators that are named as the ones whose memory is never freed (own choice)."""
_LEAST_ON_CPU = 1 << 20
"""Bytes per step (own choice): the peak of the host's memory is only of what was allocated during the recording."""
_CODE_SEGMENTS = 'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"  # before torch is imported'
_CODE_CACHED = 'os.environ.pop("PYTORCH_NO_CUDA_MEMORY_CACHING", None)  # before torch is imported'
_ALLOCATING = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
) | {"aten::resize_", "aten::resize_as_"}


_UNCACHED = 0.8
"""Calls that take memory per operator that allocates from which on no allocator keeps it (own choice: with one, most
operators get memory that was freed before)."""
_KEPT = 0.5
"""Least calls that free per call that takes memory, where each tensor is freed by itself (own choice)."""
_LEAST_STEPS = 2
"""Typical steps that must empty the cache (own choice: one may be the end of an epoch)."""


def _near_limit(facts: Facts, limits: Limits) -> Drafts:
    memory = facts.need("memory", MemoryUse)
    if program.serves(facts):
        raise Missing(_NEAR_LIMIT.text("on-purpose")())
    for device, peak, capacity in memory.with_peak():
        used = peak / capacity
        if used <= limits["used_share"]:
            continue
        subject = _NEAR_LIMIT.text("allocated")()
        evidence = _NEAR_LIMIT.evidence(limits, "used_share", used, _place(device, peak), subject=subject)
        params = {"device": device.device, "used": peak, "capacity": capacity, "share": used}
        advice = None if program.may_train(facts) else _NEAR_LIMIT.text("advice-inference")
        yield Draft((evidence,), params=params, severity="high", advice=advice)


def _headroom(facts: Facts, limits: Limits) -> Drafts:
    if program.serves(facts):
        raise Missing(_HEADROOM.text("serving")())
    memory, resources = facts.need("memory", MemoryUse), facts.need_step_resources()
    if resources.gpu_ns is None:
        raise Missing(_HEADROOM.text("no-gpu")())
    known = memory.with_peak()
    if not known:
        raise Missing(_HEADROOM.text("no-peak")())
    busy, loader = resources.gpu_ns / resources.step_ns, resources.exposed_loader_ns / resources.step_ns
    if facts.is_startup or busy >= limits["busy_share"] or loader > limits["loader_share"]:
        return
    if facts.idle_per_step("host_code") > _PREPARING * (1 - busy) * resources.step_ns:
        return
    for device, peak, capacity in known:
        used = peak / capacity
        if used >= limits["used_share"]:
            continue
        where = _place(device, peak)
        evidence = (
            _HEADROOM.evidence(limits, "used_share", used, where, subject=_HEADROOM.text("peak")()),
            _HEADROOM.evidence(limits, "busy_share", busy, subject=_HEADROOM.text("busy")()),
        )
        params = {
            "device": device.device,
            "peak": peak,
            "capacity": capacity,
            "used": used,
            "busy": busy,
            "idle": resources.step_ns * (1 - busy),
        }
        yield Draft(evidence, params=params, severity="info")


def _place(device: DeviceMemoryUse, size: int) -> tuple[CodePlace, ...]:
    return (CodePlace("memory", device.device, value=size, unit="bytes"),)


def _growth(facts: Facts, limits: Limits) -> Drafts:
    devices = facts.need("memory", MemoryUse).devices
    devices = tuple(device for device in devices if device.device != _CPU) or devices
    needed = max(2, int(limits["steps"]))  # fewer points make no line
    if all(len(device.steps) - 1 < needed for device in devices):
        raise Missing(_GROWTH.text("few-steps")(count=needed + 1))
    for device in devices:
        if len(device.steps) - 1 >= needed:
            kept = facts.find("kept_graphs", KeptGraphs)
            keeps_graphs = kept is not None and kept.growing_steps >= _GROWING
            yield from (_of_growth(device, draft, keeps_graphs=keeps_graphs) for draft in _growing(device, limits))


def _of_growth(device: DeviceMemoryUse, draft: Draft, *, keeps_graphs: bool) -> Draft:
    """With the operators whose memory is never freed; without the line that detaches where no graph is seen to grow."""
    held: Counter[str] = Counter()
    for block in device.at_peak.largest if device.at_peak else ():
        if block.freed_ns is None and block.operator is not None:
            held[block.operator] += block.size_bytes
    draft = replace(draft, code=None if keeps_graphs else "")
    if keeps_graphs or not held:
        return draft
    names = ", ".join(name for name, _ in held.most_common(_HOLDERS))
    return replace(draft, params={**draft.params, "operators": names}, advice=_GROWTH.text("advice-held"))


def _growing(device: DeviceMemoryUse, limits: Limits) -> Drafts:
    ends = [step.end_bytes for step in device.steps[1:]]
    slope = _slope(ends)
    held = _peak(device) if _is_relative(device) else median(ends)  # activations come and go; the rest stays
    if held <= 0 or slope / held <= limits["growth_share"] or not _mostly_rises(ends):
        return
    if device.device == _CPU and slope < _LEAST_ON_CPU:
        return
    evidence = _growth_seen(device, slope / held, limits)
    params = {"device": device.device, "growth": round(slope), "share": slope / held}
    if device.capacity_bytes is not None and not _is_relative(device):
        left = max(0, int((device.capacity_bytes - _peak(device)) / slope))
        severity = "high" if left < _SOON else "medium"
        summary = _GROWTH.text("summary-known-held")
        yield Draft((evidence,), params={**params, "left": left}, severity=severity, summary=summary)
        return
    yield Draft(
        (evidence,),
        params=params,
        severity="medium",
        summary=None if _is_relative(device) else _GROWTH.text("summary-held"),
        advice=_GROWTH.text("advice-cpu") if device.device == _CPU else None,
    )


def _growth_seen(device: DeviceMemoryUse, share: float, limits: Limits) -> Evidence:
    """The growth, with what the first and the last steps leave."""
    subject = _GROWTH.text("subject") if _is_relative(device) else _GROWTH.text("subject-held")
    shown = (*device.steps[1:3], *device.steps[1:][-3:])
    where = tuple(CodePlace("step", step.name, value=step.end_bytes, unit="bytes") for step in shown)
    return _GROWTH.evidence(limits, "growth_share", share, where, subject=subject())


def _is_relative(device: DeviceMemoryUse) -> bool:
    """Whether only changes since the start of the recording are known, not what was held before."""
    return device.device == _CPU or device.is_relative


def _peak(device: DeviceMemoryUse) -> int:
    """Most memory that the device had, in bytes: of the recording, else of the steps after the first."""
    return device.peak_allocated_bytes or max(step.peak_bytes for step in device.steps[1:])


def _mostly_rises(values: Sequence[int]) -> bool:
    """Whether most values are above the one before."""
    rises = [after > before for before, after in pairwise(values)]
    return sum(rises) >= _RISING * len(rises)


def _slope(values: Sequence[int]) -> float:
    """Slope of the least-squares line through the values, per position."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    spread = fsum((i - middle) ** 2 for i in range(len(values)))
    return fsum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread


def _churn(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.operators if row.name in _ALLOCATING and row.calls]
    evidence = (*_calling(facts, rows, limits), *_turnover(facts, limits))
    if not evidence or not rows:
        return
    host = facts.per_step(fsum(row.host_self_ns for row in rows))
    claims = {row.events: facts.per_step(row.host_self_ns) for row in rows}
    change = HostTime((0.0, host), _CHURN.text("basis")(), claims=claims)
    params = {
        "calls": round(facts.per_step(fsum(row.calls for row in rows))),
        "host": OfEvents(host),
        "share": OfEvents(host, is_share=True),
    }
    yield Draft(evidence, change, params, ceiling="low")


def _calling(facts: Facts, rows: Sequence[OperatorFact], limits: Limits) -> Iterator[Evidence]:
    """The host time of the calls that allocate, which is longer than usual where memory was recorded."""
    share = facts.step_share(facts.per_step(fsum(row.host_self_ns for row in rows)))
    if share > limits["host_share"] and facts.find("memory", MemoryUse) is None:
        longest = sorted(rows, key=lambda row: (-row.host_self_ns, row.name))[:5]
        times = ((row, facts.per_step(row.host_self_ns)) for row in longest)
        where = tuple(CodePlace("operator", row.name, value=time, unit="ns") for row, time in times)
        yield _CHURN.evidence(limits, "host_share", share, where, subject=_CHURN.text("host")())


def _turnover(facts: Facts, limits: Limits) -> Iterator[Evidence]:
    """Devices of which a step allocates far more memory than they ever hold."""
    memory = facts.find("memory", MemoryUse)
    for device in memory.devices if memory else ():
        peak = device.peak_allocated_bytes
        if device.device == _CPU or not peak or not device.steps:
            continue
        taken = fmean(step.allocated_bytes for step in device.steps)
        if taken / peak > limits["turnover"]:
            where = _place(device, round(taken))
            yield _CHURN.evidence(limits, "turnover", taken / peak, where, subject=_CHURN.text("turnover")())


def _malloc(facts: Facts, limits: Limits) -> Drafts:
    calls = facts.need("runtime_calls", runtime_calls.RuntimeCalls)
    usual = calls.usual_steps
    if not usual and any(row.kind == "allocation" for row in calls.rows):
        raise Missing(_MALLOC.text("one-step")())
    rows = [row for row in calls.rows if _recurs(row, usual) and row.usual_steps >= limits["steps_share"] * usual]
    times = [min(_per_step(row.recurring_ns, row, usual), row.usual_ns / usual) for row in rows]
    time = fsum(times)
    share = facts.step_share(time)
    if share <= limits["time_share"] or program.searches(facts) is not None:
        return  # a search takes workspaces of all sizes for what it tries out
    where = tuple(places.of_set_up(row, each) for row, each in zip(rows, times, strict=True))
    params = {
        "time": time,
        "all": OfEvents(time),
        "call": rows[0].name,
        "calls": fsum(_per_step(row.recurring_calls, row, usual) for row in rows),
    }
    is_uncached = _is_uncached(facts, rows, usual)
    yield Draft(
        (_MALLOC.evidence(limits, "time_share", share, where),),
        _without_calls(facts, rows, time, calls),
        params,
        ceiling="high",
        summary=_MALLOC.text("summary-uncached") if is_uncached else None,
        advice=_MALLOC.text("advice-uncached") if is_uncached else None,
        code=_CODE_CACHED if is_uncached else None,
    )


def _malloc_in_table(facts: Facts, limits: Limits) -> Drafts:
    """By calls that free: a start allocates, but gives nothing back."""
    printed = facts.view.by_name if facts.view else []
    rows = [row for row, _ in printed if row.name in _TAKING or is_free(row.name)]
    freed = sum(row.calls or 0 for row in rows if is_free(row.name))
    if freed < max(facts.steps, limits["frees"]):
        return
    time = facts.per_step(fsum(row.self_cpu_ns or 0 for row in rows))
    share = facts.step_share(time)
    if share <= limits["table_share"]:
        return
    where = places.of_rows(rows)
    call = max(rows, key=lambda row: row.self_cpu_ns or 0).name
    calls = max(1, round(facts.per_step(sum(row.calls or 0 for row in rows))))
    yield Draft(
        (_MALLOC.evidence(limits, "table_share", share, where, subject=_MALLOC.text("subject-table")()),),
        HostTime((0.0, time), _MALLOC.text("basis-table")(), claims={EventSet.idle("allocation"): time}),
        {"time": time, "call": call, "calls": calls, "share": share},
        ceiling="high",
        confidence="B",
        summary=_MALLOC.text("summary-table"),
    )


def _without_calls(
    facts: Facts, rows: Sequence[runtime_calls.SetUp], time: float, calls: runtime_calls.RuntimeCalls
) -> HostTime:
    """The time of the calls; beside a device, that and the idle time that they explain."""
    idle = _idle_ns(facts, time, calls)
    direct = (time, time) if idle is None else (min(time, idle), max(time, idle))
    exposed = None if idle is None else (min(time, idle), idle)
    at = runtime_calls.set_up_at(names=frozenset(row.name for row in rows))
    return HostTime(direct, _MALLOC.text("basis")(), exposed, {EventSet.idle("allocation"): direct[1]}, at=at)


def _is_uncached(facts: Facts, rows: Sequence[runtime_calls.SetUp], usual: int) -> bool:
    """Whether about every tensor is taken from the driver and given back: the caching allocator is switched off."""
    calls = [(row.name, _per_step(row.recurring_calls, row, usual)) for row in rows]
    taken = fsum(count for name, count in calls if "Malloc" in name and "Host" not in name)
    freed = fsum(count for name, count in calls if is_free(name))
    allocates = facts.per_step(sum(row.calls for row in if_known(lambda: facts.operators) if row.name in _ALLOCATING))
    clears = program.cache_clears(facts)
    if clears is not None and clears.frees_in_bursts:
        return False
    return taken >= _UNCACHED * allocates > 0 and freed >= _KEPT * taken


def _recurs(row: runtime_calls.SetUp, usual: int) -> bool:
    """Whether calls that allocate come in two usual steps, or in the only one and in the first recorded step."""
    if row.kind != "allocation":
        return False
    return row.usual_steps > 1 or (usual == row.usual_steps == 1 and row.calls > row.later_calls)


def _per_step(recurring: float, row: runtime_calls.SetUp, usual: int) -> float:
    """What a step has on average of what comes back in the steps that have any."""
    return recurring * row.usual_steps / usual


def _idle_ns(facts: Facts, time: float, calls: runtime_calls.RuntimeCalls) -> float | None:
    """The GPU's idle time per step that the calls that come back explain, in proportion; None if unknown."""
    idle = idle_time.per_later_step(facts, "allocation")
    every = calls.allocating_ns
    return idle if idle is None or not every else idle * min(1.0, time / every)


def _cache_emptied(facts: Facts, limits: Limits) -> Drafts:
    clears = facts.need("cache_clears", CacheClears)
    if clears.steps < _LEAST_STEPS:
        raise Missing(_EMPTIED.text("few-steps")())
    if clears.cleared_steps < max(_LEAST_STEPS, limits["steps_share"] * clears.steps):
        return
    if not clears.by_frames and (not clears.takes_again or _takes_each_tensor(facts, clears)):
        return
    clearing, taking = facts.per_step(clears.time_ns), facts.per_step(clears.taking_ns)
    share = facts.step_share(clearing + taking)
    if share <= limits["time_share"]:
        return
    lines = [("python", line.name, line.time_ns) for line in clears.lines] or [("call", "cudaFree", clears.time_ns)]
    where = tuple(CodePlace(kind, name, None, facts.per_step(ns), "ns") for kind, name, ns in lines)
    yield Draft(
        (_EMPTIED.evidence(limits, "time_share", share, where),),
        _without_clears(0.0 if clears.is_of_allocator else clearing, clearing + taking),
        {
            "clears": facts.per_step(clears.clears),
            "frees": facts.per_step(clears.frees),
            "clearing": clearing,
            "taking": taking,
            "share": OfEvents(clearing + taking, is_share=True),
        },
        ceiling="high",
        **_emptied_by(clears),
    )


def _emptied_by(clears: CacheClears) -> dict[str, Any]:
    """The words of a finding: the program's line, a guess, or the allocator, which alone frees in a backward pass."""
    if clears.by_frames:
        return {}
    if not clears.is_of_allocator:
        return {"confidence": "C", "summary": _EMPTIED.text("summary-unnamed")}
    return {
        "confidence": "B",
        "title": _EMPTIED.text("title-allocator"),
        "summary": _EMPTIED.text("summary-allocator"),
        "advice": _EMPTIED.text("advice-allocator"),
        "code": _CODE_SEGMENTS,
    }


def _takes_each_tensor(facts: Facts, clears: CacheClears) -> bool:
    """Whether about every tensor is taken from the driver and freed by itself: there is no cache to empty."""
    if clears.frees_in_bursts:
        return False
    allocates = sum(row.calls for row in if_known(lambda: facts.operators) if row.name in _ALLOCATING)
    return clears.takes >= _UNCACHED * allocates > 0


def _without_clears(least: float, most: float) -> HostTime:
    """The time of the clearings, and at most also of taking memory again, of which the device waits for a part."""
    claims = {EventSet.idle("allocation"): most}
    return HostTime((least, most), _EMPTIED.text("basis")(), None, claims, within=clears_at(), device=ITS_OWN)


RULES = (
    _NEAR_LIMIT.rule(trace=_near_limit),
    _HEADROOM.rule(trace=_headroom),
    _GROWTH.rule(trace=_growth),
    _CHURN.rule(trace=_churn, table=_churn),
    _MALLOC.rule(trace=_malloc, table=_malloc_in_table),
    _EMPTIED.rule(trace=_cache_emptied),
    *snapshots.RULES,
    *savings.RULES,
)
