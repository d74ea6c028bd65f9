"""Tests of the rule `sync-item-frequent`: numbers worked out by hand, and edges of thresholds.

The programs: values read from the GPU, where it costs something and where not.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.reading import plain
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, report, skipped, table, varied
from tests.rules.launches.test_gpu_shared import LateStream
from tests.rules.optimizer.test_anomaly_mode import look_for_nan, training
from traceanalyzer.structure.recording import Recording


def reading(times: int, *, every: int = 1, gpu: int = 1000, pause: int = 200) -> TraceBuilder:
    """Steps that compute in pieces and read a value after each, then think for some time before going on."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(times):
            compute(host, stream, gpu)
            if number % every == 0:
                read_value(host, stream)
                host.work(pause)
        compute(host, stream, gpu)
        host.wait(stream)

    return looping(step, steps=6)


def fires() -> TraceBuilder:
    """Three values per step; after each the GPU waits 0.2 ms."""
    return reading(3)


def fires_in_a_table() -> str:
    """Thirty values in ten steps."""
    return printed(30)


def quiet() -> TraceBuilder:
    """The program reads nothing."""
    return reading(0, gpu=4000)


def quiet_in_a_table() -> str:
    """One value per step."""
    return printed(10)


def trap_busy_gpu() -> TraceBuilder:
    """The loss is read once per step, while the GPU works on other streams' kernels."""
    other = Stream(9)

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, other, 5000)
        compute(host, stream, 500)
        read_value(host, stream)
        host.work(100)
        compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


def trap_log_now_and_then() -> TraceBuilder:
    """A value is read for the log in one of six steps."""
    return reading(1, every=6, gpu=3000)


def on_a_gpu_of_another_process(late: bool = True) -> TraceBuilder:
    """After each reading the next kernel is launched at once, and starts 3 ms later."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), LateStream(lambda number: late and number % 8 == 4)
    for number in range(12):
        with host.annotation(f"ProfilerStep#{number}"):
            for kernel in range(8):
                with host.op("aten::mm", 10, 5):
                    host.launch(Work("gemm", 1000), stream)
                if kernel in (3, 7):
                    read_value(host, stream)
    return finish(trace)


def trap_gradient_scaler() -> TraceBuilder:
    """AMP's scaler reads once per step whether the gradients are finite."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 3000)
        compute(host, stream, 10, "aten::_amp_foreach_non_finite_check_and_unscale_")
        read_value(host, stream)
        host.work(100)
        compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


def trap_values_of_the_cpu() -> str:
    """Values are read from tensors on the CPU: no device was profiled."""
    return printed(30, device=None)


def on_cpu(readings: int, *, operators: tuple[str, ...] = ("aten::select", "aten::gt"), steps: int = 4) -> TraceBuilder:
    """Steps of 1 ms of operators on a CPU, then so many readings of 10 us, with the operators before each."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            for _ in range(10):
                host.leaf("aten::addmm", 100)
            for _ in range(readings):
                host.work(2)
                for name in operators:
                    host.leaf(name, 2)
                with host.op("aten::is_nonzero", 1, 0), host.op("aten::item", 1, 0):
                    host.leaf("aten::_local_scalar_dense", 2)
    return finish(trace)


def fires_on_a_cpu() -> TraceBuilder:
    """The largest of forty values is found in Python."""
    return on_cpu(40)


def logging(statistic: int = 150, steps: int = 4) -> TraceBuilder:
    """Steps of 1 ms on a CPU and an update of 500 us, then forty statistics of so many microseconds, each read."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            for _ in range(10):
                host.leaf("aten::addmm", 100)
            with host.annotation("Optimizer.step#Adam.step", 0, 0):
                host.leaf("aten::addcdiv_", 500)
            for _ in range(40):
                host.leaf("aten::detach", 2)
                host.leaf("aten::kthvalue", statistic)
                with host.op("aten::item", 1, 0):
                    host.leaf("aten::_local_scalar_dense", 3)
    return finish(trace)


def fires_on_statistics() -> TraceBuilder:
    """The median of each parameter is logged."""
    return logging()


def quiet_on_a_cpu() -> TraceBuilder:
    """Two values are read: the loss and the accuracy."""
    return on_cpu(2)


def trap_decoding_on_a_cpu() -> TraceBuilder:
    """Tokens are chosen one by one: a model runs between two readings."""
    return on_cpu(40, operators=("aten::linear", "aten::argmax"))


def trap_reading_of_autograd() -> TraceBuilder:
    """Anomaly mode reads whether a gradient is NaN."""
    return training(look_for_nan)


