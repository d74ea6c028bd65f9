"""Detects operators to call otherwise, elsewhere, or not at all.

The rules here are loop-vectorizable, operators-on-cpu, broadcast-blowup and shape-roofline-gap; `printed` is about rows
of tables that take most of the host's time, `lookups` about rows of matrices, `recurrent` about cells in loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.analyzers.operators import ShapeCosts, loops, on_cpu, operators_at
from traceanalyzer.knowledge import op_shapes
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_work, idle_time
from traceanalyzer.rules.engine.change import DeviceWork, HostTime
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.rules.engine.processor import FP32_BYTES, Processor, memory_bandwidth
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.rules.operators import contractions, lookups, printed, recurrent
from traceanalyzer.structure.events import ITS_OWN, EventSet
from traceanalyzer.structure.operator_times import Peer

_LOOP = page("loop-vectorizable")
_BLOWUP = page("broadcast-blowup")
_GAP = page("shape-roofline-gap")
_ON_THE_CPU = page("operators-on-cpu")

_KEPT = 0.5
"""Own choice: operators on the whole tensor are few, but each takes longer than one on a piece."""
_MOSTLY_IDLE = 0.8
"""Part of a loop's time in which a device does nothing from which on it only waits for the calls (own choice)."""
_OF_SMALL = 0.65, 1.1
"""Least and most that goes away where operators are small (measured in the lab, explained on the rule's page)."""
_WITH_GRADIENTS = 1.0, 1.6
"""The same where gradients pass through the loop."""

_ELSEWHERE = 0.5
"""Least part of the time of operators on the CPU that goes away on the GPU (own choice: see the rule's page)."""
_draws = finds(r"::(rand|normal|uniform|bernoulli|exponential|multinomial|random|dropout|geometric|cauchy|log_normal)")
"""Whether an operator draws random numbers."""

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
_NO_SHAPES = Text("rule-gaps-no-shapes", "no table is grouped by input shapes: use group_by_input_shape=True")

_GROUPING, _ADDING = frozenset({"aten::eq", "aten::index"}), frozenset({"aten::sum", "aten::mean"})
"""What a turn does that adds up the rows of one group: `x[labels == k].mean(0)`."""
_ONE_CALL = {
    "groups": (None, _LOOP.text("advice-groups")),
    "boxes": (_LOOP.text("summary-boxes"), _LOOP.text("advice-boxes")),
    "frames": (_LOOP.text("summary-frames"), _LOOP.text("advice-frames")),
}


class _Gap(msgspec.Struct, frozen=True):
    """Calls that cost too much; times are sums over the typical steps."""

    name: str
    shapes: str
    time_ns: int
    ratio: float
    saved_ns: tuple[float, float]
    peer: Peer | None


def _loops(facts: Facts, limits: Limits) -> Drafts:
    for row in facts.need("repeats", loops.Repeats).rows:
        if not row.is_carrying and row.most_turns >= limits["turns"]:
            yield from _loop(facts, row, limits)


