"""pipeline-bubble.

The programs: stages of pipelines, and other programs that send messages from rank to rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import EVALUATION
from tests.builders.hardware import A100
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.values import micros
from tests.reading import read_built
from tests.rules.judging import findings, report
from traceanalyzer.analyzers.optimizer.exchanges import Pipeline, pipeline
from traceanalyzer.structure.context import Context

FIRST, BETWEEN, LAST = "first", "between", "last"
LAYERS = 3
"""Functions of a forward pass."""
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


class Stage:
    """A rank whose passes take 300 us (forward) and 600 us (backward); messages take as long as is said.

    On the CPU messages are gloo's; with `gpu`, kernels send and receive on a stream of their own, and the stream that
    computes waits for what is received.
    """

    def __init__(self, *, gpu: bool = False) -> None:
        self.trace = TraceBuilder() if gpu else TraceBuilder(devices=())
        self.host = Host(self.trace, at=10)
        self.gpu = gpu
        self.compute, self.messages = Stream(7), Stream(24)
        self.sequence = 100
        self.steps = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """A marked step that ends with an update."""
        with self.host.annotation(f"ProfilerStep#{self.steps}"):
            yield
            with self.host.annotation("Optimizer.step#SGD.step"):
                self.host.leaf("aten::add_", 20)
            if self.gpu:
                self.host.wait(self.compute)
        self.steps += 1

    def receive(self, waiting: int, *, name: str = "recv_") -> None:
        """Something arrives after so long."""
        with self.host.op(f"c10d::{name}", 5, 0):
            if self.gpu:
                self._message(waiting)
        if not self.gpu:
            self.trace.annotation("gloo:recv", micros(self.host.now), waiting)
            self.host.work(waiting)

    def send(self, dur: int = 5) -> None:
        """Something is sent; nothing waits for it."""
        with self.host.op("c10d::send", 5, 0):
            if self.gpu:
                self._message(dur)
        if not self.gpu:
            self.trace.annotation("gloo:send", micros(self.host.now), dur)

    def _message(self, dur: int) -> None:
        self.messages.free_ns = max(self.messages.free_ns, self.compute.free_ns)
        self.host.launch(Work(SEND_RECV, dur), self.messages)
        self.compute.free_ns = max(self.compute.free_ns, self.messages.free_ns)

    def forward(self, layers: int = LAYERS) -> list[int]:
        """Functions that extend the graph; returns their numbers."""
        made = []
        for _ in range(layers):
            self._work("aten::linear", 100, self.sequence, None)
            made.append(self.sequence)
            self.sequence += 1
        return made

    def backward(self, numbers: Sequence[int], *, recomputes: bool = False) -> None:
        """Evaluate functions, the last first; all in one that first repeats the forward pass, if asked."""
        if recomputes:
            with self.host.op(EVALUATION + "CheckpointFunctionBackward", sequence=numbers[0], fwd_thread=1):
                self.backward(self.forward())
            return
        for number in reversed(numbers):
            self._work(EVALUATION + "AddmmBackward0", 200, number, 1)
            self.host.leaf(EVALUATION + "torch::autograd::AccumulateGrad", 1)

    def _work(self, name: str, dur: int, sequence: int, fwd_thread: int | None) -> None:
        if not self.gpu:
            self.host.leaf(name, dur, sequence=sequence, fwd_thread=fwd_thread)
            return
        with self.host.op(name, 2, 1, sequence=sequence, fwd_thread=fwd_thread):
            self.host.launch(Work("ampere_sgemm_128x64_nn", dur), self.compute)

    def finish(self) -> TraceBuilder:
        """The trace."""
        return finish(self.trace)


def gpipe(
    place: str, batches: int, *, fill: int = 900, turn: int = 900, full: int = 5, gpu: bool = False
) -> TraceBuilder:
    """Three steps of all forward passes, then all backward passes.

    Args:
        place: Of the stage.
        batches: Number of micro-batches.
        fill: How long the first activations take, in us.
        turn: How long the first gradients take.
        full: How long all others take.
        gpu: Whether the stage computes on a GPU.
    """
    stage = Stage(gpu=gpu)
    for _ in range(3):
        with stage.step():
            passes = []
            for number in range(batches):
                if place != FIRST:
                    stage.receive(full if number else fill)
                passes.append(stage.forward())
                if place != LAST:
                    stage.send()
            for number, made in enumerate(passes):
                if place != LAST:
                    stage.receive(full if number else turn)
                stage.backward(made)
                if place != FIRST:
                    stage.send()
    return stage.finish()


def recomputing() -> TraceBuilder:
    """Three steps of the last of two stages, whose backward passes repeat the forward pass; the first activations take
    900 us."""
    stage = Stage()
    for _ in range(3):
        with stage.step():
            for number in range(4):
                stage.receive(5 if number else 900)
                made = stage.forward(1)
                stage.backward(made, recomputes=True)
                stage.send()
    return stage.finish()


def one_forward_one_backward(batches: int, *, after: int, drain: int) -> TraceBuilder:
    """The second stage of three: two forward passes, then a backward and a forward pass in turns, then the last
    backward passes, which wait for `drain` us; all other gradients and activations take 5, the first ones 400."""
    stage = Stage()
    for _ in range(3):
        with stage.step():
            passes = []
            for number in range(after):
                stage.receive(5 if number else 400)
                passes.append(stage.forward())
                stage.send()
            for number in range(batches):
                is_last = len(passes) == batches
                stage.receive((drain if is_last else 5) if number else 400)
                stage.backward(passes[number])
                stage.send()
                if not is_last:
                    stage.receive(5)
                    passes.append(stage.forward())
                    stage.send()
    return stage.finish()


def fires() -> TraceBuilder:
    """The last of two stages: the first activations take 900 us; four micro-batches take 3600."""
    return gpipe(LAST, 4)


def fires_on_the_first_stage() -> TraceBuilder:
    """The first gradients take 900 us."""
    return gpipe(FIRST, 4)


def fires_between_others() -> TraceBuilder:
    """Both do."""
    return gpipe(BETWEEN, 4)


def fires_in_turns() -> TraceBuilder:
    """1F1B waits for the first activations, the first gradients, and in the last two backward passes."""
    return one_forward_one_backward(4, after=2, drain=300)


def fires_with_recomputation() -> TraceBuilder:
    """Functions that the backward pass creates belong to no other forward pass."""
    return recomputing()


def fires_on_a_gpu() -> TraceBuilder:
    """Kernels wait for messages."""
    return gpipe(BETWEEN, 4, gpu=True)


def quiet() -> TraceBuilder:
    """Sixteen micro-batches take 14,400 us."""
    return gpipe(LAST, 16)


def trap_slow_neighbour() -> TraceBuilder:
    """The stage waits as long for each activation: another stage has more to do."""
    return gpipe(LAST, 4, full=900)


def ring(batches: int, *, gpu: bool = False) -> TraceBuilder:
    """Context parallelism: keys and values travel from rank to rank within each of three layers."""
    stage = Stage(gpu=gpu)
    for _ in range(3):
        with stage.step():
            for _ in range(batches):
                made = []
                for _ in range(LAYERS):
                    stage.send()
                    stage.receive(300)
                    made += stage.forward(1)
                for number in reversed(made):
                    stage.send()
                    stage.receive(300)
                    stage.backward([number])
    return stage.finish()


def trap_ring_attention() -> TraceBuilder:
    """One batch before each update."""
    return ring(1)


def trap_ring_attention_with_accumulation() -> TraceBuilder:
    """Two batches before each update, on a GPU."""
    return ring(2, gpu=True)


def trap_message_within_the_forward_pass() -> TraceBuilder:
    """With gradient accumulation, each forward pass waits for one message in its middle."""
    stage = Stage()
    for _ in range(3):
        with stage.step():
            for _ in range(4):
                made = stage.forward()
                stage.receive(900)
                stage.backward([*made, *stage.forward()])
    return stage.finish()


def trap_gradient_accumulation() -> TraceBuilder:
    """Four passes before each update, and messages only after them."""
    stage = Stage()
    for _ in range(3):
        with stage.step():
            for _ in range(4):
                stage.backward(stage.forward())
            stage.receive(900)
    return stage.finish()


def trap_embeddings() -> TraceBuilder:
    """All-to-all of embeddings also runs as kernels that send and receive."""
    trace = gpipe(BETWEEN, 4, gpu=True)
    for event in trace.events:
        if str(event["name"]).startswith("c10d::"):
            event["name"] = "c10d::alltoall_base_"
    return trace


def trap_inference() -> TraceBuilder:
    """Without gradients there are no updates."""
    stage = Stage()
    for number in range(3):
        with stage.host.annotation(f"ProfilerStep#{number}"):
            for batch in range(4):
                stage.receive(5 if batch else 900)
                stage.forward()
                stage.send()
    return stage.finish()


RULE = "pipeline-bubble"


def stage(trace: TraceBuilder) -> Pipeline:
    found = pipeline(Context(read_built(trace)))
    assert found is not None
    return found


def test_the_last_stage_waits_for_the_first_activations() -> None:
    """900 us before the first of four micro-batches, 5 before each other one."""
    found = stage(fires())
    assert (found.steps, found.updates, found.micro_batches) == (3, 3, 4)
    assert (found.is_between, found.is_on_host) == (False, True)
    assert (found.waiting_ns, found.other_ns) == (3 * 900_000, 3 * 3 * 5_000)
    assert [(wait.place, wait.time_ns) for wait in found.examples] == [("first-forward", 900_000)] * 3


@pytest.mark.parametrize(
    ("build", "places", "waiting", "is_between"),
    [
        (fires_on_the_first_stage, {"first-backward"}, 900_000, False),
        (fires_between_others, {"first-forward", "first-backward"}, 1_800_000, True),
        (fires_in_turns, {"first-forward", "first-backward", "last-backwards"}, 1_400_000, True),
    ],
)
def test_where_a_stage_waits(build, places: set[str], waiting: int, is_between: bool) -> None:  # type: ignore[no-untyped-def]
    found = stage(build())
    assert found.waiting_ns == 3 * waiting
    assert found.is_between == is_between
    assert {wait.place for wait in found.examples} <= places
    assert found.micro_batches == 4


def test_kernels_wait_on_a_gpu() -> None:
    found = stage(fires_on_a_gpu())
    assert not found.is_on_host
    assert found.waiting_ns == pytest.approx(3 * 1_800_000, rel=0.02)
    (finding,) = findings(fires_on_a_gpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(1_800_000, rel=0.05)
    assert "comm-exposed" not in [each.rule for each in report(fires_on_a_gpu()).findings]


def test_from_half_the_waiting_of_few_stages_to_all_of_it() -> None:
    """Of four micro-batches, a fifth of the step would be the bubble of two stages, and a third that of three."""
    (finding,) = findings(gpipe(LAST, 4, gpu=True), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((450_000, 900_000), rel=0.02)
    for place, part in ((LAST, 1 / 5), (BETWEEN, 1 / 3)):
        (longer,) = findings(gpipe(place, 4, fill=5000, turn=5000, gpu=True), RULE)
        assert longer.saving is not None
        assert longer.saving.direct_ns_per_step[0] == pytest.approx(longer.summary.params["step"] * part / 2)


def test_on_a_cpu_nothing_is_sure() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 900_000)
    assert finding.summary.params["micro_batches"] == 4
    assert "n_microbatches=8" in (finding.code or "")


def test_a_framework_that_schedules_stages_gets_no_code() -> None:
    trace = fires()
    trace.python_function("megatron/core/pipeline_parallel/schedules.py(300): forward_step", 0, 5)
    (finding,) = findings(trace, RULE)
    assert not finding.code


def without_numbers(trace: TraceBuilder) -> TraceBuilder:
    """The same without the numbers that tell which function of the backward pass belongs to which of the forward."""
    for event in trace.events:
        for key in ("Sequence number", "Fwd thread id"):
            event.get("args", {}).pop(key, None)
    return trace


def test_messages_that_take_far_longer_than_equal_ones_wait_for_a_stage() -> None:
    """1,800 us of a step of about 5,500: all other messages of the same size take 5 us."""
    found = report(without_numbers(gpipe(BETWEEN, 4, gpu=True)))
    assert found.headlines[0].text.startswith("Waiting for another stage of the pipeline: 1.8 of the 5.")
    (finding,) = [each for each in found.findings if each.rule == RULE]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 1_790_000), rel=0.02)
    assert "up to 900 us, so bandwidth is not the limit" in finding.summary.text
    assert "comm-exposed" not in [each.rule for each in found.findings]


def test_equal_messages_do_not_wait_for_a_stage() -> None:
    found = report(without_numbers(gpipe(BETWEEN, 4, fill=100, turn=100, full=6, gpu=True)))
    assert RULE not in [each.rule for each in found.findings]
    assert "stage" not in found.headlines[0].text


@pytest.mark.parametrize(("fill", "waits"), [(900, True), (99, False)])
def test_a_batch_in_one_piece_waits_for_the_stage_before(fill: int, waits: bool) -> None:
    """It takes 900 us to arrive, and 5 to be sent on; forward and backward passes take 900 us together."""
    found = report(gpipe(LAST, 1, fill=fill))
    assert found.headlines[0].text.startswith("Waiting for another stage of the pipeline: 0.90 of the 1.8 ms") is waits
    findings_of_stages = [each for each in found.findings if each.rule == RULE]
    assert bool(findings_of_stages) is waits
    if waits:
        assert findings_of_stages[0].saving is not None
        assert findings_of_stages[0].saving.direct_ns_per_step == pytest.approx((0, 895_000), rel=0.01)


def in_turns(*, beside: int = 0) -> TraceBuilder:
    """Halves of a model on two GPUs: the first computes for 2 ms, then the second for 3 ms and `beside` before that."""
    trace, length = TraceBuilder(devices=(A100, A100)), 5200
    for number in range(4):
        start = number * length
        trace.step(number, start, length)
        trace.op("aten::mm", start + 5, 40)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 30, 2000, at=start + 10, device=0)
        if beside:
            trace.launch_kernel("ampere_sgemm_128x64_nn", start + 31, beside, at=start + 16, device=1)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 2035, 3000, at=start + 22, device=1)
        sequence = {"sequence": number + 1}
        trace.op("aten::mm", start + 46, 5, **sequence)
        trace.op("autograd::engine::evaluate_function: MmBackward0", start + 52, 9, fwd_thread=1, **sequence)
        trace.annotation("Optimizer.step#SGD.step", start + 62, 10)
        trace.launch("cudaDeviceSynchronize", start + 80, 5000)
    return trace


def test_the_gpus_of_a_program_that_take_turns_do_not_wait_for_something_unknown() -> None:
    found = report(in_turns())
    (headline,) = found.headlines
    assert headline.text.startswith("The GPUs of this program take turns: one waits for another for 2.0 of the 5.2 ms")
    (finding,) = [each for each in found.findings if each.rule == "pipeline-bubble"]
    assert "computes nothing for 2.0 ms of a step of 5.2 ms" in finding.summary.text
    assert finding.saving is None


def test_gpus_that_compute_at_the_same_time_take_no_turns() -> None:
    found = report(in_turns(beside=1950))
    assert "turns" not in found.headlines[0].text
    assert not [each for each in found.findings if each.rule == "pipeline-bubble"]
