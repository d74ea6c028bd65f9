"""Ranks that meet in every step, with one that comes late; and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.ranks import Meeting, run

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
