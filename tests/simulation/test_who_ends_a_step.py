"""Passes without marks: whichever thread waits last, free work of the device saves what the host does not need.

A forward pass of twenty operators and a backward pass of twenty functions launch sixty kernels; times in microseconds.
The step takes T; the host needs H without waiting for the device, so a free device saves T - H, less what a call that
waits costs by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.reading import read_built
from tests.simulation.replaying import model_of
from traceanalyzer.simulation.edits import ScaleEdit

MAIN, AUTOGRAD, WORKER = 4201, 4202, 4300
OPERATORS = 20
"""Operators of a pass; the forward pass launches one kernel for each, the backward pass two."""


class Program(NamedTuple):
    """Which thread does what: None for a part that the recording does not have."""

    forward: int | None = MAIN
    backward: int | None = AUTOGRAD
    wait: str | None = "synchronize"
    kernel: int = 200
    has_sequence: bool = True


def built(program: Program) -> tuple[TraceBuilder, int, int]:
    """The trace, the step's time T, and the host's own time H."""
    trace, at, busy = TraceBuilder(), 0, 50
    for number in range(OPERATORS if program.forward else 0):
        sequence = number + 1 if program.has_sequence else None
        trace.op("aten::addmm", at, 40, tid=program.forward, sequence=sequence)
        busy = max(busy, at + 20)
        trace.launch_kernel("sgemm_nn", busy, program.kernel, at=at + 10, call_dur=5, tid=program.forward)
        busy, at = busy + program.kernel, at + 45
    for number in range(OPERATORS if program.backward else 0):
        name, sequence = "autograd::engine::evaluate_function: AddmmBackward0", OPERATORS - number
        own = {"sequence": sequence, "fwd_thread": 1} if program.has_sequence else {}
        trace.op(name, at, 60, tid=program.backward, **own)
        trace.op("aten::mm", at + 5, 45, tid=program.backward)
        for launch in (at + 10, at + 25):
            busy = max(busy, launch + 10)
            trace.launch_kernel("sgemm_tn", busy, program.kernel, at=launch, call_dur=5, tid=program.backward)
            busy += program.kernel
        at += 65
    if program.wait == "synchronize":
        trace.launch("cudaDeviceSynchronize", at + 10, busy + 5 - (at + 10), tid=MAIN)
    elif program.wait == "item":
        trace.op("aten::item", at + 10, busy + 25 - (at + 10), tid=MAIN)
        trace.memcpy("DtoH", 4, busy, 2, at=at + 14, call_dur=6, tid=MAIN)
        trace.launch("cudaStreamSynchronize", at + 22, busy + 15 - (at + 22), tid=MAIN)
        busy += 2
    return trace, busy, at


PROGRAMS = {
    "the program's thread waits for the device": Program(),
    "nothing tells which forward operator a function belongs to": Program(has_sequence=False),
    "the program reads a value at the end": Program(wait="item"),
    "only the backward pass was recorded": Program(forward=None),
    "nothing waits": Program(wait=None),
    "another thread launches all": Program(forward=WORKER, backward=None),
    "another thread runs the forward pass": Program(forward=WORKER),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_a_free_device_leaves_what_the_host_needs(program: Program) -> None:
    trace, step, host = built(program)
    model = model_of(trace)
    assert model.doubt is None
    events = len(model.context.trace.device)
    free = ScaleEdit(model.graph.device.row[:events], 0.0)
    assert model.step_ns(()) / 1000 == pytest.approx(step, abs=30)
    assert model.step_ns((free,)) / 1000 == pytest.approx(host, abs=100)


def test_of_a_program_that_its_host_bounds_a_free_device_saves_next_to_nothing() -> None:
    trace, step, _ = built(Program(kernel=12))
    model = model_of(trace)
    free = ScaleEdit(model.graph.device.row, 0.0)
    assert model.step_ns((free,)) / 1000 == pytest.approx(step, abs=40)
    assert len(read_built(trace).device) == 3 * OPERATORS


def on_two_gpus(steps: int = 4) -> tuple[TraceBuilder, int, int]:
    """Backward passes of two GPUs on two threads at once, as of nn.DataParallel; a step, and what the host needs."""
    trace, start, kernel = TraceBuilder(devices=(A100, A100)), 0, 500
    length = 70 + OPERATORS * (kernel + 2) + 40
    for number in range(steps):
        trace.step(number, start, length)
        trace.launch_kernel("sgemm_nn", start + 30, 40, at=start + 10, call_dur=5, tid=MAIN)
        for device, thread in enumerate((AUTOGRAD, AUTOGRAD + 1)):
            busy = start + 80
            for place in range(OPERATORS):
                at = start + 45 + 60 * place + 7 * device
                name = "autograd::engine::evaluate_function: AddmmBackward0"
                trace.op(name, at, 55, tid=thread, sequence=OPERATORS - place, fwd_thread=1)
                launch = at + (30 if device else 10)
                busy = max(busy, launch + 10)
                trace.launch_kernel("sgemm_tn", busy, kernel, at=launch, tid=thread, device=device)
                busy += kernel + 2
        wait = start + 45 + 60 * OPERATORS + 30
        trace.launch("cudaDeviceSynchronize", wait, start + length - 5 - wait, tid=MAIN)
        start += length
    return trace, length, 45 + 60 * OPERATORS + 40


def test_a_thread_that_works_beside_another_had_waited_for_it_before() -> None:
    """The second thread launches only after the first has: but it began its operator when the program went backward."""
    trace, step, host = on_two_gpus()
    model = model_of(trace)
    free = ScaleEdit(model.graph.device.row, 0.0)
    assert model.step_ns(()) / 1000 == pytest.approx(step, rel=0.02)
    assert model.step_ns((free,)) / 1000 == pytest.approx(host, rel=0.1)
