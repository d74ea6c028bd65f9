"""The critical path in every format that people read."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from tests.builders import TraceBuilder
from tests.formats.html.pages import as_read, unpacked
from tests.rules.judging import report
from tests.simulation.test_critical_path import planned
from traceanalyzer.formats import render
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section
from traceanalyzer.sections import critical_path
from traceanalyzer.sections.critical_path import build
from traceanalyzer.simulation.critical_path import CriticalPath, CriticalStretch
from traceanalyzer.simulation.replay_error import Replay

people = pytest.mark.parametrize("layout", ["terminal", "markdown", "html"])


def sections(whole: Report) -> dict[str, Section]:
    return {section.id: section for section in build(whole, 10)}


def said(whole: Report) -> str:
    """The path in one sentence, as the first screen has it."""
    (message,) = critical_path.sentence(whole)
    return message.text


def lanes(whole: Report) -> list[dict[str, object]]:
    """The lanes that the script of a page draws."""
    text = render(whole, "html")
    found = re.search(r'id="waterfall-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    (typical, *_) = data["times"]
    path = [typical["path"]] if "path" in typical else []
    return [
        {
            "label": lane["label"],
            "length": unpacked(lane["length"]),
            "names": [data["names"][name] for name in unpacked(lane["name"])],
        }
        for lane in [*path, *typical["lanes"]]
    ]


def alternating(turns: int) -> Report:
    """A step in which the host launches, waits for a kernel of 100 us, and launches the next, 20 us later."""
    trace = TraceBuilder()
    trace.step(1, 0, 120 * turns)
    for turn in range(turns):
        start = 120 * turn
        trace.launch_kernel("gemm", start + 20, 80, at=start + 10, call_dur=5)
        trace.launch("cudaDeviceSynchronize", start + 16, 94)
    return report(trace)


@people
def test_every_format_says_what_the_step_waits_for(layout: str) -> None:
    text = as_read(render(report(planned()), layout, 20)).replace("10.0 us", "10 us")
    assert "CPU 10 us, DataLoader 50 us, CPU 20 us, GPU 200 us, CPU 40 us" in text


def test_few_turns_are_told_in_their_order() -> None:
    # host 0-10, loader 10-60, host 60-80 with the launch, kernel 80-280, host 280-320
    assert said(report(planned())) == (
        "Critical path of the step (320 us): CPU 10 us, DataLoader 50 us, CPU 20 us, GPU 200 us, CPU 40 us."
    )


def test_many_turns_are_told_by_size() -> None:
    # each turn: launch, 80 of kernel, the way back and the host
    assert (
        said(alternating(6))
        == "What the step waits for, in many short turns (critical path, 720 us): GPU 480 us, CPU 240 us."
    )


def test_a_turn_that_is_too_short_is_not_told() -> None:
    path = report(planned()).result("critical_path", CriticalPath)
    assert path is not None
    stretches = (CriticalStretch("host", 0, 990), CriticalStretch("compute", 990, 5), CriticalStretch("host", 995, 5))
    whole = msgspec.structs.replace(
        report(planned()), analyses={"critical_path": msgspec.structs.replace(path, stretches=stretches)}
    )
    assert said(whole) == "Nearly the whole step is CPU 1.0 us."


def test_what_the_sentence_leaves_out_is_told_below() -> None:
    path = report(planned()).result("critical_path", CriticalPath)
    assert path is not None
    kinds = ("host", "compute", "host", "compute", "host", "compute", "host")
    lengths = (200, 200, 200, 200, 200, 15, 15)
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    stretches = tuple(CriticalStretch(*row) for row in zip(kinds, starts, lengths, strict=True))
    whole = msgspec.structs.replace(
        report(planned()), analyses={"critical_path": msgspec.structs.replace(path, stretches=stretches)}
    )
    assert (
        said(whole) == "Critical path of the step (1.0 us): CPU 200 ns, GPU 200 ns, CPU 200 ns, GPU 200 ns, CPU 215 ns."
    )
    (message,) = sections(whole)["critical-path"].messages
    assert message.text == "The sentence on the critical path leaves out shorter turns, which take 15 ns in all."


def test_tables_are_of_resources_operators_owners_classes_and_slack() -> None:
    found = sections(report(planned()))
    (resources,) = found["critical-path"].tables
    assert [(str(row[0]), row[1]) for row in resources.rows][:2] == [("Kernels", 200_000), ("DataLoader", 50_000)]
    tables = {table.id: table.rows for table in found["critical-path-worth"].tables}
    assert set(tables) == {
        "critical_path_operators",
        "critical_path_device_operators",
        "critical_path_owners",
        "critical_path_classes",
        "critical_path_slack",
    }
    gains = {row[0]: row[1:] for row in tables["critical_path_device_operators"]}
    assert gains["aten::mm"] == (200_000, 1.0, 0)
    assert [row[0] for row in tables["critical_path_slack"]] == [
        "relu_kernel",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    ]


def test_the_timeline_begins_with_the_path() -> None:
    first = lanes(report(planned()))[0]
    assert first["label"] == "Critical path: what the step waits for"
    assert first["length"] == [10_000, 50_000, 10_000, 10_000, 200_000, 10_000, 30_000]
    assert first["names"] == [
        "CPU",
        "DataLoader",
        "CPU: aten::mm",
        "From launch to start",
        "Kernels: volta_sgemm_128x64_nn",
        "From end to CPU",
        "CPU",
    ]


@pytest.mark.parametrize("layout", ["markdown", "html"])
def test_the_error_of_the_replay_is_told(layout: str) -> None:
    text = re.sub(r"<[^>]*>", " ", render(report(planned()), layout))
    for label in ("Step, replayed from its dependencies", "Error of the replay", "Starts, 95 % are off by at most"):
        assert label in text


def test_a_path_of_another_step_is_no_lane() -> None:
    whole = report(planned())
    path = whole.result("critical_path", CriticalPath)
    assert path is not None
    other = msgspec.structs.replace(path, stretches_start_ns=17)
    labels = [
        lane["label"]
        for lane in lanes(msgspec.structs.replace(whole, analyses={**whole.analyses, "critical_path": other}))
    ]
    assert "Critical path: what the step waits for" not in labels


def test_a_model_that_abstains_says_why() -> None:
    whole = report(planned())
    replay = whole.result("replay", Replay)
    assert replay is not None
    wrong = msgspec.structs.replace(replay, error_share=0.07, abstained=True)
    found = sections(msgspec.structs.replace(whole, analyses={**whole.analyses, "replay": wrong}))
    (message,) = found["critical-path"].messages
    assert message.text.startswith("The replay is 7.00 % off the recorded step, more than 5 %, so no saving")


@people
def test_a_report_without_the_path_has_no_section(layout: str) -> None:
    whole = report(planned())
    old = msgspec.structs.replace(
        whole, analyses={key: value for key, value in whole.analyses.items() if key not in ("critical_path", "replay")}
    )
    text = render(old, layout)
    assert "Critical path" not in text
    assert "What the step waits for" not in text


def test_a_program_without_a_device_has_only_host_time() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.op("aten::mm", 10, 80)
    found = sections(report(trace))
    assert said(report(trace)) == "The whole step is CPU 100 us."
    assert [fact.label.id for fact in found["critical-path"].facts] == ["path-replayed", "path-recorded", "path-error"]
    operators = found["critical-path-worth"].tables[0]
    assert operators.rows[0][:2] == ("aten::mm", 80_000)
    assert len(operators.columns) == 3
