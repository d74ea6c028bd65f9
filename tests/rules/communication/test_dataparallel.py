"""Tests of the rule `dataparallel`: numbers worked out by hand, and edges of thresholds.

The programs: the wrapper with one GPU, with two, and another wrapper of a similar name.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.builders.timeline import Stream, Work
from tests.builders.training import Training
from tests.rules.judging import findings, report, table
from tests.rules.optimizer.test_redundant_passes import extra_passes

WRAPPER = "DataParallel.forward"


def training(wrapper: str | None, *, walk: int = 300, steps: int = 3, frame: str | None = None) -> TraceBuilder:
    """Steps whose model is wrapped; `walk` is what the wrapper takes before the model."""
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            loop.zero_grad()
            if wrapper is not None:
                with loop.host.annotation(wrapper, walk):
                    with loop.host.op("Scatter", 10):
                        loop.host.leaf("aten::chunk", 5)
                    numbers = loop.forward()
            elif frame is not None:
                with loop.host.frame(frame, before=walk):
                    numbers = loop.forward()
            else:
                numbers = loop.forward()
            loop.backward(numbers)
            loop.step()
    return loop.finish()


def fires() -> TraceBuilder:
    """One GPU: the wrapper walks over the parameters before each forward pass."""
    return training(WRAPPER)


def fires_on_frames() -> TraceBuilder:
    """Only the Python frames of the wrapper were recorded."""
    return training(None, frame="torch/nn/parallel/data_parallel.py(147): forward")


def fires_on_two_gpus() -> TraceBuilder:
    """The model is copied to both GPUs in each step."""
    loop = Training(trace=TraceBuilder(devices=(A100, A100)))
    other = Stream(device=1)
    for _ in range(3):
        with loop.iteration():
            loop.zero_grad()
            with loop.host.annotation(WRAPPER, 100):
                with loop.host.op("Scatter", 30):
                    loop.host.copy("PtoP", 1 << 20, other, dur=40)
                with loop.host.op("Broadcast", 400):
                    loop.host.copy("PtoP", 1 << 26, other, dur=900)
                numbers = loop.forward()
                with loop.host.op("aten::conv2d"):
                    loop.host.launch(Work("ampere_sgemm_128x64_nn", 500), other)
                with loop.host.op("Gather", 60):
                    loop.host.copy("PtoP", 1 << 20, loop.stream, dur=40)
            loop.backward(numbers)
            loop.step()
            loop.host.wait(other)
    return loop.finish()


def fires_on_collectives() -> TraceBuilder:
    """NCCL sends the model to both GPUs and collects gradients: 3 and 2 of 10 ms, beside 4 ms of products on each."""
    trace, length = TraceBuilder(devices=(A100, A100)), 10_000
    for number in range(4):
        start = number * length
        trace.step(number, start, length)
        trace.annotation(WRAPPER, start + 10, 400)
        trace.op("Broadcast", start + 20, 100)
        trace.op("aten::mm", start + 200, 100)
        trace.annotation("Optimizer.step#SGD.step", start + 600, 10)
        parts = (("Broadcast_RING_LL", 3000, 30), ("", 4000, 210), ("Reduce_Sum_f32_RING_LL", 2000, 450))
        begin = start + 500
        for name, dur, at in parts:
            kernel = f"ncclDevKernel_{name}(ncclDevKernelArgsStorage<4096ul>)" if name else "ampere_sgemm_128x64_nn"
            for device in (0, 1):
                trace.launch_kernel(kernel, begin, dur, at=start + at + 8 * device, device=device)
            begin += dur + 5
        trace.launch("cudaDeviceSynchronize", start + 650, begin - start - 640)
    return trace


def fires_in_a_table() -> str:
    """A row of the wrapper."""
    return printed(WRAPPER)


def the_tutorial() -> TraceBuilder:
    """Training with planted faults: ten clones in a row, extra passes, and the wrapper on one GPU."""
    loop = Training()
    for number in range(4):
        with loop.iteration():
            for _ in range(10):
                shapes = [[128, 3, 32, 32], [128, 3, 32, 32], []]
                with loop.host.op("aten::clone", shapes=shapes[1:]):
                    loop.host.leaf("aten::empty_like", 3)
                    loop.host.leaf("aten::copy_", 150, shapes=shapes, types=["float", "float", ""])
            for _ in range(0 if number % 3 else 2):
                loop.backward(loop.forward(shape=(32, 3, 32, 32), wrapper=WRAPPER))
            loop.zero_grad()
            loop.backward(loop.forward(wrapper=WRAPPER))
            loop.step()
    return loop.finish()


def quiet() -> TraceBuilder:
    """The model without a wrapper."""
    return training(None)


def quiet_in_a_table() -> str:
    """No row of the wrapper."""
    return printed("aten::conv2d")


def trap_distributed() -> TraceBuilder:
    """`DistributedDataParallel.forward` contains the name of the other wrapper."""
    return training("DistributedDataParallel.forward")


def trap_distributed_frame() -> TraceBuilder:
    """A frame of DistributedDataParallel, which is another wrapper."""
    return training(None, frame="torch/nn/parallel/distributed.py(1643): forward")


def trap_distributed_in_a_table() -> str:
    """The row of DistributedDataParallel in a printed table."""
    return printed("DistributedDataParallel.forward")


def trap_extra_passes() -> TraceBuilder:
    """A loop with other faults."""
    loop = Training()
    for number in range(3):
        with loop.iteration():
            extra_passes(loop, number)
    return loop.finish()


def printed(name: str) -> str:
    """A table of ten steps."""

    def row(name: str, own: str, calls: int) -> dict[str, object]:
        return {"Name": name, "Self CPU": own, "CPU total": own, "# of Calls": calls}

    rows = [row(name, "50.000ms", 10), row("aten::mm", "950.000ms", 10), row("ProfilerStep*", "0.000us", 10)]
    return table(rows, cpu="1.000s")


RULE = "dataparallel"


def test_one_gpu_pays_for_the_wrapper_itself() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    own = 300_000 + 10_000 + 5_000 + 1_000 + 1_000  # the walk, Scatter and what it calls, and their ends
    assert finding.saving.direct_ns_per_step == pytest.approx((own / 2, own))
    assert "one device" in finding.summary.text
    assert finding.confidence == "A"


def test_the_sentence_is_about_the_time_of_the_wrapper_and_not_about_all_idle_time() -> None:
    """The GPU also waits for 1000 us after each backward pass, which is not the wrapper's."""
    (finding,) = findings(fires(), RULE)
    (place,) = finding.where
    assert (place.kind, place.name, place.ns_per_step) == ("host", WRAPPER, 317_000)
    assert finding.summary.params["time"] == 317_000
    assert {length for _, length in place.spans} == {316_000, 1_000}, "before the model, and after it"


