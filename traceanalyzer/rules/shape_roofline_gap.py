"""Detects shape-roofline-gap: see pages/shape-roofline-gap.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._gaps import Gap, memory_bandwidth, printed, recorded
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("shape-roofline-gap")
_COMMUTATIVE = frozenset({"mul", "add"})


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
        subject = _PAGE.text("subject-roof") if peer is None else _PAGE.text("subject-peer")
        yield Draft(
            (Evidence(subject(), gap.ratio, limits["ratio"], "number", tuple(where)),),
            TimeSaved(
                "gpu",
                (low, high),
                _PAGE.text("basis-peer")() if at_peer else _PAGE.text("basis-roof")(bandwidth=bandwidth),
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
            summary=None if peer else _PAGE.text("summary-roof"),
            advice=None if peer else _PAGE.text("advice-roof"),
        )


def _swapped(gap: Gap) -> str:
    """Code with the operands in the order of the faster call; empty where that is not the difference."""
    base = gap.name.removeprefix("aten::")
    own, other = parse(gap.shapes) or [], parse(gap.peer.input_shapes) or [] if gap.peer else []
    swapped = base in _COMMUTATIVE and len(own) >= 2 and own[:2] == other[1::-1] != other[:2]
    return f"y = torch.{base}(b, a)  # instead of torch.{base}(a, b)" if swapped else ""


RULE = _PAGE.rule(trace=_find, table=_find)
