"""Tests of the rule `activations-recomputed`: numbers worked out by hand, and edges of thresholds.

The programs: backward passes that compute parts of the forward pass again, and others that only look like it.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.training import Training
from tests.rules.judging import findings, skipped
from tests.rules.optimizer.test_autograd_in_inference import in_a_table

EVALUATION = "autograd::engine::evaluate_function: "
_LAYERS = (("aten::conv2d", 300), ("aten::batch_norm", 200), ("aten::relu", 100))


class Checkpointed:
    """A training of three operators per layer, on a CPU or a GPU."""

    def __init__(self, *, gpu: bool = False, shorter: int = 1) -> None:
        options = ("record_shapes", "profile_memory") if gpu else ("record_shapes",)
        self.trace = TraceBuilder(devices=(A100,) if gpu else (), options=options)
        self.host = Host(self.trace, at=10)
        self.stream = Stream() if gpu else None
        self.sequence = 0
        self.shorter = shorter

    def work(self, dur: int) -> None:
        """A kernel, or as much time on the CPU."""
        if self.stream is None:
            self.host.work(dur)
        else:
            self.host.launch(Work("ampere_sgemm_128x64_nn", dur // self.shorter), self.stream)

    def forward(self, layers: int = 4, *, first: int = 0) -> list[int]:
        """Operators with numbers of autograd; returns these."""
        made = []
        for layer in range(first, first + layers):
            for name, dur in _LAYERS:
                with self.host.op(name, 2, 1, shapes=[[8, 16 + layer]], sequence=self.sequence):
                    self.work(dur)
                made.append(self.sequence)
                self.sequence += 1
        return made

    def backward(self, numbers: list[int], *, again: dict[int, tuple[int, int]] | None = None) -> None:
        """Functions, the last first; those of some numbers first compute so many layers from some layer on again."""
        for number in reversed(numbers):
            around = self.host.op(EVALUATION + "ReluBackward0", 1, 1, sequence=number, fwd_thread=1)
            with around, self.host.op("ReluBackward0", 2, 1, sequence=number, fwd_thread=1):
                if again and number - numbers[0] in again:
                    first, layers = again[number - numbers[0]]
                    self.forward(layers, first=first)
                with self.host.op("aten::threshold_backward", 2, 1):
                    self.work(200)

    def step(self, number: int, *, again: dict[int, tuple[int, int]] | None = None) -> None:
        """One step."""
        with self.host.annotation(f"ProfilerStep#{number}"):
            self.backward(self.forward(), again=again)
            if self.stream is not None:
                self.host.wait(self.stream)


def checkpointed(*, gpu: bool = False, steps: int = 4, peak: int | None = None, shorter: int = 1) -> TraceBuilder:
    """Two of four layers are computed again, at the first function of the backward pass."""
    loop = Checkpointed(gpu=gpu, shorter=shorter)
    for number in range(steps):
        loop.step(number, again={11: (2, 2)})
    if peak is not None:
        for nbytes, total in ((peak, peak), (-peak, 0)):
            at = 20 if nbytes > 0 else 3000
            loop.trace.memory(nbytes, at, addr=1, allocated=total, reserved=peak, device=0)
    return finish(loop.trace)


def fires() -> TraceBuilder:
    """A program on a CPU."""
    return checkpointed()


def reentrant() -> TraceBuilder:
    """Two layers of a checkpoint run without autograd, and again in its function, which then differentiates them."""
    loop = Checkpointed()
    for number in range(4):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            numbers = loop.forward(2)
            with loop.host.op("CheckpointFunction", 2, 1, sequence=loop.sequence):
                layers(loop)
            checkpoint, loop.sequence = loop.sequence, loop.sequence + 1
            name = "CheckpointFunctionBackward"
            around = loop.host.op(EVALUATION + name, 1, 1, sequence=checkpoint, fwd_thread=1)
            with around, loop.host.op(name, 2, 1, sequence=checkpoint, fwd_thread=1):
                layers(loop)
                loop.backward([loop.sequence])
            loop.backward(numbers)
    return finish(loop.trace)


def layers(loop: Checkpointed) -> None:
    """Two layers of 600 us."""
    for name, dur in _LAYERS * 2:
        with loop.host.op(name, 2, 1):
            loop.host.work(dur)


def quiet() -> TraceBuilder:
    """A program that keeps its activations."""
    loop = Checkpointed()
    for number in range(4):
        loop.step(number)
    return finish(loop.trace)


def trap_differentiated_backward() -> TraceBuilder:
    """The backward pass is differentiated itself: its functions add others to the graph."""
    loop = Checkpointed()
    for number in range(4):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            for made in reversed(loop.forward()):
                around = loop.host.op(EVALUATION + "AddmmBackward0", 1, 1, sequence=made, fwd_thread=1)
                with around, loop.host.op("AddmmBackward0", 2, 1, sequence=made, fwd_thread=1):
                    for name in ("aten::t", "aten::mm", "aten::t", "aten::mm", "aten::sum"):
                        loop.host.leaf(name, 50, shapes=[[8, 16]], sequence=loop.sequence)
                        loop.sequence += 1
    return finish(loop.trace)


def trap_without_checkpointing() -> TraceBuilder:
    """A training on a GPU whose backward pass is on another thread."""
    loop = Training()
    for _ in range(4):
        with loop.iteration():
            loop.backward(loop.forward(6))
    return loop.finish()


RULE = "activations-recomputed"


def test_a_checkpoint_that_runs_without_autograd_is_known_by_its_function() -> None:
    (finding,) = findings(reentrant(), "activations-recomputed")
    assert finding.summary.params["segments"] == 1
    # six operators of 200 us on average with 4 us around each
    assert finding.summary.params["time"] == pytest.approx(6 * 204_000, rel=0.01)


def test_the_segment_is_the_time_from_the_evaluation_to_the_last_operator() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    # 3 us until the first operator, then two layers of 303 + 203 + 103 us
    assert finding.saving.direct_ns_per_step == pytest.approx((0.95 * 1_221_000, 1.55 * 1_221_000))
    assert "runs again: 1 per step" in finding.summary.text
    assert "aten::conv2d, aten::batch_norm, aten::relu" in finding.summary.text
    assert finding.severity == "info", "a CPU does not tell whether memory is free"


def test_on_a_gpu_the_kernels_of_the_layers_count() -> None:
    (finding,) = findings(checkpointed(gpu=True, peak=8 << 30), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 1_200_000, 1.1 * 1_200_000)), "of two layers"
    assert finding.severity == "high", "what is saved at least lifts it: 1080 of each step's microseconds"


def test_without_knowledge_of_memory_it_may_save_nothing() -> None:
    (finding,) = findings(checkpointed(gpu=True), RULE)
    assert finding.severity == "low"
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0


def test_where_the_host_bounds_a_gpu_its_time_counts() -> None:
    """Kernels of 1 to 3 us, launched by operators that take 8 us each."""
    (finding,) = findings(checkpointed(gpu=True, peak=8 << 30, shorter=100), RULE)
    assert finding.saving is not None
    least, most = finding.saving.direct_ns_per_step
    # 3 us, two layers of three operators of 3 us each, and a launch in each of 5 us
    assert (least, most) == pytest.approx((0.95 * 51_000, 1.55 * 51_000))
    assert "CPU time" in finding.saving.basis.text


def test_a_table_does_not_tell() -> None:
    assert "does not show" in (skipped(in_a_table(), RULE) or "")


def test_edge_used_share() -> None:
    half = checkpointed(gpu=True, peak=22_000_000_000)
    assert findings(half, RULE) == [], "of 42.3 GB"
    assert findings(half, RULE, {"used_share": 0.6})
