"""Replays all ranks together: the work of each rank, and the collectives in which they meet.

A rank works until a collective; the collective ends when the last rank has come and data are transferred. No clock is
needed. While a collective runs, the rank's kernels continue, whether others have come or not; work after the collective
follows its end. In a replay without changes each rank's work takes as long as recorded.

One pass replays many scenarios, which differ in the times of work and transfers; times are vectors over scenarios.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.trace.table import F64, I64, Bool


class JointProgram(msgspec.Struct, frozen=True):
    """Events of all ranks: rank by rank, each in the order of time. The last event of a rank is its end."""

    member: I64
    """Position of the rank of each event."""
    work_ns: F64
    """Matrix of events by kinds: the rank's own work since its event before."""
    meeting: I64
    """Number of the meeting that starts or ends; -1 at the end of a rank."""
    is_start: Bool
    transfer_ns: F64
    """At ends of meetings: time from the arrival of the last rank to the end."""
    sizes: I64
    """Number of ranks of each meeting."""
    members: int


class Shorter(msgspec.Struct, frozen=True):
    """The time saved, as a matrix of events by kinds, and of transfers; negative for what takes longer."""

    work_ns: F64
    transfer_ns: F64


def replay(program: JointProgram, shorter: Shorter) -> F64 | None:
    """Replay the scenarios: as recorded, all that is saved, that of each rank alone, that of each kind alone.

    Returns:
        The end of the last rank in ns in each scenario: 1 + 1 + ranks + (kinds + 1), transfers as the last kind; None
        if the ranks come to their meetings in orders that contradict each other.
    """
    return _Run(program, shorter).end()


class _Run:
    """The state of a replay."""

    def __init__(self, program: JointProgram, shorter: Shorter) -> None:
        self._kinds = program.work_ns.shape[1]
        self._scenarios = 2 + program.members + self._kinds + 1
        self._now = np.zeros((program.members, self._scenarios))
        self._program, self._shorter = program, shorter
        self._arrived: dict[int, F64] = {}
        self._missing = program.sizes.tolist()
        self._leaving = program.sizes.tolist()
        self._total = program.work_ns.sum(axis=1).tolist()
        self._changes: list[bool] = [*(shorter.work_ns != 0).any(axis=1).tolist()]
        self._less = shorter.work_ns.sum(axis=1).tolist()

    def end(self) -> F64 | None:
        program = self._program
        opens = np.searchsorted(program.member, np.arange(program.members + 1)).tolist()
        place, stops = opens[:-1], opens[1:]
        meeting, is_start = program.meeting.tolist(), program.is_start.tolist()
        waiting: dict[int, list[int]] = {}
        ready = list(range(program.members))
        while ready:
            member = ready.pop()
            while place[member] < stops[member]:
                event = place[member]
                own = meeting[event]
                if own >= 0 and not is_start[event] and self._missing[own]:
                    waiting.setdefault(own, []).append(member)
                    break
                self._work(member, event)
                if own >= 0 and is_start[event]:
                    if self._arrive(member, own):
                        ready += waiting.pop(own, [])
                elif own >= 0:
                    self._leave(member, own, event)
                place[member] += 1
        return self._now.max(axis=0) if place == stops else None

    def _work(self, member: int, event: int) -> None:
        now = self._now[member]
        now += self._total[event]
        if self._changes[event]:
            less = self._shorter.work_ns[event]
            now[1] -= self._less[event]
            now[2 + member] -= self._less[event]
            now[-1 - self._kinds : -1] -= less

    def _arrive(self, member: int, own: int) -> bool:
        """Come to a meeting; true if all have come."""
        last = self._arrived.get(own)
        self._arrived[own] = self._now[member].copy() if last is None else np.maximum(last, self._now[member])
        self._missing[own] -= 1
        return not self._missing[own]

    def _leave(self, member: int, own: int, event: int) -> None:
        end = self._arrived[own] + self._program.transfer_ns[event]
        less = self._shorter.transfer_ns[event]
        if less:
            end[[1, 2 + member, -1]] -= less
        np.maximum(self._now[member], end, out=self._now[member])
        self._leaving[own] -= 1
        if not self._leaving[own]:
            del self._arrived[own]
