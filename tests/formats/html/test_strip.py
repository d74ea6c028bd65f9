"""The strip of the first screen: what each lane shows, and what its sentence says."""

from __future__ import annotations

import re

import pytest

from tests.builders import TraceBuilder
from tests.formats.html.pages import unpacked
from tests.formats.samples import FIXTURES, SOUND, TRAINING, report_of
from tests.reading import read_built
from traceanalyzer.formats import html, markdown
from traceanalyzer.formats.html import strip, timeline_data
from traceanalyzer.formats.html.cells import stages
from traceanalyzer.formats.html.figures import FigureLanguage
from traceanalyzer.formats.html.strip import Strip
from traceanalyzer.formats.html.strip_lanes import TypicalLane
from traceanalyzer.formats.html.timeline_data import packed
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.inputs.opening import load_report
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.structure.recording import Recording

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PLANTED = next(path for path in SOUND if path.name == "planted_faults.json.gz")


def strip_of(report: Report) -> Strip | None:
    shown = timeline_data.times(report, [(f"finding-{f.rule}", f) for f in report.findings], stages(None)[0])
    return strip.build(report, shown, FigureLanguage(ENGLISH).whole())


def drawn(trace: TraceBuilder | Report) -> Strip:
    """The strip of a trace, or of a report, that has one."""
    found = strip_of(trace if isinstance(trace, Report) else analyze(read_built(trace)))
    assert found is not None
    return found


def lane(found: Strip, label: str) -> TypicalLane:
    (one,) = (each for each in found.lanes if each.label == label)
    return one


def texts(found: Strip, label: str) -> list[str]:
    return [text.text for text in lane(found, label).texts]


def multiply(trace: TraceBuilder, start: int, us_of_kernel: int, *, after: int = 10) -> None:
    """An operator of 80 us, and a kernel of some length that begins so many us after its start."""
    trace.op("aten::mm", start, 80)
    trace.launch_kernel("ampere_sgemm_128x64_nn", start + after, us_of_kernel, at=start + after // 2, call_dur=3)


def loading(*waits: int) -> TraceBuilder:
    """Steps that wait for the loader for so many us, then run a kernel for 500 us, and end 90 us after it."""
    trace, start = TraceBuilder(), 0
    for number, wait in enumerate(waits):
        trace.step(number, start, wait + 600)
        trace.annotation(LOADER, start, wait)
        trace.annotation("forward", start + wait, 590)
        multiply(trace, start + wait, 500)
        start += wait + 600
    return trace


def test_phases_host_and_device_are_lanes() -> None:
    found = drawn(loading(400, 400, 400, 400))
    lanes = {each.label: each for each in found.lanes}
    assert list(lanes) == ["GPU 0", "Phases", "CPU, Main"]
    assert texts(found, "Phases") == ["DataLoader", "forward"]
    assert [area.tone for area in lanes["GPU 0"].areas] == ["math"]
    assert lanes["GPU 0"].areas[0].path.startswith("M410 0H909.4")


def test_idle_time_has_its_cause_its_time_and_its_finding() -> None:
    found = drawn(loading(400, 400, 400, 400))
    largest = found.idle[0]
    assert largest.cause == "dataloader"
    assert largest.ns == 400_000
    assert largest.label == "400 us: Waiting for the DataLoader"
    assert largest.finding == "finding-dataloader-bound"
    assert found.says == "Step 0, one of 4 typical steps."
    assert found.idle_title == "The GPU is idle per step, on average:"


def test_the_scale_has_round_times_and_none_of_them_is_the_length_of_the_step() -> None:
    """The length of the one that is drawn is another one than that of the mean, which the headline says."""
    trace = TraceBuilder()
    start = 0
    for number, length in enumerate((1043, 1080, 1043, 1083)):
        trace.step(number, start, length)
        multiply(trace, start, 700)
        start += length
    found = drawn(trace)
    assert [tick.text for tick in found.ticks] == ["0", "500 us", "1 ms"]
    shown_ns = 1000e3 / float(found.ticks[2].x) * 100
    assert shown_ns == pytest.approx(1043e3, rel=0.05)


def test_a_strip_without_named_idle_times_does_not_speak_of_them() -> None:
    """A GPU that idles for 4 us of each step of 1 ms: no cause is named below."""
    trace = TraceBuilder()
    for number in range(4):
        start = 1000 * number
        trace.step(number, start, 1000)
        trace.annotation("## forward ##", start, 900)
        multiply(trace, start, 996, after=4)
    assert drawn(trace).says == "Step 0, one of 4 typical steps."


def test_figures_are_those_of_the_mean_step_and_the_sentence_says_which_step_is_shown() -> None:
    """Two steps wait for 400 us, two for 200 us; one of them is drawn."""
    report = analyze(read_built(loading(400, 200, 400, 200)))
    found, recording = drawn(report), report.result("recording", Recording)
    assert recording is not None
    assert recording.typical is not None
    assert {area.cause: area.ns for area in found.idle} == {
        each.cause: each.ns_per_step for each in recording.typical.idle if each.ns_per_step
    }
    assert found.idle[0].ns == 300_000
    assert found.idle[0].drawn_ns in (200_000, 400_000)
    assert "of 4 typical steps" in found.says


def bursts(*waits: int) -> Report:
    """Steps that wait for the loader for so many us, then compute for 500 us."""
    trace = TraceBuilder()
    start = 0
    for number, wait in enumerate(waits):
        trace.step(number, start, wait + 600)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start, wait)
        trace.op("aten::mm", start + wait, 80)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + wait + 10, 500, at=start + wait + 5, call_dur=3)
        start += wait + 600
    return analyze(read_built(trace))


