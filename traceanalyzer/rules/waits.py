"""Detects waits that need not be, most of them of the host for a device.

The host waits to read values (sync-item-frequent), to learn the size of a result (sync-dynamic-shape), for a whole
device (sync-device-wide), or so often that launches stand between waits (sync-between-launches). distribution-checks
are reads that check the parameters of probability distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from traceanalyzer.analyzers.idle.step_idle import AFTER_WAITS, waits_at
from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.analyzers.waits.device_wide import DeviceSync, DeviceSyncs, is_device_wide
from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks, checks_at
from traceanalyzer.analyzers.waits.value_reads import ValueReads, value_runs_at
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import avoidable_waits, host_work, idle_time, program
from traceanalyzer.rules.engine.change import HostTime, Interval, WaitsGone
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN, WAITS, EventSet
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.typical import mean

_ITEM = page("sync-item-frequent")
_DYNAMIC_SHAPE = page("sync-dynamic-shape")
_DEVICE_WIDE = page("sync-device-wide")
_BETWEEN_LAUNCHES = page("sync-between-launches")
_CHECKS = page("distribution-checks")

_ENVIRONMENT = Text(
    "environment-advice",
    "The actions that the environment needs must be read. Read those of many environments at once (a vector "
    "environment and one call of tolist() or numpy()), and leave losses and statistics in tensors until the rollout "
    "ends.",
    note="tolist() and numpy() are code; rollout: steps of the environment between two updates of the policy",
)
"""What programs do instead that step an environment of reinforcement learning, which needs actions as numbers."""
_READING = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"})
_OWN_BESIDE = 0.5
"""Part of the Python code directly before and after readings that belongs to them at most: iterating over what is read,
and storing the values (measured in the lab)."""
_SCALER = "aten::_amp_foreach_non_finite_check_and_unscale_"
"""What AMP's gradient scaler calls before it reads whether the gradients are finite."""
_KEPT_ON_CPU = 0.9
"""Own choice: one operator on all values and one reading remain of a run."""
_CODE_CPU = "hits = (logits.argmax(1) == targets).sum()  # and hits.item() every hundred steps"
_SIZED = frozenset(
    {
        "aten::nonzero",
        "aten::nonzero_numpy",
        "aten::argwhere",
        "aten::masked_select",
        "aten::_unique",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::unique_dim_consecutive",
        "aten::repeat_interleave",
        "aten::bincount",
    }
)
"""Operators that wait for the size of their result. A boolean index is an `aten::index` with `aten::nonzero` inside."""
_LEAST, _MOST = 0.5, 2.0
"""Own choice: recording frames takes up to half of the time of code that consists of short functions."""


def _steps_environment(facts: Facts) -> bool:
    """Whether Python frames show that an environment of reinforcement learning is stepped."""
    checks = facts.find("distribution_checks", DistributionChecks)
    return checks is not None and checks.environment is not None


def _waits(facts: Facts) -> Synchronizations:
    """The waits of the host for devices.

    Raises:
        Missing: There are none, or no device shows what they cost.
    """
    waits = facts.need("synchronizations", Synchronizations)
    if waits.avoidable_ns is None:
        raise Missing(avoidable_waits.NO_DEVICE())
    return waits


