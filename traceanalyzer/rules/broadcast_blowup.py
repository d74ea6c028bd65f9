"""Detects broadcast-blowup: see pages/broadcast-blowup.md."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._blowups import belongs, blown_up, reduced
from traceanalyzer.rules._products import FP32_BYTES
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("broadcast-blowup")
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


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    processor = Processor.of(facts)
    used = [row for row in facts.shaped if row.calls and processor.self_ns(row)]
    rows = [(row, shapes) for row in used if (shapes := parse(row.shapes))]
    least = limits["host_result_bytes" if processor.is_cpu else "result_bytes"]
    roots: dict[int, tuple[float, OperatorFact]] = {}
    for row, shapes in rows:
        made = blown_up(row.name, shapes, limits["expansion"])
        if made is not None and made[0] * FP32_BYTES >= least:
            elements, factor = made
            best = roots.get(elements)
            if best is None or processor.self_ns(row) > processor.self_ns(best[1]):
                roots[elements] = (factor, row)
    summed = {reduced(row.name, shapes) for row, shapes in rows}
    for elements in sorted(roots.keys() & summed, reverse=True):
        factor, root = roots[elements]
        members = [row for row, shapes in rows if belongs(row.name, shapes, elements)]
        yield from _draft(processor, limits, elements, factor, root, members)


def _draft(
    processor: Processor,
    limits: Mapping[str, float],
    elements: int,
    factor: float,
    root: OperatorFact,
    members: list[OperatorFact],
) -> Iterator[Draft]:
    time = sum(map(processor.self_ns, members))
    share = processor.share(time)
    if share <= processor.limit(limits):
        return
    members.sort(key=lambda row: (-processor.self_ns(row), row.name, row.shapes or ""))
    high = max(0.0, time - _arithmetic(processor, elements, members))
    ranked = [root, *(row for row in members if row is not root)]
    where = tuple(
        CodePlace("operator", r.name, shapes=r.shapes, value=processor.self_ns(r), unit="ns") for r in ranked[:5]
    )
    claims = {
        f"operator:{row.name}|{row.shapes}": processor.per_step(processor.self_ns(row)) * high / time for row in members
    }
    params = {
        "operator": root.name,
        "shapes": root.shapes,
        "factor": factor,
        "elements": elements,
        "count": len(members),
        "time": processor.per_step(time),
        "share": share,
    }
    yield Draft(
        (Evidence(_PAGE.text("subject")(), factor, limits["expansion"], "number", where),),
        _change(processor, elements, time, high, claims),
        params,
        summary=_PAGE.text("summary-cpu") if processor.is_cpu else None,
        code=_einsum(root),
    )


def _einsum(root: OperatorFact) -> str | None:
    """Code for two tensors that share one axis, which must be the summed one; None if shapes do not show it."""
    operands = [shape for shape in parse(root.shapes) or () if shape]
    if len(operands) != 2 or len(operands[0]) != len(operands[1]) or not root.name.startswith("aten::mul"):
        return None
    shared = [axis for axis, sizes in enumerate(zip(*operands, strict=True)) if min(sizes) > 1]
    if len(shared) != 1:
        return None
    letters = string.ascii_lowercase[: len(operands[0])]
    left = letters.replace(letters[shared[0]], "")
    return f'y = torch.einsum("{letters},{letters}->{left}", a, b)  # instead of (a * b).sum({shared[0]})'


def _arithmetic(processor: Processor, elements: int, members: Sequence[OperatorFact]) -> float:
    """Time in ns of a multiplication and an addition for each element, which remain."""
    calls = sum(row.calls for row in members)
    if processor.is_cpu:
        return calls / 2 * _OPERATIONS * elements / _CPU_RATE  # a product and its sum are one
    device = processor.facts.gpu
    rate = (device.fp32 if device and device.fp32 else _TFLOPS) * 1000  # operations per ns
    return calls * _OPERATIONS * elements / rate


def _change(processor: Processor, elements: int, time: int, high: float, claims: Mapping[str, float]) -> TimeSaved:
    if processor.is_cpu:
        least, most = _ON_CPU
        saved = processor.per_step(high)
        direct = least * saved, min(most * saved, processor.facts.step_ns)
        # not only operators: time outside of them is saved as well
        tensor = {f"tensor:{elements}": direct[1]}
        return TimeSaved(
            "host", direct, _PAGE.text("basis-cpu")(elements=elements, least=least, most=most), claims=tensor
        )
    least_ns = processor.per_step(min(high, _FOR_SURE * time))
    basis = _PAGE.text("basis")(elements=elements, sure=_FOR_SURE)
    return TimeSaved("gpu", (least_ns, processor.per_step(high)), basis, claims=claims)


RULE = _PAGE.rule(trace=_find, table=_find)