def test_a_step_unlike_the_mean_says_why() -> None:
    """A loader in bursts: no step is like the mean of 76 ms, which the headline is about."""
    report = bursts(*(300_000, 20, 20, 10) * 3)
    found = strip_of(report)
    assert found is not None
    assert found.says.startswith("Step ")
    assert found.says.endswith(
        ", one of 12 typical steps. Steps differ: 3 of 12 take about 301 ms, so the mean is 76 ms."
    )
    assert "\nSteps differ: 3 of 12 take about 301 ms, so the mean is 76 ms.\n```" in markdown.render(report)


def test_steps_that_differ_a_little_need_no_words() -> None:
    found = strip_of(bursts(200, 220, 240, 180, 210, 190))
    assert found is not None
    assert found.says.endswith("one of 6 typical steps.")


def test_no_two_causes_of_idle_time_have_one_colour() -> None:
    """Those without one of their own are gray."""
    rules = re.findall(r"(\.idle-area\.c-[^{]*)\{ --of: ([^;]*);", html.source("timeline.css"))
    assert len(rules) > 5
    assert all("," not in selector for selector, _ in rules)
    assert len({colour for _, colour in rules}) == len(rules)


def test_modules_that_follow_each_other_are_one_with_their_number() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.module("Net_0", 0, 1000)
    for number in range(4):
        trace.module(f"Layer_{number}", 250 * number, 240)
        multiply(trace, 250 * number + 5, 100, after=6)
    assert texts(drawn(trace), "Modules") == ["Layer x4"]


def test_a_name_without_room_is_shown_by_its_last_part() -> None:
    trace = TraceBuilder()
    for number in range(3):
        start = 1000 * number
        trace.step(number, start, 1000)
        trace.annotation("Optimizer.zero_grad#SGD.zero_grad", start, 150)
        trace.annotation("Optimizer.step#SGD.step", start + 150, 850)
        multiply(trace, start, 500)
    assert texts(drawn(trace), "Phases") == ["zero_grad", "Optimizer.step"]


