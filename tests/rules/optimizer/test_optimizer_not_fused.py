"""Tests of the rule `optimizer-not-fused`: numbers worked out by hand, and edges of thresholds.

The programs: optimizers that update parameters one by one, or together.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Work
from tests.builders.training import Training
from tests.rules.judging import findings, report, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as inference
from traceanalyzer.structure.recording import Recording

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
STEP = "Optimizer.step#SGD.step"


def training(
    launches: int, *, operator: str = "aten::add_", kernel: str = ADD, name: str = STEP, wait_before: bool = True
) -> TraceBuilder:
    """Steps with an optimizer of so many launches, 28 us of host time each."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            loop.zero_grad()
            loop.backward(loop.forward())
            if wait_before:
                loop.host.wait(loop.stream)
            loop.step(launches, operator=operator, kernel=kernel, name=name)
    return loop.finish()


def fires() -> TraceBuilder:
    """200 small kernels after the GPU has drained: it waits for each of them."""
    return training(200)


SHAPES = ([256, 64], [256], [256, 256], [64])
AVERAGE = ("aten::mul_", "aten::mul", "aten::add_")


def working_through(
    tensors: int, turn: Sequence[str] = AVERAGE, shapes: Sequence[list[int]] = SHAPES, mark: str = "update_average"
) -> TraceBuilder:
    """Steps that call the same operators for each of some tensors, after the GPU has drained."""
    loop = Training(trace=TraceBuilder(options=("record_shapes",)))
    for _ in range(3):
        with loop.iteration():
            loop.zero_grad()
            loop.backward(loop.forward())
            loop.step(3, operator="aten::_foreach_add_", kernel="multi_tensor_apply_kernel<...>")
            loop.host.wait(loop.stream)
            with loop.host.annotation(mark):
                for number in range(tensors):
                    for name in turn:
                        with loop.host.op(name, shapes=[shapes[number % len(shapes)]], types=["float"]):
                            loop.host.launch(Work(ADD, 2), loop.stream)
    return loop.finish()


def fires_on_averaged_weights() -> TraceBuilder:
    """An average of the weights is updated parameter by parameter."""
    return working_through(60)


def fires_on_an_update_by_hand() -> TraceBuilder:
    """Gradients are scaled and subtracted parameter by parameter."""
    return working_through(100, ("aten::mul", "aten::sub_"))


def trap_few_averages() -> TraceBuilder:
    """The average of a small model."""
    return working_through(20)


def trap_one_tensor() -> TraceBuilder:
    """Iterations on one tensor: each needs the result of the one before."""
    return working_through(60, shapes=SHAPES[:1])


def trap_lists_of_averages() -> TraceBuilder:
    """The average is updated with operators on lists."""
    return working_through(60, ("aten::_foreach_mul_", "aten::_foreach_add_"))


def fires_in_a_table() -> str:
    """100 parameters, three operators each, in each of ten updates."""
    return printed("aten::add_", 3000)


def quiet() -> TraceBuilder:
    """All parameters at once."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward())
            loop.step(3)
    return loop.finish()


def quiet_in_a_table() -> str:
    """Operators on lists of tensors."""
    return printed("aten::_foreach_add_", 30)


def trap_lists() -> TraceBuilder:
    """Many launches, but of operators on lists: there are several groups of parameters."""
    return training(200, operator="aten::_foreach_add_")


def trap_sparse() -> TraceBuilder:
    """Sparse gradients have no fused form."""
    return training(200, name="Optimizer.step#SparseAdam.step")


def trap_custom() -> TraceBuilder:
    """An optimizer that multiplies matrices is not a loop of arithmetic."""
    return training(200, operator="aten::mm", kernel="ampere_sgemm_128x64_nn")


def trap_few_parameters() -> TraceBuilder:
    """A small model."""
    return training(12)


def trap_gpu_projection() -> TraceBuilder:
    """The range on the stream counts nothing: the host's has 60 launches, not 120."""
    trace = training(60)
    for start in (1000, 5000, 9000):
        trace.gpu_annotation(STEP, start, 900, external_id=9)
    return trace


def trap_sparse_in_a_table() -> str:
    """Sparse gradients have no fused form, and no form on lists."""
    return printed("aten::add_", 3000, name="Optimizer.step#SparseAdam.step")


def trap_closure_in_a_table() -> str:
    """The optimizer computes the loss in a closure, so its time is that of the whole program."""
    return printed("aten::add_", 3000, total="1.000s", evaluated="600.000ms")


