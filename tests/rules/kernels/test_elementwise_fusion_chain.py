"""Tests of the rule `elementwise-fusion-chain`: numbers worked out by hand.

The programs: kernels that follow each other on the same elements, and some that do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.training import Training
from tests.rules.judging import findings, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as without_shapes

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::Functor<float>>"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_nn"
WHOLE, ROWS = (16, 512, 1024), (16, 512, 1)

Call = tuple[str, str, Sequence[int] | Sequence[Sequence[int]], int]
"""Operator, kernel, the shape of its tensor or those of several, duration in microseconds."""
NORM: list[Call] = [
    ("aten::pow", ELEMENTWISE, WHOLE, 40),
    ("aten::mean", REDUCE, WHOLE, 30),
    ("aten::rsqrt", ELEMENTWISE, ROWS, 2),
    ("aten::mul", ELEMENTWISE, (WHOLE, ROWS), 50),
    ("aten::mul", ELEMENTWISE, WHOLE, 40),
]
"""162 us, of which a pass takes 30 to 50 us."""


def call(
    host: Host, stream: Stream, name: str, kernel: str, shapes: Sequence[int] | Sequence[Sequence[int]], dur: int
) -> None:
    """An operator with a kernel."""
    every = [[*each] for each in shapes if not isinstance(each, int)] or [[*shapes]]
    with host.op(name, shapes=every, types=["float"] * len(every)):
        host.launch(Work(kernel, dur), stream)


def model(calls: Sequence[Call], *, layers: int = 5, module: bool = True, product: int = 300) -> TraceBuilder:
    """Steps of a model whose layers make these calls in a module, between products."""
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for layer in range(layers):
                with host.frame(f"nn.Module: Norm_{layer}", module=layer) if module else nullcontext():
                    for entry in calls:
                        call(host, stream, *entry)
                call(host, stream, "aten::mm", GEMM, (1024, 1024), product)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Five norms of five kernels each in a step."""
    return model(NORM)


def fires_without_modules() -> TraceBuilder:
    """Stacks were not recorded."""
    return model(NORM, module=False)


def fires_in_training() -> TraceBuilder:
    """The chain in a training loop, where autograd may keep the intermediate results."""
    loop = Training(trace=TraceBuilder(options=("record_shapes",)))
    for _ in range(3):
        with loop.iteration():
            numbers = loop.forward()
            for entry in NORM:
                call(loop.host, loop.stream, *entry)
            loop.backward(numbers)
            loop.step()
    return loop.finish()


def quiet() -> TraceBuilder:
    """An activation after each product: two kernels in a row."""
    return model(NORM[3:])


def trap_other_elements() -> TraceBuilder:
    """Kernels in a row, each on other elements."""
    sizes = [(16, 512, 1024), (7, 1001), (13, 499), (3, 5, 4099)]
    return model([("aten::mul", ELEMENTWISE, size, 40) for size in sizes])


def trap_parameters() -> TraceBuilder:
    """Weights and biases of a model, one after the other: some have a number of elements that divides the next one."""
    shapes = [(256, 64), (256,), (256, 256), (256,), (64, 256), (64,)]
    return model([("aten::add_", ELEMENTWISE, shape, 40) for shape in shapes])


def trap_averaged_parameters() -> TraceBuilder:
    """The same with three operators for each, which are passes over one tensor, but of a loop over all of them."""
    shapes = [(256, 64), (256,), (256, 256), (256,)] * 4
    turn = ("aten::mul_", "aten::mul", "aten::add_")
    return model([(name, ELEMENTWISE, shape, 40) for shape in shapes for name in turn])


def fires_with_halves() -> TraceBuilder:
    """A gated activation: one half of a tensor is scaled, and multiplied with the other half."""
    half = (16, 512, 512)
    names = ("aten::add", "aten::mul", "aten::add", "aten::silu", "aten::mul")
    return model([(name, ELEMENTWISE, WHOLE if at < 3 else half, 40) for at, name in enumerate(names)])


def trap_triton() -> TraceBuilder:
    """What torch.compile has fused already."""
    return model([(f"triton_poi_fused_add_{i}", f"triton_poi_fused_add_{i}", WHOLE, 40) for i in range(4)])


def trap_optimizer() -> TraceBuilder:
    """Updates of parameters of one shape."""
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation("Optimizer.step#SGD.step"):
                for _ in range(20):
                    call(host, stream, "aten::add_", ELEMENTWISE, WHOLE, 40)
            host.wait(stream)
    return finish(trace)


def trap_interrupted() -> TraceBuilder:
    """A product after each kernel."""
    interrupted = [entry for own in NORM for entry in (own, ("aten::mm", GEMM, (1024, 1024), 50))]
    return model(interrupted)


def trap_idle_gpu() -> TraceBuilder:
    """Chains on a GPU that has little to do: fused or not, they take nothing of a step."""
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for entry in NORM:
                call(host, stream, *entry)
            host.work(20_000)
    return finish(trace)


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mul", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


def trap_dequantized_weights() -> TraceBuilder:
    """A library writes out weights of 4 bits, layer by layer: its kernels are no operators of torch."""
    kernel = "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*, float*, __nv_bfloat16*)"
    return model([("MatMul4Bit", kernel, WHOLE, 40)] * 3)


RULE = "elementwise-fusion-chain"


def test_less_one_short_pass_or_two_long_ones() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((5 * (162_000 - 2 * 50_000), 5 * (162_000 - 30_000)))
    assert finding.summary.params["kernels"] == 25
    assert finding.evidence[0].where[0].name == "Norm: pow, mean, rsqrt, mul, mul"


def test_one_chain_is_told_in_the_singular() -> None:
    said = findings(model(NORM, layers=1), RULE)[0].summary.text
    assert said.startswith("5 elementwise kernels in 1 fusable chain take ")


def test_the_same_without_modules() -> None:
    (finding,) = findings(fires_without_modules(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(660_000)


def test_what_autograd_keeps_has_to_be_written() -> None:
    (finding,) = findings(fires_in_training(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 66_000))
    assert "autograd" in finding.saving.basis.text


def test_without_shapes_nobody_can_tell() -> None:
    assert "shapes" in (skipped(without_shapes(), RULE) or "")


def test_a_table_cannot_tell() -> None:
    assert "follow each other" in (skipped(in_a_table(), RULE) or "")


def test_a_long_chain_ends_in_a_number_and_not_in_dots() -> None:
    (finding,) = findings(model(NORM * 2, layers=1), RULE)
    assert finding.summary.text.endswith(": pow, mean, rsqrt, mul, mul, pow, mean, rsqrt and 2 more.")
    assert finding.evidence[0].where[0].name.endswith("mean, rsqrt, ...")


def test_halves_belong_to_the_chain_of_their_whole() -> None:
    assert findings(fires_with_halves(), RULE)[0].summary.text.endswith("add, mul, add, silu, mul.")
