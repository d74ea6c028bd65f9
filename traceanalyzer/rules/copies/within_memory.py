"""Detects copies within one memory that need not be.

The rules here are copies-materialized, dtype-cast-churn and weights-cast-in-step; `keys` has keys-repeated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from traceanalyzer.analyzers.copies import within_memory as copies
from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.rules.copies import keys
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import DeviceWork, HostTime
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import if_known
from traceanalyzer.rules.engine.places import of_operators
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN

_MATERIALIZED = page("copies-materialized")
_CASTS = page("dtype-cast-churn")
_WEIGHTS = page("weights-cast-in-step")
_CODE_BF16 = "model = model.to(torch.bfloat16)  # once, before the first call"

_COPY, _CLONE = "aten::copy_", "aten::clone"
_LEAST = 0.5
"""Least part of the time that is saved on a GPU (own choice, explained on the pages)."""

_NOISE = 0.02
"""Share of the step below which copies in a row are named, but no saving is promised: no measurement would show it (own
choice)."""
_ON_CPU = 0.5, 0.83
"""Least and most part of the time that is saved on a CPU (measured in the lab, explained on the rule's page)."""
_TYPED = frozenset({"aten::to", "aten::_to_copy", "aten::type_as", "aten::float", "aten::half", "aten::bfloat16"})
"""Operators that mostly convert to another type; this is unknown if types were not recorded."""
_ASKING = ("aten::contiguous", "aten::reshape", "aten::repeat", "aten::tile")
"""Operators whose rows in a table count; none of them calls another one."""

_RMS_NORM = re.compile("rms_?norm", re.IGNORECASE)
_CALLS = 1.4
"""Greatest saving as a multiple of the time of casts and of calling them (measured in the lab, explained on the
page)."""
_WEIGHTED = re.compile(r"aten::(linear|conv\dd|conv_transpose\dd|_?convolution|addmm)$")
_NARROW = frozenset({"c10::Half", "c10::BFloat16"})
_TO_NARROW = re.compile(r"(?<![a-z])(bfloat16|float16|float8\w{0,16})_copy_kernel")
_COPY_KERNEL, _CASTING_STORE = "copy_kernel", "StoreWithCast"
"""Parts of the names of kernels of PyTorch that copy, and that write another type than they read."""
_FLOATING = frozenset({"double", "float", "c10::Half", "c10::BFloat16"})


def _ns(processor: Processor, row: copies.Conversion) -> int:
    """Time of copies: of the device, or of the host in a program that computes on the CPU."""
    return row.host_ns if processor.is_cpu else row.device_ns


def _work(facts: Facts, rows: Sequence[copies.Conversion]) -> EventTimes:
    """What some copies take, by the shapes of what they copy."""
    processor = Processor.of(facts)
    return EventTimes.of(processor, ((row.events, _ns(processor, row)) for row in rows))


def _share(work: EventTimes) -> float:
    """Part of the time per step in which the device is busy; of the step on a CPU."""
    busy = work.processor.facts.resources.gpu_ns
    if work.processor.is_cpu:
        return work.share
    return work.time / busy if busy else 0.0


def _figures(work: EventTimes) -> dict[str, float | OfEvents]:
    """The quantities `time` and `share` of a sentence."""
    return work.figures() if work.processor.is_cpu else {**work.figures(), "share": _share(work)}


def _calls(facts: Facts, rows: Sequence[copies.Conversion]) -> int:
    """Copies per step, at least one."""
    return max(1, round(facts.per_step(sum(row.calls for row in rows))))


def _places(facts: Facts, rows: Sequence[copies.Conversion]) -> tuple[CodePlace, ...]:
    """The rows as places of a finding, with their time per step in ns."""
    processor = Processor.of(facts)
    return tuple(_place(row, processor.per_step(_ns(processor, row))) for row in rows)


def _place(row: copies.Conversion, time_ns: float) -> CodePlace:
    return CodePlace("operator", row.operator, row.input_shapes or None, time_ns, "ns", row.start_ns)


def _materialized_in_trace(facts: Facts, limits: Limits) -> Drafts:
    conversions = facts.need("conversions", copies.Conversions)
    rows = [row for row in conversions.rows if not _may_be_cast(row)]
    cloned = [row for row in rows if _is_cloned_again(row, limits["clones_in_a_row"])]
    others = [row for row in rows if row not in cloned]
    if Processor.of(facts).is_cpu:
        yield from _materialized_on_cpu(facts, [row for row in others if _is_asked_for(row)], limits)
    else:
        unexplained = round(facts.per_step(conversions.device_copies - conversions.device_copies_here))
        yield from _materialized_on_gpu(facts, others, unexplained, limits)
    yield from (_cloned_in_a_row(facts, row, limits) for row in cloned)


def _may_be_cast(row: copies.Conversion) -> bool:
    if row.to_type is None or row.from_type is None:
        return row.operator in _TYPED
    return row.to_type != row.from_type


def _is_cloned_again(row: copies.Conversion, least: float) -> bool:
    """Whether clones of the forward pass follow directly after each other."""
    return row.operator == _CLONE and row.longest_run >= least and not row.is_backward


def _is_asked_for(row: copies.Conversion) -> bool:
    """Whether the program or a module, not an operator, made a copy on the host in the forward pass."""
    return not (row.on_device or row.is_backward or "::" in (row.caller or "") or row.operator == _COPY)


def _materialized_on_cpu(facts: Facts, rows: Sequence[copies.Conversion], limits: Limits) -> Drafts:
    """Without a GPU copies take time of the host."""
    work = _work(facts, rows)
    if work.share <= work.processor.limit(limits):
        return
    least, most = _ON_CPU
    basis = _MATERIALIZED.text("basis-cpu")(least=least, most=most)
    at = copies.copies_at(rows=tuple(rows))
    key, subject = work.processor.limit_key, _MATERIALIZED.text("subject-cpu")()
    yield Draft(
        (_MATERIALIZED.evidence(limits, key, work.share, _places(facts, rows), subject=subject),),
        work.processor.less_work((least * work.time, most * work.time), basis, work.claims(), at),
        {"copies": _calls(facts, rows), **work.figures(), "operator": rows[0].operator},
        confidence="B",
        title=_MATERIALIZED.text("title-cpu"),
        summary=_MATERIALIZED.text("summary-cpu"),
    )


def _materialized_on_gpu(facts: Facts, others: Sequence[copies.Conversion], unexplained: int, limits: Limits) -> Drafts:
    """Copies on a device; besides, so many copies per step in its memory have no known caller."""
    heads = keys.repeated_heads(facts)
    rows = [row for row in others if row.on_device and row.operator != _COPY and row.input_shapes not in heads]
    work = _work(facts, rows)
    share = _share(work)
    if share <= limits["gpu_share"]:
        return
    asked = sum(row.device_ns for row in rows if not (row.is_backward or "::" in (row.caller or "")))
    least = _LEAST * asked / max(1, sum(row.device_ns for row in rows))
    caller = rows[0].caller or ""
    params: dict[str, object] = {
        "copies": _calls(facts, rows),
        **_figures(work),
        "operator": rows[0].operator,
        "caller": caller,
    }
    summary = _MATERIALIZED.text("summary-caller") if caller else _MATERIALIZED.text("summary")
    if unexplained:
        params |= {"summary": summary, "others": unexplained}
        summary = _MATERIALIZED.text("summary-part")
    change = work.shorter(
        (least, 1.0),
        _MATERIALIZED.text("basis")(least=least),
        at=copies.copies_at(rows=tuple(rows)),
        host=copies.calls_at(rows=tuple(rows)),
    )
    evidence = _MATERIALIZED.evidence(limits, "gpu_share", share, _places(facts, rows))
    yield Draft((evidence,), change, params, summary=summary)


def _cloned_in_a_row(facts: Facts, row: copies.Conversion, limits: Limits) -> Draft:
    """Clones directly after each other."""
    time = facts.on_device(row.device_ns) if row.on_device else facts.per_step(row.host_ns)
    where = [_place(row, time)]
    if row.python_line:
        where.append(CodePlace("python", row.python_line))
    subject = _MATERIALIZED.text("subject-run")()
    evidence = _MATERIALIZED.evidence(limits, "clones_in_a_row", row.longest_run, tuple(where), subject=subject)
    params = {
        "operator": row.operator,
        "run": row.longest_run,
        "shapes": "unknown" if row.shape is None else str(list(row.shape)),
        "time": OfEvents(time),
    }
    change = _cloned_once(facts, row, time)
    return Draft((evidence,), change, params, confidence="C", summary=_MATERIALIZED.text("summary-row"))


def _cloned_once(facts: Facts, row: copies.Conversion, time: float) -> DeviceWork | HostTime | None:
    """All clones in a row but one are not made; None where no measurement would show it."""
    cost = time * ((row.longest_run - 1) / row.longest_run)
    if cost < _NOISE * facts.step_ns:
        return None
    basis = _MATERIALIZED.text("basis-run")(run=row.longest_run, least=_LEAST)
    claims = {row.events: cost} if row.on_device else {}
    place = Processor(facts, is_cpu=not row.on_device)
    return place.less_work((_LEAST * cost, cost), basis, claims, copies.copies_at(rows=(row,)), ITS_OWN)


def _materialized_in_table(facts: Facts, limits: Limits) -> Drafts:
    if not facts.gpu_total_ns:
        return
    asked = sorted((row for row in facts.operators if row.name in _ASKING), key=lambda row: -row.device_total_ns)
    total = _asked_ns(facts)
    share = facts.gpu_share(total)
    if share <= limits["gpu_share"]:
        return
    time = facts.on_device(total)
    rows = keys.copies_of_others(facts, total) or [row for row in asked if row.device_total_ns]
    claims = {row.events: time for row in facts.operators if row.name == _COPY}
    claims |= {row.events: facts.on_device(row.device_total_ns) for row in rows}
    where = of_operators(facts, rows, lambda row: row.device_total_ns)
    calls = facts.per_step(sum(row.calls for row in rows if row.name == _COPY))
    yield Draft(
        (_MATERIALIZED.evidence(limits, "gpu_share", share, where),),
        DeviceWork((_LEAST * time, time), _MATERIALIZED.text("basis")(least=_LEAST), claims=claims),
        {"copies": max(1, round(calls)), "time": time, "share": share, "operator": asked[0].name},
        confidence="B",
        summary=None if calls else _MATERIALIZED.text("summary-table"),
    )


def _asked_ns(facts: Facts) -> int:
    """Device time of the copies that operators of `_ASKING` ask for in ns, without those that repeat heads."""
    copied = sum(row.device_self_ns for row in facts.operators if row.name == _COPY)
    asked = sum(row.device_total_ns for row in facts.operators if row.name in _ASKING)
    return max(0, min(copied, asked) - keys.repeated_ns(facts))


def _casts_in_trace(facts: Facts, limits: Limits) -> Drafts:
    is_cpu = Processor.of(facts).is_cpu
    recorded = [row for row in facts.need("conversions", copies.Conversions).rows if row.on_device != is_cpu]
    if recorded and all(row.to_type is None for row in recorded):
        raise Missing(_CASTS.text("no-types")())
    rows = _there_and_back(recorded)
    if is_cpu:
        rows = [row for row in rows if row.shape != ()]  # numbers are no activations
    work = _work(facts, rows)
    if _share(work) <= work.processor.limit(limits):
        return
    caller = rows[0].caller
    params = _of_casts(facts, work, rows)
    summary = _CASTS.text("summary-caller") if caller else None
    change: DeviceWork | HostTime
    if is_cpu:
        change = _cast_less(work, rows)
        subject, summary = _CASTS.text("subject-cpu"), _CASTS.text("summary-cpu")
    else:
        change = work.shorter(
            (_LEAST, 1.0),
            _CASTS.text("basis")(least=_LEAST),
            at=copies.copies_at(rows=tuple(rows)),
            host=copies.calls_at(rows=tuple(rows)),
        )
        subject, params["caller"] = _CASTS.text("subject"), caller or ""
    where = _places(facts, rows)
    evidence = _CASTS.evidence(limits, work.processor.limit_key, _share(work), where, subject=subject())
    yield Draft((evidence,), change, params, summary=summary, code=None if _RMS_NORM.search(caller or "") else "")


def _casts(facts: Facts, limits: Limits) -> Drafts:
    return _casts_by_kernels(facts, limits) if facts.is_gpu_alone else _casts_in_trace(facts, limits)


def _is_cast(name: str) -> bool:
    return _TO_NARROW.search(name) is not None or _CASTING_STORE in name.partition(_COPY_KERNEL)[2]


def _casts_by_kernels(facts: Facts, limits: Limits) -> Drafts:
    """Kernels that cast, by their names; which of them are undone is not recorded."""
    rows = sorted((row for row in facts.kernels if _is_cast(row.name)), key=lambda row: -row.total_ns)
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows))
    if _share(work) <= limits["gpu_share"]:
        return
    yield Draft(
        (_CASTS.evidence(limits, "gpu_share", _share(work), work.places, subject=_CASTS.text("subject-kernels")()),),
        work.shorter((0.0, 1.0), _CASTS.text("basis-kernels")()),
        {**_figures(work), "calls": round(facts.per_step(sum(row.calls for row in rows)))},
        ceiling="low",
        confidence="C",
        title=_CASTS.text("title-kernels"),
        summary=_CASTS.text("summary-kernels"),
        advice=_CASTS.text("advice-kernels"),
        code="",
    )


