"""An operator takes several times as long as the same amount of work elsewhere, or as moving its data should take.

What it detects:
    Calls of an operator that cost more than four times as much as other calls of it in the same recording that read and
    write the same amount (mostly with another order of operands or another layout). In a trace of a known GPU, also
    operators that only move data and take more than four times as long as moving their bytes once.

Why it matters:
    The cheaper call proves that this device can do the work in that time. The rest is the cost of an unfavourable
    layout: a broadcast over the last axis, large strides, odd lengths.

What to do:
    Call the operator as the cheaper call does: swap operands, make the longest contiguous axis the last one, put the
    broadcast axis elsewhere. If none of that helps, torch.compile generates a kernel for the shape.

How the saving is estimated:
    The difference to the cheaper call; in a trace, the upper end is the difference to the time in which memory could
    move the bytes.

When it is wrong:
    Small calls are bound by their launch. Tensors that stay in a cache can be faster than the limit of the memory,
    never slower. Expanded tensors contain fewer bytes than their shapes suggest. Operators without a model of their
    bytes (gather, scatter, index) are not judged; nor are fused attention and products, which may be bound by
    arithmetic.

References:
    https://docs.pytorch.org/docs/stable/tensor_view.html
    https://docs.nvidia.com/deeplearning/performance/dl-performance-memory-limited/index.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._gaps import Gap, memory_bandwidth, printed, recorded
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_COMMUTATIVE = frozenset({"mul", "add"})

_SUBJECT_PEER = Text("shape-roofline-gap-subject-peer", "time of a call over that of a call of the same size")
_SUBJECT_ROOF = Text("shape-roofline-gap-subject-roof", "time of a call over that of moving its bytes once")
_BASIS_PEER = Text(
    "shape-roofline-gap-basis-peer", "if each call took as long as the faster calls of the same size in this run"
)
_BASIS_ROOF = Text(
    "shape-roofline-gap-basis-roof",
    "at most down to the memory's bandwidth, {bandwidth:number} GB/s by its data sheet; at least down to the time of "
    "the faster call of the same size, or to half of that bandwidth where there is none",
)
_SUMMARY_ROOF = Text(
    "shape-roofline-gap-summary-roof",
    "{operator} {shapes} takes {ratio:number} times as long as the memory needs to move its bytes: {time:ns} per step "
    "({share:share} of the time on the GPU).",
)
_ADVICE_ROOF = Text(
    "shape-roofline-gap-advice-roof",
    "Look at which kernel runs: rows of odd length, strides that jump or many passes cost the most. Give the last "
    "axis a length that is a multiple of 8, make the tensor contiguous, or let torch.compile generate the kernel.",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """One finding for each gap, because each has its own cause."""
    found = recorded(facts, limits) if facts.table is None else printed(facts, limits)
    bandwidth, total = memory_bandwidth(facts), facts.gpu_total_ns
    for gap in sorted(found, key=lambda gap: (-gap.saved_ns[1], gap.name, gap.shapes)):
        share = gap.time_ns / total if total else 0.0
        if share <= limits["gpu_share"]:
            continue
        low, high = map(facts.gpu_per_step, gap.saved_ns)
        peer = gap.peer
        where = [CodePlace("operator", gap.name, shapes=gap.shapes, value=gap.time_ns, unit="ns")]
        if peer is not None:
            price = peer.device_ns_per_call
            where.append(CodePlace("operator", gap.name, shapes=peer.input_shapes, value=price, unit="ns"))
        at_peer = peer is not None and gap.saved_ns[0] == gap.saved_ns[1]
        subject = _SUBJECT_ROOF if peer is None else _SUBJECT_PEER
        yield Draft(
            (Evidence(subject(), gap.ratio, limits["ratio"], "number", tuple(where)),),
            TimeSaved(
                "gpu",
                (low, high),
                _BASIS_PEER() if at_peer else _BASIS_ROOF(bandwidth=bandwidth),
                claims={f"operator:{gap.name}|{gap.shapes}": high},
            ),
            {
                "operator": gap.name,
                "shapes": gap.shapes,
                "peer": peer.input_shapes if peer else None,
                "ratio": gap.ratio,
                "time": facts.gpu_per_step(gap.time_ns),
                "share": share,
            },
            confidence=None if peer else "B",
            code=_swapped(gap),
            summary=None if peer else _SUMMARY_ROOF,
            advice=None if peer else _ADVICE_ROOF,
        )


def _swapped(gap: Gap) -> str:
    """Code with the operands in the order of the faster call; empty where that is not the difference."""
    base = gap.name.removeprefix("aten::")
    own, other = parse(gap.shapes) or [], parse(gap.peer.input_shapes) or [] if gap.peer else []
    swapped = base in _COMMUTATIVE and len(own) >= 2 and own[:2] == other[1::-1] != other[:2]
    return f"y = torch.{base}(b, a)  # instead of torch.{base}(a, b)" if swapped else ""


RULE = Rule(
    id="shape-roofline-gap",
    title=Text("shape-roofline-gap-title", "An operator is far slower than its size explains"),
    summary=Text(
        "shape-roofline-gap-summary",
        "{operator} {shapes} takes {ratio:number} times as long as {peer}, which moves as much: {time:ns} per step "
        "({share:share} of the time on the GPU).",
    ),
    advice=Text(
        "shape-roofline-gap-advice",
        "Write the operation like the faster call: swap the operands, keep the axis that is broadcast away from the "
        "last place, or make the tensors contiguous in the same order.",
    ),
    not_when=Text(
        "shape-roofline-gap-not-when",
        "The tensor that the slow call reads is stored in another order for a good reason, and converting it would "
        "cost as much.",
    ),
    severity="info to critical",
    confidence="A",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "ratio",
            4.0,
            "number",
            "time over that of the cheaper call, or over that of moving the bytes",
            "own choice, because operators that move data reach 25 to 90 % of the bandwidth, depending on their form",
        ),
        Threshold(
            "gpu_share",
            0.03,
            "share",
            "time of these calls over all time on the GPU",
            "own choice, because a step varies by 1 to 2 % from run to run",
        ),
        Threshold(
            "call_ns",
            10_000,
            "ns",
            "mean time of a call below which it is bound by its launch",
            "own choice, because a launch takes 5 to 10 us and a kernel at least 2 to 5 us",
        ),
        Threshold(
            "floor_ns",
            5_000,
            "ns",
            "time of moving a call's bytes below which the bandwidth does not bound it",
            "own choice, because starting and ending a kernel takes 2 to 5 us",
        ),
    ),
    links=(
        "https://docs.pytorch.org/docs/stable/tensor_view.html",
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-memory-limited/index.html",
    ),
    part_of=("attention-unfused",),
    trace=_find,
    table=_find,
)
