"""What bounds a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest

from tests.builders import TraceBuilder
from tests.builders.situations import mtia
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.trace import distributed_info
from tests.rules.judging import report, said
from tests.rules.loader.test_dataloader_bound import LOADER, training
from tests.rules.serving.test_decode_batch_small import served
from tests.structure.recording.test_longer_phase import rollouts
from tests.structure.recording.test_workload import in_pieces
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import headlines
from traceanalyzer.rules.engine.headlines import printed, typical
from traceanalyzer.structure.recording import Recording


def texts_of(values: Iterable[object]) -> Iterator[Text]:
    for value in values:
        if isinstance(value, Text):
            yield value
        elif isinstance(value, dict):
            yield from texts_of(value.values())


def bound(trace: TraceBuilder) -> str:
    (found,) = report(trace).headlines
    return found.bound


def steps(*, host: int, kernel: str, gpu: int, gap: int = 0) -> TraceBuilder:
    """Three steps that work on the host, then run one kernel, wait for it, and do nothing that is traced."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.op("aten::mm", host, 2):
                thread.launch(Work(kernel, gpu), stream)
            thread.wait(stream)
            thread.work(gap)
    return finish(trace)


def test_a_busy_gpu_with_products_computes() -> None:
    assert bound(steps(host=10, kernel="ampere_sgemm_128x64_nn", gpu=5000)) == "gpu-compute"


@pytest.mark.parametrize(("copying_us", "expected"), [(900, "gpu-compute"), (1100, "gpu-memory")])
def test_copies_while_no_kernel_runs_are_no_products(copying_us: int, expected: str) -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.op("aten::copy_"):
                thread.copy("HtoD", 1_000_000, stream, dur=copying_us, wait=True)
            with thread.op("aten::mm"):
                thread.launch(Work("ampere_sgemm_128x64_nn", 1000), stream)
            thread.wait(stream)
    assert bound(finish(trace)) == expected


@pytest.mark.parametrize(("copying", "begin"), [(1300, "Limited by copies"), (700, "Limited by GPU compute")])
def test_copies_beside_which_nothing_runs_can_be_what_bounds_a_step(copying: int, begin: str) -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.op("aten::copy_"):
                thread.copy("HtoD", 1_000_000, stream, dur=copying, wait=True)
            with thread.op("aten::mm"):
                thread.launch(Work("ampere_sgemm_128x64_nn", 1000), stream)
            thread.wait(stream)
    assert said(finish(trace)).startswith(begin)
    assert ("Memcpy HtoD" in said(finish(trace))) == (copying > 1000)


def test_copies_that_never_end_bound_a_step_although_kernels_run_beside_them() -> None:
    """A stream of its own copies the next batch for the whole step; kernels take six tenths of it."""

    def of(copying: int) -> str:
        trace = TraceBuilder()
        for number in range(4):
            at = 10_000 * number
            trace.step(number, at, 10_000)
            trace.memcpy("HtoD", 10**8, at + 10, copying, pinned=True, at=at + 1, call_dur=5, stream=20)
            trace.launch_kernel("ampere_sgemm_128x64_nn", at + 20, 6000, at=at + 8, call_dur=5)
        return said(trace)

    assert of(9980).startswith("Limited by copies beside kernels: mostly Memcpy HtoD")
    assert not of(5000).startswith("Limited by copies")


def test_a_capture_in_pieces_says_nothing_of_a_slow_host() -> None:
    (found,) = report(in_pieces(20, between=30, mark="capture_8192_PIECEWISE")).headlines
    assert found.bound == "capture"


def test_a_typical_decode_step_has_the_usual_number_of_tokens() -> None:
    text = said(served(*5 * ["step[DECODE bs=8]"], "step[DECODE bs=40]"))
    assert "a decode step of 8 tokens reads all weights" in text
    assert "all weights" not in said(served(*5 * ["step[DECODE bs=8]"], "step[DECODE bs=120]"))


def test_a_busy_gpu_with_elementwise_kernels_moves_data() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >()"
    assert bound(steps(host=10, kernel=name, gpu=5000)) == "gpu-memory"


def test_a_starved_gpu_is_the_hosts_fault() -> None:
    assert bound(steps(host=5000, kernel="ampere_sgemm_128x64_nn", gpu=500)) == "host"


def test_waiting_for_input() -> None:
    assert bound(training(4000, 3000)) == "input"


def test_a_small_wait_does_not_bound_a_run() -> None:
    assert bound(training(500, 6000)) == "gpu-compute"