def test_a_cpu_that_waits_for_the_gpu_is_paler() -> None:
    """A call that waits in no mark, and one within a mark, whose part of the program keeps its place and name."""
    trace = TraceBuilder()
    for number in range(3):
        start = 1000 * number
        trace.step(number, start, 1000)
        trace.annotation("Optimizer.step#SGD.step", start + 400, 590)
        multiply(trace, start, 300)
        trace.launch("cudaDeviceSynchronize", start + 100, 220)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 500, 400, at=start + 450, call_dur=3)
        trace.launch("cudaStreamSynchronize", start + 500, 405)
    found = drawn(trace)
    cpu = lane(found, "CPU, Main")
    paths = {area.tone: area.path for area in cpu.areas}
    assert paths["cpu_waits"] == "M100 0H309.4V1H100ZM500 0H899.4V1H500Z"
    assert [(text.text, text.is_on_pale) for text in cpu.texts if text.text.startswith("Opt")] == [
        ("Optimizer.step", False)
    ]
    assert dict(found.tones)["cpu_waits"] == "CPU waits for the GPU"
    assert dict(found.tones)["cpu_exec"] == "Operator, CPU"


def test_between_marks_autograd_shows_forward_and_backward() -> None:
    found = drawn(report_of(TRAINING))
    assert "forward" in texts(found, "Phases")
    assert any(area.tone == "other" and area.path.count("M") > 1 for area in lane(found, "Phases").areas)


def test_without_a_device_the_sentence_names_parts_of_the_program() -> None:
    found = drawn(report_of(FIXTURES / "synthetic" / "cpu_only.json"))
    assert not any(each.label.startswith("GPU") for each in found.lanes)
    assert "GPU" not in found.says


def test_reports_of_older_versions_and_tables_have_no_strip() -> None:
    saved = load_report(str(FIXTURES / "saved" / "0.1.0" / "gpu_training.report.json.gz"))
    assert strip_of(saved) is None
    assert timeline_data.times(saved, (), stages(None)[0]) is not None
    assert strip_of(report_of(FIXTURES / "key_averages" / "article.md")) is None


@pytest.mark.parametrize("values", [(), (0,), (-1, 0, 1), (15, 16, -16, 31, 32, 1023, 1024), (2**50, -(2**50))])
def test_numbers_are_packed_and_unpacked(values: tuple[int, ...]) -> None:
    assert tuple(unpacked(packed(values))) == values


def test_every_finding_with_times_has_an_address_that_contains_them() -> None:
    report = report_of(PLANTED)
    shown = timeline_data.times(report, (), stages(None)[0])
    assert shown is not None
    linked = 0
    for finding in report.findings:
        found, address = shown.of_finding(finding), shown.link("finding-x", finding)
        assert (found is None) == (address is None)
        if found is None:
            continue
        linked += 1
        number, start, end = found
        time = shown.slices.times[number]
        assert 0 <= start <= end <= time.duration_ns
        spans = [span for entry in finding.where for span in entry.spans]
        assert any(time.start_ns + start == max(begin, time.start_ns) for begin, _ in spans)
    assert linked > 3


def test_pages_of_less_detail_have_larger_blocks_and_count_them() -> None:
    report = report_of(PLANTED)
    full, least = (timeline_data.times(report, (), stages(None)[place]) for place in (0, -1))
    assert full is not None
    assert least is not None
    for one, other in zip(full.slices.times, least.slices.times, strict=True):
        slices = sum(len(lane.start) for lane in other.lanes)
        assert slices <= max(stages(None)[-1].slices, len(other.lanes) * 12)
        events = [
            sum(sum(lane.count) if lane.count else len(lane.start) for lane in time.lanes) for time in (one, other)
        ]
        assert events[0] == events[1]
        assert sum(other.idle_duration) + other.idle_omitted_ns == sum(one.idle_duration) + one.idle_omitted_ns
    (note, *_) = timeline_data.left_out(least.slices.times[0], ENGLISH)
    assert "are drawn as blocks of neighbours" in note
