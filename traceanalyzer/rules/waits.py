"""Detects waits that need not be, most of them of the host for a device.

The host waits to read values (sync-item-frequent), to learn the size of a result (sync-dynamic-shape), for a whole
device (sync-device-wide), or so often that launches stand between waits (sync-between-launches). distribution-checks
are reads that check the parameters of probability distributions. On a CPU, a step may wait for Python's lock, which
another thread holds (gil-held).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers.host.pauses import HostPauses, pauses_at
from traceanalyzer.analyzers.idle.step_idle import AFTER_WAITS, waits_at
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.analyzers.waits.device_wide import DeviceSync, DeviceSyncs, is_device_wide
from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks, checks_at
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import avoidable_waits, host_work, idle_time, program
from traceanalyzer.rules.engine.change import HostTime, WaitsGone
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.typical import mean

_ITEM = page("sync-item-frequent")
_TO_HOST = re.compile(r"DtoH|Device-to-Host", re.IGNORECASE)
"""Names of copies from a device, as nvprof and Nsight Systems print them."""
_MANY_COPIES = 50
"""Such copies of a whole run, for each that may be in a step, from which on they are told (own choice: a log and a
checkpoint make some)."""
_DYNAMIC_SHAPE = page("sync-dynamic-shape")
_DEVICE_WIDE = page("sync-device-wide")
_BETWEEN_LAUNCHES = page("sync-between-launches")
_CHECKS = page("distribution-checks")
_GIL = page("gil-held")
_PLACES = 3
"""Places of pauses from which on they look like waits for the lock, not for one result (own choice)."""
_LEAST_OF_LOCK = 0.8
"""Own choice: some of the other thread's work may stay."""

_WHOLE = 0.9
"""Share of a step from which on the operators between readings are the program, and not what it logs (own choice)."""
_ENVIRONMENT = Text(
    "environment-advice",
    "The actions that the environment needs must be read. Read those of many environments at once (a vector "
    "environment and one call of tolist() or numpy()), and leave losses and statistics in tensors until the rollout "
    "ends.",
    note="tolist() and numpy() are code; rollout: steps of the environment between two updates of the policy",
)
"""What programs do instead that step an environment of reinforcement learning, which needs actions as numbers."""
_OWN_BESIDE = 0.5
"""Part of the Python code directly before and after readings that belongs to them at most: iterating over what is read,
and storing the values (measured in the lab)."""
_KEPT_ON_CPU = 0.9
"""Own choice: one operator on all values and one reading remain of a run."""
_AFTER_WAITS = tuple(CAUSES[cause] for cause in AFTER_WAITS)
_CODE_CPU = "numbers = torch.stack(values).tolist()  # all at once, every hundred steps: not value.item() for each"
_CODE_RANDOM = "angle = torch.rand(()).item()  # on the CPU; or torch.rand(len(images), device='cuda') for all at once"
_MOVES = 0.05
"""Share of a step below which what readings gain is not told where other calls wait for the device anyway (own choice:
as much as a finding must be worth to be read first)."""
_MUCH_WORK = 0.1
"""Share of the GPU's time from which on operators of unknown size are named for their work, too (own choice)."""
_LEAST, _MOST = 0.5, 2.0
"""Own choice: recording frames takes up to half of the time of code that consists of short functions."""


def _item(facts: Facts, limits: Limits) -> Drafts:
    """Waits for single values, or runs of readings: on a CPU, and where a device has nothing to do for longer."""
    reads = facts.find("value_reads", ValueReads)
    if reads is not None and facts.resources.gpu_ns is None:
        host_work.need_cpu_steps(facts)
        yield from _runs(facts, limits, reads, facts.per_step(reads.time_ns))
        return
    rows = avoidable_waits.of_operators(facts, avoidable_waits.READING)
    rows = [row for row in rows if not row.is_of_scaler]
    calls, gain = avoidable_waits.readings(rows), avoidable_waits.gain_of(facts, rows)
    idle = 0.0 if reads is None else facts.per_step(reads.idle_ns or 0)
    drafts: Drafts = iter(())
    if reads is not None and idle > max(gain, limits["host_share"] * facts.step_ns):
        drafts = _runs(facts, limits, reads, idle)
    elif calls:
        _need_gain(facts, gain)
        drafts = _single_readings(facts, limits, tuple(map(avoidable_waits.place, rows)), calls, gain)
    drawn = avoidable_waits.readings([row for row in rows if row.is_of_random])
    is_random = 2 * drawn > calls and not program.steps_environment(facts)
    for draft in drafts:
        yield replace(draft, advice=_ITEM.text("advice-random"), code=_CODE_RANDOM) if is_random else draft