def _loop(facts: Facts, row: loops.Repeat, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    per_step = processor.per_step if processor.is_cpu else facts.per_step
    taken = row.host_ns + row.backward_ns
    removed = per_step((row.removable_on_cpu_ns if processor.is_cpu else row.removable_ns) * (1 - row.runs / row.turns))
    if removed <= limits["host_share"] * facts.step_ns:
        return
    operators, turn = ", ".join(row.operators), " ".join(row.operators[: loops.LONGEST])
    where = at_line(row.python_line, "operator", turn, row.host_ns, row.longest_start_ns)
    params = {"turns": row.most_turns, "operators": operators, "time": OfEvents(per_step(taken))}
    evidence = _LOOP.evidence(limits, "turns", row.most_turns, (where,))
    summary = None if row.backward_ns else _LOOP.text("summary-forward")
    draft = Draft((evidence,), _without_loop(processor, row, removed), params, ceiling="high", summary=summary)
    kind = "groups" if _GROUPING.issubset(row.operators) and not _ADDING.isdisjoint(row.operators) else row.kind
    if kind is not None:
        told, advice = _ONE_CALL[kind]
        draft = replace(draft, summary=told or summary, advice=advice, code=contractions.OF_LOOPS[kind])
    yield draft


def _without_loop(processor: Processor, row: loops.Repeat, removed: float) -> HostTime:
    """The host time of all turns but one, and what they launch beside a device."""
    facts = processor.facts
    least, most = _KEPT, 1.0
    basis = (_LOOP.text("basis") if row.backward_ns else _LOOP.text("basis-forward"))()
    if _is_call_bound(row, is_cpu=processor.is_cpu):
        least, most = _WITH_GRADIENTS if row.backward_ns else _OF_SMALL
        text = _LOOP.text("basis-calls") if row.backward_ns else _LOOP.text("basis-calls-forward")
        basis = text(least=least, most=most)
    elif processor.is_cpu and row.only_moves:
        basis = _LOOP.text("basis-moves")(least=_KEPT * loops.SMALL_NS, most=loops.SMALL_NS)
    exposed = None
    if row.idle_ns is not None:
        idle = facts.per_step(row.idle_ns * (1 - row.runs / row.turns))
        exposed = (_KEPT * idle, idle)
    direct = least * removed, min(most * removed, facts.step_ns)
    at = loops.loop_at(row=row)
    if processor.is_cpu:  # not only the operator: time outside of operators is saved as well
        return HostTime(direct, basis, exposed, {EventSet.other(row.operators[0]): removed}, at)
    claims = idle_time.claims(facts, row.exposed)
    shares = (EventSet.operator(row.operators[0]),)
    return HostTime(direct, basis, exposed, claims, within=at, shares=shares, device=ITS_OWN)


def _is_call_bound(row: loops.Repeat, *, is_cpu: bool) -> bool:
    """Whether calling its operators is what takes most of a loop's time: they are short, or leave a device idle."""
    if is_cpu:
        return row.host_ns <= loops.SMALL_NS * row.turns * len(row.operators)
    return row.idle_ns is not None and row.idle_ns >= _MOSTLY_IDLE * (row.host_ns + row.backward_ns)


def _on_the_cpu(facts: Facts, limits: Limits) -> Drafts:
    idle_time.need_usual_idle_time(facts)
    rows = _holding_up(facts)
    idle = facts.per_step(sum(row.idle_ns for row in rows))
    share = facts.step_share(idle)
    if not rows or share <= limits["idle_share"]:
        return
    where = tuple(
        CodePlace("operator", row.name, None, facts.per_step(row.host_ns), "ns", row.start_ns) for row in rows[:5]
    )
    time = facts.per_step(sum(row.host_ns for row in rows))
    interval = (_ELSEWHERE * time, time)
    yield Draft(
        (_ON_THE_CPU.evidence(limits, "idle_share", share, where),),
        HostTime(
            interval,
            _ON_THE_CPU.text("basis")(least=_ELSEWHERE),
            (_ELSEWHERE * idle, idle),
            {EventSet.idle("cpu_operators"): min(idle, facts.idle_per_step("cpu_operators"))},
            within=on_cpu.cpu_operators_at(names=tuple(row.name for row in rows), in_optimizer=False),
        ),
        {**host_work.figures(facts, time), "operator": rows[0].name},
        advice=_ON_THE_CPU.text("advice-random") if _draws(rows[0].name) else None,
        code=contractions.on_gpu(rows[0].name),
    )


def _holding_up(facts: Facts) -> list[on_cpu.CpuOperator]:
    """Operators of most steps under which the device mostly idles; none of a start-up, whose first calls take long."""
    found = facts.need("cpu_operators", on_cpu.CpuOperators).rows
    rows = [row for row in found if not row.in_optimizer and 2 * row.idle_ns >= row.host_ns]
    is_usual = not (facts.tells_little or facts.is_startup)
    return [row for row in rows if is_usual and 2 * row.steps >= facts.steps]


def _blowups(facts: Facts, limits: Limits) -> Drafts:
    """One finding for each size of tensors that are far larger than what they are made of, and summed up again."""
    processor = Processor.of(facts)
    rows = [row for row in facts.shaped if row.calls and processor.self_ns(row) and row.inputs.shapes]
    written = [row for row in rows if row.in_backward < row.calls]  # an outer product may be the gradient of a matrix
    roots = _roots(processor, written, limits)
    for elements in sorted(roots.keys() & set(map(_reduced, written)), reverse=True):
        members = [row for row in rows if _belongs(row, elements)]
        members.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
        work = EventTimes.of(processor, ((row.events, processor.self_ns(row)) for row in members))
        if work.share > processor.limit(limits):
            is_bent = contractions.is_bent(written, elements)
            yield _blowup(work, roots[elements], members, limits, is_bent=is_bent)


class _Root(msgspec.Struct, frozen=True):
    """The operator that makes a tensor which is far larger than its inputs."""

    row: OperatorFact
    elements: int
    """Elements of its result."""
    factor: float
    """Their ratio to those of the largest input."""


def _roots(processor: Processor, rows: Sequence[OperatorFact], limits: Limits) -> dict[int, _Root]:
    """The operators that make large tensors, by their elements; of each size the one that takes longest."""
    least = limits["host_result_bytes" if processor.is_cpu else "result_bytes"]
    roots: dict[int, _Root] = {}
    for row in rows:
        root = _blown_up(row, limits["expansion"])
        if root is not None and root.elements * FP32_BYTES >= least:
            best = roots.get(root.elements)
            if best is None or processor.self_ns(row) > processor.self_ns(best.row):
                roots[root.elements] = root
    return roots


def _blowup(work: EventTimes, root: _Root, members: Sequence[OperatorFact], limits: Limits, *, is_bent: bool) -> Draft:
    """The finding about operators on tensors of one size, that which makes them first."""
    where = work.processor.places([root.row, *(row for row in members if row is not root.row)])
    params = {
        "operator": root.row.name,
        "shapes": root.row.shapes,
        "factor": root.factor,
        "elements": root.elements,
        "count": len(members),
        **work.figures(),
    }
    if is_bent:  # so that no product of matrices is the same, and one pass over all elements remains
        change = work.shorter((0.0, 1 - 1 / len(members)), _BLOWUP.text("basis-bent")())
        evidence = _BLOWUP.evidence(limits, "expansion", root.factor, where)
        told = _BLOWUP.text("summary-bent-cpu") if work.processor.is_cpu else _BLOWUP.text("summary-bent")
        advice = _BLOWUP.text("advice-bent")
        return Draft((evidence,), change, params, summary=told, advice=advice, code="")
    code = contractions.instead(root.row, members)
    without = _without_blowup_on_cpu if work.processor.is_cpu else _without_blowup_on_gpu
    return Draft(
        (_BLOWUP.evidence(limits, "expansion", root.factor, where),),
        without(work, root.elements, members),
        params,
        summary=_BLOWUP.text("summary-cpu") if work.processor.is_cpu else None,
        advice=_BLOWUP.text("advice-cdist") if code and "cdist" in code else None,
        code=code,
    )


def _blown_up(row: OperatorFact, expansion: float) -> _Root | None:
    """The tensor that a call makes, if it is larger than the largest input by that factor."""
    shapes = row.inputs.shapes or ()
    base, tensors = row.name.removeprefix("aten::"), [shape for shape in shapes if shape]
    if base in op_shapes.BINARY and len(tensors) > 1:
        result = op_shapes.broadcast(tensors)
        made = math.prod(result) if result else 0
    else:
        product = op_shapes.sides_of(row.name, shapes)
        made = product.batch * product.m * product.n if product is not None and product.k == 1 else 0
    largest = max((math.prod(shape) for shape in tensors), default=0)
    return _Root(row, made, made / largest) if largest and made >= expansion * largest else None


def _reduced(row: OperatorFact) -> int | None:
    """Elements of the tensor that a reduction sums up, as `sum` or as a product with one column."""
    shapes = row.inputs.shapes or ()
    if row.name.removeprefix("aten::") in _REDUCTIONS:
        return math.prod(shapes[0]) if shapes and shapes[0] else None
    product = op_shapes.sides_of(row.name, shapes)
    return product.batch * product.m * product.k if product is not None and product.n == 1 else None


def _belongs(row: OperatorFact, elements: int) -> bool:
    """Whether an operator reads or writes a tensor of that size, and is not a real matrix product."""
    shapes, base = row.inputs.shapes or (), row.name.removeprefix("aten::")
    product = op_shapes.sides_of(row.name, shapes)
    tensors = [shape for shape in shapes if shape]
    sizes = set(map(math.prod, tensors))
    if product is not None:
        return 1 in (product.m, product.n, product.k) and elements in sizes | {product.batch * product.m * product.n}
    if base not in op_shapes.BINARY:
        return base in _REDUCTIONS | _OTHERS and elements in sizes
    result = op_shapes.broadcast(tensors) if tensors else None
    return elements in sizes or (result is not None and math.prod(result) == elements)


def _without_blowup_on_cpu(work: EventTimes, elements: int, members: Sequence[OperatorFact]) -> HostTime:
    """The time of operators on tensors of that size, without a multiplication and an addition for each element."""
    remains = (
        sum(row.calls for row in members) / 2 * _OPERATIONS * elements / _CPU_RATE
    )  # a product and its sum are one
    saved = work.processor.per_step(max(0.0, work.total_ns - remains))
    least, most = _ON_CPU
    direct = least * saved, min(most * saved, work.processor.facts.step_ns)
    return HostTime(
        direct,
        _BLOWUP.text("basis-cpu")(elements=elements, least=least, most=most),
        # not only operators: time outside of them is saved as well
        claims={EventSet.other(f"tensor of {elements} elements"): direct[1]},
        at=operators_at(rows=tuple((row.name, row.shapes, row.types) for row in members)),
    )


def _without_blowup_on_gpu(work: EventTimes, elements: int, members: Sequence[OperatorFact]) -> DeviceWork:
    """The same on a GPU, for the time of which as much is sure as surely belongs to the pattern."""
    processor, time = work.processor, work.total_ns
    gpu = processor.facts.gpu
    rate = (gpu.fp32 if gpu and gpu.fp32 else _TFLOPS) * 1000  # operations per ns
    most = max(0.0, time - sum(row.calls for row in members) * _OPERATIONS * elements / rate)
    direct = processor.per_step(min(most, _FOR_SURE * time)), processor.per_step(most)
    claims = {row.events: processor.per_step(processor.self_ns(row)) * most / time for row in members}
    return DeviceWork(direct, _BLOWUP.text("basis")(elements=elements, sure=_FOR_SURE), claims=claims)


def _gaps(facts: Facts, limits: Limits) -> Drafts:
    """One finding for each gap, because each has its own cause."""
    gaps = _recorded_gaps(facts, limits) if facts.table is None else _printed_gaps(facts, limits)
    for gap in sorted(gaps, key=lambda gap: (-gap.saved_ns[1], gap.name, gap.shapes)):
        work = EventTimes.on_device(facts, ((EventSet.operator(gap.name, gap.shapes), gap.time_ns),))
        if work.share > limits["gpu_share"]:
            yield (
                _beside_peer(facts, limits, gap, gap.peer, work) if gap.peer else _beside_roof(facts, limits, gap, work)
            )


def _beside_peer(facts: Facts, limits: Limits, gap: _Gap, peer: Peer, work: EventTimes) -> Draft:
    """The finding about calls that take longer than others of the same size."""
    where = (  # one call of each
        CodePlace("operator", gap.name, gap.shapes, gap.ratio * peer.device_ns_per_call, "ns"),
        CodePlace("operator", gap.name, peer.input_shapes, peer.device_ns_per_call, "ns"),
    )
    is_at_peer = gap.saved_ns[0] == gap.saved_ns[1]
    basis = _GAP.text("basis-peer")() if is_at_peer else _GAP.text("basis-roof")(bandwidth=memory_bandwidth(facts))
    evidence = _GAP.evidence(limits, "ratio", gap.ratio, where, subject=_GAP.text("subject-peer")())
    least, most = map(facts.on_device, gap.saved_ns)
    change = DeviceWork((least, most), basis, claims=dict.fromkeys(work.ns, most))
    return Draft((evidence,), change, _gap_figures(gap, work), code=_swapped(gap, peer))


def _beside_roof(facts: Facts, limits: Limits, gap: _Gap, work: EventTimes) -> Draft:
    """The finding about calls that take longer than moving their data."""
    where = CodePlace("operator", gap.name, gap.shapes, facts.at_place(gap.time_ns), "ns")
    basis = _GAP.text("basis-roof")(bandwidth=memory_bandwidth(facts))
    least, most = map(facts.on_device, gap.saved_ns)
    return Draft(
        (_GAP.evidence(limits, "ratio", gap.ratio, (where,), subject=_GAP.text("subject-roof")()),),
        DeviceWork((least, most), basis, claims=dict.fromkeys(work.ns, most)),
        _gap_figures(gap, work),
        confidence="B",
        code="",
        summary=_GAP.text("summary-roof"),
        advice=_GAP.text("advice-roof-aligned") if _is_aligned(gap) else _GAP.text("advice-roof"),
    )


def _gap_figures(gap: _Gap, work: EventTimes) -> dict[str, object]:
    """The quantities of a sentence about a gap."""
    return {
        "operator": gap.name,
        "shapes": gap.shapes,
        "peer": gap.peer.input_shapes if gap.peer else None,
        "ratio": gap.ratio,
        **work.figures(),
    }


def _is_aligned(gap: _Gap) -> bool:
    """Whether the last axis of every tensor has a length that vectors of any type divide."""
    return all(shape[-1] % 8 == 0 for shape in Inputs(gap.shapes).tensors)


def _swapped(gap: _Gap, peer: Peer) -> str:
    """Code with the operands in the order of the faster call; empty where that is not the difference."""
    base, slow = gap.name.removeprefix("aten::"), Inputs(gap.shapes).shapes or ()
    fast = Inputs(peer.input_shapes).shapes or ()
    is_swapped = base in ("mul", "add") and len(slow) >= 2 and slow[:2] == fast[1::-1] != fast[:2]
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
        if time < limits["call_ns"] * row.calls or 2 * row.bus_ns >= time:
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
    _ON_THE_CPU.rule(trace=_on_the_cpu),
    _BLOWUP.rule(trace=_blowups, table=_blowups),
    _GAP.rule(trace=_gaps, table=_gaps),
    *printed.RULES,
    *lookups.RULES,
    *recurrent.RULES,
)
