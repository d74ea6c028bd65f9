"""One trace reads the same in every layout, and as far as their writers agree, in every dialect."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.builders import DIALECTS, ERA_2022, H100, LAYOUTS, MODERN, OLD, Dialect, TraceBuilder, distributed_info
from tests.builders.fixture_set import FOLDER
from tests.builders.situations import SITUATIONS, Situation
from tests.reading import Row, content, losses, read_built, table_rows
from traceanalyzer.inputs.opening import load
from traceanalyzer.trace.model import NO_COLLECTIVE, Device, ProfilerOptions, Thread

EPOCH_US = "1712195495519689.047"
EPOCH_NS = 1_712_195_495_519_689_047


def example(dialect: Dialect = MODERN, origin: str | int = 0) -> TraceBuilder:
    """A step with an operator of each kind, its launches, device work and a memory record."""
    trace = TraceBuilder(dialect, options=("record_shapes", "profile_memory"), origin=origin)
    trace.step(3, 0, 400)
    trace.op("aten::linear", 10, 100, shapes=[[8, 3], [], [2, 3]], types=["float", "", "c10::Half"], sequence=5)
    trace.op("aten::mm", 20, 60, shapes=[[8, 3], [3, 2]], types=["float", "float"])
    trace.launch_kernel("ampere_sgemm_128x64_nn", 90, 30, at=30, grid=(54, 2, 1), block=(256, 1, 1))
    trace.memcpy("HtoD", 4096, 130, 12, at=110)
    trace.memset(64, 150, 2, at=125)
    trace.op("aten::relu", 200, 40, tid=77)
    trace.python_function("train.py(12): step", 5, 300)
    trace.memory(1024, 35, addr=512, allocated=2048, reserved=4096, device=0)
    trace.annotation("Optimizer.step#SGD.step", 300, 50)
    return trace


def columns(rows: list[Row], *wanted: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in wanted) for row in rows), key=repr)


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_layouts(layout: str) -> None:
    trace = example(origin=EPOCH_US)
    usual, other = read_built(trace), read_built(trace, LAYOUTS[layout])
    assert content(other) == content(usual)
    assert (other.info.origin_ns, other.info.span_ns) == (EPOCH_NS, usual.info.span_ns)
    assert other.losses == ()
    if not LAYOUTS[layout].bare_array:
        assert other.info.devices == usual.info.devices
        assert other.info.options == usual.info.options
        assert other.info.base_ns == usual.info.base_ns


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_situations_in_other_layouts(situation: Situation) -> None:
    """Each fixture is written in one layout; all other layouts must give the same trace."""
    trace = situation.build()
    usual = content(read_built(trace))
    for name in ("current", "minified", "pretty", "keys_reordered"):
        assert content(read_built(trace, LAYOUTS[name])) == usual, name


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_dialects_agree_on_times_names_and_shapes(dialect: str) -> None:
    usual, other = content(read_built(example())), content(read_built(example(DIALECTS[dialect])))
    host = [row for row in other["host"] if row["category"] != "PYTHON"]
    assert columns(host, "start_ns", "dur_ns", "name", "thread", "shapes", "types", "external_id") == columns(
        usual["host"], "start_ns", "dur_ns", "name", "thread", "shapes", "types", "external_id"
    )
    for table, wanted in (
        ("launches", ("start_ns", "dur_ns", "thread", "correlation")),
        ("device", ("start_ns", "dur_ns", "category", "correlation")),
        ("memory", ("start_ns", "bytes", "device", "thread")),
    ):
        assert columns(other[table], *wanted) == columns(usual[table], *wanted), table
    # Before 2022 the category of Python events was that of operators.
    assert [len(other["frames"]), len(other["host"]) - len(host)] == ([0, 1] if dialect == "old" else [1, 0])
    assert other["memory"][0]["device_type"] == DIALECTS[dialect].memory_device_type


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_dialects_agree_on_links(dialect: str) -> None:
    """Device events name their launch by correlation, and their operator where the era got that right."""
    trace = read_built(example(DIALECTS[dialect]))
    ids = {row["name"]: row["external_id"] for row in table_rows(trace, "host")}
    launches = {row["correlation"]: row["external_id"] for row in table_rows(trace, "launches")}
    owners = {"KERNEL": ids["aten::mm"], "MEMCPY": ids["ProfilerStep#3"], "MEMSET": ids["ProfilerStep#3"]}
    for row in table_rows(trace, "device"):
        owner = row["correlation"] if DIALECTS[dialect].ids_are_correlations else owners[row["category"]]
        assert row["external_id"] == owner
        assert launches[row["correlation"]] == owner


def test_kernel_details() -> None:
    kernel = next(row for row in table_rows(read_built(example()), "device") if row["category"] == "KERNEL")
    wanted = {
        "start_ns": 90_000,
        "dur_ns": 30_000,
        "name": "ampere_sgemm_128x64_nn",
        "category": "KERNEL",
        "device": 0,
        "stream": 7,
        "correlation": 1001,
        "external_id": 3,
        "grid": "[54,2,1]",
        "block": "[256,1,1]",
        "registers": 32,
        "shared_memory": 0,
        "blocks_per_sm": 1.0,
        "occupancy": 50.0,
        "bytes": -1,
        "collective": NO_COLLECTIVE,
    }
    assert {name: kernel[name] for name in wanted} == wanted


def test_what_rocm_does_not_say_is_unknown() -> None:
    kernel = table_rows(read_built(example(DIALECTS["rocm"])), "device")[0]
    assert (kernel["blocks_per_sm"], kernel["occupancy"], kernel["registers"]) == (None, None, -1)


@pytest.mark.parametrize("dialect", [MODERN, OLD, ERA_2022], ids=["modern", "old", "2022"])
def test_epoch_times_keep_every_nanosecond(dialect: Dialect) -> None:
    trace = TraceBuilder(dialect, origin=EPOCH_US)
    trace.op("aten::a", 0, "0.001")
    trace.op("aten::b", "10.001", "2.999")
    read_trace = read_built(trace)
    unit = 1 if dialect.exact else 1000
    assert read_trace.info.origin_ns == EPOCH_NS // unit * unit
    starts = [EPOCH_NS // unit * unit, (EPOCH_NS + 10_001) // unit * unit]
    assert read_trace.host.start_ns.tolist() == [0, starts[1] - starts[0]]
    assert read_trace.host.dur_ns.tolist() == [1 // unit * unit, 2999 // unit * unit]


def test_base_time_is_kept_apart() -> None:
    trace = example(origin="5.5")
    trace.base_ns = 1_700_000_000_123_456_789
    info = read_built(trace).info
    assert (info.base_ns, info.origin_ns) == (1_700_000_000_123_456_789, 5_500)


def test_header() -> None:
    trace = TraceBuilder(devices=(H100,), options=("with_stack",), distributed=distributed_info(3, 8))
    trace.op("aten::mm", 0, 1)
    info = read_built(trace).info
    assert info.devices == (Device(0, "NVIDIA H100 80GB HBM3", "NVIDIA", 85_029_158_912, "9.0", 132),)
    assert info.options == ProfilerOptions(False, True, False, False, False)
    assert (info.rank, info.world_size, info.backend) == (3, 8, "nccl")


@pytest.mark.parametrize("name", ["AMD Instinct MI300X", "NVIDIA A100-SXM4-40GB", "Intel(R) Data Center GPU Max 1550"])
def test_vendors(name: str) -> None:
    trace = TraceBuilder(devices=(), metadata={"deviceProperties": [{"id": 0, "name": name}]})
    trace.op("aten::mm", 0, 1)
    assert read_built(trace).info.devices[0].vendor == name.split(maxsplit=1)[0].split("(", maxsplit=1)[0]


def test_devices_that_only_events_know() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 5, device=2)
    assert [device.id for device in read_built(trace).info.devices] == [0, 2]


def test_unknown_categories_are_counted() -> None:
    trace = example()
    trace.add("npu_op", "aclnnAdd", (1, 2), (1, 1), {})
    trace.add("npu_op", "aclnnMul", (4, 2), (1, 1), {})
    found = read_built(trace)
    assert found.info.unsupported == {"npu_op": 2}
    assert losses(found) == {"read-unsupported": 2}


def test_slices_without_duration_count_with_zero() -> None:
    trace = example()
    trace.events[1]["dur"] = "nothing"
    trace.events[2]["dur"] = -4
    del trace.events[0]["dur"]
    found = read_built(trace)
    assert losses(found) == {"read-no-duration": 2, "read-negative-duration": 1}
    assert sorted(found.host.dur_ns.tolist())[:3] == [0, 0, 0]


@pytest.mark.parametrize("phase", ["B", "E", "b", "e"])
def test_other_phases_are_counted_not_forgotten(phase: str) -> None:
    trace = example()
    usual = content(read_built(trace))
    trace.raw(trace.events[1] | {"ph": phase})
    found = read_built(trace)
    assert content(found) == usual
    assert sum(losses(found).values()) == 1


@pytest.mark.parametrize("odd", [[1], {"a": 1}, None, True, 1.5, "", "x y"], ids=repr)
def test_threads_of_any_kind(odd: object) -> None:
    trace = example()
    trace.events[1]["pid"] = odd
    trace.events[2]["tid"] = odd
    found = read_built(trace)
    assert len(found.host) == len(read_built(example()).host)


def test_one_thread_written_in_two_ways() -> None:
    trace = TraceBuilder()
    trace.op("aten::a", 0, 10)
    trace.op("aten::b", 2, 5)
    trace.events[1] |= {"pid": "4201", "tid": "4201"}
    assert read_built(trace).threads == (Thread("4201", "4201"),)


def test_streams_are_threads_without_their_title() -> None:
    trace = TraceBuilder()
    for tid in (7, "7", "stream 7"):
        trace.gpu_annotation("my range", 0, 10, external_id=1)
        trace.events[-1]["tid"] = tid
    trace.op("aten::a", 0, 10)
    found = read_built(trace)
    assert [found.threads[row] for row in found.gpu_annotations.thread] == [Thread("0", "7")] * 3


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    data = example().to_bytes()
    for name, stored in (("trace.json", data), ("trace.json.gz", gzip.compress(data))):
        path = tmp_path / name
        path.write_bytes(stored)
        seen: list[int] = []
        trace = load(path, seen.append)
        assert sum(seen) + (2 if name == "trace.json" else 0) >= len(stored)
        assert (trace.info.name, trace.info.size_bytes) == (name, len(stored))


@pytest.mark.parametrize("path", sorted((FOLDER / "captured").glob("*.json.gz")), ids=lambda path: path.name)
def test_captured_traces_lose_nothing(path: Path) -> None:
    trace = load(path)
    assert losses(trace).keys() <= {"read-unsupported"}
    assert len(trace.host) > 10
