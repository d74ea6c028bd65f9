"""Detects operators to call otherwise, or not at all: loop-vectorizable, broadcast-blowup, shape-roofline-gap."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Sequence

import msgspec

from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.analyzers.operators import ShapeCosts, operators_at
from traceanalyzer.analyzers.operators.loops import Repeat, Repeats, loop_at
from traceanalyzer.knowledge.inputs import Inputs, Shape
from traceanalyzer.knowledge.op_shapes import BINARY, broadcast, sides_of
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, Interval, StepChange
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.rules.engine.processor import FP32_BYTES, Processor, memory_bandwidth
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN, EventSet
from traceanalyzer.structure.operator_times import Peer

_LOOP = page("loop-vectorizable")
_BLOWUP = page("broadcast-blowup")
_GAP = page("shape-roofline-gap")

_KEPT = 0.5
"""Own choice: operators on the whole tensor are few, but each takes longer than one on a piece."""
_SMALL_NS = 10_000
"""Own choice: a call of an operator with next to no work takes 2 to 5 us with a profiler."""
_MOSTLY_IDLE = 0.8
"""Part of a loop's time in which a device does nothing from which on it only waits for the calls (own choice)."""
_OF_SMALL = 0.65, 1.1
"""Least and most that goes away where operators are small (measured in the lab, explained on the rule's page)."""
_WITH_GRADIENTS = 1.0, 1.6
"""The same where gradients pass through the loop."""

_FOR_SURE = 0.5
"""Share of the operators of that size that surely belong to the pattern (own choice)."""
_OPERATIONS = 2
"""A multiplication and an addition per element remain."""
_TFLOPS = 5.0
"""Own choice for an unknown GPU: a third of the fp32 peak of a V100, 10^12 operations per second."""
_ON_CPU = 0.95, 1.4
"""Least and greatest saving on a CPU (measured in the lab, explained on the rule's page)."""
_CPU_RATE = 60.0
"""fp32 operations per ns of matrix products on one core (the lab measured 30 to 95 on one of an AMD EPYC)."""
_REDUCTIONS = frozenset(
    {"sum", "mean", "amax", "amin", "max", "min", "logsumexp", "norm", "linalg_vector_norm", "prod"}
)
_OTHERS = frozenset({"copy_", "neg", "exp", "abs", "sqrt", "relu", "clamp_min", "tanh", "sigmoid"})

_MOVING = frozenset({"elementwise", "reduction", "normalization"})
"""Families of operators that are bound by memory."""
_REACHED = 0.5
"""Share of the memory's bandwidth that an operator which moves data should reach at least (own choice)."""
_COMMUTATIVE = frozenset({"mul", "add"})
_NO_SHAPES = Text("rule-gaps-no-shapes", "no table is grouped by input shapes: use group_by_input_shape=True")


class _Gap(msgspec.Struct, frozen=True):
    """Calls that cost too much; times are sums over the typical steps."""

    name: str
    shapes: str
    time_ns: int
    ratio: float
    saved_ns: Interval
    peer: Peer | None


def _loops(facts: Facts, limits: Limits) -> Drafts:
    for row in facts.need("repeats", Repeats).rows:
        if not row.is_carrying and row.most_turns >= limits["turns"]:
            yield from _loop(facts, row, limits)


def _loop(facts: Facts, row: Repeat, limits: Limits) -> Drafts:
    taken = row.host_ns + row.backward_ns
    processor = Processor.of(facts)
    per_step = processor.per_step if processor.is_cpu else facts.per_step
    removed = per_step(taken * (1 - row.runs / row.turns))
    if removed <= limits["host_share"] * facts.step_ns:
        return
    where = at_line(row.python_line, "operator", " ".join(row.operators), row.host_ns, row.longest_start_ns)
    evidence = Evidence(_LOOP.text("subject")(), row.most_turns, limits["turns"], "count", (where,))
    exposed = None
    if row.idle_ns is not None:
        idle = facts.per_step(row.idle_ns * (1 - row.runs / row.turns))
        exposed = (_KEPT * idle, idle)
    # not only the operator: on a CPU, time outside of operators is saved as well
    claims = {(EventSet.other if processor.is_cpu else EventSet.operator)(row.operators[0]): removed}
    least, most, basis = _KEPT, 1.0, _LOOP.text("basis")()
    if _is_call_bound(row, is_cpu=processor.is_cpu):
        least, most = _WITH_GRADIENTS if row.backward_ns else _OF_SMALL
        basis = _LOOP.text("basis-calls")(least=least, most=most)
    beside = not processor.is_cpu  # with the calls goes what they launch
    direct, at = (least * removed, min(most * removed, facts.step_ns)), loop_at(row=row)
    if beside:
        change = HostTime(direct, basis, exposed, claims, within=at, device=ITS_OWN)
    else:
        change = HostTime(direct, basis, exposed, claims, at)
    params = {"turns": row.most_turns, "operators": ", ".join(row.operators), "time": OfEvents(per_step(taken))}
    yield Draft((evidence,), change, params, ceiling="high")