def _cast_less(work: EventTimes, rows: Sequence[copies.Conversion]) -> HostTime:
    """Casts take time of the host on a CPU, most of it for their calls where tensors are small."""
    calls = work.processor.per_step(math.fsum(max(row.call_ns, row.host_ns) for row in rows))
    interval = work.time, min(_CALLS * calls, work.processor.facts.step_ns)
    return HostTime(interval, _CASTS.text("basis-cpu")(calls=_CALLS), at=copies.copies_at(rows=tuple(rows)))


def _of_casts(facts: Facts, work: EventTimes, rows: Sequence[copies.Conversion], **more: object) -> dict[str, object]:
    """The quantities of a sentence about casts."""
    first = rows[0]
    return {
        "casts": _calls(facts, rows),
        **_figures(work),
        **more,
        "one": _short(first.from_type),
        "other": _short(first.to_type),
    }


def _there_and_back(rows: Sequence[copies.Conversion]) -> list[copies.Conversion]:
    """Casts of tensors with shapes that the forward pass casts from one type to another and back."""
    casts = [row for row in rows if {row.to_type, row.from_type} <= _FLOATING and row.to_type != row.from_type]
    forward = {(row.input_shapes, row.from_type, row.to_type) for row in casts if not row.is_backward}
    both = {shape for shape, a, b in forward if (shape, b, a) in forward}
    return [row for row in casts if row.input_shapes in both]


