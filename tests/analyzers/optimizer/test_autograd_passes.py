"""Forward and backward passes, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.training import Training
from tests.reading import read_built
from tests.rules.optimizer.test_redundant_passes import MODEL, extra_passes, loops
from traceanalyzer.analyzers.optimizer import autograd_passes
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> Passes:
    return autograd_passes.analyze(Context(read_built(trace)))


def plain(loop: Training, number: int) -> None:
    loop.zero_grad()
    loop.backward(loop.forward(root=MODEL))
    loop.step()


def test_one_pass_per_update() -> None:
    found = analyzed(loops(plain))
    assert (found.backward_passes, found.updates, found.zero_grads) == (4, 4, 4)
    assert (found.graph_functions, found.graph_passes) == (12, 4)
    assert (found.discarded, found.unused, found.accumulation) == (None, (), None)


def test_discarded_passes_with_their_forward_part() -> None:
    discarded = analyzed(loops(extra_passes)).discarded
    assert discarded is not None
    assert (discarded.passes, discarded.updates) == (4, 2)
    assert discarded.device_ns == 4 * 6 * 100 * US
    example = discarded.examples[0]
    assert (example.functions, example.device_ns) == (6, 600 * US), "three layers, three accumulations"
    assert len(discarded.examples) == 4


def test_gradients_for_a_penalty_are_not_thrown_away_by_zero_grad() -> None:
    """`autograd.grad` adds to no parameter: the loss that zero_grad, backward and step follow is made of its result."""
    loop, evaluation = Training(gpu=False), "autograd::engine::evaluate_function: "
    for _ in range(3):
        with loop.iteration():
            for number in reversed(loop.forward()):
                loop.host.leaf(f"{evaluation}ConvolutionBackward0", 50, sequence=number, fwd_thread=1)
            loop.host.leaf(f"{evaluation}torch::autograd::AccumulateGrad", 1)  # evaluated, but not called
            loop.zero_grad()
            loop.backward(loop.forward())
            with loop.host.op(f"{evaluation}torch::autograd::AccumulateGrad"):
                loop.host.leaf("torch::autograd::AccumulateGrad", 10)
            loop.step()
    assert analyzed(loop.finish()).discarded is None


def test_two_losses_with_nothing_between_are_one_pass() -> None:
    def body(loop: Training, number: int) -> None:
        numbers = loop.forward(4)
        loop.backward(numbers[2:])
        loop.backward(numbers[:2])
        loop.step()

    assert analyzed(loops(body)).backward_passes == 4


def test_an_operator_on_another_thread_divides_no_pass() -> None:
    loop = Training()
    with loop.iteration():
        numbers = loop.forward(6)
        loop.backward(numbers)
        middle = loop.engine.now - 100 * US
        for sequence in (900, 901):
            loop.trace.op("aten::mul", middle // US, 1, sequence=sequence, tid=99)
        loop.step()
    assert analyzed(loop.finish()).backward_passes == 1


def test_unused_outputs_by_module_and_shape() -> None:
    def body(loop: Training, number: int) -> None:
        loop.forward(root=MODEL)
        loop.forward(root=MODEL, shape=(1, 3, 32, 32))  # another shape: another purpose
        loop.backward(loop.forward(root=MODEL))
        loop.step()

    (row,) = analyzed(loops(body)).unused
    assert (row.calls, row.unused_calls, row.updates) == (8, 4, 4)
    assert row.device_ns == 4 * 3 * 200 * US


def test_accumulation_counts_early_exchanges() -> None:
    def body(loop: Training, number: int) -> None:
        for _ in range(3):
            loop.backward(loop.forward(), reduces=2, reduce_dur=50)
        loop.step()

    found = analyzed(loops(body)).accumulation
    assert found is not None
    assert (found.updates, found.passes, found.early_exchanges, found.collectives) == (4, 12, 8, 16)
    assert found.time_ns == 16 * 50 * US
    assert found.exposed_ns <= found.time_ns


def test_only_chosen_steps_count() -> None:
    trace = read_built(loops(extra_passes))
    chosen = Context(trace).steps.take(slice(0, 2))  # one with extra passes, one without
    found = autograd_passes.analyze(Context(trace, chosen))
    assert (found.backward_passes, found.updates, found.graph_functions) == (4, 2, 12)
    assert found.discarded is not None
    assert (found.discarded.passes, found.discarded.device_ns) == (2, 2 * 6 * 100 * US)


def test_missing_without_autograd() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    assert autograd_passes.ANALYSES[0].missing(Context(read_built(trace))) is not None


@pytest.mark.parametrize(
    ("name", "steps"),
    [("ddp_a100_nccl_rank0", 3), ("train_v100_ns_timestamps", 5), ("resnet50_v100_workers0_memory", 6)],
)
def test_recorded_training_has_one_pass_per_step(corpus: Path, name: str, steps: int) -> None:
    found = autograd_passes.analyze(corpus_files.context_of(corpus / "corpus" / f"{name}.json.gz"))
    assert (found.backward_passes, found.updates, found.graph_passes) == (steps, steps, steps)
    assert (found.discarded, found.unused, found.accumulation) == (None, (), None)
