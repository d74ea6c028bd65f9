"""Values read from the GPU, where it costs something and where not."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, finish
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import table
from tests.rules.situations.anomaly_mode import look_for_nan, training


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


def quiet_on_a_cpu() -> TraceBuilder:
    """Two values are read: the loss and the accuracy."""
    return on_cpu(2)


def trap_decoding_on_a_cpu() -> TraceBuilder:
    """Tokens are chosen one by one: a model runs between two readings."""
    return on_cpu(40, operators=("aten::linear", "aten::argmax"))


def trap_reading_of_autograd() -> TraceBuilder:
    """Anomaly mode reads whether a gradient is NaN."""
    return training(look_for_nan)


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
