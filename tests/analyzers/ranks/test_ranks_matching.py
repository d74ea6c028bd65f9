"""Which collectives of several ranks are one and the same, and what is left out."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.analyzers.ranks.joining import by_rank, joined
from tests.builders import TraceBuilder
from tests.builders.ranks import BASE_NS, Meeting, run
from tests.builders.trace import distributed_info
from traceanalyzer.analyzers.ranks import rank_facts


def even(rank: int, step: int) -> int:
    return 1000 + 100 * rank


def test_order_finds_the_same_as_numbers() -> None:
    numbered, ordered = (joined(run(3, [Meeting(even)], sequence=numbers)) for numbers in (True, False))
    assert ordered.matching.by_sequence == 0
    assert ordered.matching.matched == numbered.matching.matched == 12
    assert ordered.stragglers == numbered.stragglers
    assert ordered.ranks == numbered.ranks


def test_numbers_match_windows_that_begin_at_different_times() -> None:
    """Rank 1 was recorded from the second step on."""
    traces = [run(2, [Meeting(even)], steps=5)[0], run(2, [Meeting(even)], steps=5)[1]]
    traces[1].events[:] = [event for event in traces[1].events if not _is_of_first_step(event)]
    found = joined(traces)
    assert found.matching.matched == 8
    assert found.matching.unmatched == 1
    assert by_rank(found)[0].wait_ns == pytest.approx(4 / 5 * 100_000)


def _is_of_first_step(event: dict[str, object]) -> bool:
    return Decimal(str(event["ts"])) < 1000 + 1330


def with_ids(trace: TraceBuilder, *, keep: bool) -> TraceBuilder:
    """Collectives with the id that all ranks share, whatever their number says."""
    for event in trace.events:
        args = event.get("args")
        if isinstance(args, dict) and "Seq" in args:
            args["Comms Id"] = 2**64 - 1 - 7919 * args.pop("Seq")
            args |= {"Seq": 1} if keep else {}
    return trace


@pytest.mark.parametrize("keep", [False, True], ids=["ids", "ids and wrong numbers"])
def test_ids_that_all_ranks_share_match_whatever_the_order(keep: bool) -> None:
    """Rank 1 was recorded from the second step on."""
    traces = [with_ids(trace, keep=keep) for trace in run(2, [Meeting(even), Meeting(even)], steps=5)]
    traces[1].events[:] = [event for event in traces[1].events if not _is_of_first_step(event)]
    numbered = run(2, [Meeting(even), Meeting(even)], steps=5)
    numbered[1].events[:] = [event for event in numbered[1].events if not _is_of_first_step(event)]
    found, usual = joined(traces), joined(numbered)
    assert found.matching == usual.matching
    assert found.matching.by_sequence > 0
    assert found.ranks == usual.ranks


def test_without_numbers_a_step_with_one_more_on_a_rank_is_not_matched() -> None:
    traces = run(2, [Meeting(even)], sequence=False)
    traces[0].collective("all_reduce", 2000, 5, at=1900, nelems=1_000_000, ranks=(0, 1), group="0")
    found = joined(traces)
    assert found.matching.matched == 6, "three steps of two ranks"
    assert found.matching.unmatched == 1, "the first one of rank 0"
    assert found.matching.contradicted == 2, "the last ones of the step do not overlap"


def test_recordings_that_begin_in_the_middle_of_a_step_match_from_its_end() -> None:
    """Rank 1 began to record after the first two of three meetings of its first step."""
    traces = run(2, [Meeting(even), Meeting(even), Meeting(even)], sequence=False)
    late = [event for event in traces[1].events if "ncclDevKernel" in str(event["name"])][:2]
    for event in late:
        traces[1].events.remove(event)
    found = joined(traces)
    assert (found.matching.matched, found.matching.unmatched, found.matching.contradicted) == (20, 2, 0)


def test_a_lost_collective_leaves_those_of_other_sizes_alone() -> None:
    """Of rank 1 the first of four small ones was not recorded; the large ones of this step still match."""
    traces = run(2, [Meeting(even, nelems=10), Meeting(even, nelems=5_000_000)], sequence=False)
    lost = next(event for event in traces[1].events if "ncclDevKernel" in str(event["name"]))
    traces[1].events.remove(lost)
    found = joined(traces)
    assert (found.matching.matched, found.matching.unmatched, found.matching.contradicted) == (14, 1, 0)
    assert {group.message_bytes: group.collectives for group in found.groups} == {40: 3, 20_000_000: 4}


def test_what_does_not_overlap_in_time_is_not_the_same() -> None:
    """One collective of rank 1 is 50 ms away from that of the same number, the other five agree."""
    traces = run(2, [Meeting(even)], steps=6)
    kernel = next(e for e in reversed(traces[1].events) if "ncclDevKernel" in str(e["name"]))
    kernel["ts"] = Decimal(str(kernel["ts"])) + 50_000
    found = joined(traces)
    assert (found.matching.matched, found.matching.contradicted) == (10, 2)
    skew = by_rank(found)[1].skew
    assert skew is not None
    assert skew.ns == 0


@pytest.mark.parametrize(
    ("operation", "out", "is_mutual"),
    [
        ("all_reduce", None, True),
        ("all_gather_into_tensor", 4_000_000, True),
        ("reduce_scatter_tensor", 250_000, True),
        ("all_to_all", None, True),
        ("all_to_all", 900_000, True),
        ("all_to_allv", None, True),
        ("broadcast", None, False),
        ("reduce", None, False),
        ("send", None, False),
        ("recv", None, False),
    ],
)
def test_only_collectives_in_which_all_wait_for_all_count(operation: str, out: int | None, is_mutual: bool) -> None:
    found = joined(run(2, [Meeting(even, operation=operation, out_nelems=out)]))
    assert found.matching.recorded == 8
    assert (found.matching.matched, found.matching.not_mutual) == ((8, 0) if is_mutual else (0, 8))


def test_a_collective_is_what_it_was_called_as() -> None:
    """NCCL carries an all-to-all out with the kernels of messages between two ranks."""
    traces = run(2, [Meeting(even, operation="all_to_all")], sequence=False)
    for event in (event for trace in traces for event in trace.events):
        if "ncclDevKernel" in str(event["name"]):
            event["name"] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
        event["args"] = {k: v for k, v in event.get("args", {}).items() if "nelems" not in k}  # type: ignore[attr-defined]
    found = joined(traces)
    assert (found.matching.matched, found.matching.not_mutual) == (8, 0)
    assert [row.last for row in found.ranks] == [0, 4]


def test_unequal_parts_say_nothing_of_waiting_without_clocks() -> None:
    found = joined(run(2, [Meeting(even, operation="all_to_allv")], clock=False))
    assert (found.matching.matched, found.matching.not_mutual) == (0, 8)


def test_calls_belong_to_the_step_whose_mark_holds_them() -> None:
    """On rank 0 the device is behind, so that its steps end after the next one has called; on rank 1 it is not."""
    traces = []
    for rank in range(2):
        trace = TraceBuilder(base_ns=BASE_NS, distributed=distributed_info(rank, 2))
        for step in range(3):
            start = 1000 * step
            trace.step(step, start, 995)
            trace.op("aten::mm", start + 1, 5)
            at = start + 20
            trace.collective("all_reduce", start + 800, 300 - 100 * rank, at=at, host_dur=35, nelems=9, ranks=(0, 1))
            if not rank:
                trace.launch_kernel("behind", start + 1100, 30, at=start + 60)
        traces.append(trace)
    found = joined(traces)
    assert (found.matching.matched, found.matching.unmatched) == (6, 0)


def test_groups_of_one_name_and_other_ranks_are_others() -> None:
    meeting = Meeting(even, groups=[(0, 1)], name="tp")
    other = Meeting(even, groups=[(2, 3)], name="tp")
    found = joined(run(4, [meeting, other]))
    assert found.matching.matched == 16
    assert [group.collectives for group in found.groups] == [4, 4]


def test_clocks_along_a_chain_of_groups() -> None:
    """0 meets 1, 1 meets 2, 2 meets 3: the clock of 3 is known by 0's all the same."""
    pairs = [Meeting(even, groups=[pair], name=f"g{pair[0]}") for pair in ((0, 1), (1, 2), (2, 3))]
    found = joined(run(4, pairs, skew_ns={1: 5_000, 2: -70_000, 3: 900_000}))
    rows = by_rank(found)
    assert {rank: row.skew and (row.skew.reference, row.skew.ns) for rank, row in rows.items()} == {
        0: None,
        1: (0, 5_000),
        2: (0, -70_000),
        3: (0, 900_000),
    }


