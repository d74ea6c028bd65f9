"""Optimizers that update parameters one by one, or together."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.training import Training
from tests.rules.judging import table

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
    calls: int, *, each: int = 8, name: str = "Optimizer.step#AdamW.step", operator: str = "aten::addcmul_"
) -> TraceBuilder:
    """Steps without a GPU whose optimizer makes so many calls, of so many microseconds and one more."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward())
            with loop.host.annotation(name):
                for _ in range(calls):
                    loop.host.leaf(operator, each)
                    loop.host.work(1)
    return loop.finish()


def fires_on_a_cpu() -> TraceBuilder:
    """200 calls of 8 us."""
    return on_a_cpu(200)


def fires_on_large_parameters_on_a_cpu() -> TraceBuilder:
    """100 calls of 100 us."""
    return on_a_cpu(100, each=100)


def fires_on_few_huge_parameters_on_a_cpu() -> TraceBuilder:
    """21 calls of 1 ms, such as for an embedding of 30 million numbers."""
    return on_a_cpu(21, each=1000)


def quiet_on_a_cpu() -> TraceBuilder:
    """All parameters at once."""
    return on_a_cpu(100, operator="aten::_fused_adamw_")


def trap_no_fused_form_on_a_cpu() -> TraceBuilder:
    """RMSprop on lists still takes one parameter after the other on a CPU."""
    return on_a_cpu(200, name="Optimizer.step#RMSprop.step")


def trap_few_parameters_on_a_cpu() -> TraceBuilder:
    """A small model."""
    return on_a_cpu(40)


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


def trap_memory_bound_on_a_cpu() -> TraceBuilder:
    """SGD without momentum reads and writes large parameters once, fused or not."""
    return on_a_cpu(100, each=100, name=STEP, operator="aten::add_")
