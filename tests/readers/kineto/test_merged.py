"""Files that several ranks were merged into: which events are whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.merging import WAYS, alone, merged, numbered, offset
from tests.builders.ranks import Meeting, run
from tests.reading import read
from traceanalyzer.trace.model import Trace, all_tables


def ranks(count: int = 3) -> list[dict[str, Any]]:
    """Ranks that compute for different times, so that no event of one fits into another; launches have equal ids."""
    meetings = [Meeting(lambda rank, step: 1000 + 100 * rank), Meeting(lambda rank, step: 300 + 50 * rank)]
    return [trace.build(number=float) for trace in run(count, meetings)]


def content_of(trace: Trace) -> dict[str, list[tuple[Any, ...]]]:
    """All rows with their texts, but for the names of processes and for ids that scripts change."""
    left_out = {"thread", "rank", "correlation", "external_id", "flow"}
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for name, table in all_tables(trace).items():
        columns = []
        for column in table.columns():
            if column.name in left_out:
                continue
            values = getattr(table, column.name).tolist()
            pool = getattr(trace, column.pool) if column.pool else None
            columns.append([repr(value) for value in values] if pool is None else [repr(pool[code]) for code in values])
        rows[name] = sorted(zip(*columns, strict=True))
    return rows


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_each_rank_has_the_events_of_its_own_file(way: str, by_time: bool) -> None:
    parts = ranks()
    trace = read(merged(parts, WAYS[way], by_time=by_time))
    assert [part.info.rank for part in trace.ranks] == [0, 1, 2]
    for part, own in zip(trace.ranks, parts, strict=True):
        apart = read(merged([own]))
        assert content_of(part) == content_of(apart)
        assert (part.info.origin_ns, part.info.span_ns) == (apart.info.origin_ns, apart.info.span_ns)
        assert not part.losses
    assert sum(part.info.size_bytes or 0 for part in trace.ranks) == (trace.info.size_bytes or 0)


def test_numbers_of_ranks_are_those_that_the_file_says() -> None:
    first, second = ranks(2)
    far = read(merged([first, second], lambda event, rank: numbered(event, 3 + 5 * rank)))
    assert [part.info.rank for part in far.ranks] == [3, 8]
    assert [loss.id for loss in far.losses] == ["read-merged"]
    counted = read(merged([first, second], lambda event, rank: offset(event, 3 + 5 * rank)))
    assert [part.info.rank for part in counted.ranks] == [0, 1]
    assert [loss.id for loss in counted.losses] == ["read-merged-counted"]


def with_pid(traces: Sequence[TraceBuilder], pids: Sequence[int], devices: Sequence[int]) -> bytes:
    """Ranks in one file with the processes and devices that they had."""
    parts = [trace.build(number=float) for trace in traces]
    for part, pid, device in zip(parts, pids, devices, strict=True):
        for event in part["traceEvents"]:
            if event["pid"] == 4201:
                event["pid"] = pid
            elif event["pid"] == 0:
                event["pid"] = device
                if "device" in event.get("args", {}):
                    event["args"]["device"] = device
    return merged(parts)


def test_devices_of_processes_that_nobody_numbered_are_found_by_their_launches() -> None:
    """The process with the lower number has the device with the higher one; its launches are 100 us and more later."""
    traces = run(2, [Meeting(lambda rank, step: 1000, pause=lambda rank, step: 100 + 700 * rank)])
    trace = read(with_pid(traces, (812, 807), (0, 1)))
    of_pid = {part.threads[part.host.thread[0]].pid: set(part.device.device.tolist()) for part in trace.ranks}
    assert of_pid == {"812": {0}, "807": {1}}


def test_processes_that_share_a_device_are_said_to_be_mixed() -> None:
    trace = read(with_pid(run(2, [Meeting(lambda rank, step: 1000)]), (812, 807), (0, 0)))
    assert trace.ranks == ()
    assert [(loss.id, loss.count) for loss in trace.losses] == [("read-merged-muddled", 2)]


@pytest.mark.parametrize("does", ["gloo:all_reduce", "record_param_comms"])
def test_ranks_on_the_cpu_are_told_apart_by_what_they_exchange(does: str) -> None:
    parts = []
    for rank in range(2):
        trace = TraceBuilder()
        trace.op("aten::mm", 5, 3000 + 1000 * rank)
        trace.annotation(does, 4010, 10, args={"Collective name": "allreduce"} if ":" not in does else {})
        parts.append(trace.build(number=float))
    assert len(read(merged(parts, offset)).ranks) == 2


def test_a_process_that_only_computes_is_no_rank() -> None:
    """Workers of loaders and compilers may have operators of their own."""
    worker = TraceBuilder()
    worker.op("aten::stack", 100, 50)
    trace = read(merged([ranks(2)[0], worker.build(number=float)], offset))
    assert trace.ranks == ()
    assert trace.losses == ()


def test_a_single_rank_stays_as_it_is() -> None:
    trace = read(merged(ranks(1), alone))
    assert (trace.ranks, trace.losses) == ((), ())