def test_nothing_dominates() -> None:
    """A quarter of the step is lost, but to two causes that are each too small to name."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            thread.range(LOADER, 1000)
            with thread.op("aten::mm", 1000, 2):
                thread.launch(Work("ampere_sgemm_128x64_nn", 6000), stream)
            thread.wait(stream)
    (found,) = report(finish(trace)).headlines
    assert found.bound == "none"
    assert "No single cause dominates" in found.text


def test_start_up_is_no_bound() -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    with thread.annotation("ProfilerStep#0"):
        with thread.op("aten::mm"):
            thread.launch(Work("ampere_sgemm_128x64_nn", 100), stream, call_dur=50_000)
        thread.wait(stream)
    (found,) = report(finish(trace)).headlines
    assert found.bound == "start-up"
    assert "mostly start-up" in found.text


def test_start_up_before_the_only_whole_step() -> None:
    """Steps by the optimizer's marks begin with the first of them: before it two kernels are loaded for 100 ms."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(2):
        for _ in range(2):
            with thread.op("aten::mm"):
                thread.launch(Work("ampere_sgemm_128x64_nn", 2000), stream, call_dur=5 if number else 50_000)
        with thread.annotation("Optimizer.step#SGD.step"), thread.op("aten::_foreach_add_"):
            thread.launch(Work("multi_tensor_apply_kernel", 100), stream)
        thread.wait(stream)
    whole = report(finish(trace))
    (found,) = whole.headlines
    assert found.bound == "start-up"
    assert found.text.startswith("The trace is mostly start-up: 100 of the 106 ms")
    (told,) = [finding for finding in whole.findings if finding.rule == "compile-or-load-in-step"]
    assert told.summary.params["time"] == pytest.approx(100_000_000)


@pytest.mark.parametrize(("operator", "expected"), [("aten::mm", "host"), ("aten::cudnn_convolution", "none")])
def test_without_device_events(operator: str, expected: str) -> None:
    """A training on the CPU is bound by it; operators of a GPU whose events are missing tell nothing."""
    trace = TraceBuilder(devices=())
    thread = Host(trace, at=10)
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            thread.leaf(operator, 1000)
    assert bound(finish(trace)) == expected


def test_a_few_long_steps_are_told_with_the_median() -> None:
    """Nine steps of 1 ms and one of 11 ms by marks of the optimizer."""

    def of(longest: int) -> TraceBuilder:
        trace, at = TraceBuilder(devices=()), 0
        for number in range(12):
            own = longest if number % 3 == 1 else 1000
            trace.annotation("Optimizer.step#Adam.step", at, 100)
            trace.op("aten::mm", at + 110, own - 110)
            at += own
        return trace

    assert "half of them take at most 1.0 ms" in said(of(3000))
    assert "half of them" not in said(of(1600))


def test_several_steps_of_another_phase_are_no_single_step() -> None:
    text = said(rollouts(60, 20))  # the pass before the first update belongs to it
    assert "These steps do not train: they have no backward pass." in text
    assert " in 21 steps of another phase" in text


def test_fills_are_no_copies() -> None:
    """The shares add up: a fill counts as computing."""
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 1000 * number, 1000)
        trace.op("aten::mm", 1000 * number + 1, 20)
        trace.launch_kernel("ampere_sgemm_128x64_nn", 1000 * number + 30, 860, at=1000 * number + 10, call_dur=5)
        trace.memset(1 << 20, 1000 * number + 890, 60, at=1000 * number + 16, call_dur=2)
    (found,) = report(trace).headlines
    assert "copies" not in found.text
    assert found.shares is not None
    assert found.shares.copies == 0
    assert round(found.shares.computes + found.shares.idle, 9) == 1


@pytest.mark.parametrize("sign", ["nccl:all_to_all", "aten::cudnn_convolution", "npu::npu_format_cast"])
def test_a_name_tells_of_a_device_that_was_not_recorded(sign: str) -> None:
    trace = TraceBuilder(devices=())
    thread = Host(trace, at=10)
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            thread.leaf("aten::mm", 1000)
            with thread.annotation(sign):
                thread.leaf("aten::add", 10)
    (found,) = report(finish(trace)).headlines
    assert found.bound == "none"
    assert f"{sign} shows an accelerator" in found.text


@pytest.mark.parametrize("name", ["aten::cudnn_is_acceptable", "aten::_scaled_dot_product_flash_attention_for_cpu"])
def test_what_runs_on_the_cpu_too_tells_of_no_device(name: str) -> None:
    trace = TraceBuilder(devices=())
    thread = Host(trace, at=10)
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            thread.leaf(name, 1000)
    assert bound(finish(trace)) == "host"