def test_frames_alone_are_an_inference() -> None:
    (finding,) = findings(fires_on_frames(), RULE)
    assert finding.confidence == "B"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(301_000)


def test_several_gpus_pay_for_copying() -> None:
    (finding,) = findings(fires_on_two_gpus(), RULE)
    assert finding.summary.params["devices"] == 2
    assert "DistributedDataParallel" in finding.advice.text
    assert {place.name for place in finding.evidence[0].where} >= {"Broadcast", "Scatter", "Gather"}


def test_collectives_are_what_the_wrapper_costs() -> None:
    """DDP sends no model, and the products of 4 ms can hide the 2 ms of gradients."""
    (finding,) = findings(fires_on_collectives(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((3_000_000, 5_000_000), rel=0.02)
    assert "for 5.0 ms (50 % of the step) the GPUs only communicate" in finding.summary.text
    every = {each.rule for each in report(fires_on_collectives()).findings}
    assert RULE in every
    assert "comm-exposed" not in every, "it says the same with less"


def test_a_table_does_not_tell_how_many_gpus() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert "With one GPU" in finding.advice.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 5_000_000)


def test_hidden_behind_the_gpu_it_costs_nothing() -> None:
    (finding,) = findings(training("DataParallel.forward", walk=0), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] <= 20_000


def test_edge_calls_per_step() -> None:
    assert findings(fires(), RULE, {"calls_per_step": 1}) == []
    assert findings(fires(), RULE, {"calls_per_step": 0.99})


def test_finds_what_the_tutorial_planted() -> None:
    assert findings(the_tutorial(), "redundant-passes")
    assert [finding.evidence[0].observed for finding in findings(the_tutorial(), "copies-materialized")] == [10]
    assert findings(the_tutorial(), "dataparallel")
