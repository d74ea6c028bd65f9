"""Which events are those of devices that write no kernels, and what of them is read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.situations import hpu, mtia, npu
from tests.reading import Row, read_built, table_rows
from traceanalyzer.pipeline import analyze
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.tables import Vendor


def events(trace: Trace) -> list[Row]:
    return table_rows(trace, "accelerator")


def read(event: dict[str, Any]) -> Trace:
    """A trace with an operator and one event more."""
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 100)
    trace.raw({"ph": "X", "name": "x", "pid": 0, "tid": 1, "ts": trace.stamp(0), "dur": 5} | event)
    return read_built(trace)


def test_events_of_an_mtia_card() -> None:
    found = read_built(mtia())
    first = next(row for row in events(found) if row["name"] == "pe_exe")
    assert (first["vendor"], first["device"], first["stream"], first["task"]) == (Vendor.MTIA, 0, 4, "")
    assert (first["dur_ns"], first["correlation"]) == (290_000, 40_001)
    assert found.info.unsupported == {}
    assert len(found.device) == 0


def test_events_of_an_npu_have_no_category() -> None:
    found = read_built(npu())
    rows = [(row["name"], row["task"], row["device"], row["stream"], row["dur_ns"]) for row in events(found)]
    assert rows[0] == ("MatMulV2", "AI_CORE", 1, 2, 200_000)
    assert len(rows) == 6


def test_a_category_that_nobody_knows_stays_a_loss() -> None:
    found = read_built(npu())
    assert found.info.unsupported == {"npu_detail": 1}
    warnings = {warning.id: warning.count for warning in analyze(found).warnings}
    assert (warnings["read-unsupported"], warnings["read-no-category"]) == (1, 1)  # npu_detail, AscendCL@...


def test_calls_of_the_host_and_events_of_an_hpu_have_one_category() -> None:
    found = read_built(hpu())
    assert [row["name"] for row in events(found)] == ["GEMM", "add_fwd_bf16", "DmaTranspose", "allReduce"]
    assert {row["device"] for row in events(found)} == {0}
    assert "synLaunch" in [row["name"] for row in table_rows(found, "host")]


@pytest.mark.parametrize(
    ("event", "vendor"),
    [
        ({"cat": "mtia_ccp_events"}, Vendor.MTIA),
        ({"cat": "MTIA_CCP_EVENTS", "pid": 5}, Vendor.MTIA),
        ({"cat": "hpu_op"}, Vendor.HPU),
        ({"cat": "hpu_op", "pid": "0"}, Vendor.HPU),
        ({"cat": "hpu_op", "pid": 1, "args": {"HW event name": "MMEH_WB"}}, Vendor.HPU),
        ({"cat": "hpu_op", "pid": 1}, None),
        ({"args": {"Task Type": "AI_CORE"}}, Vendor.NPU),
        ({"args": {"Task Type": ""}}, None),
        ({"args": {"Task Type": None}}, None),
        ({"args": {"Task Type": ["AI_CORE"]}}, None),
        ({"args": {}}, None),
        ({"ph": "i", "args": {"Task Type": "AI_CORE"}}, None),
        ({"cat": "cpu_op", "args": {"Task Type": "AI_CORE"}}, None),
        ({"cat": "mtia_insight"}, None),
        ({"cat": "npu_op"}, None),
    ],
)
def test_whose_device(event: dict[str, Any], vendor: Vendor | None) -> None:
    assert [row["vendor"] for row in events(read(event))] == ([] if vendor is None else [vendor])


@pytest.mark.parametrize(
    ("event", "place"),
    [
        ({"cat": "mtia_ccp_events", "pid": 17, "tid": 3570, "args": {"stream": 102}}, (17, 102)),
        ({"cat": "mtia_ccp_events", "pid": "17", "tid": "stream 7"}, (17, 7)),
        ({"cat": "mtia_ccp_events", "pid": 99_999, "tid": 3}, (-1, 3)),
        ({"cat": "mtia_ccp_events", "pid": 99_999, "tid": 3, "args": {"device": 2}}, (2, 3)),
        ({"cat": "mtia_ccp_events", "pid": -1, "tid": -4}, (-1, -1)),
        ({"cat": "mtia_ccp_events", "pid": "card", "tid": [1]}, (-1, -1)),
        ({"cat": "mtia_ccp_events", "pid": 2**70, "tid": 2**70}, (-1, -1)),
        ({"pid": 7001 << 10 | 4 << 5 | 3, "tid": 2, "args": {"Task Type": "AI_CORE"}}, (3, 2)),
        ({"pid": 3, "tid": 2, "args": {"Task Type": "AI_CORE"}}, (-1, 2)),
        ({"pid": "3_0", "tid": 2, "args": {"Task Type": "AI_CORE"}}, (-1, 2)),
    ],
)
def test_where_it_ran(event: dict[str, Any], place: tuple[int, int]) -> None:
    (row,) = events(read(event))
    assert (row["device"], row["stream"]) == place


def test_a_trace_with_nothing_but_events_of_a_device_is_one() -> None:
    trace = TraceBuilder(devices=())
    trace.add("mtia_ccp_events", "merge", (0, 100), (0, 4), {})
    assert len(events(read_built(trace))) == 1
