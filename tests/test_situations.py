"""The situations that builders make: what every trace of theirs keeps to."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import LAYOUTS
from tests.builders.situations import SITUATIONS, Situation

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
OVERLAPPING = {"overlapping_slices"}
UNLAUNCHED = {"kernels_without_launch"}


def situations(*without: str) -> pytest.MarkDecorator:
    """Parametrize over the situations, except some."""
    chosen = [situation for situation in SITUATIONS if situation.name not in without]
    return pytest.mark.parametrize("situation", chosen, ids=lambda situation: situation.name)


@cache
def events_of(situation: Situation) -> list[dict[str, Any]]:
    """Parsed events, with exact times. They are shared: tests must not change them."""
    return list(situation.build().build(situation.layout)["traceEvents"])


@situations()
def test_building_twice_gives_the_same_bytes(situation: Situation) -> None:
    assert situation.build().to_bytes() == situation.build().to_bytes()


@situations("ddp_nccl", "no_profiler_step", "rocm_training")  # the same kinds of event as gpu_training
def test_all_layouts_hold_the_same_events(situation: Situation) -> None:
    trace = situation.build()
    usual = trace.build()
    for name, layout in LAYOUTS.items():
        other = trace.build(layout)
        assert other["traceEvents"] == usual["traceEvents"], name
        assert other == usual or layout.bare_array, name


@situations(*OVERLAPPING, "legacy_list")  # without categories
def test_host_slices_nest(situation: Situation) -> None:
    threads = defaultdict(list)
    elsewhere = {*DEVICE, "gpu_user_annotation", "mtia_ccp_events", "Trace", ""}
    for event in events_of(situation):
        if event["ph"] == "X" and event.get("cat", "") not in elsewhere and event["pid"] != 0:
            span = (event["ts"], event["ts"] + event["dur"], event["name"])
            threads[event["pid"], event["tid"]].append(span)
    assert threads
    for slices in threads.values():
        open_ends: list[Decimal] = []
        for start, end, name in sorted(slices, key=lambda item: (item[0], -item[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], name
            open_ends.append(end)


@situations(*OVERLAPPING)
def test_a_stream_runs_one_thing_at_a_time(situation: Situation) -> None:
    streams = defaultdict(list)
    for event in events_of(situation):
        if event.get("cat") in DEVICE:
            streams[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    in_order = [sorted(runs) for runs in streams.values()]
    assert all(end <= start for runs in in_order for (_, end), (start, _) in pairwise(runs))


def test_the_overlapping_situation_overlaps() -> None:
    situation = next(s for s in SITUATIONS if s.name == "overlapping_slices")
    kernels = sorted((e["ts"], e["ts"] + e["dur"]) for e in events_of(situation) if e.get("cat") == "kernel")
    assert kernels[1][0] < kernels[0][1] < kernels[1][1]


def records(situation: Situation) -> list[dict[str, Any]]:
    """The memory records in their order."""
    return [event["args"] for event in events_of(situation) if event["name"] == "[memory]"]


@situations(*UNLAUNCHED)
def test_device_work_starts_after_its_launch(situation: Situation) -> None:
    events = [event for event in events_of(situation) if event["ph"] == "X"]
    launches = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event.get("cat") not in DEVICE and "correlation" in event["args"] and "bytes" not in event["args"]
    }
    device = [event for event in events if event.get("cat") in DEVICE]
    assert [event for event in device if event["ts"] <= launches[event["args"]["correlation"]]] == []


@situations()
def test_external_ids_name_one_host_event(situation: Situation) -> None:
    hosts = {"cpu_op", "user_annotation", "Operator"}
    ids = [e["args"]["External id"] for e in events_of(situation) if e.get("cat") in hosts]
    assert len(ids) == len(set(ids))


@situations()
def test_memory_totals_follow_the_records(situation: Situation) -> None:
    assert_totals_follow(records(situation))


def assert_totals_follow(found: list[dict[str, Any]]) -> None:
    """For each device, every total is the previous total plus the allocated bytes; a situation may have no record."""
    totals: dict[int, int] = {}
    for args in found:
        before = totals.get(args["Device Id"], args["Total Allocated"] - args["Bytes"])
        assert args["Total Allocated"] == before + args["Bytes"]
        assert args["Device Id"] < 0 or args["Total Reserved"] >= args["Total Allocated"]
        totals[args["Device Id"]] = args["Total Allocated"]


def test_some_situations_have_what_these_laws_are_about() -> None:
    assert any(event.get("cat") in DEVICE for situation in SITUATIONS for event in events_of(situation))
    assert any(map(records, SITUATIONS))


def test_kernels_of_a_step_end_after_the_step() -> None:
    situation = next(s for s in SITUATIONS if s.name == "gpu_training")
    events = events_of(situation)
    step = next(e for e in events if e["name"] == "ProfilerStep#5" and e["cat"] == "user_annotation")
    end = step["ts"] + step["dur"]
    launched = {
        e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime" and step["ts"] <= e["ts"] < end
    }
    ends = [e["ts"] + e["dur"] for e in events if e.get("cat") == "kernel" and e["args"]["correlation"] in launched]
    assert max(ends) > end