def _item_in_trace(facts: Facts, limits: Limits) -> Drafts:
    runs = facts.find("value_reads", ValueReads)
    if facts.resources.gpu_ns is None and runs is not None:
        host_work.need_cpu_steps(facts)
        yield from _runs(facts, runs, mean(runs.time_ns, runs.steps), limits["host_share"])
        return
    rows = [row for row in _waits(facts).rows if _READING & set(row.operators)]
    reads: dict[tuple[tuple[str, ...], str | None], float] = {}
    for row in rows:  # one read may be a copy that waits and a wait for it
        place = row.operators, row.python_line
        reads[place] = max(reads.get(place, 0.0), row.calls_per_step or 0.0)
    calls = fsum(reads.values())
    if not calls:
        return
    part = max(0.0, calls - _scaler_calls(facts)) / calls
    gain = part * avoidable_waits.avoidable_per_step(facts, fsum(row.avoidable_ns or 0 for row in rows))
    idle = 0.0 if runs is None else mean(runs.idle_ns or 0, runs.steps)
    if runs is not None and idle > max(gain, limits["host_share"] * facts.step_ns):
        yield from _runs(facts, runs, idle, limits["host_share"])
        return
    share, often, where = gain / facts.step_ns, limits["calls_per_step"], tuple(map(avoidable_waits.place, rows))
    evidence = []
    if share > limits["gain_share"]:
        evidence.append(Evidence(avoidable_waits.SUBJECT(), share, limits["gain_share"], "share", where))
    if part * calls >= often:
        evidence.append(Evidence(_ITEM.text("calls")(), part * calls, often, "number", where))
    if not evidence:
        return
    claims = {EventSet.operator("aten::item"): gain, WAITS: gain}
    change = avoidable_waits.change(gain, claims)
    advice = None if program.may_train(facts) else _ITEM.text("advice-inference")
    if _steps_environment(facts):
        change = WaitsGone((0.0, gain), _ITEM.text("basis-environment")(), (0.0, gain), claims)
        advice = _ENVIRONMENT
    params = {"calls": part * calls, "gain": OfEvents(gain), "step": facts.step_ns}
    yield Draft(tuple(evidence), change, params, ceiling="high", advice=advice)


def _runs(facts: Facts, reads: ValueReads, certain: float, limit: float) -> Drafts:
    """Runs of readings; `certain` is their time per step in ns, beside a device that in which it has nothing to do.

    With runs beside a device goes what they launch.
    """
    time, share, beside = mean(reads.time_ns, reads.steps), certain / facts.step_ns, facts.resources.gpu_ns is not None
    if share <= limit:
        return
    least = _KEPT_ON_CPU * host_work.without_recording(facts, certain, mean(reads.operators, reads.steps))
    most = time + mean(_OWN_BESIDE * reads.beside_ns, reads.steps)
    most = min(most, facts.step_ns) if beside else host_work.most(facts, most)
    basis = (_ITEM.text("basis-runs-idle") if beside else _ITEM.text("basis-runs-beside"))(least=_KEPT_ON_CPU)
    advice, code = _ITEM.text("advice-cpu"), _CODE_CPU
    if _steps_environment(facts):
        least, basis, advice, code = 0.0, _ITEM.text("basis-environment")(), _ENVIRONMENT, ""
    subject = _ITEM.text("runs-idle") if beside else _ITEM.text("runs")
    where = tuple(host_work.place(row, reads.steps) for row in reads.lines)
    params = {"calls": mean(reads.readings, reads.steps), "time": OfEvents(time), "step": facts.step_ns}
    yield Draft(
        (Evidence(subject(), share, limit, "share", where),),
        _without_reads((least, most), basis, beside_device=beside),
        params | ({"idle": certain} if beside else {}),
        ceiling="high",
        confidence=None if beside else "B",
        summary=_ITEM.text("summary-runs-idle") if beside else _ITEM.text("summary-cpu"),
        advice=advice,
        code=code,
    )


def _without_reads(saved: Interval, basis: Message, *, beside_device: bool) -> HostTime:
    """The time in which the program reads values; beside a device, what it launches meanwhile goes with it."""
    reads = value_runs_at(prints=False)
    if beside_device:
        return HostTime(saved, basis, saved, within=reads, device=ITS_OWN)
    return HostTime(saved, basis, saved, at=reads)


def _scaler_calls(facts: Facts) -> float:
    """Checks of AMP's gradient scaler per step."""
    operators = facts.find("operators", Operators)
    return facts.per_step(sum(row.calls for row in operators.rows if row.name == _SCALER)) if operators else 0.0


