"""A program without a GPU: operators that take their time on the host, step after step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.builders import TraceBuilder
from tests.builders.hardware import Device
from tests.builders.timeline import Host, finish
from tests.builders.values import Time

AROUND = 3_000
"""Time of a step in ns beside its operators."""


@dataclass(frozen=True)
class Call:
    """An operator that takes so many microseconds; `within` are operators around it, the outermost first."""

    op: str
    dur: Time
    shapes: Sequence[Sequence[object]] | None = None
    types: Sequence[str] | None = None
    within: Sequence[str] = ()
    sequence: int | None = None


def program(
    calls: Iterable[Call], *, steps: int = 3, devices: Sequence[Device] = (), shapes: bool = True
) -> TraceBuilder:
    """Steps that make all calls on one thread.

    Args:
        calls: Of each step.
        steps: How many.
        devices: What the header names; a trace with one in it is no program without a GPU.
        shapes: Whether inputs are recorded.
    """
    trace = TraceBuilder(devices=tuple(devices), options=("record_shapes",) if shapes else ())
    host, every = Host(trace, at=10), list(calls)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            for call in every:
                make(host, call, shapes=shapes)
    return finish(trace)


def make(host: Host, call: Call, *, shapes: bool = True) -> None:
    """One call; operators around it have no self time."""
    inputs = {"shapes": call.shapes, "types": call.types} if shapes else {}
    with ExitStack() as stack:
        for outer in call.within:
            stack.enter_context(host.op(outer, 0, 0, sequence=call.sequence))
        host.leaf(call.op, call.dur, sequence=call.sequence, **inputs)
