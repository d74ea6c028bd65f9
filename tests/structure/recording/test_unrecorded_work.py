"""Work from before the recording: each sign of it, and what only looks like it."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.structure.recording.reading import US
from traceanalyzer.analyzers import idle
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.unrecorded_work import longest_ns, unread_device, unrecorded_work, unused_device


def found(trace: TraceBuilder) -> list[tuple[int, int]]:
    """The times of such work on device 0, in microseconds."""
    times = unrecorded_work(Context(read_built(trace))).get(0)
    return [] if times is None else [(s // US, e // US) for s, e in zip(times.start, times.end, strict=True)]


def followed(trace: TraceBuilder, at: int, delay: int = 5) -> TraceBuilder:
    """The same with two more kernels, each launched when the one before it had long ended."""
    for number in range(2):
        start = at + 100_000 * number
        trace.launch_kernel("gemm", start + 5 + delay, 100, at=start, call_dur=5)
    return trace


def late_start(start: int, call_dur: int = 5) -> TraceBuilder:
    """An operator whose kernel is launched at 10 us and starts late."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10 + call_dur + 5)
    trace.launch_kernel("gemm", start, 100, at=10, call_dur=call_dur)
    return trace


def test_a_first_kernel_that_starts_late_waits_for_work_from_before() -> None:
    trace = followed(late_start(8000), 9000)
    assert found(trace) == [(15, 8000)]
    assert longest_ns(Context(read_built(trace))) == 7985 * US


def test_such_time_is_a_cause_of_its_own_and_no_time_of_the_host() -> None:
    (device,) = idle.analyze(Context(read_built(late_start(8000)))).devices
    assert {row.cause: row.time_ns // US for row in device.causes if row.time_ns} == {
        "unrecorded_work": 7985,
        "launch_bound": 15,
    }


@pytest.mark.parametrize(("start", "wanted"), [(1014, []), (1015, [(15, 1015)])])
def test_it_counts_from_a_millisecond_on(start: int, wanted: list[tuple[int, int]]) -> None:
    assert found(late_start(start)) == wanted


@pytest.mark.parametrize(("delay", "is_usual"), [(798, False), (799, True)])
def test_a_delay_within_ten_times_the_later_ones_is_usual(delay: int, is_usual: bool) -> None:
    assert (found(followed(late_start(8000), 9000, delay)) == []) is is_usual


def test_what_is_launched_behind_the_first_waits_for_the_same_work_and_proves_nothing() -> None:
    trace = late_start(8000)
    for number in range(5):
        trace.launch_kernel("gemm", 8200 + 100 * number, 50, at=100 + 10 * number, call_dur=5)
    assert found(trace) == [(15, 8000)]


def test_a_first_launch_that_is_slow_because_code_is_loaded() -> None:
    assert found(followed(late_start(8000, call_dur=7980), 9000)) == []


def test_a_program_that_really_starts_late() -> None:
    trace = TraceBuilder()
    trace.op("aten::rand", 0, 9000)
    trace.launch_kernel("gemm", 9010, 100, at=9000, call_dur=5)
    assert found(followed(trace, 9200)) == []


def test_a_kernel_that_waits_for_another_stream() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("first", 10, 7980, at=2, call_dur=3, stream=20)
    trace.launch("cudaStreamWaitEvent", 8, 1)
    trace.launch_kernel("gemm", 8000, 100, at=10, call_dur=5)
    assert found(followed(trace, 9000)) == []


def test_a_small_event_of_another_stream_does_not_keep_the_device_busy() -> None:
    trace = followed(late_start(8000), 9000)
    trace.memset(64, 500, 20, at=490, call_dur=4, stream=20)
    assert found(trace) == [(15, 500), (520, 8000)]


def test_a_long_wait_inside_the_recording_is_pending() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 720)
    trace.launch_kernel("first", 5, 595, at=0, call_dur=5)
    trace.launch_kernel("second", 9000, 100, at=700, call_dur=5, stream=8)
    assert found(trace) == []
    (device,) = idle.analyze(Context(read_built(trace))).devices
    # 0 to 5 and 600 to 705 in the operator and the calls, then 705 to 9000
    assert {row.cause: row.time_ns // US for row in device.causes if row.time_ns} == {
        "launch_bound": 5 + 105,
        "pending": 8295,
    }


