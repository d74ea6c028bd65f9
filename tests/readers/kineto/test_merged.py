"""Files that several ranks were merged into: which events are whose."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.merging import WAYS, alone, merged, numbered, offset
from tests.builders.ranks import Meeting, run
from tests.reading import read
from traceanalyzer.errors import UnusableInputError
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


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("count", [2, 3])
def test_files_that_were_joined_as_they_were(count: int, jobs: int, small_windows: None) -> None:
    """Ranks in containers have equal processes and threads; each profiler ends with its own span."""
    parts = ranks(count)
    trace = read(merged(parts), jobs=jobs)
    assert [(loss.id, loss.count) for loss in trace.losses] == [("read-merged-counted", count)]
    assert [part.info.rank for part in trace.ranks] == list(range(count))
    for part, own in zip(trace.ranks, parts, strict=True):
        apart = read(merged([own]))
        assert content_of(part) == content_of(apart)
        assert part.info.profiler_start_ns == apart.info.profiler_start_ns
        assert (part.info.origin_ns, part.info.span_ns) == (apart.info.origin_ns, apart.info.span_ns)
        assert not part.losses
    assert sum(part.info.size_bytes or 0 for part in trace.ranks) == (trace.info.size_bytes or 0)


def ranked(event: dict[str, Any], rank: int) -> None:
    """Arguments have the rank, and nothing else changes."""
    event.setdefault("args", {})["rank"] = 7 - rank


def test_ranks_that_arguments_name_have_their_numbers() -> None:
    trace = read(merged(ranks(2), ranked))
    assert [loss.id for loss in trace.losses] == ["read-merged"]
    assert [part.info.rank for part in trace.ranks] == [6, 7]
    assert content_of(trace.ranks[1]) == content_of(read(merged([ranks(2)[0]])))


def crowded(count: int = 30, shift: int = 0) -> TraceBuilder:
    """Operators of 80 us, one every 100 us, each of which launches a kernel."""
    trace = TraceBuilder()
    for number in range(count):
        trace.op("aten::mm", shift + 100 * number, 80)
        trace.launch_kernel("gemm", shift + 100 * number + 20, 50, at=shift + 100 * number + 10)
    return trace


def joined(*traces: TraceBuilder) -> bytes:
    return merged([trace.build(number=float) for trace in traces])


@pytest.mark.parametrize("framed", [True, False])
def test_ranks_in_one_thread_that_nothing_tells_apart_are_refused(framed: bool) -> None:
    """Sorted by time, or without what the profiler writes of itself."""
    traces = [crowded(), crowded(shift=50)]
    for trace in traces:
        trace.framed = framed
    with pytest.raises(UnusableInputError, match=r"several ranks in one thread; give each rank's file\Z"):
        read(merged([trace.build(number=float) for trace in traces], by_time=framed))


def test_what_comes_after_the_last_span_makes_the_order_of_the_file_worthless() -> None:
    first, second = (trace.build(number=float) for trace in (crowded(), crowded(shift=50)))
    events = second["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    second["traceEvents"] = [event for event in events if event.get("cat") != "kernel"] + kernels
    with pytest.raises(UnusableInputError):
        read(merged([first, second]))


def test_recordings_of_one_rank_one_after_another_are_one_trace() -> None:
    """As a schedule that repeats makes them; ids begin again where the process was started again."""
    trace = read(joined(crowded(), crowded(shift=10_000)))
    assert (trace.ranks, trace.losses) == ((), ())
    assert len(trace.host) == 60


def test_streams_that_overlap_are_no_ranks() -> None:
    trace = crowded()
    for number in range(30):
        trace.kernel("side", 100 * number + 25, 60, stream=20, correlation=9000 + number)
        trace.kernel("same", 100 * number + 30, 60, correlation=8000 + number)  # overlaps on its own stream, too
    assert read(joined(trace)).ranks == ()
    assert len(read(joined(trace)).device) == 90


def test_threads_of_one_process_are_no_ranks() -> None:
    """Each thread has the operators of a rank, at the same time."""
    trace = crowded()
    for number in range(30):
        trace.op("aten::mm", 100 * number + 40, 80, tid=7)
    assert read(joined(trace)).ranks == ()


def test_a_fork_is_no_rank() -> None:
    """Workers of a loader have the ids of their parent, and another process."""
    trace = crowded()
    trace.events += [dict(event, pid=99, tid=99) for event in crowded(shift=50).events if event.get("cat") == "cpu_op"]
    found = read(joined(trace))
    assert (found.ranks, found.losses) == ((), ())


def test_calls_within_calls_of_the_same_start_are_no_ranks() -> None:
    """Writers round to microseconds, so that inner calls may begin with outer ones and end after them."""
    trace = TraceBuilder()
    for number in range(50):
        trace.op("aten::add", 100 * number, 41)
        trace.op("aten::linear", 100 * number, 40)
        trace.op("aten::mm", 100 * number + 10, "31.5")
    assert read(joined(trace)).ranks == ()


def test_marks_that_cross_are_no_ranks() -> None:
    """Coroutines of a server share a thread, and their ranges overlap."""
    trace = crowded()
    for number in range(60):
        trace.annotation(f"request {number}", 50 * number, 120)
    assert read(joined(trace)).ranks == ()


def test_more_profilers_than_anybody_merges_are_refused() -> None:
    traces = [crowded(4, shift=3 * number) for number in range(70)]
    with pytest.raises(UnusableInputError):
        read(joined(*traces))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("between", [b"", b"\n", b" \n\n"])
def test_files_one_after_another(between: bytes, pack: Callable[[bytes], bytes]) -> None:
    """As `cat` joins them: the first one is read, and that it is one of several is said."""
    first, second = crowded().to_bytes(), crowded(shift=5).to_bytes()
    trace, alone_ = read(pack(first + between) + pack(second)), read(first)
    assert [loss.id for loss in trace.losses] == ["read-more-traces"]
    assert content_of(trace) == content_of(alone_)
    assert trace.info.devices == alone_.info.devices


def test_files_one_after_another_are_those_of_the_ranks_that_they_name() -> None:
    parts = ranks()
    trace = read(b"\n".join(json.dumps(part).encode() for part in (parts[2], parts[0], parts[1])))
    assert [(loss.id, loss.count) for loss in trace.losses] == [("read-more-traces", 3)]
    assert [part.info.rank for part in trace.ranks] == [0, 1, 2]
    for part, own in zip(trace.ranks, parts, strict=True):
        assert content_of(part) == content_of(read(json.dumps(own).encode()))
        assert part.info.world_size == 3
    assert sum(part.info.size_bytes or 0 for part in trace.ranks) == (trace.info.size_bytes or 0)


def test_a_file_that_is_cut_does_not_have_all_ranks() -> None:
    parts = [json.dumps(part).encode() for part in ranks()]
    trace = read(b"".join((*parts[:2], parts[2][: len(parts[2]) // 2])))
    assert [(loss.id, loss.count) for loss in trace.losses] == [("read-more-traces", 3)]
    assert trace.ranks == ()


def test_recordings_of_one_rank_one_after_another_are_no_ranks() -> None:
    (part,) = ranks(1)
    trace = read(json.dumps(part).encode() * 3)
    assert [(loss.id, loss.count) for loss in trace.losses] == [("read-more-traces", 3)]
    assert trace.ranks == ()


def test_what_follows_a_trace_and_is_none() -> None:
    trace = read(crowded().to_bytes() + b'{"traceEvents": [1]}')
    assert (trace.losses, len(trace.host)) == ((), 30)


def test_lists_one_after_another() -> None:
    events = json.dumps(crowded().build(number=float)["traceEvents"]).encode()
    assert [loss.id for loss in read(events + events).losses] == []
    assert [loss.id for loss in read(events + crowded().to_bytes()).losses] == ["read-more-traces"]


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
