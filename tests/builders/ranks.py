"""A small simulator of a synchronous training on several ranks: everybody computes, then everybody meets.

A rank reads its own clock, so that its times are shifted by its skew; what it waits for comes out of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .trace import TraceBuilder, distributed_info

BASE_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Meeting:
    """A collective in which groups of ranks meet after they have computed."""

    compute: Callable[[int, int], int]
    """From rank and step to microseconds of computation before it."""
    transfer: int = 200
    """Microseconds from the arrival of the last rank to the end."""
    groups: Sequence[tuple[int, ...]] | None = None
    """Who meets; None: all ranks."""
    operation: str = "all_reduce"
    name: str = "0"
    """Name of the group; a number is appended if there are several."""
    nelems: int = 1_000_000
    out_nelems: int | None = None
    hidden: int = 0
    """Microseconds of a computation on another stream that runs from the arrival on."""
    lag: Callable[[int, int], int] = lambda rank, step: 0
    """From rank and step to microseconds by which the end is later on this rank."""
    pause: Callable[[int, int], int] = lambda rank, step: 0
    """From rank and step to microseconds in which the host does something else before it computes."""
    loader: Callable[[int, int], int] = lambda rank, step: 0
    """From rank and step to microseconds of waiting for the loader before it computes."""
    stall: Callable[[int, int], int] | None = None
    """From rank and step to microseconds for which an operator that takes 10 stands still, one of eight; None: there
    are no such operators."""
    kernel: str | None = None
    """Name of the kernel of a program that communicates without a library; None: the library's."""


@dataclass
class _Rank:
    trace: TraceBuilder
    now: int = 1000
    called: dict[str, int] = field(default_factory=dict)


def run(
    ranks: int,
    meetings: Sequence[Meeting],
    *,
    steps: int = 4,
    skew_ns: Mapping[int, int] | None = None,
    sequence: bool = True,
    first_step: int = 1,
    clock: bool = True,
    world_size: int | None = None,
) -> tuple[TraceBuilder, ...]:
    """One trace per rank.

    Args:
        ranks: How many.
        meetings: What happens in a step, in this order.
        steps: How many.
        skew_ns: How far the clock of a rank is ahead.
        sequence: Collectives carry their number.
        first_step: Number of the first step.
        clock: The header has the absolute time.
        world_size: As the header says; None: as many as there are.
    """
    everybody = [
        _Rank(
            TraceBuilder(
                base_ns=BASE_NS + (skew_ns or {}).get(rank, 0) if clock else None,
                distributed=distributed_info(rank, world_size or ranks),
            )
        )
        for rank in range(ranks)
    ]
    for step in range(first_step, first_step + steps):
        starts = [rank.now for rank in everybody]
        for meeting in meetings:
            groups = meeting.groups or [tuple(range(ranks))]
            for number, group in enumerate(groups):
                name = meeting.name if len(groups) == 1 else f"{meeting.name}{number}"
                _meet(everybody, meeting, group, name, step, sequence)
        for rank, start in zip(everybody, starts, strict=True):
            rank.trace.step(step, start, rank.now - start)
            rank.now += 10
    return tuple(rank.trace for rank in everybody)


def _meet(
    everybody: list[_Rank], meeting: Meeting, group: tuple[int, ...], name: str, step: int, numbered: bool
) -> None:
    arrival: dict[int, int] = {}
    for number in group:
        rank, work = everybody[number], meeting.compute(number, step)
        if batch := meeting.loader(number, step):
            rank.trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", rank.now, batch)
        rank.now += batch + meeting.pause(number, step)
        if meeting.stall is not None:
            _arrange(rank, meeting.stall(number, step), turn=number + step)
        rank.trace.op("aten::mm", rank.now + 1, 20)
        rank.trace.launch_kernel("ampere_sgemm_128x64_nn", rank.now + 15, work, at=rank.now + 5)
        arrival[number] = rank.now + 15 + work + 5
    end = max(arrival.values()) + meeting.transfer
    for number in group:
        rank, own_end = everybody[number], end + meeting.lag(number, step)
        rank.called[name] = rank.called.get(name, 0) + 1
        if meeting.kernel is not None:
            rank.trace.launch_kernel(meeting.kernel, arrival[number], own_end - arrival[number], at=rank.now + 30)
        else:
            rank.trace.collective(
                meeting.operation,
                arrival[number],
                own_end - arrival[number],
                at=rank.now + 30,
                host_dur=35,
                nelems=meeting.nelems,
                out_nelems=meeting.out_nelems,
                ranks=group,
                group=name,
                sequence=rank.called[name] if numbered else None,
            )
        if meeting.hidden:
            length = min(meeting.hidden, own_end - arrival[number])
            at = rank.now + 70
            rank.trace.launch_kernel("elementwise_kernel", arrival[number], length, at=at, stream=20)
        waits = rank.now + 80
        rank.now = own_end + 5
        rank.trace.launch("cudaStreamSynchronize", waits, rank.now - waits)


def _arrange(rank: _Rank, stall: int, turn: int) -> None:
    """Eight operators that only arrange memory, of which one stands still."""
    for number in range(8):
        dur = 10 + (stall if number == turn % 2 else 0)
        rank.trace.op(("aten::view", "aten::empty")[number % 2], rank.now, dur)
        rank.now += dur + 2
