"""How people see devices that are not GPUs: the section, and the lanes of the timeline."""

from __future__ import annotations

from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.builders.situations import hpu, mtia, npu
from tests.formats.html.pages import unpacked
from tests.reading import read_built
from traceanalyzer.analyzers import steps
from traceanalyzer.analyzers.kernels import accelerators
from traceanalyzer.formats import render
from traceanalyzer.formats.html import timeline_data, waterfall
from traceanalyzer.formats.html.cells import stages
from traceanalyzer.formats.language import Language
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.message import Message
from traceanalyzer.report.section import Section
from traceanalyzer.sections import critical_path
from traceanalyzer.sections.accelerators import build
from traceanalyzer.structure.context import Context

US = 1000


def section(trace: TraceBuilder, top: int = 5) -> Section:
    (found,) = build(report_with("accelerators", accelerators.analyze(Context(read_built(trace)))), top)
    return found


def test_devices_and_what_takes_most_on_them_are_shown() -> None:
    found = section(hpu())
    assert isinstance(found.title, Message)
    assert found.title.text == "HPU devices"
    devices, tasks = found.tables
    titles = [column.title.id for column in devices.columns]
    assert "accelerators-only-waiting" not in titles  # nothing waits
    assert devices.rows == (("HPU 0", 350 * US, 350 / 500, 300 * US, 30 * US, 40 * US, 4, 4),)
    assert [(row[1], row[2].id) for row in tasks.rows] == [
        ("GEMM", "accelerators-kind-work"),
        ("add_fwd_bf16", "accelerators-kind-work"),
        ("DmaTranspose", "accelerators-kind-transfer"),
        ("allReduce", "accelerators-kind-communication"),
    ]


def test_what_is_not_known_has_no_column() -> None:
    titles = [column.title.id for column in section(mtia()).tables[1].columns]
    assert "accelerators-type" not in titles
    assert "accelerators-type" in [column.title.id for column in section(npu()).tables[1].columns]


def test_long_waiting_is_told_from_work() -> None:
    (message,) = section(mtia()).messages
    assert message.params == {"vendor": "MTIA", "device": "0", "time": 820 * US}
    assert section(hpu()).messages == ()


def test_rows_beyond_the_top_are_counted() -> None:
    tasks = section(npu(), top=2).tables[1]
    assert (len(tasks.rows), tasks.total_rows) == (2, 6)


def test_a_device_without_a_number_is_shown() -> None:
    trace = TraceBuilder(devices=())
    trace.add("mtia_ccp_events", "merge", (0, 100), ("card", 4), {})
    assert section(trace).tables[0].rows[0][0] == "MTIA ?"


def test_every_text_format_has_the_section() -> None:
    report = analyze(read_built(mtia()))
    for name in ("terminal", "markdown", "html"):
        assert "MTIA devices" in render(report, name)


def test_streams_are_lanes_of_the_timeline() -> None:
    found = steps.analyze(Context(read_built(npu())))
    lanes = {lane.label: lane for lane in found.lanes if lane.kind == "accelerator"}
    assert set(lanes) == {"NPU 1/2", "NPU 1/5"}
    bars = [(found.names[s.name], s.start_ns, s.duration_ns) for s in lanes["NPU 1/5"].slices if s.name is not None]
    assert bars == [
        ("EVENT_WAIT", 80 * US, 800 * US),
        ("MEMCPY_ASYNC", 180 * US, 140 * US),
        ("hcom_allReduce__512_0_1", 930 * US, 50 * US),
    ]


def test_the_chart_colours_waiting_unlike_work() -> None:
    report, detail = analyze(read_built(npu())), stages(None)[0]
    drawn = waterfall.build(report, Language(), detail, timeline_data.times(report, (), detail))
    assert drawn is not None
    lane = next(lane for lane in drawn.data["times"][0]["lanes"] if lane["label"] == "NPU 1, stream 5")
    tones = unpacked(drawn.data["toneOf"]["accelerator"])
    assert [drawn.data["tones"][tones[name]] for name in unpacked(lane["name"])] == [
        "waiting",
        "memcpy",
        "communication",
    ]


def test_waiting_for_such_a_device_is_not_said_to_be_host_time() -> None:
    found = analyze(read_built(mtia()))
    assert found.headlines[0].resources.host_ns is None
    assert not list(critical_path.sentence(found))