def _need_gain(facts: Facts, gain: float) -> None:
    """Raise Missing where little is gained, because calls that give memory back wait for the device in most steps."""
    clears = program.cache_clears(facts)
    if clears is None or not clears.frees or gain >= _MOVES * facts.step_ns:
        return
    if 2 * clears.cleared_steps >= clears.steps >= 2:
        raise Missing(_ITEM.text("moves")())


def _single_readings(facts: Facts, limits: Limits, where: tuple[CodePlace, ...], calls: float, gain: float) -> Drafts:
    """Waits for single values; what AMP's gradient scaler reads is not among the calls, nor in what they gain."""
    share, evidence = gain / facts.step_ns, []
    if share > limits["gain_share"]:
        evidence.append(_ITEM.evidence(limits, "gain_share", share, where, subject=avoidable_waits.SUBJECT()))
    if calls >= limits["calls_per_step"]:
        evidence.append(_ITEM.evidence(limits, "calls_per_step", calls, where, subject=_ITEM.text("calls")()))
    if not evidence:
        return
    claims = avoidable_waits.claims(gain, "aten::item")
    change = avoidable_waits.change(gain, claims)
    advice = None if program.may_train(facts) else _ITEM.text("advice-inference")
    if program.steps_environment(facts):
        change = WaitsGone((0.0, gain), _ITEM.text("basis-environment")(), (0.0, gain), claims)
        advice = _ENVIRONMENT
    params = avoidable_waits.figures(facts, calls, gain)
    yield Draft(tuple(evidence), change, params, ceiling="high", advice=advice)


def _runs(facts: Facts, limits: Limits, reads: ValueReads, certain: float) -> Drafts:
    """Runs of readings; `certain` is their time per step in ns, beside a device that in which it has nothing to do."""
    share = certain / facts.step_ns
    if share <= limits["host_share"]:
        return
    beside = facts.resources.gpu_ns is not None
    subject = _ITEM.text("runs-idle") if beside else _ITEM.text("runs")
    where = tuple(host_work.place(row, reads.steps) for row in reads.lines)
    params = host_work.figures_of_calls(facts, facts.per_step(reads.readings), facts.per_step(reads.time_ns))
    draft = Draft(
        (_ITEM.evidence(limits, "host_share", share, where, subject=subject()),),
        _without_reads(facts, reads, certain),
        params | ({"idle": certain} if beside else {}),
        ceiling="high",
        confidence=None if beside else "B",
        summary=_ITEM.text("summary-runs-idle") if beside else _ITEM.text("summary-cpu"),
        advice=_ITEM.text("advice-cpu"),
        code=_CODE_CPU,
    )
    if program.steps_environment(facts):
        yield replace(draft, advice=_ENVIRONMENT, code="")
    else:
        yield draft if beside or 2 * reads.made_ns < reads.time_ns else _of_statistics(facts, reads, draft)


def _of_statistics(facts: Facts, reads: ValueReads, draft: Draft) -> Draft:
    """The draft about values most of whose time goes into operators that make them, which reading at once leaves."""
    made = facts.per_step(reads.made_ns)
    params = {**draft.params, "operators": ", ".join(reads.made_by), "operator": reads.made_by[0], "made": made}
    return replace(
        draft,
        params=params,
        title=_ITEM.text("title-statistics"),
        summary=_ITEM.text("summary-statistics"),
        advice=_ITEM.text("advice-statistics"),
        code="",
    )


