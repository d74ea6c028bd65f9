"""Steps that the profiler did not mark are counted from the first that a trace shows. Do all ranks count alike?

Then collectives without a recorded number are matched by their order within each step. Where ranks count differently,
the same number may be another step on each rank, and these collectives are not matched.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.structure.recording.left_out import MARKED
from traceanalyzer.structure.recording.program_steps import WHOLE


def with_common_steps(members: Mapping[int, Member]) -> Mapping[int, Member]:
    """The ranks; collectives without a number belong to no step if the ranks do not count the same steps.

    A file that was cut off has fewer steps: those that it has are the first ones.
    """
    if not any(map(_counts, members.values())) or _count_alike(list(members.values())):
        return members
    return {rank: _without_order(member) for rank, member in members.items()}


def _counts(member: Member) -> bool:
    """Whether the steps of a rank are those of the program, which are counted."""
    return member.recording is not None and member.recording.steps_from not in (MARKED, WHOLE, None)


def _count_alike(members: list[Member]) -> bool:
    """Whether all ranks have the same marks of steps, and those that are not cut off equally many."""
    marks = {member.recording.steps_from for member in members if member.recording is not None}
    whole = {len(member.facts.steps.name) for member in members if not member.is_damaged}
    most = max(len(member.facts.steps.name) for member in members)
    return len(marks) == 1 and all(map(_counts, members)) and whole <= {most}


def _without_order(member: Member) -> Member:
    own = member.facts.collectives
    step = tuple(None if number is None else place for number, place in zip(own.sequence, own.step, strict=True))
    return replace(member, facts=replace(member.facts, collectives=replace(own, step=step)))