def test_events_of_a_device_that_is_not_understood_are_events() -> None:
    trace = TraceBuilder(devices=())
    thread = Host(trace, at=10)
    with thread.annotation("ProfilerStep#0"):
        thread.leaf("aten::mm", 1000)
    trace.events.append({"ph": "X", "cat": "mtia_insight", "name": "pe_exe", "pid": 17, "tid": 1, "ts": 20, "dur": 500})
    assert "mtia_insight shows an accelerator" in said(finish(trace))


def test_a_device_that_is_no_gpu_is_not_missing() -> None:
    (found,) = report(mtia()).headlines
    assert found.message.id == "headline-accelerator-2"
    assert found.message.params["part"][0] == 704_000
    assert found.details[0].params["work"] == 660_000
    assert "MTIA device 0 is busy 0.70 of the 1.1 ms" in found.text


@pytest.mark.parametrize("name", ["nccl:all_reduce", "cudaLaunchKernel"])
def test_marks_and_calls_of_a_gpu_without_kernels_never_mean_the_cpu(name: str) -> None:
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 10, 900)
    if name.startswith("cuda"):
        trace.add("cuda_runtime", name, (20, 10), trace.thread(None), {"correlation": 1})
    else:
        trace.annotation(name, 20, 10)
    (found,) = report(trace).headlines
    assert (found.bound, found.message.id) == ("none", "headline-unread-device-3")


def slow_at_first(number: int) -> TraceBuilder:
    """Steps of 5 ms, the first of which takes ten times as long."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for step in range(number):
        with thread.annotation(f"ProfilerStep#{step}"):
            with thread.op("aten::mm", 10, 2):
                thread.launch(Work("ampere_sgemm_128x64_nn", 5000 if step else 50_000), stream)
            thread.wait(stream)
    return finish(trace)


def test_a_slow_first_step_is_told_with_a_mean_that_includes_it() -> None:
    assert "This mean includes" not in said(slow_at_first(3)), "two alike are enough"
    assert "This mean" not in said(steps(host=10, kernel="ampere_sgemm_128x64_nn", gpu=5000))


def test_a_slow_first_step_among_many_slow_ones_does_not_explain_their_mean() -> None:
    """Of 60 steps every other one, the first as well, takes 20 ms instead of 2."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(60):
        length = 2000 if number % 2 else 20_000
        trace.step(number, at, length)
        trace.op("aten::mm", at, length - 10)
        at += length
    assert "This is a mean over uneven steps of 2.0 to 20 ms." in said(trace)
    assert "includes the first step" not in said(trace)


def test_one_rank_does_not_tell_waiting_from_sending() -> None:
    for ranks, is_told in ((4, True), (1, False)):
        trace = TraceBuilder(distributed=distributed_info(0, ranks))
        for number in range(3):
            trace.step(number, 1000 * number, 990)
            trace.op("aten::mm", 1000 * number + 1, 5)
            trace.collective("all_reduce", 1000 * number + 100, 800, at=1000 * number + 20, nelems=9, ranks=(0, 1))
        text = said(trace)
        assert "Limited by communication" in text
        assert ("The trace of one rank does not show how much" in text) is is_told


@pytest.mark.parametrize(("reduce_us", "begin"), [(210, "Limited by communication"), (190, "Limited by GPU compute")])
def test_communication_is_named_first_where_it_takes_longer_than_the_largest_kind_of_work(
    reduce_us: int, begin: str
) -> None:
    """Four all-reduces of equal length together, beside 800 us of products and 500 us of additions."""
    trace, length = TraceBuilder(distributed=distributed_info(0, 4)), 1310 + 4 * reduce_us
    for number in range(3):
        at = number * length
        trace.step(number, at, length)
        trace.launch_kernel("ampere_sgemm_128x64_nn", at + 5, 800, at=at + 1, call_dur=2)
        trace.launch_kernel("at::native::vectorized_elementwise_kernel<4>", at + 806, 500, at=at + 4, call_dur=2)
        for call in range(4):
            start = at + 1307 + call * reduce_us
            trace.collective("all_reduce", start, reduce_us, at=at + 7 + call, host_dur=1, nelems=9)
    text = said(trace)
    assert text.startswith(begin), text
    assert ("All calls of one size take about as long" in text) is (reduce_us == 210)
    assert "The trace of one rank does not show" not in text


def reducing(*, first: int, others: int) -> TraceBuilder:
    """One of four ranks: a product of 300 us, and four all-reduces of one size after it, of which one may be longer."""
    trace, at = TraceBuilder(distributed=distributed_info(0, 4)), 0
    for number in range(3):
        length = 350 + first + 3 * others
        trace.step(number, at, length)
        trace.launch_kernel("ampere_sgemm_128x64_nn", at + 20, 300, at=at + 1, call_dur=2)
        for call in range(4):
            start = at + 320 + (first + (call - 1) * others if call else 0)
            trace.collective("all_reduce", start, others if call else first, at=at + 4 + call, host_dur=1, nelems=9)
        at += length
    return trace