def _without_reads(facts: Facts, reads: ValueReads, certain: float) -> HostTime:
    """The time in which the program reads values; beside a device, what it launches meanwhile goes with it."""
    beside = facts.resources.gpu_ns is not None
    least = _KEPT_ON_CPU * host_work.without_recording(facts, certain, facts.per_step(reads.operators))
    most = facts.per_step(reads.time_ns) + facts.per_step(_OWN_BESIDE * reads.beside_ns)
    most = min(most, facts.step_ns) if beside else host_work.most(facts, most)
    basis = (_ITEM.text("basis-runs-idle") if beside else _ITEM.text("basis-runs-beside"))(least=_KEPT_ON_CPU)
    if program.steps_environment(facts):
        least, basis = 0.0, _ITEM.text("basis-environment")()
    claims = avoidable_waits.claims(certain, "aten::_local_scalar_dense")
    is_program = facts.per_step(reads.time_ns) >= _WHOLE * facts.step_ns  # what launches too slowly is not only logging
    exposed = () if is_program else reads.exposed
    return host_work.without_runs(facts, (least, most), basis, prints=False, exposed=exposed, claims=claims)


def _copied_back(facts: Facts, limits: Limits) -> Drafts:
    """Many copies from the device in a table of another tool: the host waits for each that goes to pageable memory."""
    rows = [row for row in facts.rows(RowKind.COPY) if _TO_HOST.search(row.name)]
    calls = sum(row.calls or 0 for row in rows)
    time = fsum(row.self_device_ns or 0 for row in rows)
    whole = facts.table.device_ns if facts.table else None
    if calls < _MANY_COPIES * max(1.0, limits["calls_per_step"]) or not whole:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    yield Draft(
        (_ITEM.evidence(limits, "calls_per_step", calls, where, subject=_ITEM.text("calls-tool")()),),
        None,
        {"calls": calls, "time": time, "share": time / whole},
        severity="low",
        confidence="C",
        title=_ITEM.text("title-tool"),
        summary=_ITEM.text("summary-tool"),
    )