def _is_call_bound(row: Repeat, *, is_cpu: bool) -> bool:
    """Whether calling its operators is what takes most of a loop's time: they are short, or leave a device idle."""
    if is_cpu:
        return row.host_ns <= _SMALL_NS * row.turns * len(row.operators)
    return row.idle_ns is not None and row.idle_ns >= _MOSTLY_IDLE * (row.host_ns + row.backward_ns)


def _blowups(facts: Facts, limits: Limits) -> Drafts:
    """One finding for each size of tensors that are far larger than what they are made of, and summed up again."""
    processor = Processor.of(facts)
    used = [row for row in facts.shaped if row.calls and processor.self_ns(row)]
    rows = [(row, shapes) for row in used if (shapes := row.inputs.shapes)]
    least = limits["host_result_bytes" if processor.is_cpu else "result_bytes"]
    roots: dict[int, tuple[float, OperatorFact]] = {}
    for row, shapes in rows:
        made = _blown_up(row.name, shapes, limits["expansion"])
        if made is not None and made[0] * FP32_BYTES >= least:
            elements, factor = made
            best = roots.get(elements)
            if best is None or processor.self_ns(row) > processor.self_ns(best[1]):
                roots[elements] = (factor, row)
    reduced = {_reduced(row.name, shapes) for row, shapes in rows}
    for elements in sorted(roots.keys() & reduced, reverse=True):
        factor, root = roots[elements]
        members = [row for row, shapes in rows if _belongs(row.name, shapes, elements)]
        members.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
        time = sum(map(processor.self_ns, members))
        share = processor.share(time)
        if share <= processor.limit(limits):
            continue
        where = processor.places([root, *(row for row in members if row is not root)])
        params = {
            "operator": root.name,
            "shapes": root.shapes,
            "factor": factor,
            "elements": elements,
            "count": len(members),
            "time": OfEvents(processor.per_step(time)),
            "share": OfEvents(processor.per_step(time), is_share=True) if processor.is_cpu else share,
        }
        yield Draft(
            (Evidence(_BLOWUP.text("subject")(), factor, limits["expansion"], "number", where),),
            _without_blowup(processor, elements, time, members),
            params,
            summary=_BLOWUP.text("summary-cpu") if processor.is_cpu else None,
            code=_einsum(root),
        )


def _blown_up(name: str, shapes: Sequence[Shape], expansion: float) -> tuple[int, float] | None:
    """Elements of the result, and their ratio to those of the largest input, if the result is that much larger."""
    base, tensors = name.removeprefix("aten::"), [shape for shape in shapes if shape]
    if base in BINARY and len(tensors) > 1:
        result = broadcast(tensors)
        made = math.prod(result) if result else 0
    else:
        product = sides_of(name, shapes)
        made = product.batch * product.m * product.n if product is not None and product.k == 1 else 0
    largest = max((math.prod(shape) for shape in tensors), default=0)
    return (made, made / largest) if largest and made >= expansion * largest else None


def _reduced(name: str, shapes: Sequence[Shape]) -> int | None:
    """Elements of the tensor that a reduction sums up, as `sum` or as a product with one column."""
    if name.removeprefix("aten::") in _REDUCTIONS:
        return math.prod(shapes[0]) if shapes and shapes[0] else None
    product = sides_of(name, shapes)
    return product.batch * product.m * product.k if product is not None and product.n == 1 else None