def one_by_one(readings: int, *, kernel: int = 20, think: int = 0, beside: int = 0) -> TraceBuilder:
    """Steps of a kernel of 1 ms, then so many comparisons that are read one after another, then another kernel of 1 ms.

    Args:
        readings: How many.
        kernel: Time of each comparison on the GPU.
        think: Time in Python before each comparison, beside 2 us; and after the last reading, beside 10 us.
        beside: Time of a kernel that another stream runs meanwhile.
    """
    other = Stream(9)

    def step(host: Host, stream: Stream, number: int) -> None:
        if beside:
            compute(host, other, beside)
        compute(host, stream, 1000)
        host.wait(stream)
        host.leaf("aten::view", 3)
        for _ in range(readings):
            host.work(2 + think)
            compute(host, stream, kernel, "aten::gt")
            read_value(host, stream)
        host.work(10 + think)
        compute(host, stream, 1000)
        host.wait(stream, *([other] if beside else []))

    return looping(step)


def fires_one_by_one_beside_a_gpu() -> TraceBuilder:
    """Forty comparisons are read in Python, while the GPU has little to do."""
    return one_by_one(40)


def printed(calls: int, device: str | None = "50.000ms") -> str:
    """A table of ten steps with some calls of `aten::item`."""
    rows = [
        {"Name": "ProfilerStep*", "Self CPU": "60.000ms", "CPU total": "100.000ms", "# of Calls": 10},
        {"Name": "aten::item", "Self CPU": "1.000ms", "CPU total": "30.000ms", "# of Calls": calls},
        {"Name": "aten::mm", "Self CPU": "10.000ms", "CPU total": "10.000ms", "# of Calls": 10},
    ]
    if device is not None:
        rows = [row | {"Self CUDA": device if row["Name"] == "aten::mm" else "0.000us"} for row in rows]
    return table(rows, cpu="100.000ms", device=device)


def trap_notes_of_data_parallel() -> TraceBuilder:
    """At the end of a backward pass on the CPU, the reducer reads of each parameter whether it was used."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            host.leaf("aten::linear", 1000)
            host.leaf("c10d::allreduce_", 5)
            for _ in range(50):
                host.leaf("aten::select", 4)
                host.leaf("aten::item", 2)
                host.leaf("torch.distributed.ddp.reducer::copy_bucket_to_grad", 3)
    return finish(trace)


RULE = "sync-item-frequent"


def test_what_keeps_a_launched_kernel_from_starting_is_not_the_wait() -> None:
    """Each reading costs the launch of the next kernel, 20 us or less, however late the device then starts it."""
    gains = []
    for late in (False, True):
        (row, *_) = plain(report(on_a_gpu_of_another_process(late), RULE))["synchronizations"]["rows"]
        gains.append(row["avoidable_ns"])
    assert abs(gains[1] - gains[0]) <= 24 * 1_000
    assert gains[0] < 24 * 30_000


@pytest.mark.parametrize("lines", [0, 3])
def test_a_read_is_one_though_copy_and_call_both_wait(lines: int) -> None:
    """Where stacks are known, reads of several lines are several."""
    trace = TraceBuilder()
    for number in range(4):
        for line in range(lines):
            trace.python_function(f"train.py({line}): read_{line}", 10_000 * number + 3_000 * line + 10, 2_900)
        trace.step(number, 10_000 * number, 9_900)
        for at in range(10_000 * number + 10, 10_000 * number + 9_000, 3_000):
            trace.op("aten::mm", at, 20)
            trace.launch_kernel("ampere_sgemm_128x64_nn", at + 20, 1_000, at=at + 5)
            trace.op("aten::item", at + 30, 1_100)
            trace.op("aten::_local_scalar_dense", at + 31, 1_090)
            trace.memcpy("DtoH", 4, at + 1_025, 2, at=at + 40, call_dur=1_000)  # of pageable memory, which blocks
            trace.launch("cudaStreamSynchronize", at + 1_050, 10)
    (finding,) = findings(trace, RULE)
    assert finding.evidence[-1].observed == pytest.approx(3)


def test_the_idle_time_after_the_waits_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # three kernels start 0.9 us after a copy as others do, not 218.5 us
    assert (low, high) == pytest.approx(varied(3 * 217_600))
    assert [e.unit for e in finding.evidence] == ["share", "number"]
    assert finding.evidence[1].observed == 3
    assert "the GPU has nothing to do for 648 us of a step" in finding.summary.text


def test_nothing_is_promised_of_values_for_an_environment() -> None:
    trace = fires()
    trace.python_function("gymnasium/wrappers/common.py(100): step", 5000, 3)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert (low, high) == (0, pytest.approx(varied(3 * 217_600)[1], rel=0.05))
    assert "many environments at once" in finding.advice.text


def test_waits_that_cost_nothing_are_worth_nothing() -> None:
    assert findings(trap_busy_gpu(), RULE, {"calls_per_step": 1})[0].severity == "info"


def test_checks_of_the_gradient_scaler_do_not_count() -> None:
    assert findings(trap_gradient_scaler(), RULE, {"calls_per_step": 0.5}) == []


def test_checks_of_the_gradient_scaler_in_steps_that_are_left_out_do_not_count() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(30 if number == 0 else 1):
            compute(host, stream, 10, "aten::_amp_foreach_non_finite_check_and_unscale_")
            compute(host, stream, 3000)
            read_value(host, stream)
        read_value(host, stream)
        host.wait(stream)

    (finding,) = findings(looping(step, steps=6), RULE, {"calls_per_step": 0.5})
    assert finding.summary.params["calls"] == 1


def test_the_check_of_the_scaler_stays_in_the_replay() -> None:
    """Ten values are read between short kernels, then 5 ms of kernels run while the scaler waits for its check."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 50)
            read_value(host, stream)
            host.work(100)
        compute(host, stream, 5000)
        compute(host, stream, 10, "aten::_amp_foreach_non_finite_check_and_unscale_")
        read_value(host, stream)

    trace = looping(step, steps=6)
    (finding,) = findings(trace, RULE)
    (headline,) = report(trace, RULE).headlines
    assert finding.saving is not None
    # 50 us of each of ten waits at most: the CPU cannot begin the next step while the scaler's 5 ms run
    assert 0 < finding.saving.wall_ns_per_step[1] <= 10 * 60_000 < 0.2 * headline.resources.step_ns


