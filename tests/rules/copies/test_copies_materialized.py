"""Tests of the rule `copies-materialized`: numbers worked out by hand, and edges of thresholds.

The programs: copies within one memory: because of layouts, for nothing, and for good reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.training import Training
from tests.rules.judging import findings, table

COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
SHAPE = (16, 16, 512, 64)


def copying(
    *asking: str,
    copies: int = 4,
    each: int = 100,
    rest: int = 4000,
    types: tuple[str, str] = ("c10::BFloat16", "c10::BFloat16"),
    shape: Sequence[int] = SHAPE,
) -> TraceBuilder:
    """Three steps with copies that operators ask for, the outermost first, and products between them."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(copies):
                with ExitStack() as around:
                    for name in asking:
                        around.enter_context(host.op(name))
                    copy(host, stream, each, shape, types)
                with host.op("aten::mm", shapes=[[512, 512], [512, 512]]):
                    host.launch(Work("ampere_bf16_s16816gemm_bf16_128x128", rest // copies), stream)
            host.wait(stream)
    return finish(trace)


BACKWARD = ("autograd::engine::evaluate_function: PermuteBackward0", "PermuteBackward0")
"""What is around the operators of a backward pass."""


def copied_by_all() -> TraceBuilder:
    """Four copies of 100 us in each step: by the program itself, in a module, in an operator, in the backward pass."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for around in ((), ("nn.Module: Block_0",), ("aten::native_layer_norm",), BACKWARD):
                with ExitStack() as calls:
                    for name in around:
                        is_module = name.startswith("nn.Module")
                        calls.enter_context(host.frame(name, module=0) if is_module else host.op(name))
                    for name in ("aten::contiguous", "aten::clone"):
                        calls.enter_context(host.op(name))
                    copy(host, stream, 100, SHAPE, ("float", "float"))
                with host.op("aten::mm", shapes=[[512, 512], [512, 512]]):
                    host.launch(Work("ampere_bf16_s16816gemm_bf16_128x128", 1000), stream)
            host.wait(stream)
    return finish(trace)


def copy(host: Host, stream: Stream, dur: int, shape: Sequence[int], types: tuple[str, str]) -> None:
    """One `aten::copy_` with its kernel."""
    shapes = [list(shape), list(shape), []]
    with host.op("aten::copy_", shapes=shapes, types=[*types, "Scalar"]):
        host.launch(Work(COPY, dur), stream)


def cloning(times: int, *, gpu: bool, between: bool = False, each: int = 5) -> TraceBuilder:
    """A batch that is cloned in a row, with something between the clones or not; `gpu`: on the device, `each` us."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            for _ in range(times):
                with loop.host.op("aten::clone", shapes=[[128, 3, 32, 32], []]):
                    loop.host.leaf("aten::empty_like", 3)
                    shapes = [[128, 3, 32, 32], [128, 3, 32, 32], []]
                    with loop.host.op("aten::copy_", 3 if gpu else 200, shapes=shapes, types=["float", "float", ""]):
                        if gpu:
                            loop.host.copy("DtoD", 128 * 3 * 32 * 32 * 4, loop.stream, dur=each)
                if between:
                    loop.host.leaf("aten::add_", 3)
            loop.zero_grad()
            loop.backward(loop.forward(dur=1000))
            loop.step()
    return loop.finish()


def fires() -> TraceBuilder:
    """`contiguous` on permuted tensors takes a tenth of the GPU's time."""
    return copying("aten::contiguous", "aten::clone")


def fires_on_clones_in_a_row() -> TraceBuilder:
    """Ten clones of the batch on the GPU."""
    return cloning(10, gpu=True)


def fires_on_clones_on_the_host() -> TraceBuilder:
    """Ten clones of the batch before it is moved to the GPU."""
    return cloning(10, gpu=False)


def fires_in_a_table() -> str:
    """A tenth of the device time is copies below `reshape`."""
    return printed("aten::reshape", "100.000ms")


def quiet() -> TraceBuilder:
    """A single small copy."""
    return copying("aten::contiguous", "aten::clone", copies=1, each=10)


def quiet_in_a_table() -> str:
    """`reshape` makes views."""
    return printed("aten::reshape", "0.000us")


def trap_casts() -> TraceBuilder:
    """Casts are not copies of the same values."""
    return copying("aten::to", "aten::_to_copy", types=("float", "c10::BFloat16"))


def trap_bucket_copies() -> TraceBuilder:
    """Distributed training copies gradients out of its buckets."""
    return copying("torch.distributed.ddp.reducer::copy_bucket_to_grad", "aten::clone")


def trap_gradient_layout() -> TraceBuilder:
    """Autograd copies a gradient into the layout of its parameter."""
    return copying("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "aten::clone")


def trap_optimizer_copies() -> TraceBuilder:
    """An optimizer keeps its state in other tensors."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation("Optimizer.step#Custom.step"), host.op("aten::clone"):
                copy(host, stream, 500, SHAPE, ("float", "float"))
            host.wait(stream)
    return finish(trace)


def trap_transfers() -> TraceBuilder:
    """Copies from the host are another matter."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.annotation("ProfilerStep#0"):
        with host.op("aten::contiguous"), host.op("aten::copy_", shapes=[[1024], [1024], []]):
            host.copy("HtoD", 4096, stream, dur=500)
        host.wait(stream)
    return finish(trace)


def trap_copies_in_place() -> TraceBuilder:
    """A program copies one tensor into another that it keeps: a cache, a moving average."""
    return copying()


def trap_clones_apart() -> TraceBuilder:
    """Clones between which something happens."""
    return cloning(10, gpu=True, between=True)


def trap_transfers_in_a_table() -> str:
    """All copies are below `to`: transfers or casts."""
    return printed("aten::to", "100.000ms")


def printed(asking: str, time: str) -> str:
    """A table of one second of device time."""

    def row(name: str, own: str, total: str, calls: int) -> dict[str, object]:
        own_cpu = {"Self CPU": "1.000ms", "CPU total": "2.000ms"}
        return {"Name": name, **own_cpu, "Self CUDA": own, "CUDA total": total, "# of Calls": calls}

    rows = [
        row(asking, "0.000us", time, 20),
        row("aten::copy_", "100.000ms", "100.000ms", 20),
        row("aten::mm", "900.000ms", "900.000ms", 100),
    ]
    return table(rows, cpu="100.000ms", device="1.000s")


def on_a_cpu(*asking: str, each: int = 100, backward: bool = False, module: bool = True) -> TraceBuilder:
    """Four copies that operators ask for, in a module or not, beside four products of 1 ms."""
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    host = Host(trace, at=10)
    shapes = [list(SHAPE), list(SHAPE), []]
    evaluation = "autograd::engine::evaluate_function: PermuteBackward0"
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"), ExitStack() as step:
            if module:
                step.enter_context(host.frame("nn.Module: Block_0", module=0, before=0, after=0))
            for _ in range(4):
                with ExitStack() as around:
                    if backward:
                        around.enter_context(host.op(evaluation, 0, 0, sequence=1, fwd_thread=1))
                    for name in asking:
                        around.enter_context(host.op(name, 0, 0))
                    host.leaf("aten::copy_", each, shapes=shapes, types=["float", "float", "Scalar"])
                host.leaf("aten::mm", 1000, shapes=[[512, 512], [512, 512]], types=["float", "float"])
    return finish(trace)


def fires_on_a_cpu() -> TraceBuilder:
    """`contiguous` in a module takes 400 us of 4.4 ms."""
    return on_a_cpu("aten::contiguous", "aten::clone")


def fires_on_repeat_on_a_cpu() -> TraceBuilder:
    """`repeat`, called by the program itself."""
    return on_a_cpu("aten::repeat", module=False)


def quiet_on_a_cpu() -> TraceBuilder:
    """Copies that take little time."""
    return on_a_cpu("aten::contiguous", "aten::clone", each=20)


def trap_operators_copy_for_themselves_on_a_cpu() -> TraceBuilder:
    """A norm needs a contiguous input, whoever calls it."""
    return on_a_cpu("aten::native_layer_norm", "aten::contiguous", "aten::clone")


def trap_backward_on_a_cpu() -> TraceBuilder:
    """Autograd brings a gradient into order."""
    return on_a_cpu("aten::contiguous", "aten::clone", backward=True)


RULE = "copies-materialized"


def test_half_to_all_of_the_copies() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(400 / 4400)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((200_000, 400_000))
    place = finding.evidence[0].where[0]
    assert (place.name, place.shapes) == ("aten::contiguous", "[[16,16,512,64],[16,16,512,64],[]]")


def direct(trace: TraceBuilder) -> tuple[float, float]:
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    return finding.saving.direct_ns_per_step


def test_copies_that_operators_and_autograd_make_for_themselves_may_be_needed() -> None:
    assert direct(copying("aten::native_layer_norm", "aten::contiguous", "aten::clone")) == pytest.approx((0, 400_000))
    assert direct(copying(*BACKWARD, "aten::contiguous", "aten::clone")) == pytest.approx((0, 400_000))


def test_of_copies_by_all_the_lower_end_is_half_of_those_that_program_and_modules_ask_for() -> None:
    (finding,) = findings(copied_by_all(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 200_000, 400_000))
    assert finding.summary.params["copies"] == 4
    assert "at least 25 % of it" in finding.saving.basis.text


def test_where_the_host_is_slower_the_calls_that_made_the_copies_go_away() -> None:
    """Each `aten::contiguous` takes 14 us, 8 of them in `aten::copy_`; a copy takes 2 us of the GPU."""
    (finding,) = findings(copying("aten::contiguous", "aten::clone", each=2, rest=8), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((4_000, 8_000))
    assert finding.saving.wall_ns_per_step == pytest.approx((0.5 * 4 * 14_000, 4 * 14_000), rel=0.01)


def test_the_operator_that_copies_for_itself_stays() -> None:
    """Only `aten::contiguous` goes away, not the 3 us of `aten::native_layer_norm` around each."""
    (finding,) = findings(copying("aten::native_layer_norm", "aten::contiguous", "aten::clone", each=2, rest=8), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert low == 0
    assert high == pytest.approx(4 * 14_000, rel=0.01)


def test_names_the_operator_around_what_asks() -> None:
    (finding,) = findings(copying("aten::einsum", "aten::reshape", "aten::clone"), RULE)
    assert "aten::reshape in aten::einsum" in finding.summary.text


def test_of_clones_in_a_row_one_may_be_needed() -> None:
    (finding,) = findings(cloning(10, gpu=True, each=50), RULE)
    assert finding.confidence == "C"
    assert finding.saving is not None
    assert finding.saving.resource == "gpu"
    assert finding.saving.direct_ns_per_step == pytest.approx((225_000, 450_000)), "9 of 10, 50 us each"


def test_of_clones_that_cost_less_than_steps_differ_no_saving_is_promised() -> None:
    (finding,) = findings(fires_on_clones_in_a_row(), RULE)
    assert finding.saving is None


def test_clones_on_the_host_take_time_of_the_host() -> None:
    (finding,) = findings(fires_on_clones_on_the_host(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(9 * 207_000)


def test_copies_without_types_are_judged_by_who_asks() -> None:
    assert findings(copying("aten::contiguous", types=("", "")), RULE)
    assert findings(copying("aten::to", "aten::_to_copy", types=("", "")), RULE) == []


def test_a_table_tells_time_below_operators() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.confidence == "B"
    assert "aten::reshape" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000_000, 100_000_000))


def test_a_table_never_names_an_operator_without_time() -> None:
    (finding,) = findings(printed("aten::repeat", "50.000ms"), RULE)
    assert "aten::repeat" in finding.summary.text
    assert findings(printed("aten::repeat", "0.000us"), RULE) == []


def test_edge_gpu_share_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"gpu_share": 0.1}) == []
    assert findings(fires_in_a_table(), RULE, {"gpu_share": 0.0999})


def test_edge_clones_in_a_row() -> None:
    assert findings(cloning(4, gpu=False), RULE) == []
    assert findings(cloning(5, gpu=False), RULE)


def test_says_of_which_copies_it_knows_nothing() -> None:
    trace = fires()
    assert "says nothing of" not in findings(trace, RULE)[0].summary.text
    for number in range(12):  # in three steps, by nobody whom the trace names
        trace.memcpy("DtoD", 4096, 60 + number, 1)
    (finding,) = findings(trace, RULE)
    assert "graphs, compiled code or libraries: 4." in finding.summary.text
    assert finding.summary.text.startswith("4 copies per step within the GPU's memory")


def test_on_a_cpu_copies_that_the_program_asks_for() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(400_000 / 4_403_000)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 400_000, 0.83 * 400_000))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text