def _belongs(name: str, shapes: Sequence[Shape], elements: int) -> bool:
    """Whether an operator reads or writes a tensor of that size, and is not a real matrix product."""
    product, base = sides_of(name, shapes), name.removeprefix("aten::")
    tensors = [shape for shape in shapes if shape]
    sizes = set(map(math.prod, tensors))
    if product is not None:
        return 1 in (product.m, product.n, product.k) and elements in sizes | {product.batch * product.m * product.n}
    if base not in BINARY:
        return base in _REDUCTIONS | _OTHERS and elements in sizes
    result = broadcast(tensors) if tensors else None
    return elements in sizes or (result is not None and math.prod(result) == elements)


def _without_blowup(processor: Processor, elements: int, time: int, members: Sequence[OperatorFact]) -> StepChange:
    """The time of operators on tensors of that size, without a multiplication and an addition for each element."""
    calls = sum(row.calls for row in members)
    if processor.is_cpu:
        remains = calls / 2 * _OPERATIONS * elements / _CPU_RATE  # a product and its sum are one
        saved, (least, most) = processor.per_step(max(0.0, time - remains)), _ON_CPU
        direct = least * saved, min(most * saved, processor.facts.step_ns)
        basis = _BLOWUP.text("basis-cpu")(elements=elements, least=least, most=most)
        # not only operators: time outside of them is saved as well
        claims = {EventSet.other(f"tensor of {elements} elements"): direct[1]}
        at = operators_at(rows=tuple((row.name, row.shapes, row.types) for row in members))
        return HostTime(direct, basis, claims=claims, at=at)
    device = processor.facts.gpu
    rate = (device.fp32 if device and device.fp32 else _TFLOPS) * 1000  # operations per ns
    high = max(0.0, time - calls * _OPERATIONS * elements / rate)
    direct = processor.per_step(min(high, _FOR_SURE * time)), processor.per_step(high)
    claims = {row.events: processor.per_step(processor.self_ns(row)) * high / time for row in members}
    return DeviceWork(direct, _BLOWUP.text("basis")(elements=elements, sure=_FOR_SURE), claims=claims)


def _einsum(root: OperatorFact) -> str | None:
    """Code for two tensors that share one axis, which must be the summed one; None if shapes do not show it."""
    operands = root.inputs.tensors
    if len(operands) != 2 or len(operands[0]) != len(operands[1]) or not root.name.startswith("aten::mul"):
        return None
    shared = [axis for axis, sizes in enumerate(zip(*operands, strict=True)) if min(sizes) > 1]
    if len(shared) != 1:
        return None
    letters = string.ascii_lowercase[: len(operands[0])]
    left = letters.replace(letters[shared[0]], "")
    return f'y = torch.einsum("{letters},{letters}->{left}", a, b)  # instead of (a * b).sum({shared[0]})'


def _gaps(facts: Facts, limits: Limits) -> Drafts:
    """One finding for each gap, because each has its own cause."""
    gaps = _recorded_gaps(facts, limits) if facts.table is None else _printed_gaps(facts, limits)
    for gap in sorted(gaps, key=lambda gap: (-gap.saved_ns[1], gap.name, gap.shapes)):
        share = facts.gpu_share(gap.time_ns)
        if share > limits["gpu_share"]:
            yield _gap(facts, limits, gap, share)


def _gap(facts: Facts, limits: Limits, gap: _Gap, share: float) -> Draft:
    low, high = map(facts.on_device, gap.saved_ns)
    peer, claims = gap.peer, {EventSet.operator(gap.name, gap.shapes): high}
    time = facts.at_place(gap.time_ns) if peer is None else gap.ratio * peer.device_ns_per_call  # of one call each
    where = [CodePlace("operator", gap.name, gap.shapes, time, "ns")]
    if peer is not None:
        where.append(CodePlace("operator", gap.name, peer.input_shapes, peer.device_ns_per_call, "ns"))
    subject = _GAP.text("subject-roof") if peer is None else _GAP.text("subject-peer")
    is_at_peer = peer is not None and gap.saved_ns[0] == gap.saved_ns[1]
    basis = _GAP.text("basis-peer")() if is_at_peer else _GAP.text("basis-roof")(bandwidth=memory_bandwidth(facts))
    params = {
        "operator": gap.name,
        "shapes": gap.shapes,
        "peer": peer.input_shapes if peer else None,
        "ratio": gap.ratio,
        "time": OfEvents(facts.on_device(gap.time_ns)),
        "share": share,
    }
    return Draft(
        (Evidence(subject(), gap.ratio, limits["ratio"], "number", tuple(where)),),
        DeviceWork((low, high), basis, claims=claims),
        params,
        confidence=None if peer else "B",
        code=_swapped(gap),
        summary=None if peer else _GAP.text("summary-roof"),
        advice=None if peer else _GAP.text("advice-roof-aligned") if _is_aligned(gap) else _GAP.text("advice-roof"),
    )