def test_separate_islands_have_their_own_reference() -> None:
    found = joined(run(4, [Meeting(even, groups=[(0, 1), (2, 3)])], skew_ns={3: 7_000}))
    rows = by_rank(found)
    assert rows[2].skew is None
    assert rows[3].skew is not None
    assert (rows[3].skew.reference, rows[3].skew.ns) == (2, 7_000)


def test_without_absolute_times_clocks_are_unknown_and_waits_are_not() -> None:
    found = joined(run(2, [Meeting(even)], clock=False))
    assert not found.has_clocks
    assert [row.skew for row in found.ranks] == [None, None]
    assert by_rank(found)[0].wait_ns == 100_000


def test_collectives_on_the_cpu() -> None:
    traces = []
    for rank in range(2):
        trace = TraceBuilder(distributed={"backend": "gloo", "rank": rank, "world_size": 2})
        for step in range(3):
            start = 10_000 * step
            trace.step(step, start, 9_000)
            trace.op("aten::mm", start + 5, 3000 + 1000 * rank)
            begin = start + 3010 + 1000 * rank
            trace.annotation("gloo:all_reduce", begin, start + 6000 - begin)
        traces.append(trace)
    found = joined(traces)
    assert found.is_on_host
    assert found.wait_ns == 500_000
    assert found.exposed_wait_ns == 500_000, "no other thread computes meanwhile"
    assert [row.exposed_wait_ns for row in found.ranks] == [1_000_000, 0]
    assert [row.last for row in found.ranks] == [0, 3]