def _item_in_table(facts: Facts, limits: Limits) -> Drafts:
    if not facts.resources.gpu_ns:
        raise Missing(avoidable_waits.NO_DEVICE())
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(avoidable_waits.NO_STEPS())
    for name in ("aten::item", "aten::_local_scalar_dense"):  # the second lies within the first
        rows = [row for row in facts.operators if row.name == name]
        calls = facts.per_step(fsum(row.calls for row in rows))
        if rows:
            break
    if not rows or calls < limits["calls_per_step"]:
        return
    time = facts.per_step(fsum(row.host_total_ns for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_ITEM.text("calls")(), calls, limits["calls_per_step"], "number", where)
    change = avoidable_waits.printed_change(facts, time, {EventSet.operator("aten::item"): time})
    params, summary = {"calls": calls, "time": time}, _ITEM.text("summary-table")
    yield Draft((evidence,), change, params, ceiling="medium", confidence="C", summary=summary)


def _dynamic_shape_in_trace(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in _waits(facts).rows if _SIZED & set(row.operators)]
    gain = avoidable_waits.avoidable_per_step(facts, fsum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["gain_share"]:
        return
    where = tuple(map(avoidable_waits.place, rows))
    evidence = Evidence(avoidable_waits.SUBJECT(), share, limits["gain_share"], "share", where)
    outermost = next(name for name in rows[0].operators if name in _SIZED)
    change = avoidable_waits.change(gain, {EventSet.operator(outermost): gain, WAITS: gain})
    calls = fsum(row.calls_per_step or 0.0 for row in rows)
    params = {"calls": calls, "gain": OfEvents(gain), "step": facts.step_ns, "operator": outermost}
    yield Draft((evidence,), change, params, ceiling="medium")


def _device_wide_in_trace(facts: Facts, limits: Limits) -> Drafts:
    rows = facts.need("device_syncs", DeviceSyncs).rows
    if any(row.avoidable_ns is None for row in rows):
        raise Missing(avoidable_waits.NO_DEVICE())
    calls = facts.per_step(fsum(row.calls for row in rows))
    gain = avoidable_waits.avoidable_per_step(facts, fsum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if share <= limits["gain_share"] or calls < limits["calls_per_step"]:
        return
    where = tuple(map(_device_wide_place, rows))
    evidence = Evidence(avoidable_waits.SUBJECT(), share, limits["gain_share"], "share", where)
    change = avoidable_waits.change(gain, {WAITS: gain})
    params = {"calls": calls, "gain": OfEvents(gain), "step": facts.step_ns}
    yield Draft((evidence,), change, params, ceiling="high")


def _device_wide_place(row: DeviceSync) -> CodePlace:
    if row.owner is not None:
        return avoidable_waits.owned(row.owner, row.call, row.avoidable_ns, row.longest_start_ns)
    return at_line(row.python_line, "call", row.call, row.avoidable_ns, row.longest_start_ns)


def _device_wide_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.rows(RowKind.RUNTIME) if is_device_wide(row.name)]
    if not rows:
        return
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(avoidable_waits.NO_STEPS())
    calls = facts.per_step(sum(row.calls or 0 for row in rows) - 1)  # one is the profiler's own
    time = facts.per_step(fsum(row.self_cpu_ns or 0 for row in rows))
    if calls < limits["calls_per_step"] or time <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_DEVICE_WIDE.text("calls")(), calls, limits["calls_per_step"], "number", where)
    change = avoidable_waits.printed_change(facts, time, {WAITS: time})
    params, summary = {"calls": calls, "time": time}, _DEVICE_WIDE.text("summary-table")
    yield Draft((evidence,), change, params, ceiling="medium", confidence="C", summary=summary)


def _between_launches_in_trace(facts: Facts, limits: Limits) -> Drafts:
    idle = idle_time.enough(facts, limits["events"])
    device = idle_time.busiest(facts, idle)
    waits = facts.need("synchronizations", Synchronizations)
    if device is None or not device.time_ns or not idle_time.waits_again_and_again(idle, device):
        return
    names = [CAUSES[cause] for cause in AFTER_WAITS]
    time = mean(sum(row.after_waits_ns for row in device.causes if row.cause in names), idle.steps)
    share = time / facts.step_ns
    rows = [row for row in waits.rows if row.operators]
    if share <= limits["gap_share"] or not rows:
        return
    where = _most_frequent(rows)
    evidence = Evidence(_BETWEEN_LAUNCHES.text("subject")(), share, limits["gap_share"], "share", where)
    claims = {EventSet.operator(row.operators[-1]): time for row in rows} | {WAITS: time}
    basis, replayed = _BETWEEN_LAUNCHES.text("basis")(), _BETWEEN_LAUNCHES.text("replayed")()
    change = WaitsGone((0.0, time), basis, (0.0, time), claims, waits_at(), replayed)
    params = {
        "waits": mean(idle.waits_apart or idle.waits, idle.steps),
        "launches": mean(device.events, idle.steps),
        "time": OfEvents(time),
    }
    advice = _ENVIRONMENT if _steps_environment(facts) else None
    yield Draft((evidence,), change, params, ceiling="high", advice=advice)


def _most_frequent(rows: Sequence[Synchronization]) -> tuple[CodePlace, ...]:
    """The operators, owners or lines that wait, with the number of waits per step, the most frequent first."""
    counts: dict[tuple[str, str], float] = {}
    for row in rows:
        place = ("python", row.python_line) if row.python_line is not None else ("operator", " > ".join(row.operators))
        counts[place] = counts.get(place, 0.0) + (row.calls_per_step or 0.0)
    order = sorted((place for place in counts if counts[place]), key=lambda place: (-counts[place], place))
    return tuple(CodePlace(kind, name, value=counts[kind, name], unit="count") for kind, name in order)


def _checks_in_trace(facts: Facts, limits: Limits) -> Drafts:
    checks = facts.need("distribution_checks", DistributionChecks)
    steps = max(1, checks.steps)
    calls, time = mean(checks.checks, steps), mean(checks.time_ns, steps)
    where = tuple(CodePlace("python", row.name, value=row.checks, unit="count") for row in checks.lines) or (
        CodePlace("operator", "aten::_is_all_true", value=checks.checks, unit="count"),
    )
    params = {"calls": calls, "time": OfEvents(time), "step": facts.step_ns}
    if facts.resources.gpu_ns is not None:
        if calls >= limits["calls_per_step"]:
            often = Evidence(_CHECKS.text("calls")(), calls, limits["calls_per_step"], "number", where)
            confidence, summary = "A" if checks.by_frames else "B", _CHECKS.text("summary-gpu")
            yield Draft((often,), params=params, severity="low", confidence=confidence, summary=summary)
        return
    if not checks.by_frames:
        raise Missing(_CHECKS.text("no-frames")())
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    host_work.need_cpu_steps(facts)
    least = _LEAST * host_work.without_recording(facts, time, mean(checks.operators, checks.steps))
    interval = (least, min(_MOST * time, facts.step_ns))
    change = HostTime(interval, _CHECKS.text("basis")(), interval, at=checks_at())
    evidence = Evidence(_CHECKS.text("share")(), share, limits["host_share"], "share", where)
    yield Draft((evidence,), change, params, ceiling="medium")


RULES = (
    _ITEM.rule(trace=_item_in_trace, table=_item_in_table),
    _DYNAMIC_SHAPE.rule(trace=_dynamic_shape_in_trace),
    _DEVICE_WIDE.rule(trace=_device_wide_in_trace, table=_device_wide_in_table),
    _BETWEEN_LAUNCHES.rule(trace=_between_launches_in_trace),
    _CHECKS.rule(trace=_checks_in_trace),
)
