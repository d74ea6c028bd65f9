"""Detects host-python-gap: see pages/host-python-gap.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.idle.gap_owners import OF_OTHER_RULES
from traceanalyzer.analyzers.idle.step_idle import MOST_OWNERS, DeviceInSteps, GapOwner, HostGap
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle, _owners
from traceanalyzer.rules.engine import settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("host-python-gap")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    device = _idle.busiest(facts, found)
    if found.steps_from in ("whole-trace", "device-events", "host-annotations"):
        raise Missing(_PAGE.text("no-steps")())
    if device is None or not device.time_ns or not device.typical_other_gap_ns:
        return
    step, time = device.time_ns / found.steps, device.typical_other_gap_ns
    measured = settings.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / _idle.STACKS, 0.5) if facts.is_host_inflated else (0.5, 1.0))
    share = most * time / step
    if share <= limits["gap_share"]:
        return
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    interval = (least * time, most * time)
    text = _PAGE.text("basis-measured") if measured else _PAGE.text("basis")
    basis = _PAGE.text("basis-all")(least=least) if most == 1 else text(least=least, most=most)
    change = TimeSaved("host", interval, basis, interval, _claims(device, interval[1]))
    owners = [row for row in device.gap_owners if row.role not in OF_OTHER_RULES]
    where = _owners.of_gaps(owners, found.steps)
    shown = _owners.total(where)
    subject = _PAGE.text("subject-listed")(shown=shown, time=time) if 0 < shown < time else _PAGE.text("subject")()
    evidence = Evidence(subject, share, limits["gap_share"], "share", where or tuple(map(_place, device.host_gaps[:5])))
    first = owners[0] if owners and _is_largest(owners[0], device, time) else None
    yield Draft(
        (evidence,),
        change,
        {
            "time": time,
            "step": step,
            "share": time / step,
            "what": _PAGE.text("unknown")() if first is None else _owners.name(first),
        },
        ceiling="high",
        confidence="C" if first is None or first.kind in ("operator", "call", "autograd") else None,
        advice=_advice(first),
        code=_CODE_GC if first is not None and first.role == "garbage-collection" else "",
    )


def _is_largest(owner: GapOwner, device: DeviceInSteps, time: float) -> bool:
    """Whether an owner has no less of the gaps than the time in which nothing was recorded.

    What ten owners leave may belong to further ones and is not known to be unrecorded.
    """
    listed = sum(row.time_ns for row in device.gap_owners if row.role not in OF_OTHER_RULES)
    is_complete = len(device.gap_owners) < MOST_OWNERS
    return not is_complete or owner.time_ns >= time * max(1, device.owner_steps) - listed


def _advice(owner: GapOwner | None) -> Text | None:
    """Advice about an owner, by its role or else by its kind."""
    if owner is None:
        return _PAGE.text("advice-unknown")
    if owner.role in _BY_ROLE:
        return _BY_ROLE[owner.role]
    if owner.kind in ("module", "backward", "autograd"):
        return _PAGE.text("advice-model")
    return _PAGE.text("advice-unknown") if owner.kind in ("operator", "call") else None


def _claims(device: DeviceInSteps, time: float) -> dict[str, float]:
    """Claims on the gaps; gaps after a wait that emptied the queue are also claimed by the rules about waits."""
    own = {row.cause: row.time_ns for row in device.causes if row.cause in ("host_code", "synchronization")}
    total = sum(own.values())
    return {f"idle:{cause}": time * ns / total for cause, ns in own.items() if ns}


def _place(row: HostGap) -> CodePlace:
    kinds = {
        "python": row.python_line,
        "operator": row.operator,
        "time": row.annotation or _PAGE.text("unknown")().text,
    }
    kind, name = next((kind, name) for kind, name in kinds.items() if name)
    return CodePlace(kind, name, value=row.time_ns, unit="ns", start_ns=row.longest_start_ns)


_CODE_GC = "gc.collect(); gc.freeze(); gc.disable()  # before the loop; collect by hand now and then"

_BY_ROLE: Mapping[str | None, Text] = {
    "sampling": _PAGE.text("advice-sampling"),
    "garbage-collection": _PAGE.text("advice-garbage-collection"),
    "guards": _PAGE.text("advice-guards"),
    "checkpointing": _PAGE.text("advice-checkpointing"),
    "logging": _PAGE.text("advice-logging"),
    "sleep": _PAGE.text("advice-sleep"),
}


RULE = _PAGE.rule(trace=_trace)