def waiting(*before: tuple[str, int, int], then: tuple[tuple[str, int, int], ...] = ()) -> TraceBuilder:
    """A synchronization from 3000 to 8000 us before anything is launched; calls before and after it."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 8500)
    for name, start, dur in (*before, ("cudaDeviceSynchronize", 3000, 5000), *then):
        trace.launch(name, start, dur)
    return followed(trace, 8200)


def test_a_wait_for_nothing_that_was_recorded_waits_for_work_from_before() -> None:
    assert found(waiting()) == [(3000, 8000)]
    assert found(waiting(("cudaMalloc", 100, 3))) == [(3000, 8000)]
    assert found(waiting(("cudaFree", 100, 1500))) == [(3000, 8000)], "which waits, too"


@pytest.mark.parametrize(
    "trace",
    [
        waiting(("cudaMalloc", 100, 2000)),
        waiting(("cuModuleLoadData", 100, 50)),
        waiting(then=(("cuLibraryLoadData", 8050, 50),)),
    ],
    ids=["slow memory before", "code before", "code after"],
)
def test_a_first_wait_of_a_program_that_starts_is_no_work_from_before(trace: TraceBuilder) -> None:
    assert found(trace) == []


def test_a_wait_for_recorded_work_is_none() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("gemm", 10, 6000, at=0, call_dur=5)
    trace.launch("cudaDeviceSynchronize", 20, 6000)
    assert found(followed(trace, 8000)) == []


def copying(*delays: int) -> TraceBuilder:
    """Blocking copies, each of which starts so long after its call began."""
    trace = TraceBuilder()
    for number, delay in enumerate(delays):
        start = 20_000 * number
        trace.memcpy("HtoD", 4096, start + delay, 10, at=start, call_dur=delay + 20)
    return trace


def test_a_first_copy_that_starts_late_within_its_call() -> None:
    assert found(copying(5000, 5, 5)) == [(0, 5000)]


@pytest.mark.parametrize("delays", [(5000,), (5000, 500), (900, 5, 5), (5, 5000, 5)])
def test_other_copies_are_no_sign(delays: tuple[int, ...]) -> None:
    assert found(copying(*delays)) == []


def test_nothing_is_known_where_no_launch_was_recorded() -> None:
    trace = TraceBuilder()
    trace.launch("cudaDeviceSynchronize", 0, 5000)
    trace.kernel("gemm", 6000, 100)
    assert found(trace) == []


def test_devices_are_told_apart() -> None:
    trace = followed(late_start(8000), 9000)
    trace.launch_kernel("other", 30, 10, at=20, call_dur=2, device=1)
    assert sorted(unrecorded_work(Context(read_built(trace)))) == [0]


def test_a_device_that_only_stands_in_the_header_is_no_sign_if_a_cpu_computes() -> None:
    """Nothing shows that the device was unused, either: its runtime was not recorded."""
    signs = {}
    for name in ("aten::mkldnn_convolution", "aten::mm"):
        trace = TraceBuilder()
        trace.op(name, 0, 10)
        context = Context(read_built(trace))
        signs[name] = unread_device(context) is None, unused_device(context) is None
    assert signs == {"aten::mkldnn_convolution": (True, True), "aten::mm": (False, True)}


def products(dur: float, size: int = 512, *, shapes: bool = True) -> TraceBuilder:
    """Five products of matrices, and a GPU that only the header names."""
    trace = TraceBuilder()
    for number in range(5):
        known = [[64, size], [size, size]] if shapes else None
        trace.op("aten::mm", 2000 * number, dur, shapes=known, types=["float", "float"] if shapes else None)
    return trace


def allocating(*devices: int | None) -> TraceBuilder:
    trace = products(10)
    for number, device in enumerate(devices):
        trace.memory(4096, 5 + number, device=device)
    return trace


@pytest.mark.parametrize(
    ("trace", "computes"),
    [
        (products(300), True),  # 64 x 512 x 512 are 34 MFLOP, in 300 us
        (products(1000, size=4096), True),
        (products(12), False),  # a launch
        (products(300, size=4096), False),  # 2.1 GFLOP: 7 TFLOP/s
        (products(300, size=64), False),  # too small to tell
        (products(300, shapes=False), False),
        (allocating(None, None), True),
        (allocating(None, 0), False),
    ],
)
def test_products_and_allocations_show_where_a_program_computes(trace: TraceBuilder, computes: bool) -> None:
    assert (unread_device(Context(read_built(trace))) is None) is computes


def recurrent(*inner: str) -> TraceBuilder:
    """A recurrent layer and what it calls, and a GPU that only the header names."""
    trace = TraceBuilder()
    trace.op("aten::lstm", 0, 100 * len(inner) + 10)
    for number, name in enumerate(inner):
        trace.op(name, 100 * number + 5, 50)
    return trace


def embedding(dur: float, read: float, within: str | None = None) -> TraceBuilder:
    """Three lookups, and a value that is read after each."""
    trace = TraceBuilder()
    for number in range(3):
        start = 10_000 * number
        trace.op("aten::_embedding_bag", start, dur)
        if within is not None:
            trace.annotation(within, start + 5000, 200)
        trace.op("aten::_local_scalar_dense", start + 5010, read)
    return trace


@pytest.mark.parametrize(
    ("trace", "computes"),
    [
        (recurrent("aten::linear", "aten::sigmoid_"), True),
        (recurrent("aten::_cudnn_rnn"), False),
        (recurrent("aten::linear", "aten::_thnn_fused_lstm_cell"), False),
        (embedding(1000, 1), True),
        (embedding(1000, 12), False),  # a copy and a wait
        (embedding(20, 1), False),  # a launch
        (embedding(1000, 1, "Optimizer.step#Adam.step"), False),  # the number of its steps
    ],
)
def test_layers_and_values_show_where_a_program_computes(trace: TraceBuilder, computes: bool) -> None:
    assert (unread_device(Context(read_built(trace))) is None) is computes


def convolutions(dur: int, inner: str | None = None) -> TraceBuilder:
    """Transposed convolutions, with what they call, and a GPU that only the header names."""
    trace = TraceBuilder()
    for number in range(4):
        start, length = 50_000 * number, dur * (number + 1)
        trace.op("aten::conv_transpose2d", start, length + 4)
        trace.op("aten::_convolution", start + 1, length + 2)
        trace.op(inner or "aten::empty", start + 2, length if inner else 1)
    return trace


def arithmetic(dur: int, read: int | None = None, *, within: str | None = None) -> TraceBuilder:
    """Many small operators, a value that is read after each, and a GPU that only the header names."""
    trace = TraceBuilder()
    for number in range(100):
        start = 1000 * number
        if within is not None:
            trace.annotation(within, start, 500)
        trace.op(("aten::add", "aten::tanh")[number % 2], start + 1, dur)
        if read is not None:
            trace.op("aten::_local_scalar_dense", start + 600, read)
    return trace


@pytest.mark.parametrize(
    ("trace", "computes"),
    [
        (convolutions(1500), True),
        (convolutions(30), False),  # a launch, with a first use perhaps
        (convolutions(1500, "aten::cudnn_convolution_transpose"), False),  # waits, or compares algorithms
        (arithmetic(2), True),
        (arithmetic(2, 1), True),
        (arithmetic(8), False),  # launches
        (arithmetic(8, 300), False),  # and waits
        (arithmetic(2, 40), False),
        (arithmetic(2, within="Optimizer.step#Adam.step"), False),  # counters of steps
        (arithmetic(2, within="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), False),
    ],
)
def test_convolutions_and_arithmetic_show_where_a_program_computes(trace: TraceBuilder, computes: bool) -> None:
    assert (unread_device(Context(read_built(trace))) is None) is computes


def test_a_call_of_the_runtime_proves_a_device_whatever_the_cpu_computes() -> None:
    trace = products(300)
    trace.launch_kernel("gemm", 10_010, 5, at=10_000)
    trace.events = [event for event in trace.events if event["cat"] != "kernel"]
    assert unread_device(Context(read_built(trace))) is not None


def named(name: str, **captured: object) -> TraceBuilder:
    """A CPU operator of a name, with facts of a capture if any are given."""
    facts = {"traceanalyzer": {"version": 1, **captured}} if captured else {}
    trace = TraceBuilder(devices=(), metadata=facts)
    trace.op(name, 0, 10)
    return trace


@pytest.mark.parametrize(
    ("name", "captured", "sign"),
    [
        ("aten::cudnn_convolution", {}, "aten::cudnn_convolution"),
        ("pass.post_grad_passes.move_constructors_to_cuda (dynamo_timed)", {}, None),
        ("pass.post_grad_passes.move_constructors_to_cuda", {}, None),
        ("aten::cudnn_convolution", {"parameters": {"tensors": 1, "elements": 1, "devices": ["cpu"]}}, None),
        (
            "aten::cudnn_convolution",
            {"parameters": {"tensors": 1, "elements": 1, "devices": ["hpu"]}},
            "aten::cudnn_convolution",
        ),
    ],
)
def test_compiler_passes_and_what_a_capture_knows_are_no_signs_of_a_device(
    name: str, captured: dict[str, object], sign: str | None
) -> None:
    assert unread_device(Context(read_built(named(name, **captured)))) == sign