@pytest.mark.parametrize(("scaled", "pause"), [(False, 100), (True, 100), (False, 300)])
def test_random_numbers_that_are_read_are_drawn_on_the_cpu(scaled: bool, pause: int) -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(5):
            with host.op("aten::rand"), host.op("aten::uniform_"):
                host.launch(Work("distribution_elementwise_grid_stride_kernel", 100), stream)
            if scaled:
                compute(host, stream, 5, "aten::mul")
            read_value(host, stream)
            host.work(pause)

    (finding,) = findings(looping(step, steps=6), RULE)
    assert "drawn at random" in finding.advice.text
    assert "torch.rand" in (finding.code or "")
    assert "running_loss" not in (finding.code or "")


def test_a_sample_of_a_distribution_is_no_number_to_draw_on_the_cpu() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(5):
            compute(host, stream, 100, "aten::softmax")
            compute(host, stream, 20, "aten::multinomial")
            read_value(host, stream)
            host.work(300)

    (finding,) = findings(looping(step, steps=6), RULE)
    assert "drawn at random" not in finding.advice.text


def test_in_a_table_of_a_gpu_bound_run_it_is_worth_nothing() -> None:
    (finding,) = findings(printed(30, device="500.000ms"), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 0)


def test_a_table_gives_at_most_the_time_in_the_operator() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 3_000_000)


def test_what_is_missing_is_told() -> None:
    assert "no device activity" in (skipped(trap_values_of_the_cpu(), RULE) or "")
    row = {
        "Name": "aten::item",
        "Self CPU": "1.000ms",
        "CPU total": "1.000ms",
        "Self CUDA": "1.000ms",
        "# of Calls": 99,
    }
    assert "how many steps" in (skipped(table([row], cpu="9.000ms", device="1.000ms"), RULE) or "")


def test_edge_calls_per_step() -> None:
    trace = reading(3, pause=1)
    limits = {"gain_share": 0.9}
    assert findings(trace, RULE, limits | {"calls_per_step": 3})
    assert findings(trace, RULE, limits | {"calls_per_step": 3.01}) == []


def test_a_long_wait_of_a_step_that_is_left_out_is_not_avoided_in_the_others() -> None:
    """Each step reads three values and thinks for 0.2 ms after each; in the first one for 9 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(3):
            compute(host, stream, 1000)
            read_value(host, stream)
            host.work(200 if number else 9000)
        compute(host, stream, 1000)
        host.wait(stream)

    found = report(looping(step, steps=6), RULE)
    recording = found.result("recording", Recording)
    assert recording is not None
    assert recording.typical is not None
    assert recording.typical.steps == 5
    (finding,) = found.findings
    assert finding.saving is not None
    idle = recording.typical.resources.step_ns - (recording.typical.resources.gpu_ns or 0)
    assert 0.9 * idle < finding.saving.direct_ns_per_step[1] <= idle, "over all six steps it would be 1 ms"
    assert idle < 800_000