@pytest.mark.parametrize(
    ("first", "others", "begin"),
    [
        (200, 10, "Waiting for another rank in `all_reduce`: 230 of the 580 us of each step. Calls of equal size take"),
        (199, 10, "Limited by GPU compute"),
        (100, 5, "Limited by GPU compute"),
    ],
)
def test_one_call_that_takes_far_longer_than_equal_ones_waits_for_a_rank(first: int, others: int, begin: str) -> None:
    assert said(reducing(first=first, others=others)).startswith(begin)


@pytest.mark.parametrize(("host_us", "kernel_us"), [(200, 500), (500, 200)])
def test_communication_is_as_long_as_the_shares_say(host_us: int, kernel_us: int) -> None:
    """While the host is in a collective the GPU is idle; it communicates only while a kernel of it runs."""
    trace = TraceBuilder(distributed=distributed_info(0, 4))
    for number in range(3):
        start = 1000 * number
        trace.step(number, start, 990)
        trace.op("aten::mm", start + 1, 5)
        at = start + 20
        trace.collective("all_reduce", at + host_us, kernel_us, at=at, host_dur=host_us, nelems=9, ranks=(0, 1))
    (headline,) = report(trace).headlines
    assert headline.bound == "communication"
    assert headline.shares is not None
    time, share = re.search(r"(\d\.\d+) of the 1\.0 ms of each step", said(trace)), headline.share
    assert time is not None, said(trace)
    assert share is not None
    assert float(time[1]) == pytest.approx(0.99 * share, abs=0.01)
    if kernel_us > host_us:
        assert share == pytest.approx(headline.shares.communicates)
    else:
        assert share <= headline.shares.idle
        assert "communication on the CPU: the GPU idles" in said(trace)


def test_where_launched_work_waits_for_what_was_not_recorded_the_host_is_not_to_blame() -> None:
    """Three steps of 1 ms: a kernel that is launched at 40 us waits in an idle queue from 120 to 800 us."""
    trace = TraceBuilder()
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.op("aten::mm", at + 5, 50)
        trace.launch_kernel("gemm", at + 20, 100, at=at + 10)
        trace.launch_kernel("gemm", at + 800, 190, at=at + 40)
        trace.launch("cudaStreamSynchronize", at + 60, 935)
    found = report(trace)
    recording = found.result("recording", Recording)
    assert recording is not None
    assert recording.typical is not None
    assert max(recording.typical.idle, key=lambda row: row.ns_per_step).cause == "pending"
    assert found.headlines[0].resources.host_ns is None
    assert found.headlines[0].bound == "none"


def test_steps_of_very_different_length_are_no_mean() -> None:
    """Two steps of 1 ms and two of 5 and 7 ms: none of them is typical."""
    trace, at = TraceBuilder(devices=()), 0
    for number, length in enumerate((1000, 1000, 5000, 7000)):
        trace.step(number, at, length)
        trace.op("aten::mm", at + 10, length - 20)
        at += length
    assert "This is a mean over uneven steps of 1.0 to 7.0 ms." in said(trace)
    assert "uneven" not in said(slow_at_first(3))


TEXTS = [text for unit in (headlines, printed, typical) for text in texts_of(vars(unit).values())]
CAUSES = [str(text) for text in TEXTS if text.note and "after: mostly because" in text.note]
BOUNDS = [text for text in TEXTS if not str(text).startswith("{headline}") and "{part:part}" in str(text)]


@pytest.mark.parametrize("text", BOUNDS, ids=lambda text: text.id)
def test_a_headline_begins_with_at_most_25_words(text: Text) -> None:
    """A number with its unit is one word; a time and its whole share a unit."""
    others = {
        "unit": "a typical step",
        "device": "The GPU works",
        "tokens": 32,
        "vendor": "MTIA",
        "task": "merge",
        "work": "matrix multiplications and attention",
    }
    others |= {"operator": "`aten::expand`", "kernels": 24, "busy": 130_000}
    others |= {"copy": "Memcpy HtoD (Pageable -> Device)", "call": "cudaDeviceSynchronize"}
    for cause in CAUSES:
        said = text(part=(10_284_000, 10_795_000), cause=cause, time=1_000, **others).text
        first = re.sub(r"(\d) (%|ms)", r"\1\2", said).partition(". ")[0]
        assert len(first.split()) <= 25, first
        assert "10 of the 11ms" in first
