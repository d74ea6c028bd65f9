"""Tests of the rule `comm-straggler`: numbers worked out by hand, and edges of thresholds.

The programs: ranks that meet in every step, with one that comes late; and what only looks like it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.ranks import Meeting, run
from tests.rules.communication import test_comm_exposed as comm_exposed
from tests.rules.judging import findings, report, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as bound_by_loader
from tests.rules.loader.test_dataloader_bound import fires_in_a_table
from traceanalyzer.analyzers.ranks.model import Ranks

Run = tuple[TraceBuilder, ...]


def meeting(late: Callable[[int, int], int], **how: object) -> Meeting:
    """All ranks compute for 1 ms, with a little noise, and one of them for longer."""
    return Meeting(lambda rank, step: 1000 + (7 * rank + 3 * step) % 5 + late(rank, step), **how)  # type: ignore[arg-type]


def always(number: int, extra: int = 400) -> Callable[[int, int], int]:
    """One rank is late in every step, by so many microseconds."""
    return lambda rank, step: extra * (rank == number)


def fires() -> Run:
    """Rank 2 of 4 computes for longer, in every step."""
    return run(4, [meeting(always(2))])


def fires_without_numbers() -> Run:
    """Before sequence numbers were recorded."""
    return run(4, [meeting(always(2))], sequence=False)


def fires_for_the_cause() -> Run:
    """Rank 2 delays its small group, which then delays all others: it is not its neighbours' fault."""
    small = meeting(always(2), groups=[(0, 1, 2, 3), (4, 5, 6, 7)], name="tp")
    large = Meeting(lambda rank, step: 50, groups=[(0, 4), (1, 5), (2, 6), (3, 7)], name="dp")
    return run(8, [small, large])


def quiet() -> Run:
    """All are equally fast."""
    return run(4, [meeting(lambda rank, step: 0)])


def trap_clock_skew() -> Run:
    """By its clock rank 2 starts everything late; but it waits as long as the others."""
    return run(4, [meeting(lambda rank, step: 0)], skew_ns={2: 400_000})


def trap_messages_between_two() -> Run:
    """Receiving takes as long as the sender needs, whichever rank is late."""
    return run(4, [meeting(always(2), operation="recv")])


def fires_for_unequal_parts() -> Run:
    """Whatever a rank sends to each of the others, all of them need what the late one sends."""
    return run(4, [meeting(always(2), operation="all_to_allv")], sequence=False)


def trap_unequal_parts() -> Run:
    """A rank that gets fewer rows is done earlier, but no other rank waited for it."""
    others_get_more = Meeting(
        lambda rank, step: 1000, operation="all_to_allv", lag=lambda rank, step: 400 * (rank != 2)
    )
    return run(4, [others_get_more])


def trap_uneven_last_batch() -> Run:
    """Rank 2 has a longer last batch."""
    return run(4, [meeting(lambda rank, step: 4000 * (rank == 2 and step == 4))])


def trap_somebody_else_each_time() -> Run:
    """In every step another rank is late: noise of the machine, not of a rank."""
    return run(4, [meeting(lambda rank, step: 400 * (rank == step % 4))])


def trap_hidden_waiting() -> Run:
    """While the others wait, they compute."""
    return run(4, [meeting(always(2), hidden=2000)])


def over_gloo(late: Callable[[int, int], int], steps: int = 6) -> Run:
    """Two ranks on the CPU that compute for 3 ms and meet for 500 us; somebody comes late."""
    ranks = []
    for rank in range(2):
        loop = GlooTraining(rank)
        for step in range(steps):
            with loop.host.annotation(f"ProfilerStep#{step}"):
                own, other = late(rank, step), late(1 - rank, step)
                loop.host.work(own)
                loop.forward()
                loop.backward([500 + max(0, other - own)], dur=2000)
                loop.update()
        ranks.append(loop.finish())
    return tuple(ranks)


def fires_over_gloo() -> Run:
    """Rank 1 sleeps for 2.0 to 2.5 ms in each step."""
    return over_gloo(lambda rank, step: (2000 + 100 * step) * rank)


def trap_turns_over_gloo() -> Run:
    """Rank 1 is late in most steps, by very different times: the ranks share cores."""
    return over_gloo(lambda rank, step: (100, 3000, 200, 2500, 150, 2800)[step] * rank)