def _weights_in_trace(facts: Facts, limits: Limits) -> Drafts:
    if program.may_train(facts):
        return
    rows = _casts_of_weights(facts)
    work = _work(facts, rows)
    if not rows or _share(work) <= work.processor.limit(limits):
        return
    is_cpu, places = work.processor.is_cpu, _places(facts, rows)
    subject = _WEIGHTS.text("subject-cpu") if is_cpu else _WEIGHTS.text("subject")
    basis, at, calls = _WEIGHTS.text("basis"), copies.copies_at(rows=tuple(rows)), copies.calls_at(rows=tuple(rows))
    yield Draft(
        (_WEIGHTS.evidence(limits, work.processor.limit_key, _share(work), places, subject=subject()),),
        work.shorter((_LEAST, 1.0), basis(least=_LEAST), at=at, host=calls),
        _of_casts(facts, work, rows, caller=rows[0].caller),
        summary=_WEIGHTS.text("summary-cpu") if is_cpu else None,
        code=_CODE_BF16 if rows[0].to_type == "c10::BFloat16" else None,
    )


def _casts_of_weights(facts: Facts) -> list[copies.Conversion]:
    """Casts to 16 bits that operators make of their weights and biases.

    Raises:
        Missing: The types of tensors were not recorded.
    """
    is_cpu = Processor.of(facts).is_cpu
    recorded = [row for row in facts.need("conversions", copies.Conversions).rows if row.on_device != is_cpu]
    if recorded and all(row.to_type is None for row in recorded):
        raise Missing(_WEIGHTS.text("no-types")())
    shapes = _weight_shapes(facts)
    return [row for row in recorded if _is_narrowed(row) and (row.caller or "", row.shape or ()) in shapes]


def _is_narrowed(row: copies.Conversion) -> bool:
    """Whether the forward pass casts from fp32 to a type of 16 bits."""
    return row.from_type == "float" and row.to_type in _NARROW and not row.is_backward


def _weight_shapes(facts: Facts) -> frozenset[tuple[str, Shape]]:
    """Operators with the shapes of their weights and biases, without shapes that their inputs have as well."""
    calls = [(row.name, row.inputs.shapes or ()) for row in if_known(lambda: facts.shaped) if _WEIGHTED.match(row.name)]
    weights = {(name, shape) for name, shapes in calls for shape in shapes[1:3] if shape}
    return frozenset(weights - {(name, shapes[0]) for name, shapes in calls if shapes})


def _short(kind: str | None) -> str:
    return (kind or "").removeprefix("c10::")


RULES = (
    _MATERIALIZED.rule(trace=_materialized_in_trace, table=_materialized_in_table),
    *keys.RULES,
    _CASTS.rule(trace=_casts),
    _WEIGHTS.rule(trace=_weights_in_trace),
)