def _is_aligned(gap: _Gap) -> bool:
    """Whether the last axis of every tensor has a length that vectors of any type divide."""
    return all(shape[-1] % 8 == 0 for shape in Inputs(gap.shapes).tensors)


def _swapped(gap: _Gap) -> str:
    """Code with the operands in the order of the faster call; empty where that is not the difference."""
    base = gap.name.removeprefix("aten::")
    slow = Inputs(gap.shapes).shapes or ()
    fast = Inputs(gap.peer.input_shapes if gap.peer else None).shapes or ()
    is_swapped = base in _COMMUTATIVE and len(slow) >= 2 and slow[:2] == fast[1::-1] != fast[:2]
    return f"y = torch.{base}(b, a)  # instead of torch.{base}(a, b)" if is_swapped else ""


def _recorded_gaps(facts: Facts, limits: Limits) -> Iterator[_Gap]:
    """Calls of a trace that take far longer than others of the same size, or than moving their bytes would take.

    Raises:
        Missing: It has no kernels or no shapes.
    """
    costs = facts.need("shape_costs", ShapeCosts)
    floors = _floors(facts, limits["floor_ns"])
    for row in costs.rows:
        time, floor = row.device_ns, floors.get((row.name, row.input_shapes, row.input_types))
        if time < limits["call_ns"] * row.calls:
            continue
        peer = _slower_than(row.peer, row.device_ns_per_call, limits["ratio"])
        if peer is not None:
            most = max(peer.saving_ns, time - floor) if floor else peer.saving_ns
            ratio = row.device_ns_per_call / peer.device_ns_per_call
            yield _Gap(row.name, row.input_shapes, time, ratio, (peer.saving_ns, most), peer)
        elif floor and time / floor > limits["ratio"]:
            saved = (time - floor / _REACHED, time - floor)
            yield _Gap(row.name, row.input_shapes, time, time / floor, saved, None)


def _floors(facts: Facts, floor_ns: float) -> dict[tuple[str, str, str], float]:
    """Least possible time of all calls in ns, if memory bounds them and their data is large enough to be sure."""
    roofline, bandwidth = facts.find("roofline", Roofline), memory_bandwidth(facts)
    if roofline is None or not bandwidth:
        return {}
    floors = {
        (row.name, row.input_shapes, row.input_types): row.bytes / bandwidth
        for row in roofline.rows
        if row.family in _MOVING and row.bytes
    }
    calls = {(row.name, row.input_shapes, row.input_types): row.calls for row in roofline.rows}
    return {key: floor for key, floor in floors.items() if floor >= floor_ns * calls[key]}


def _printed_gaps(facts: Facts, limits: Limits) -> Iterator[_Gap]:
    """Calls of a printed table that take far longer than others of the same size.

    Raises:
        Missing: It is not grouped by shapes.
    """
    if facts.table is None or not facts.table.shape_costs:
        raise Missing(_NO_SHAPES())
    for row in facts.table.shape_costs:
        peer = _slower_than(row.peer, row.device_ns_per_call, limits["ratio"])
        if peer is not None and row.device_ns_per_call >= limits["call_ns"]:
            ratio = row.device_ns_per_call / peer.device_ns_per_call
            saved = (peer.saving_ns, peer.saving_ns)
            yield _Gap(row.name, row.input_shapes, row.device_ns, ratio, saved, peer)


def _slower_than(peer: Peer | None, price: float, ratio: float) -> Peer | None:
    """The peer, if calls at that price are slower by the ratio."""
    return peer if peer is not None and price / peer.device_ns_per_call > ratio else None


RULES = (
    _LOOP.rule(trace=_loops),
    _BLOWUP.rule(trace=_blowups, table=_blowups),
    _GAP.rule(trace=_gaps, table=_gaps),
)
