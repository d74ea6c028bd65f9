"""Detects copies within one memory that need not be.

The rules are copies-materialized, keys-repeated, dtype-cast-churn and weights-cast-in-step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from traceanalyzer.analyzers.copies.within_memory import Conversion, Conversions, calls_at, copies_at
from traceanalyzer.knowledge.inputs import Inputs, Shape
from traceanalyzer.report.message import Message
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, StepChange, summed
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.places import of_operators
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN, EventSet

_MATERIALIZED = page("copies-materialized")
_KEYS = page("keys-repeated")
_CASTS = page("dtype-cast-churn")
_WEIGHTS = page("weights-cast-in-step")

_COPY, _CLONE = "aten::copy_", "aten::clone"
_LEAST = 0.5
"""Least part of the time that is saved on a GPU, of keys with a flash kernel (own choice, explained on the pages)."""

_NOISE = 0.02
"""Share of the step below which copies in a row are named, but no saving is promised: no measurement would show it (own
choice)."""
_ON_CPU = 0.5, 0.83
"""Least and most part of the time that is saved on a CPU (measured in the lab, explained on the rule's page)."""
_TYPED = frozenset({"aten::to", "aten::_to_copy", "aten::type_as", "aten::float", "aten::half", "aten::bfloat16"})
"""Operators that mostly convert to another type; this is unknown if types were not recorded."""
_ASKING = ("aten::contiguous", "aten::reshape", "aten::repeat", "aten::tile")
"""Operators whose rows in a table count; none of them calls another one."""

_EXPAND = "aten::expand"
_ATTENTION = "aten::scaled_dot_product_attention"
_FLASH = "aten::_scaled_dot_product_flash_attention"
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
_AXES = (2, 3)
"""Position of the axis of repeats: [batch, heads, repeats, sequence, size] or [batch, sequence, heads, repeats,
size]."""

_RMS_NORM = re.compile("rms_?norm", re.IGNORECASE)
_CALLS = 1.4
"""Greatest saving as a multiple of the time of casts and of calling them (measured in the lab, explained on the
page)."""
_WEIGHTED = re.compile(r"aten::(linear|conv\dd|conv_transpose\dd|_?convolution|addmm)$")
_NARROW = frozenset({"c10::Half", "c10::BFloat16"})
_FLOATING = frozenset({"double", "float", "c10::Half", "c10::BFloat16"})


@dataclass(frozen=True)
class _Cost:
    """What some copies cost per step: time of the device, or of the host in a program that computes on the CPU."""

    processor: Processor
    rows: Sequence[Conversion]

    def _ns(self, row: Conversion) -> int:
        return row.host_ns if self.processor.is_cpu else row.device_ns

    @property
    def time(self) -> float:
        """Time per step in ns."""
        return self.processor.per_step(math.fsum(map(self._ns, self.rows)))

    @property
    def share(self) -> float:
        """Part of the time per step in which the device is busy; of the step on a CPU."""
        facts = self.processor.facts
        whole = facts.step_ns if self.processor.is_cpu else facts.resources.gpu_ns
        return self.time / whole if whole else 0.0

    @property
    def said_share(self) -> float | OfEvents:
        """The share as a sentence has it."""
        return OfEvents(self.time, is_share=True) if self.processor.is_cpu else self.share

    @property
    def calls(self) -> int:
        """Copies per step, at least one."""
        return max(1, round(self.processor.facts.per_step(sum(row.calls for row in self.rows))))

    @property
    def where(self) -> tuple[CodePlace, ...]:
        """The rows as places of a finding, with their time per step in ns."""
        return tuple(_place(row, self.processor.per_step(self._ns(row))) for row in self.rows)

    @property
    def claims(self) -> dict[EventSet, float]:
        """Time per step in ns that each list of shapes claims."""
        return summed((row.events, self.processor.per_step(self._ns(row))) for row in self.rows)

    @property
    def at(self) -> EventSet:
        """When the copies are made."""
        return copies_at(rows=tuple(self.rows))

    def saved(self, basis: Message, least: float) -> StepChange:
        """Time of the device that is saved without the copies, with the calls that made them; at least this part."""
        interval, calls = (least * self.time, self.time), calls_at(rows=tuple(self.rows))
        return DeviceWork(interval, basis, claims=self.claims, at=self.at, host=calls)


def _place(row: Conversion, time_ns: float) -> CodePlace:
    return CodePlace("operator", row.operator, row.input_shapes or None, time_ns, "ns", row.start_ns)


def _materialized_in_trace(facts: Facts, limits: Limits) -> Drafts:
    conversions = facts.need("conversions", Conversions)
    rows = [row for row in conversions.rows if not _may_be_cast(row)]
    in_a_row = limits["clones_in_a_row"]
    repeated = [row for row in rows if row.operator == _CLONE and row.longest_run >= in_a_row and not row.is_backward]
    processor = Processor.of(facts)
    if processor.is_cpu:
        asked = [row for row in rows if _is_asked_for(row) and row not in repeated]
        yield from _materialized_on_cpu(_Cost(processor, asked), processor.limit(limits))
    else:
        heads = _repeated_heads(facts)
        others = [row for row in rows if row not in repeated and row.input_shapes not in heads]
        on_device = [row for row in others if row.on_device and row.operator != _COPY]
        unexplained = round(facts.per_step(conversions.device_copies - conversions.device_copies_here))
        yield from _materialized_on_gpu(_Cost(processor, on_device), processor.limit(limits), unexplained)
    yield from (_cloned_in_a_row(facts, row, in_a_row) for row in repeated)


def _may_be_cast(row: Conversion) -> bool:
    if row.to_type is None or row.from_type is None:
        return row.operator in _TYPED
    return row.to_type != row.from_type


def _is_asked_for(row: Conversion) -> bool:
    """Whether the program or a module, not an operator, made a copy on the host in the forward pass."""
    by_operator = row.caller is not None and "::" in row.caller
    return not (row.on_device or row.is_backward or by_operator or row.operator == _COPY)


def _materialized_on_cpu(cost: _Cost, limit: float) -> Drafts:
    """Without a GPU copies take time of the host."""
    if cost.share <= limit:
        return
    least, most = _ON_CPU
    basis = _MATERIALIZED.text("basis-cpu")(least=least, most=most)
    change = HostTime((least * cost.time, most * cost.time), basis, claims=cost.claims, at=cost.at)
    params = {
        "copies": cost.calls,
        "time": OfEvents(cost.time),
        "share": cost.said_share,
        "operator": cost.rows[0].operator,
    }
    evidence = Evidence(_MATERIALIZED.text("subject-cpu")(), cost.share, limit, "share", cost.where)
    title, summary = _MATERIALIZED.text("title-cpu"), _MATERIALIZED.text("summary-cpu")
    yield Draft((evidence,), change, params, confidence="B", title=title, summary=summary)


def _materialized_on_gpu(cost: _Cost, limit: float, unexplained: int) -> Drafts:
    """Copies on a device; besides, so many copies per step in its memory have no known caller."""
    if cost.share <= limit:
        return
    asked = sum(row.device_ns for row in cost.rows if not (row.is_backward or "::" in (row.caller or "")))
    least = _LEAST * asked / max(1, sum(row.device_ns for row in cost.rows))
    change = cost.saved(_MATERIALIZED.text("basis")(least=least), least)
    params = {
        "copies": cost.calls,
        "time": OfEvents(cost.time),
        "share": cost.said_share,
        "operator": cost.rows[0].operator,
    }
    evidence = Evidence(_MATERIALIZED.text("subject")(), cost.share, limit, "share", cost.where)
    caller = cost.rows[0].caller or ""
    params |= {"caller": caller}
    summary = _MATERIALIZED.text("summary-caller") if caller else _MATERIALIZED.text("summary")
    if unexplained:
        params |= {"summary": summary, "others": unexplained}
        summary = _MATERIALIZED.text("summary-part")
    yield Draft((evidence,), change, params, summary=summary)


def _cloned_in_a_row(facts: Facts, row: Conversion, limit: float) -> Draft:
    """Clones directly after each other."""
    time = facts.on_device(row.device_ns) if row.on_device else facts.per_step(row.host_ns)
    cost = time * ((row.longest_run - 1) / row.longest_run)
    claims = {row.events: cost} if row.on_device else {}
    basis = _MATERIALIZED.text("basis-run")(run=row.longest_run, least=_LEAST)
    change: StepChange | None = None
    if cost >= _NOISE * facts.step_ns:
        interval, at = (_LEAST * cost, cost), copies_at(rows=(row,))
        if row.on_device:
            change = DeviceWork(interval, basis, claims=claims, at=at, host=ITS_OWN)
        else:
            change = HostTime(interval, basis, at=at)
    where = [_place(row, time)]
    where += [CodePlace("python", row.python_line)] if row.python_line else []
    evidence = Evidence(_MATERIALIZED.text("subject-run")(), row.longest_run, limit, "count", tuple(where))
    shapes = Inputs(row.input_shapes).shapes
    shape = str(list(shapes[0])) if shapes else "unknown"
    params = {"operator": row.operator, "run": row.longest_run, "shapes": shape, "time": OfEvents(time)}
    return Draft((evidence,), change, params, confidence="C", summary=_MATERIALIZED.text("summary-run"))


def _materialized_in_table(facts: Facts, limits: Limits) -> Drafts:
    if not facts.gpu_total_ns:
        return
    asked = sorted((row for row in facts.operators if row.name in _ASKING), key=lambda row: -row.device_total_ns)
    copied = sum(row.device_self_ns for row in facts.operators if row.name == _COPY)
    total = max(0, min(copied, sum(row.device_total_ns for row in asked)) - _repeated_ns(facts))
    share = facts.gpu_share(total)
    if share <= limits["gpu_share"]:
        return
    time = facts.on_device(total)
    rows = _shaped(facts, total) or [row for row in asked if row.device_total_ns]
    where = of_operators(facts, rows, lambda row: row.device_total_ns)
    claims = {EventSet.operator(_COPY): time}
    claims |= {row.events: facts.on_device(row.device_total_ns) for row in rows}
    evidence = Evidence(_MATERIALIZED.text("subject")(), share, limits["gpu_share"], "share", where)
    change = DeviceWork((_LEAST * time, time), _MATERIALIZED.text("basis")(least=_LEAST), claims=claims)
    calls = facts.per_step(sum(row.calls for row in rows if row.name == _COPY))
    params = {"copies": max(1, round(calls)), "time": time, "share": share, "operator": asked[0].name}
    summary = None if calls else _MATERIALIZED.text("summary-table")
    yield Draft((evidence,), change, params, confidence="B", summary=summary)


def _shaped(facts: Facts, total: int) -> list[OperatorFact]:
    """Rows of copies by shape, those with most time first; no row has more time than all copies together."""
    heads = _repeated_heads(facts)
    copies = [row for row in if_known(lambda: facts.shaped) if row.name == _COPY and row.shapes not in heads]
    rows = [row for row in copies if 0 < row.device_self_ns <= 1.01 * total]
    return sorted(rows, key=lambda row: (-row.device_self_ns, row.shapes or ""))


def _keys(facts: Facts, limits: Limits) -> Drafts:
    repeats = _repeated_heads(facts)
    rows = [row for row in facts.shaped if row.name == _COPY and row.shapes in repeats and row.device_self_ns]
    total = sum(row.device_self_ns for row in rows)
    share = facts.gpu_share(total)
    if share <= limits["gpu_share"]:
        return
    rows.sort(key=lambda row: (-row.device_self_ns, row.shapes or ""))
    where = of_operators(facts, rows, lambda row: facts.on_device(row.device_self_ns))
    claims = summed((row.events, facts.on_device(row.device_self_ns)) for row in rows)
    time = facts.on_device(total)
    least, basis = 0.0, _KEYS.text("basis-unsure")()
    if all(repeats[row.shapes or ""].by_flash for row in rows):
        least, basis = _LEAST, _KEYS.text("basis")(least=_LEAST)
    largest = repeats[rows[0].shapes or ""]
    copies = max(1, round(facts.per_step(fsum(row.calls for row in rows))))
    params = {
        "copies": copies,
        "heads": largest.heads,
        "queries": largest.query_heads,
        "time": OfEvents(time),
        "share": share,
    }
    change = DeviceWork((least * time, time), basis, claims=claims, host=ITS_OWN)
    yield Draft((Evidence(_KEYS.text("subject")(), share, limits["gpu_share"], "share", where),), change, params)


@dataclass(frozen=True)
class _RepeatedHeads:
    """Copies that repeat the heads of keys or values before attention."""

    heads: int
    """Heads of keys and values before the copy."""
    query_heads: int
    """Heads after it, as many as the queries have."""
    by_flash: bool
    """Whether torch's operator for attention takes the copies to its flash kernel."""


def _repeated_heads(facts: Facts) -> Mapping[str, _RepeatedHeads]:
    """Find copies of tensors with an expanded axis of heads, whose result attention takes.

    Returns:
        Shapes of `aten::copy_` as recorded, to what is repeated; empty where shapes were not recorded.
    """
    rows = if_known(lambda: facts.shaped)
    tensors = [(row, found) for row in rows if (found := row.inputs.tensors)]
    expanded = {found[0] for row, found in tensors if row.name == _EXPAND and len(found[0]) == 5}
    taken = [found for row, found in tensors if row.name == _ATTENTION and len(found) >= 3]
    flash = {found[1] for row, found in tensors if row.name == _FLASH and len(found) >= 3}
    grouped = {found[1] for found in taken if _is_grouped(found)}
    keys = {found[1] for found in taken if not _is_grouped(found)}
    factors = {found[-1] for row, found in tensors if row.name in _PRODUCTS and len(found[-1]) == 3}
    repeats: dict[str, _RepeatedHeads] = {}
    for row, found in tensors if expanded else ():
        shape = found[0]
        if row.name != _COPY or len(shape) != 5 or found[1:2] != (shape,) or not _keeps_type(row):
            continue
        for axis in _AXES:
            before, merged = _before(shape, axis), _merged(shape, axis)
            if shape[axis] < 2 or before not in expanded or _merged(before, axis) in grouped:
                continue
            batch, heads, sequence, size = merged
            products = {(batch * heads, sequence, size), (batch * heads, size, sequence)}
            if merged in keys or products & factors:
                repeats[str(row.shapes)] = _RepeatedHeads(shape[axis - 1], heads, merged in flash)
    return repeats


def _repeated_ns(facts: Facts) -> int:
    """Device time of these copies in ns, over all steps."""
    shapes = _repeated_heads(facts)
    return (
        sum(row.device_self_ns for row in facts.shaped if row.name == _COPY and row.shapes in shapes) if shapes else 0
    )


def _is_grouped(tensors: Sequence[Shape]) -> bool:
    """Whether attention takes fewer heads of keys than of queries itself."""
    query, key = tensors[:2]
    return len(query) == len(key) == 4 and query[1] != key[1]


def _before(shape: Shape, axis: int) -> Shape:
    """The shape before the axis was expanded."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _merged(shape: Shape, axis: int) -> Shape:
    """The shape with the repeats as separate heads, as attention takes it: [batch, heads, sequence, size]."""
    found = (*shape[: axis - 1], math.prod(shape[axis - 1 : axis + 1]), *shape[axis + 1 :])
    return found if axis == 2 else (found[0], found[2], found[1], found[3])


def _keeps_type(row: OperatorFact) -> bool:
    """Whether a copy has the type of its source, as far as known."""
    types = row.inputs.types or ()
    return len(types) < 2 or types[0] == types[1]


def _casts_in_trace(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    rows = [row for row in facts.need("conversions", Conversions).rows if row.on_device != processor.is_cpu]
    if rows and all(row.to_type is None for row in rows):
        raise Missing(_CASTS.text("no-types")())
    churn = _there_and_back(rows)
    if processor.is_cpu:
        churn = [row for row in churn if Inputs(row.input_shapes).shape(0) != ()]  # numbers are no activations
    cost, limit = _Cost(processor, churn), processor.limit(limits)
    if cost.share <= limit:
        return
    first = churn[0]
    params: dict[str, object] = {"casts": cost.calls, "time": OfEvents(cost.time), "share": cost.said_share}
    params |= {"one": _short(first.from_type), "other": _short(first.to_type)}
    if not processor.is_cpu:
        change = cost.saved(_CASTS.text("basis")(least=_LEAST), _LEAST)
        subject, summary = _CASTS.text("subject"), _CASTS.text("summary-caller") if first.caller else None
        params |= {"caller": first.caller or ""}
    else:  # casts take time of the host, most of it for their calls where tensors are small
        calls = processor.per_step(math.fsum(max(row.call_ns, row.host_ns) for row in churn))
        interval = (cost.time, min(_CALLS * calls, facts.step_ns))
        change = HostTime(interval, _CASTS.text("basis-cpu")(calls=_CALLS), at=cost.at)
        subject, summary = _CASTS.text("subject-cpu"), _CASTS.text("summary-cpu")
    evidence = Evidence(subject(), cost.share, limit, "share", cost.where)
    code = None if _RMS_NORM.search(first.caller or "") else ""
    yield Draft((evidence,), change, params, summary=summary, code=code)


def _there_and_back(rows: Sequence[Conversion]) -> list[Conversion]:
    """Casts of tensors with shapes that the forward pass casts from one type to another and back."""
    casts = [row for row in rows if {row.to_type, row.from_type} <= _FLOATING and row.to_type != row.from_type]
    forward = {(row.input_shapes, row.from_type, row.to_type) for row in casts if not row.is_backward}
    both = {shape for shape, a, b in forward if (shape, b, a) in forward}
    return [row for row in casts if row.input_shapes in both]


def _weights_in_trace(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    if processor.is_cpu or program.may_train(facts):
        return
    rows = [row for row in facts.need("conversions", Conversions).rows if row.on_device]
    if rows and all(row.to_type is None for row in rows):
        raise Missing(_WEIGHTS.text("no-types")())
    shapes = _weight_shapes(facts)
    narrowed = [row for row in rows if row.from_type == "float" and row.to_type in _NARROW and not row.is_backward]
    cost = _Cost(processor, [row for row in narrowed if (row.caller or "", _cast_shape(row)) in shapes])
    if not cost.rows or cost.share <= limits["gpu_share"]:
        return
    first = cost.rows[0]
    params = {"casts": cost.calls, "time": OfEvents(cost.time), "share": cost.said_share, "caller": first.caller}
    params |= {"one": _short(first.from_type), "other": _short(first.to_type)}
    evidence = Evidence(_WEIGHTS.text("subject")(), cost.share, limits["gpu_share"], "share", cost.where)
    yield Draft((evidence,), cost.saved(_WEIGHTS.text("basis")(least=_LEAST), _LEAST), params)


def _weight_shapes(facts: Facts) -> frozenset[tuple[str, Shape]]:
    """Operators with the shapes of their weights and biases, without shapes that their inputs have as well."""
    calls = [(row.name, row.inputs.shapes or ()) for row in if_known(lambda: facts.shaped) if _WEIGHTED.match(row.name)]
    weights = {(name, shape) for name, shapes in calls for shape in shapes[1:3] if shape}
    return frozenset(weights - {(name, shapes[0]) for name, shapes in calls if shapes})


def _cast_shape(row: Conversion) -> Shape:
    return Inputs(row.input_shapes).shape(0) or ()


def _short(kind: str | None) -> str:
    return (kind or "").removeprefix("c10::")


RULES = (
    _MATERIALIZED.rule(trace=_materialized_in_trace, table=_materialized_in_table),
    _KEYS.rule(trace=_keys, table=_keys),
    _CASTS.rule(trace=_casts_in_trace),
    _WEIGHTS.rule(trace=_weights_in_trace),
)