def test_parts_of_unequal_size_have_other_shapes_on_each_rank() -> None:
    # Rank 1 has most of the work and comes 2000 us after rank 0, which waits for it.
    traces = []
    for rank in range(2):
        trace = TraceBuilder(distributed={"backend": "gloo", "rank": rank, "world_size": 2}, devices=())
        for step in range(3):
            start = 10_000 * step
            trace.step(step, start, 9_000)
            begin = start + 3000 + 2000 * rank
            trace.op("aten::mm", start + 5, begin - start - 10)
            shapes = {"Input Dims": [[128 + 1024 * rank, 512]]}
            trace.annotation("gloo:all_to_all", begin, start + 6000 - begin, args=shapes)
        traces.append(trace)
    found = joined(traces)
    assert found.matching.matched == 6
    assert [row.wait_ns for row in found.ranks] == [2_000_000, 0]


def test_whole_steps_are_kept_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_facts, "MOST", 7)
    found = joined(run(2, [Meeting(even), Meeting(even)], steps=5))
    assert found.matching.recorded == 12, "three steps of two collectives on each of two ranks"
    assert found.left_out == 8


def test_collectives_that_a_graph_starts_after_the_last_operator_are_of_the_recording() -> None:
    """A recording of one graph launch: nothing links its kernels with calls, and the host is done long before them."""
    traces = []
    for rank in range(2):
        trace = TraceBuilder(base_ns=BASE_NS, distributed=distributed_info(rank, 2))
        trace.op("aten::empty", 100, 50)
        for part in range(3):
            trace.kernel("gemm", 1000 + 500 * part, 200 + 50 * rank)
            trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1250 + 500 * part, 150)
        traces.append(trace)
    found = joined(traces)
    assert (found.matching.matched, found.matching.unmatched) == (6, 0)