def in_one_step(late: Callable[[int, int], int], **how: object) -> Run:
    """Twelve meetings of one step; from a rank and a meeting to microseconds by which it comes later."""
    meetings = [Meeting(lambda rank, step, part=part: 1000 + late(rank, part)) for part in range(12)]  # type: ignore[misc]
    return run(4, meetings, steps=1, **how)  # type: ignore[arg-type]


def fires_in_one_step() -> Run:
    """Rank 2 comes last in all collectives of the only step."""
    return in_one_step(lambda rank, part: 400 * (rank == 2))


def fires_for_two() -> Run:
    """Of eight ranks now rank 0 is late, now rank 6."""
    meetings = [Meeting(lambda rank, step, late=late: 1000 + 400 * (rank == late)) for late in (0, 6)]  # type: ignore[misc]
    return run(8, meetings)


def trap_once_in_one_step() -> Run:
    """Rank 2 is late in one of twelve collectives of the only step."""
    return in_one_step(lambda rank, part: 5000 * (rank == 2 and part == 5))


def trap_later_start_of_the_recording() -> Run:
    """Rank 2 comes to the first collective of the recording 50 ms later, and is on time from then on."""
    return in_one_step(lambda rank, part: 50_000 * (rank == 2 and part == 0))


RULE = "comm-straggler"
TWO = {"steps": 2}


def late(extra: int, **how: object):  # type: ignore[no-untyped-def]
    """Rank 2 of 4 is late by exactly this time."""
    return run(4, [Meeting(lambda rank, step: 1000 + extra * (rank == 2))], **how)  # type: ignore[arg-type]