def trap_closure_on_a_cpu() -> TraceBuilder:
    """The same in a trace: the range of the optimizer's step contains the forward and the backward pass."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(3):
        with loop.iteration(), loop.host.annotation("Optimizer.step#AdamW.step"):
            loop.backward(loop.forward())
            for _ in range(200):
                loop.host.leaf("aten::addcmul_", 8)
    return loop.finish()


def printed(
    operator: str, calls: int, *, name: str = STEP, total: str = "200.000ms", evaluated: str = "0.000us"
) -> str:
    """A table of ten steps, a fifth of their host time (or `total` of a second) in the optimizer."""

    def row(name: str, own: str, total: str, calls: int) -> dict[str, object]:
        return {"Name": name, "Self CPU": own, "CPU total": total, "# of Calls": calls}

    rows = [
        row(name, "50.000ms", total, 10),
        row("autograd::engine::evaluate_function: AddmmBackward0", "0.000us", evaluated, 100),
        row(operator, "150.000ms", "150.000ms", calls),
        row("aten::mm", "800.000ms", "800.000ms", 100),
    ]
    return table(rows, cpu="1.000s")


def on_a_cpu(
    calls: int,
    *,
    each: int = 8,
    name: str = "Optimizer.step#AdamW.step",
    operator: str = "aten::addcmul_",
    optimizers: int = 1,
) -> TraceBuilder:
    """Steps without a GPU whose optimizers make so many calls together, of so many microseconds and one more."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward())
            for _ in range(optimizers):
                with loop.host.annotation(name):
                    for _ in range(calls // optimizers):
                        loop.host.leaf(operator, each)
                        loop.host.work(1)
    return loop.finish()


def fires_on_a_cpu() -> TraceBuilder:
    """200 calls of 8 us."""
    return on_a_cpu(200)


def fires_on_an_optimizer_for_each_tensor_on_a_cpu() -> TraceBuilder:
    """The same calls, four in each of fifty optimizers."""
    return on_a_cpu(200, optimizers=50)


def fires_on_two_optimizers_on_a_cpu() -> TraceBuilder:
    """A generator and its discriminator, each small."""
    return on_a_cpu(120, optimizers=2)


def fires_on_large_parameters_on_a_cpu() -> TraceBuilder:
    """100 calls of 100 us."""
    return on_a_cpu(100, each=100)


def fires_on_sixteen_parameters_on_a_cpu() -> TraceBuilder:
    """64 calls of 89 us, as Adagrad makes for 16 parameters of a recommendation model."""
    return on_a_cpu(64, each=89, name="Optimizer.step#Adagrad.step")


def fires_on_few_huge_parameters_on_a_cpu() -> TraceBuilder:
    """21 calls of 1 ms, such as for an embedding of 30 million numbers."""
    return on_a_cpu(21, each=1000)


def quiet_on_a_cpu() -> TraceBuilder:
    """All parameters at once."""
    return on_a_cpu(100, operator="aten::_fused_adamw_")


def trap_no_fused_form_on_a_cpu() -> TraceBuilder:
    """RMSprop on lists still takes one parameter after the other on a CPU."""
    return on_a_cpu(200, name="Optimizer.step#RMSprop.step")


def fires_on_few_parameters_that_take_much_of_a_step_on_a_cpu() -> TraceBuilder:
    """A small model, whose update takes a good part of its step."""
    return on_a_cpu(40)


def trap_few_parameters_on_a_cpu() -> TraceBuilder:
    """A small model, whose update takes a small part of its step."""
    return on_a_cpu(4)


def trap_few_long_calls_on_a_cpu() -> TraceBuilder:
    """Calls of 150 us for few parameters, which fit into caches."""
    return on_a_cpu(21, each=150)


def trap_first_update_on_a_cpu() -> TraceBuilder:
    """Few short calls, one that waits for memory, and the making of the optimizer's state, which takes long."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward())
            with loop.host.annotation("Optimizer.step#AdamW.step"):
                loop.host.work(20_000)
                for call in range(21):
                    loop.host.leaf("aten::addcmul_", 50 if call else 2_000)
    return loop.finish()


def standing_still(stalls: Sequence[tuple[int, bool]], *, calls: int = 200, shapes: bool = False) -> TraceBuilder:
    """Updates of 8 us each, in one of which, or before which, the thread of each step loses its core for 12 ms."""
    options = ("record_shapes",) if shapes else ()
    loop = Training(trace=TraceBuilder(devices=(), options=options), gpu=False)
    for stalled, is_inside in stalls:
        with loop.iteration():
            loop.backward(loop.forward())
            loop.host.work(10_000)
            with loop.host.annotation("Optimizer.step#AdamW.step"):
                for call in range(calls):
                    loop.host.work(12_000 if call == stalled and not is_inside else 1)
                    own = 12_000 if call == stalled and is_inside else 8
                    loop.host.leaf("aten::addcmul_", own, shapes=[[64, 64 + call % 4]] if shapes else None)
    return loop.finish()


def trap_threads_that_stand_still_on_a_cpu() -> TraceBuilder:
    """A small model, in whose update a thread loses its core: between operators, and within one."""
    return standing_still([(1, False), (2, True), (1, False), (3, True)], calls=12)


def trap_memory_bound_on_a_cpu() -> TraceBuilder:
    """SGD without momentum reads and writes large parameters once, fused or not."""
    return on_a_cpu(100, each=100, name=STEP, operator="aten::add_")


RULE = "optimizer-not-fused"
CALL = 200 * 26_000 + 3_000
"""20 us before, 5 us of the launch and 1 us after each, and 3 us of the range."""


def test_beside_a_device_as_much_host_time_goes_as_on_a_cpu() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.6 * CALL, 0.9 * CALL)), "SGD"
    # the GPU waits for each launch; for the 7 us of host time after the last one nothing waits
    point = finding.saving.point_ns_per_step
    assert point == pytest.approx(0.75 * (CALL - 7_000), rel=0.001)
    low, high = finding.saving.wall_ns_per_step
    assert low == pytest.approx(0.6 * (CALL - 7_000), rel=0.02), "without residuals launches take their usual time"
    # then only the device's own time is left: 200 kernels of 2 us, each 0.9 us after the one before
    assert high == pytest.approx(CALL - 200 * 2_900, rel=0.001)


def test_is_latent_while_the_gpu_still_works_on_the_backward_pass() -> None:
    from tests.builders.training import Training  # noqa: PLC0415 - of this situation only
    from tests.rules.optimizer.test_optimizer_not_fused import ADD  # noqa: PLC0415

    loop = Training()
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward(), dur=10_000)
            loop.step(200, operator="aten::add_", kernel=ADD)
    (finding,) = findings(loop.finish(), RULE)
    assert finding.latent
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(0.9 * CALL)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Optimizer.step#SGD.step", "torch.optim.SGD(parameters, **settings, fused=True)  # settings: as before"),
        (
            "Optimizer.step#RMSprop.step",
            "torch.optim.RMSprop(parameters, **settings, foreach=True)  # settings: as before",
        ),
    ],
)
def test_the_code_keeps_the_optimizer(name: str, code: str) -> None:
    (finding,) = findings(training(200, name=name), RULE)
    assert finding.code == code


def test_a_table_has_calls_of_arithmetic() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.confidence == "C"
    assert finding.evidence[0].observed == 300
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((10_000_000, 19_400_000))


def test_without_an_optimizer_nobody_can_tell() -> None:
    assert "optimizer" in (skipped(inference(), RULE) or "")


def test_edge_launches() -> None:
    assert findings(training(99), RULE) == []
    assert findings(training(100), RULE)


def test_edge_launches_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"launches": 301}) == []
    assert findings(fires_in_a_table(), RULE, {"launches": 300})


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[1].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})


def test_idle_time_of_a_step_that_is_left_out_is_not_saved_in_the_others() -> None:
    """The first of five steps makes 2000 launches instead of 200, such as once for each parameter that it creates."""
    from tests.builders.training import Training  # noqa: PLC0415 - of this situation only
    from tests.rules.optimizer.test_optimizer_not_fused import ADD  # noqa: PLC0415

    loop = Training()
    for number in range(5):
        with loop.iteration():
            loop.backward(loop.forward())
            loop.host.wait(loop.stream)
            loop.step(200 if number else 2000, operator="aten::add_", kernel=ADD)
    found = report(loop.finish(), RULE)
    recording = found.result("recording", Recording)
    assert recording is not None
    assert recording.typical is not None
    assert recording.typical.steps == 4
    (finding,) = found.findings
    assert finding.saving is not None
    own = recording.typical.resources
    idle = own.step_ns - (own.gpu_ns or 0)
    assert finding.saving.direct_ns_per_step[1] < 1.1 * idle, "over all steps 560 launches per step"
    assert finding.saving.wall_ns_per_step[1] <= idle


def test_a_loop_over_parameters_is_told_with_its_place_and_the_operators_on_lists() -> None:
    (finding,) = findings(fires_on_averaged_weights(), RULE)
    assert finding.title.id == "optimizer-not-fused-title-loop"
    assert finding.summary.text.startswith("For each of 60 tensors update_average calls mul_, mul, add_: 180 small")
    assert "torch._foreach_mul_" in finding.advice.text
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert (low, high) == pytest.approx((0.5 * high / 0.97, high))
    assert finding.saving.wall_ns_per_step[1] <= high, "its kernels still run"