def _item_in_table(facts: Facts, limits: Limits) -> Drafts:
    if facts.table is not None and facts.table.tool is not None:
        yield from _copied_back(facts, limits)
        return
    if not facts.resources.gpu_ns:
        raise Missing(avoidable_waits.NO_DEVICE())
    avoidable_waits.need_printed_steps(facts)
    for name in ("aten::item", "aten::_local_scalar_dense"):  # the second lies within the first
        rows = [row for row in facts.operators if row.name == name]
        if rows:
            break
    calls = facts.per_step(fsum(row.calls for row in rows))
    if not rows or calls < limits["calls_per_step"]:
        return
    time = facts.per_step(fsum(row.host_total_ns for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = _ITEM.evidence(limits, "calls_per_step", calls, where, subject=_ITEM.text("calls")())
    change = avoidable_waits.printed_change(facts, time, {EventSet.operator("aten::item"): time})
    yield Draft(
        (evidence,),
        change,
        {"calls": calls, "time": time},
        ceiling="medium",
        confidence="C",
        summary=_ITEM.text("summary-table"),
    )


def _dynamic_shape(facts: Facts, limits: Limits) -> Drafts:
    rows = avoidable_waits.of_operators(facts, avoidable_waits.SIZED)
    gain = avoidable_waits.gain_of(facts, rows)
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["gain_share"]:
        return
    where = tuple(map(avoidable_waits.place, rows))
    subject = avoidable_waits.SUBJECT()
    evidence = _DYNAMIC_SHAPE.evidence(limits, "gain_share", share, where, subject=subject)
    outermost = next(name for name in rows[0].operators if name in avoidable_waits.SIZED)
    change = avoidable_waits.change(gain, avoidable_waits.claims(gain, outermost))
    params = avoidable_waits.figures(facts, fsum(row.calls_per_step or 0.0 for row in rows), gain)
    work = fsum(row.device_total_ns for row in facts.operators if row.name == outermost)
    draft = Draft((evidence,), change, {**params, "operator": outermost}, ceiling="medium")
    if program.loops_over_experts(facts):
        yield replace(draft, advice=_DYNAMIC_SHAPE.text("advice-experts"), code="")
        return
    yield _with_work(facts, draft, work) if facts.gpu_share(work) >= _MUCH_WORK else draft


def _with_work(facts: Facts, draft: Draft, work_ns: float) -> Draft:
    """The draft about operators that also keep the device busy for long, mostly with sorting."""
    return replace(
        draft,
        params={**draft.params, "work": facts.on_device(work_ns)},
        severity="medium",
        summary=_DYNAMIC_SHAPE.text("summary-work"),
        advice=_DYNAMIC_SHAPE.text("advice-work"),
    )


def _device_wide(facts: Facts, limits: Limits) -> Drafts:
    rows = facts.need("device_syncs", DeviceSyncs).rows
    if any(row.avoidable_ns is None for row in rows):
        raise Missing(avoidable_waits.NO_DEVICE())
    calls = facts.per_step(fsum(row.calls for row in rows))
    gain = avoidable_waits.gain_of(facts, rows)
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if share <= limits["gain_share"] or calls < limits["calls_per_step"]:
        return
    where = tuple(map(_device_wide_place, rows))
    subject = avoidable_waits.SUBJECT()
    evidence = _DEVICE_WIDE.evidence(limits, "gain_share", share, where, subject=subject)
    change = avoidable_waits.change(gain, avoidable_waits.claims(gain))
    yield Draft((evidence,), change, avoidable_waits.figures(facts, calls, gain), ceiling="high")


def _device_wide_place(row: DeviceSync) -> CodePlace:
    if row.owner is not None:
        return avoidable_waits.owned(row.owner, row.call, row.avoidable_ns, row.longest_start_ns)
    return at_line(row.python_line, "call", row.call, row.avoidable_ns, row.longest_start_ns)


def _device_wide_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.rows(RowKind.RUNTIME) if is_device_wide(row.name)]
    if not rows:
        return
    avoidable_waits.need_printed_steps(facts)
    calls = facts.per_step(sum(row.calls or 0 for row in rows) - 1)  # one is the profiler's own
    time = facts.per_step(fsum(row.self_cpu_ns or 0 for row in rows))
    if calls < limits["calls_per_step"] or time <= limits["gain_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = _DEVICE_WIDE.evidence(limits, "calls_per_step", calls, where, subject=_DEVICE_WIDE.text("calls")())
    change = avoidable_waits.printed_change(facts, time, avoidable_waits.claims(time))
    yield Draft(
        (evidence,),
        change,
        {"calls": calls, "time": time},
        ceiling="medium",
        confidence="C",
        summary=_DEVICE_WIDE.text("summary-table"),
    )


def _between_launches(facts: Facts, limits: Limits) -> Drafts:
    found = idle_time.of_busiest(facts, limits["events"])
    waits = facts.need("synchronizations", Synchronizations)
    if found is None or not found.waits_again_and_again or program.searches(facts) is not None:
        return  # a search waits for each algorithm, to measure it
    time = found.per_step(found.after_waits_ns(_AFTER_WAITS))
    share = time / facts.step_ns
    rows = [row for row in waits.rows if row.operators]
    if share <= limits["gap_share"] or not rows:
        return
    evidence = _BETWEEN_LAUNCHES.evidence(limits, "gap_share", share, _most_frequent(rows))
    claims = avoidable_waits.claims(time, *(row.operators[-1] for row in rows))
    change = WaitsGone(
        (0.0, time),
        _BETWEEN_LAUNCHES.text("basis")(),
        (0.0, time),
        claims,
        waits_at(),
        _BETWEEN_LAUNCHES.text("replayed")(),
    )
    params = {
        "waits": found.per_step(found.idle.waits_apart or found.idle.waits),
        "launches": found.per_step(found.device.events),
        "time": OfEvents(time),
    }
    draft = Draft((evidence,), change, params, ceiling="high")
    yield replace(draft, advice=_ENVIRONMENT) if program.steps_environment(facts) else draft


def _most_frequent(rows: Sequence[Synchronization]) -> tuple[CodePlace, ...]:
    """The operators, owners or lines that wait, with the number of waits per step, the most frequent first."""
    counts: dict[tuple[str, str], float] = {}
    for row in rows:
        place = ("python", row.python_line) if row.python_line is not None else ("operator", " > ".join(row.operators))
        counts[place] = counts.get(place, 0.0) + (row.calls_per_step or 0.0)
    order = sorted((place for place in counts if counts[place]), key=lambda place: (-counts[place], place))
    return tuple(CodePlace(kind, name, value=counts[kind, name], unit="count") for kind, name in order)


def _checks(facts: Facts, limits: Limits) -> Drafts:
    checks = facts.need("distribution_checks", DistributionChecks)
    if facts.resources.gpu_ns is None:
        yield from _checks_on_cpu(facts, limits, checks)
        return
    calls = facts.per_step(checks.checks)
    if calls >= limits["calls_per_step"]:
        subject = _CHECKS.text("calls")()
        evidence = _CHECKS.evidence(limits, "calls_per_step", calls, _checking_lines(checks), subject=subject)
        yield Draft(
            (evidence,),
            params=host_work.figures_of_calls(facts, calls, facts.per_step(checks.time_ns)),
            severity="low",
            confidence="A" if checks.by_frames else "B",
            summary=_CHECKS.text("summary-gpu"),
        )


def _checks_on_cpu(facts: Facts, limits: Limits, checks: DistributionChecks) -> Drafts:
    if not checks.by_frames:
        raise Missing(_CHECKS.text("no-frames")())
    time = facts.per_step(checks.time_ns)
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    host_work.need_cpu_steps(facts)
    least = _LEAST * host_work.without_recording(facts, time, facts.per_step(checks.operators))
    interval = (least, min(_MOST * time, facts.step_ns))
    change = HostTime(interval, _CHECKS.text("basis")(), interval, at=checks_at())
    subject = _CHECKS.text("share")()
    evidence = _CHECKS.evidence(limits, "host_share", share, _checking_lines(checks), subject=subject)
    params = host_work.figures_of_calls(facts, facts.per_step(checks.checks), time)
    yield Draft((evidence,), change, params, ceiling="medium")


def _checking_lines(checks: DistributionChecks) -> tuple[CodePlace, ...]:
    """Where checks are asked for; without frames the operator that they call."""
    lines = [("python", row.name, row.checks) for row in checks.lines]
    lines = lines or [("operator", "aten::_is_all_true", checks.checks)]
    return tuple(CodePlace(kind, name, value=count, unit="count") for kind, name, count in lines)


def _gil(facts: Facts, limits: Limits) -> Drafts:
    host_work.need_cpu_steps(facts)
    if facts.capture is None:
        raise Missing(_GIL.text("no-capture")())
    seen = facts.capture.facts
    if not seen.threads or seen.lock_wait_ns is None:
        raise Missing(_GIL.text("no-threads")())
    time = host_work.lock_ns(facts)
    share = time / facts.step_ns
    if share <= limits["share"] or seen.lock_wait_ns <= limits["wait_ns"]:
        return
    pauses = facts.find("host_pauses", HostPauses)
    least = _LEAST_OF_LOCK if pauses is not None and pauses.places >= _PLACES else 0.0
    where = tuple(CodePlace("python", row.function, None, mean(row.ns, seen.steps), "ns") for row in seen.threads)
    evidence = (
        _GIL.evidence(limits, "share", share, where),
        _GIL.evidence(limits, "wait_ns", seen.lock_wait_ns, subject=_GIL.text("subject-wait")()),
    )
    basis = _GIL.text("basis")(least=least) if least else _GIL.text("basis-unsure")()
    interval = least * time, host_work.most(facts, 0.0, host_work.lock_ns(facts, with_switching=True))
    change = HostTime(interval, basis, interval, at=None if pauses is None else pauses_at())
    params = {"time": time, "step": facts.step_ns, "share": share, "function": seen.threads[0].function}
    yield Draft(evidence, change, params, ceiling="high", confidence=None if least else "C")


RULES = (
    _ITEM.rule(trace=_item, table=_item_in_table),
    _DYNAMIC_SHAPE.rule(trace=_dynamic_shape),
    _DEVICE_WIDE.rule(trace=_device_wide, table=_device_wide_in_table),
    _BETWEEN_LAUNCHES.rule(trace=_between_launches),
    _CHECKS.rule(trace=_checks),
    _GIL.rule(trace=_gil),
)
