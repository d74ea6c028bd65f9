"""Tests of the rule `dtype-cast-churn`: numbers worked out by hand, and edges of thresholds.

The programs: casts there and back, and casts that are normal.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.copies.test_copies_materialized import COPY
from tests.rules.gpu_work import MATRIX_UNITS, Call, gpu_alone, kernel, product, training
from tests.rules.judging import findings, skipped, table

HALF, FULL = "c10::BFloat16", "float"
NORM = (16, 559, 1024)
NARROWED = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(x)::{lambda}>"


def cast(host: Host, stream: Stream, into: str, source: str, *, dur: int, shape: Sequence[int] = NORM) -> None:
    """`to`, `_to_copy`, `copy_` with a kernel."""
    with host.op("aten::to"), host.op("aten::_to_copy"):
        shapes = [list(shape), list(shape), []]
        with host.op("aten::copy_", shapes=shapes, types=[into, source, "Scalar"]):
            host.launch(Work(COPY, dur), stream)


def norms(
    dur: int = 50, *, back: bool = True, types: tuple[str, str] = (FULL, HALF), rest: int = 900, python: int = 0
) -> TraceBuilder:
    """Three steps of ten blocks that cast an activation, compute, and cast it back if asked; `python`: before casts."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(10):
                host.work(python)
                cast(host, stream, *types, dur=dur)
                with host.op("aten::mm", shapes=[[8, 8], [8, 8]]):
                    host.launch(Work("ampere_bf16_s16816gemm_bf16_128x128", rest), stream)
                if back:
                    host.work(python)
                    cast(host, stream, *reversed(types), dur=dur)
            host.wait(stream)
    return finish(trace)


def alone(cast: str, dur: int = 50) -> TraceBuilder:
    """Three steps of ten products, each after a kernel in question; only the GPU was recorded."""
    layer = [Call("aten::copy_", [kernel(cast, dur)]), product(MATRIX_UNITS, 900)]
    return gpu_alone(training(layer * 10))


def fires_where_only_kernels_were_recorded() -> TraceBuilder:
    """Names show what casts."""
    return alone(NARROWED)


def trap_copies_of_one_type() -> TraceBuilder:
    """A copy that keeps the type is none, by its name."""
    return alone("void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda(x)>")


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


RULE = "dtype-cast-churn"


def test_half_to_all_of_the_casts() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((500_000, 1_000_000))
    assert finding.summary.params["casts"] == 20
    assert {finding.summary.params["one"], finding.summary.params["other"]} == {"BFloat16", "float"}


def host_bound(python: int) -> tuple[float, float]:
    """What is saved of steps whose kernels take 2 us each; so long in Python before each cast."""
    (finding,) = findings(norms(2, rest=2, python=python), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((20_000, 40_000)), "of the GPU's time"
    return finding.saving.wall_ns_per_step


def test_where_the_host_is_slower_the_calls_of_the_casts_go_away() -> None:
    """Each `aten::to` takes 14 us, 8 of them in `aten::copy_`; the last wait becomes a little longer instead."""
    low, high = host_bound(0)
    assert high == pytest.approx(20 * 14_000, rel=0.03)
    assert low == pytest.approx(high / 2, rel=0.01), "as of the casts"


def test_python_before_the_calls_of_casts_goes_with_them() -> None:
    """Of 10 us all, of 30 us no more than 20; before the first cast of a step there is no operator to count from."""
    calls = host_bound(0)[1]
    assert host_bound(10)[1] - calls == pytest.approx(19 * 10_000)
    assert host_bound(30)[1] - calls == pytest.approx(19 * 20_000)


def test_calls_of_other_casts_stay() -> None:
    """Beside casts there and back ten more, in one direction and of other shapes, are made for a product."""

    def program(*, more: int) -> TraceBuilder:
        trace = TraceBuilder()
        host, stream = Host(trace, at=10), Stream()
        for number in range(3):
            with host.annotation(f"ProfilerStep#{number}"):
                for _ in range(10):
                    for types in ((FULL, HALF), (HALF, FULL)):
                        cast(host, stream, *types, dur=2)
                        with host.op("aten::mm", shapes=[[8, 8], [8, 8]]):
                            host.launch(Work("ampere_bf16_s16816gemm_bf16_128x128", 2), stream)
                for _ in range(more):
                    cast(host, stream, FULL, HALF, dur=2, shape=(8, 8))
                    host.leaf("aten::view")
                host.wait(stream)
        return finish(trace)

    savings = [findings(program(more=more), RULE)[0].saving for more in (0, 10)]
    none, ten = (saving.wall_ns_per_step[1] for saving in savings if saving is not None)
    assert none == pytest.approx(20 * 14_000, rel=0.03)
    assert ten == pytest.approx(none, rel=0.03)


def test_without_types_nobody_can_tell() -> None:
    assert "element types were not recorded" in (skipped(norms(types=("", "")), RULE) or "")


def test_a_table_cannot_tell() -> None:
    assert "element types" in (skipped(in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.1}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.0999})


def test_on_a_cpu_casts_and_their_calls() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.summary.params["casts"] == 20
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    low, high = finding.saving.direct_ns_per_step
    assert low == pytest.approx(20 * 20_000)
    assert high == pytest.approx(1.4 * (20 * 20_000 + 19 * 20_000)), "20 us of Python before all but the first"
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_kernels_that_cast_are_named_where_nothing_else_was_recorded() -> None:
    # 10 of 50 us, beside products of 900 us
    (finding,) = findings(fires_where_only_kernels_were_recorded(), RULE)
    assert finding.evidence[0].observed == pytest.approx(50 / 950)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == 0
    assert finding.confidence == "C"
    cast = "void unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(x), LoadWithCast<1>, StoreWithCast<1>>"
    assert findings(alone(cast), RULE)