def test_it_is_worth_what_the_others_wait() -> None:
    (finding,) = findings(late(400), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((400_000, 400_000)), "a step is as long on all ranks"
    assert finding.saving.wall_ns_per_step == pytest.approx((400_000 * 0.98 / 1.02, 400_000))
    assert "rank 2: it makes a step 400 us (25 %) longer" in finding.summary.text
    assert "computes 400 us longer" in finding.summary.text


def test_at_least_what_it_is_later_than_the_next() -> None:
    (finding,) = findings(run(4, [Meeting(lambda r, s: 1000 + {2: 400, 1: 300}.get(r, 0))]), RULE)
    assert finding.saving is not None
    # without rank 2 they would wait for rank 1, which comes 100 us before it
    assert finding.saving.direct_ns_per_step == pytest.approx((100_000, 100_000))


def test_two_late_ranks_gain_nothing_for_sure() -> None:
    (finding,) = findings(run(4, [Meeting(lambda r, s: 1000 + 400 * (r in (1, 2)))]), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(800_000 / 3))
    assert "another rank is equally late" in finding.saving.basis.text


def test_numbers_and_order_say_the_same() -> None:
    numbered, ordered = findings(fires(), RULE), findings(fires_without_numbers(), RULE)
    assert numbered == ordered


def test_the_cause_is_named_and_not_who_was_delayed() -> None:
    (finding,) = findings(fires_for_the_cause(), RULE)
    assert "rank 2" in finding.summary.text
    names = {place.name for evidence in finding.evidence for place in evidence.where if place.kind == "kernel"}
    assert names == {"all_reduce (tp0)", *(f"all_reduce (dp{n})" for n in range(4))}


def test_its_saving_is_not_claimed_again_for_exposed_communication() -> None:
    skipped = {rule.id: rule.reason.text for rule in report(late(400)).skipped}
    assert "waiting for late ranks" in skipped["comm-exposed"], "300 of 500 us"
    found = report(late(200))
    rules = {finding.rule: finding for finding in found.findings}
    exposed = rules["comm-exposed"]
    assert exposed.saving is not None
    assert exposed.saving.direct_ns_per_step[1] == pytest.approx(200_000), "transfer only"
    assert "without waiting for other ranks" in exposed.saving.basis.text


def test_in_one_step_collectives_count() -> None:
    (finding,) = findings(fires_in_one_step(), RULE)
    assert "It came last in 12 of 12 collectives" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((4_800_000, 4_800_000))


def test_two_late_ranks_are_named_together() -> None:
    (finding,) = findings(fires_for_two(), RULE)
    assert "for ranks 0, 6: together they make a step 800 us" in finding.summary.text
    assert finding.saving is not None
    assert "if the work of ranks 0, 6 took no longer" in finding.saving.basis.text
    assert "this rank" not in finding.saving.basis.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(800_000)
    places = [place for evidence in finding.evidence for place in evidence.where]
    caused = {kind: sum(place.value or 0.0 for place in places if place.kind == kind) for kind in ("rank", "kernel")}
    assert caused["kernel"] == pytest.approx(caused["rank"]), "the collectives of both ranks"


def test_computation_hides_no_more_than_it_takes() -> None:
    found = report(run(4, [Meeting(lambda rank, _: 50 + 100 * (rank == 2))]))
    (exposed,) = [finding for finding in found.findings if finding.rule == "comm-exposed"]
    assert exposed.saving is not None
    assert exposed.saving.direct_ns_per_step[1] == pytest.approx(200_000, rel=0.1)
    assert exposed.saving.wall_ns_per_step[1] == pytest.approx(75_000, rel=0.1), "the mean of what ranks compute"


def test_a_later_start_of_the_recording_is_told_and_kept_apart() -> None:
    found = report(trap_later_start_of_the_recording())
    (warning,) = (one for one in found.warnings if one.id == "q-ranks-start")
    assert "rank 2 began later" in warning.message.text
    assert "up to 50 ms" in warning.message.text
    ranks = found.result("ranks", Ranks)
    assert ranks is not None
    assert ranks.wait_ns == 0


def test_ranks_that_are_missing_leave_no_price() -> None:
    """Four of eight ranks of the group: who is late among them is known, but not what that costs."""
    (finding,) = findings(run(8, [meeting(always(2))])[:4], RULE)
    assert finding.saving is None
    assert "ranks 4-7 have no trace here" in finding.summary.text


def test_the_headline_names_missing_ranks_and_does_not_split_what_they_may_explain() -> None:
    traces = run(8, [Meeting(lambda rank, step: 300 + 600 * (rank == 6))])
    (headline,) = report(traces[:2]).headlines
    assert headline.bound == "communication"
    assert headline.qualifier is not None
    assert headline.qualifier.text == (
        "Ranks without a trace here: 2-7; so it is unknown how much of the communication is waiting for others."
    )
    assert headline.shares is not None
    assert headline.shares.waits_for_ranks is None
    assert "without a trace" not in report(traces).headlines[0].text
    (busy,) = report(run(8, [Meeting(lambda rank, step: 3000)])[:2]).headlines
    assert busy.bound == "gpu-compute"
    assert busy.qualifier is not None
    assert busy.qualifier.text == "Ranks without a trace here: 2-7."


def test_a_whole_group_of_a_larger_world_is_still_split() -> None:
    """Ranks 0 and 1 are one group of two, and meet nobody else: rank 1 is late for certain."""
    meeting_of_two = meeting(always(1, 1500), groups=[(0, 1), (2, 3)], name="tp")
    (headline,) = report(run(4, [meeting_of_two])[:2]).headlines
    assert headline.message.text.startswith("Rank 1 holds up the others")
    assert headline.qualifier is not None
    assert headline.qualifier.text == "Ranks without a trace here: 2-3."


def test_collectives_that_nobody_here_shares_are_of_a_partial_group() -> None:
    """The groups of two are whole; of the all-reduces between them no second rank is here."""
    small = meeting(always(1), groups=[(0, 1), (2, 3)], name="tp")
    large = Meeting(lambda rank, step: 50, groups=[(0, 2), (1, 3)], name="dp")
    ranks = report(run(4, [small, large])[:2]).result("ranks", Ranks)
    assert ranks is not None
    assert ranks.has_partial_groups


def test_what_keeps_the_late_rank_is_named() -> None:
    """Rank 2 spends 5 ms per step in a function of its own, before it computes."""
    found = report(run(4, [Meeting(lambda r, s: 1000, pause=lambda r, s: 100 + 5000 * (r == 2))]))
    (headline,) = found.headlines
    assert headline.message.text == "Rank 2 holds up the others, which costs 5.0 of the 6.3 ms of each step."
    assert "idle for 5.0 ms per step longer there" in headline.text


def test_edge_step_share() -> None:
    mostly = run(4, [meeting(lambda rank, step: 400 * (rank == (1 if step == 4 else 2)))])
    assert findings(mostly, RULE, {"step_share": 0.75})
    assert findings(mostly, RULE, {"step_share": 0.76}) == []


def test_edge_of_waiting() -> None:
    assert findings(fires(), RULE, {"of_waiting": 0.9})
    assert findings(trap_somebody_else_each_time(), RULE, {"step_share": 0.25, "of_waiting": 0.26}) == []
    assert findings(trap_somebody_else_each_time(), RULE, {"step_share": 0.25, "of_waiting": 0.24})


def test_edge_steps() -> None:
    short = run(4, [meeting(always(2))], steps=2)
    assert findings(short, RULE, TWO)
    assert findings(short, RULE, {"steps": 3}) == []
    assert "too few steps" in (skipped(short, RULE) or "")


def test_a_program_that_meets_no_other_rank_has_none_to_compare() -> None:
    assert skipped(bound_by_loader(), RULE) is None
    assert findings(bound_by_loader(), RULE) == []


def test_says_why_it_cannot_judge() -> None:
    assert "compare all ranks" in (skipped(comm_exposed.fires(), RULE) or "")
    assert "compare all ranks" in (skipped(fires()[:1], RULE) or "")
    assert "one rank" in (skipped(fires_in_a_table(), RULE) or "")
    alone = run(2, [Meeting(lambda r, s: 1000, groups=[(0,), (1,)])])
    assert "no collective was found on several ranks" in (skipped(alone, RULE) or "")


def test_over_gloo_the_spread_of_steps_makes_the_interval() -> None:
    """2.0 to 2.5 ms in six steps."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((2_000_000, 2_500_000), rel=0.01)
    assert finding.summary.params["rank"] == 1


def test_over_gloo_a_tenth_of_the_steps_may_be_disturbed() -> None:
    """Of 21 steps the other rank is late in two, and one takes far longer; of nine steps none may be disturbed."""
    run = over_gloo(lambda rank, step: (9000 if step == 7 else 2000) * (rank if step not in (3, 11) else 1 - rank), 21)
    (finding,) = findings(run, RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_750_000, 2_000_000), rel=0.15)
    assert finding.summary.params["excess"] is None, "nothing recorded explains a sleep"
    few = over_gloo(lambda rank, step: 2000 * (rank if step != 3 else 1 - rank), 9)
    assert findings(few, RULE) == []


def test_edge_host_least() -> None:
    """The least of 2.0 to 2.5 ms is 0.889 of the mean."""
    assert findings(fires_over_gloo(), RULE, {"host_least": 0.89}) == []
    assert findings(fires_over_gloo(), RULE, {"host_least": 0.88})


def test_edge_host_steps() -> None:
    assert findings(fires_over_gloo(), RULE, {"host_steps": 7}) == []
    assert findings(fires_over_gloo(), RULE, {"host_steps": 6})


def fires_in_tables() -> str:
    """The tables of four ranks: all but rank 2 spend 40 ms in a collective, and it spends 10 ms."""
    return "\n".join(f"## Rank {rank}\n\n{_of_rank(rank, 10 if rank == 2 else 40)}" for rank in range(4))


def trap_even_ranks_in_tables() -> str:
    """A slow network is slow on all ranks."""
    return "\n".join(f"## Rank {rank}\n\n{_of_rank(rank, 40)}" for rank in range(4))


def trap_ranks_that_take_turns_in_tables() -> str:
    """Two ranks wait less than the others, one as little as the other."""
    return "\n".join(f"## Rank {rank}\n\n{_of_rank(rank, 10 if rank > 1 else 40)}" for rank in range(4))


def _of_rank(rank: int, waits: int) -> str:
    rows = [("aten::mm", "5.000ms", "0.000us"), ("gemm_kernel", "0.000us", f"{60 + rank / 100:.3f}ms")]
    rows.append(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "0.000us", f"{waits}.000ms"))
    cells = [
        {"Name": name, "Self CPU": host, "CPU total": host, "Self CUDA": own, "CUDA total": own, "# of Calls": 4}
        for name, host, own in rows
    ]
    return table(cells, cpu="5.000ms", device=f"{60 + rank / 100 + waits:.3f}ms")


def test_by_the_sums_of_tables_the_rank_that_waits_least_is_late() -> None:
    (finding,) = findings(fires_in_tables(), RULE)
    assert (finding.run, finding.saving, finding.confidence) == ("rank-2", None, "B")
    assert "By the sums of 4 ranks, the others spend 30 ms per step (43 %) longer" in finding.summary.text
    assert finding.evidence[0].where[0].name == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
