"""Casts there and back, and casts that are normal."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import table
from tests.rules.situations.copies_materialized import COPY

HALF, FULL = "c10::BFloat16", "float"
NORM = (16, 559, 1024)


def cast(host: Host, stream: Stream, into: str, source: str, *, dur: int, shape: Sequence[int] = NORM) -> None:
    """`to`, `_to_copy`, `copy_` with a kernel."""
    with host.op("aten::to"), host.op("aten::_to_copy"):
        shapes = [list(shape), list(shape), []]
        with host.op("aten::copy_", shapes=shapes, types=[into, source, "Scalar"]):
            host.launch(Work(COPY, dur), stream)


def norms(dur: int = 50, *, back: bool = True, types: tuple[str, str] = (FULL, HALF), rest: int = 900) -> TraceBuilder:
    """Three steps of ten blocks that cast an activation, compute, and cast it back if asked."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(10):
                cast(host, stream, *types, dur=dur)
                with host.op("aten::mm", shapes=[[8, 8], [8, 8]]):
                    host.launch(Work("ampere_bf16_s16816gemm_bf16_128x128", rest), stream)
                if back:
                    cast(host, stream, *reversed(types), dur=dur)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Each norm casts to float and back: 100 of 1000 us."""
    return norms()


def quiet() -> TraceBuilder:
    """One pair of short casts beside long products."""
    return norms(5, rest=9000)


def trap_autocast_weights() -> TraceBuilder:
    """Each weight is cast once per step; its gradient is cast back in the backward pass."""
    trace = TraceBuilder()
    host, engine, stream = Host(trace, at=10), Host(trace, tid=77), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for layer in range(4):
                with host.op("aten::linear", sequence=10 * number + layer):
                    cast(host, stream, HALF, FULL, dur=100, shape=(1024, 1024 + layer))
            engine.now = host.now
            for layer in range(4):
                name = "autograd::engine::evaluate_function: ToCopyBackward0"
                with engine.op(name, sequence=10 * number + layer, fwd_thread=1):
                    cast(engine, stream, FULL, HALF, dur=100, shape=(1024, 1024 + layer))
            host.now = engine.now
            host.wait(stream)
    return finish(trace)


def trap_one_way() -> TraceBuilder:
    """Inputs arrive as float and are used as half from then on."""
    return norms(back=False)


def trap_indices() -> TraceBuilder:
    """Indices become long and int again: no floating-point type."""
    return norms(types=("long int", "int"))


def trap_layouts() -> TraceBuilder:
    """Copies of one type."""
    return norms(types=(HALF, HALF))


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::to", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


def on_a_cpu(*, back: bool = True, shape: Sequence[int] = (16, 128), rest: int = 900, steps: int = 3) -> TraceBuilder:
    """Ten products, each with a cast of 20 us before it and one back behind it."""
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    host = Host(trace, at=10)
    sides = [list(shape), list(shape), []]
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(10):
                for kinds in ((HALF, FULL), (FULL, HALF))[: 1 + back]:
                    host.work(30)  # Python, of which 20 us count
                    with host.op("aten::to", 1, 1), host.op("aten::_to_copy", 1, 1):
                        host.leaf("aten::copy_", 16, shapes=sides, types=[*kinds, "Scalar"])
                host.leaf("aten::mm", rest, shapes=[[8, 8], [8, 8]], types=[FULL, FULL])
    return finish(trace)


def fires_on_a_cpu() -> TraceBuilder:
    """400 us of 10 ms."""
    return on_a_cpu()


def quiet_on_a_cpu() -> TraceBuilder:
    """The casts beside longer products."""
    return on_a_cpu(rest=9000)


def trap_one_way_on_a_cpu() -> TraceBuilder:
    """Casts in one direction."""
    return on_a_cpu(back=False)


def trap_numbers_on_a_cpu() -> TraceBuilder:
    """A single number becomes another type and back, as arithmetic with Python numbers does it."""
    return on_a_cpu(shape=())
