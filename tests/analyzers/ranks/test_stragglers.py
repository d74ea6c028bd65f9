"""The replay of all ranks together: slowdowns worked out by hand, and laws.

A step of the builder: 15 us of the host, the computation, 5 us until the rank has come, waiting, 200 us of transfer,
and 5 us until the step ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyzers.ranks.joining import members
from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from traceanalyzer.analyzers.ranks import stragglers
from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind, ProcessGroup, RankCollectives, RankFacts, RankSteps
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.multirank import join
from traceanalyzer.report.message import Message

OWN = 15 + 5 + 5
"""Microseconds of the host in a step of one meeting."""
TRANSFER = 10


def told(traces: Iterable[TraceBuilder], world_size: int | None = None) -> Stragglers:
    found = answer(traces, world_size)
    assert isinstance(found, Stragglers)
    return found


def answer(traces: Iterable[TraceBuilder], world_size: int | None = None) -> Stragglers | Message:
    return stragglers.analyze({rank: member.facts for rank, member in members(traces).items()}, world_size)


def by_kind(found: Stragglers) -> dict[str, float]:
    return {row.kind: row.slowdown for row in found.by_kind}


def test_slow_computation_of_one_rank() -> None:
    found = told(run(4, [Meeting(lambda rank, step: 1000 + {1: 100, 2: 400, 3: 300}.get(rank, 0))]))
    # median 1200; without what rank 2 does longer the step waits for rank 3
    step = OWN + 1400 + 200
    assert found.step_ns == step * 1000
    assert found.error_share == 0
    assert found.slowdown == pytest.approx(step / (OWN + 1200 + 200))
    assert (found.late_rank, found.late_ns_per_step) == (2, 100_000)
    assert [row.slowdown for row in found.by_rank] == pytest.approx([1, 1, step / (step - 100), 1])
    assert by_kind(found) == {
        "host": 1,
        "loader": 1,
        "compute": pytest.approx(step / (step - 200)),
        "memory": 1,
        "communication": 1,
    }


@pytest.mark.parametrize("kind", ["host", "loader"])
def test_a_rank_whose_host_or_loader_is_slow(kind: str) -> None:
    slow = {"pause" if kind == "host" else "loader": lambda rank, step: 50 + 500 * (rank == 1)}
    found = told(run(4, [Meeting(lambda rank, step: 1000, **slow)]))  # type: ignore[arg-type]
    step = OWN + 50 + 500 + 1000 + 200
    assert (found.late_rank, found.late_ns_per_step) == (1, 500_000)
    assert found.slowdown == pytest.approx(step / (step - 500))
    assert by_kind(found)[kind] == pytest.approx(step / (step - 500))
    assert sorted(by_kind(found).values())[:4] == [1, 1, 1, 1]


def test_equal_ranks_have_no_slowdown() -> None:
    found = told(run(4, [Meeting(lambda rank, step: 1000), Meeting(lambda rank, step: 300)]))
    assert (found.slowdown, found.late_rank, found.late_ns_per_step) == (1, None, None)
    assert {row.slowdown for row in (*found.by_rank, *found.by_kind)} == {1}


def test_ranks_that_are_late_in_turns_are_slow_together() -> None:
    """Each of three ranks is 300 us late in one of three steps: none alone makes more than a third of it."""
    found = told(run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == step % 3))], steps=3))
    step = OWN + 1300 + 200
    assert found.slowdown == pytest.approx(step / (step - 300))
    assert [row.slowdown for row in found.by_rank] == pytest.approx([step / (step - 100)] * 3)


def test_of_two_ranks_the_faster_one_counts() -> None:
    found = told(run(2, [Meeting(lambda rank, step: 1000 + 300 * rank)]))
    assert (found.late_rank, found.late_ns_per_step) == (1, 300_000)


def test_lateness_passes_through_groups_to_its_cause() -> None:
    """Rank 2 delays its small group; the large groups wait for ranks that were only delayed themselves."""
    small = [(0, 1, 2, 3), (4, 5, 6, 7)]
    large = [(0, 4), (1, 5), (2, 6), (3, 7)]
    found = told(
        run(
            8,
            [
                Meeting(lambda rank, step: 1000 + 400 * (rank == 2), groups=small, name="tp"),
                Meeting(lambda rank, step: 50, groups=large, name="dp"),
            ],
        )
    )
    assert (found.late_rank, found.late_ns_per_step) == (2, 400_000)
    assert [row.slowdown > 1 for row in found.by_rank] == [False, False, True, False, False, False, False, False]


def test_a_slow_link_of_one_group_is_communication() -> None:
    """Three pairs transfer in 200 us, the fourth in 900 us; then all meet."""
    pairs = [
        Meeting(lambda rank, step: 100, groups=[(2 * n, 2 * n + 1)], name=f"p{n}", transfer=t)
        for n, t in enumerate((200, 200, 200, 900))
    ]
    found = told(run(8, [*pairs, Meeting(lambda rank, step: 100)]))
    assert by_kind(found)["communication"] == pytest.approx(found.step_ns / (found.step_ns - 700_000))
    assert by_kind(found)["compute"] == by_kind(found)["host"] == 1


def test_all_to_all_with_unequal_parts_and_without_clocks() -> None:
    found = told(
        run(
            4,
            [Meeting(lambda r, s: 1000 + 400 * (r == 3), operation="all_to_all", nelems=1000, out_nelems=1001)],
            clock=False,
            sequence=False,
        )
    )
    assert (found.late_rank, found.late_ns_per_step) == (3, 400_000)


def test_messages_of_pairs_pass_lateness_on() -> None:
    """A pipeline of three ranks: the second waits for a message of the first, the third for one of the second; then
    all meet, or the first would run ahead of the others."""

    def pipeline(extra: int) -> Stragglers:
        first = Meeting(lambda rank, step: 500 + extra * (rank == 0), groups=[(0, 1)], name="a", operation="send")
        second = Meeting(lambda rank, step: 500, groups=[(1, 2)], name="b", operation="send")
        return told(run(3, [first, second, Meeting(lambda rank, step: 10)]))

    assert pipeline(0).late_rank is None
    found = pipeline(400)
    assert (found.late_rank, found.late_ns_per_step) == (0, 400_000)


def test_work_under_a_collective_is_no_lateness() -> None:
    """150 us of kernels run on each rank from its arrival on; what rank 2 is late by stays 400 us."""
    found = told(run(4, [Meeting(lambda rank, step: 1000 + 400 * (rank == 2), hidden=150), Meeting(lambda r, s: 100)]))
    assert (found.late_rank, found.late_ns_per_step) == (2, 400_000)


def test_collectives_of_which_ranks_have_different_numbers() -> None:
    """Without numbers they are not matched, and stay as recorded; the others still show who is late."""
    extra = Meeting(lambda rank, step: 100, groups=[(0, 1)], name="0", operation="all_gather")
    found = told(run(4, [extra, Meeting(lambda rank, step: 1000 + 400 * (rank == 3))], sequence=False))
    assert found.late_rank == 3


def test_half_of_the_ranks_are_enough_and_fewer_are_not() -> None:
    traces = run(5, [Meeting(lambda rank, step: 1000 + 400 * (rank == 1))])
    assert told(traces[:3]).late_rank == 1
    missing = answer(traces[:2])
    assert isinstance(missing, Message)
    assert missing.id == "skip-stragglers-few-ranks"


@pytest.mark.parametrize(
    ("traces", "reason"),
    [
        (run(1, [Meeting(lambda rank, step: 1000)]), "skip-stragglers-one-rank"),
        (run(2, []), "skip-stragglers-nothing-matched"),
    ],
)
def test_reasons_to_abstain(traces: Sequence[TraceBuilder], reason: str) -> None:
    found = answer(traces)
    assert isinstance(found, Message)
    assert found.id == reason


def test_saved_reports_of_old_versions_abstain() -> None:
    facts = {rank: old(member.facts) for rank, member in members(run(2, [Meeting(lambda r, s: 1000)])).items()}
    found = stragglers.analyze(facts)
    assert isinstance(found, Message)
    assert found.id == "skip-stragglers-old"


def old(facts: RankFacts) -> RankFacts:
    """A member as saved by versions without times of own work."""
    steps = msgspec.structs.replace(facts.steps, compute_after_ns=(), memory_after_ns=(), loader_after_ns=())
    return msgspec.structs.replace(facts, steps=steps)


def test_the_report_says_it_everywhere_in_one_number() -> None:
    report = join(members(run(4, [Meeting(lambda rank, step: 1000 + 400 * (rank == 2))])), "run")
    found = report.result("stragglers", Stragglers)
    assert found is not None
    (finding,) = [finding for finding in report.findings if finding.rule == "comm-straggler"]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (found.late_ns_per_step, found.late_ns_per_step) == (400_000, 400_000)
    assert "rank 2: it makes a step 400 us (25 %) longer" in finding.summary.text
    assert "The other ranks wait for rank 2, which costs 0.40 of the 1.6 ms of a step." in report.headlines[0].text


def test_a_report_that_cannot_tell_says_why() -> None:
    report = join(members(run(5, [Meeting(lambda rank, step: 1000)])[:2]), "run")
    assert report.analyses["stragglers"] is None
    (skipped,) = [skipped for skipped in report.skipped if skipped.id == "stragglers"]
    assert "fewer than half of the ranks" in skipped.reason.text


WORK = st.lists(
    st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=3, max_size=3), min_size=2, max_size=5
)  # ranks, meetings, kinds


@settings(max_examples=60, deadline=None)
@given(WORK)
def test_the_slowdown_is_at_least_one_and_equal_ranks_have_none(work: list[list[tuple[int, ...]]]) -> None:
    found = synthetic(work)
    assert found.slowdown >= max(row.slowdown for row in (*found.by_rank, *found.by_kind)) - 1e-12
    assert min(row.slowdown for row in (*found.by_rank, *found.by_kind)) >= 1
    assert synthetic([work[0]] * len(work)).slowdown == 1


@settings(max_examples=60, deadline=None)
@given(WORK, st.integers(0, 3), st.integers(1, 50))
def test_a_slow_rank_that_gets_slower_never_lowers_the_slowdown(
    work: list[list[tuple[int, ...]]], kind: int, more: int
) -> None:
    """Only where it is already the slowest; otherwise the median would change, too."""
    slowest = [tuple(max(own) for own in zip(*ranks, strict=True)) for ranks in zip(*work, strict=True)]
    slower = [tuple(time + more * (number == kind) for number, time in enumerate(own)) for own in slowest]
    assert synthetic([*work, slower]).slowdown >= synthetic([*work, slowest]).slowdown - 1e-12


def synthetic(work: list[list[tuple[int, ...]]]) -> Stragglers:
    """Ranks that meet after each piece of own work (host, loader, computation, copies), in one step."""
    starts: list[list[int]] = [[] for _ in work]
    ends, end = [], 0
    for pieces in zip(*work, strict=True):
        for rank, own in enumerate(pieces):
            starts[rank].append(end + sum(own))
        end = max(start[-1] for start in starts) + TRANSFER
        ends.append(end)
    found = stragglers.analyze({rank: facts_of(own, starts[rank], ends) for rank, own in enumerate(work)})
    assert isinstance(found, Stragglers)
    assert found.step_ns == end
    return found


def facts_of(own: list[tuple[int, ...]], starts: list[int], ends: list[int]) -> RankFacts:
    """What a rank would leave."""
    count = len(own)
    return RankFacts(
        clock_ns=0,
        is_on_host=False,
        groups=(ProcessGroup("0", None, None),),
        kinds=(CollectiveKind("all_reduce", 0, None, None, is_mutual=True),),
        steps=RankSteps(("0",), (0,), (ends[-1],), (0,), (0,), (0,), (0,)),
        collectives=RankCollectives(
            kind=(0,) * count,
            sequence=tuple(range(count)),
            step=(0,) * count,
            start_ns=tuple(starts),
            duration_ns=tuple(end - start for start, end in zip(starts, ends, strict=True)),
            exposed_ns=(0,) * count,
            compute_before_ns=tuple(times[2] for times in own),
            memory_before_ns=tuple(times[3] for times in own),
            loader_before_ns=tuple(times[1] for times in own),
            compute_during_ns=(0,) * count,
        ),
        left_out=0,
    )


def test_ranks_that_are_late_at_different_times_count_together() -> None:
    """Each of two meetings has a late rank of its own: without one of them, the other still costs 400 us."""
    meetings = [Meeting(lambda rank, step, late=late: 1000 + 400 * (rank == late)) for late in (1, 6)]  # type: ignore[misc]
    found = told(run(8, meetings))
    assert (found.late_rank, found.late_ns_per_step) == (1, 400_000)
    assert (found.late_ranks, found.late_ranks_ns_per_step) == ((1, 6), 800_000)


def test_at_most_a_third_of_the_ranks_is_late() -> None:
    """In each of four meetings another one of four ranks is late: they take turns."""
    meetings = [Meeting(lambda rank, step, late=late: 1000 + 400 * (rank == late)) for late in range(4)]  # type: ignore[misc]
    found = told(run(4, meetings))
    assert len(found.late_ranks) == 1


def test_one_late_rank_is_late_alone() -> None:
    found = told(run(8, [Meeting(lambda rank, step: 1000 + 400 * (rank == 3) + rank)]))
    assert found.late_ranks == (3,)
    assert found.late_ranks_ns_per_step == found.late_ns_per_step
