"""What was recorded of a run of several ranks: the typical steps of all ranks as one.

A rank's typical step leaves out steps that are unlike its others. The typical step of the run is the mean over those
that the ranks keep; waiting for each other is judged over the steps that every rank keeps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, compress
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.rank_facts import RankCollectives, RankFacts, RankSteps
from traceanalyzer.structure.recording import CauseInStep, Recording, TypicalStep
from traceanalyzer.structure.recording.left_out import FEWEST
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import Average

T = TypeVar("T")

DEVICE = 0
"""Device number that stands for the busiest device of every rank."""


def recording(members: Sequence[Member]) -> Recording | None:
    """The recording of all ranks together; None if a rank with steps has none, as in saved reports of old versions.

    Program and evidence are those of most ranks (of as many, the lowest), framework and marks of steps what all agree
    on, times of the typical step means over all their steps. Single steps and windows are each rank's own.
    """
    own = [member.recording for member in members if member.recording is not None]
    if not own or len(own) < sum(member.resources is not None for member in members):
        return None
    program = next(one for one in own if one.workload == _most([one.workload for one in own]))
    typical = typical_step([one.typical for one in own if one.typical is not None])
    is_known = typical is not None and all(one.typical_step_ns is not None for one in own)
    shared = set.intersection(*({found.id for found in one.frameworks} for one in own))
    return Recording(
        workload=program.workload,
        evidence=program.evidence,
        framework=common([one.framework for one in own]),
        frameworks=tuple(found for found in own[0].frameworks if found.id in shared),
        window=None,
        steps_from=common([one.steps_from for one in own]),
        steps=(),
        all_steps_count=any(one.all_steps_count for one in own),
        typical_step_ns=typical.parts.duration_ns if typical is not None and is_known else None,
        typical=typical,
        has_hardly_any_work=all(one.has_hardly_any_work for one in own),
        device_busy_ns=sum(one.device_busy_ns for one in own),
        startup_ns=sum(one.startup_ns for one in own),
    )


def typical_step(own: Sequence[TypicalStep]) -> TypicalStep | None:
    """The mean over the typical steps of all ranks; None without any."""
    if not own:
        return None
    times: defaultdict[str, float] = defaultdict(float)
    steps = sum(one.steps for one in own)
    for one in own:
        for row in one.idle:
            times[row.cause] += row.ns_per_step * one.steps / steps
    return TypicalStep(
        steps=steps,
        parts=mean_parts([(one.parts, one.steps) for one in own]),
        resources=mean_resources([one.resources for one in own]),
        idle=tuple(CauseInStep(cause, time) for cause, time in times.items()),
    )


def mean_parts(own: Sequence[tuple[Average, int]]) -> Average:
    """Parts of the mean step, from those of each rank and the number of its steps."""
    steps = sum(count for _, count in own)
    return Average(*(sum(getattr(one, field) * n for one, n in own) / steps for field in Average.__struct_fields__))


def mean_resources(resources: Sequence[StepResources]) -> StepResources:
    """Means over the steps of all ranks (null if unknown on every rank); sums of fields that are sums in a rank."""
    steps = sum(own.steps for own in resources)

    def over(field: str) -> float | None:
        values = [(v, own.steps) for own in resources if (v := getattr(own, field)) is not None]
        return sum(v * n for v, n in values) / sum(n for _, n in values) if values else None

    means = {f: over(f) for f in StepResources.__struct_fields__ if f.endswith("_ns")}
    sums = {f: sum(getattr(own, f) for own in resources) for f in ("recorded_device_ns", "outside_device_ns")}
    unread = next((own.unread_device for own in resources if own.unread_device), None)
    found = {**means, **sums, "steps": steps, "device": DEVICE, "unread_device": unread}
    return msgspec.convert(found, StepResources)


def of_typical_steps(members: Mapping[int, Member]) -> Mapping[int, Member] | None:
    """The ranks with only the steps that all of them keep, and their typical resources; None if all steps count."""
    names = _kept([member.recording for member in members.values()])
    if names is None or not all(_has_steps_of_program(member) for member in members.values()):
        return None
    return {rank: _typical_of(member, names) for rank, member in members.items()}


def _has_steps_of_program(member: Member) -> bool:
    """Whether the recording names the same steps as the facts; reports of old versions may not."""
    own = member.recording.steps if member.recording is not None else ()
    return {step.name for step in own} >= set(member.facts.steps.name) and len(own) >= len(member.facts.steps.name) > 1


def _typical_of(member: Member, names: frozenset[str]) -> Member:
    typical = member.recording.typical if member.recording is not None else None
    own = member.resources if typical is None else typical.resources
    return replace(member, facts=only(member.facts, names), resources=own)


def only(facts: RankFacts, names: frozenset[str]) -> RankFacts:
    """A rank without some steps and their collectives; collectives between steps are kept."""
    stays = [name in names for name in facts.steps.name]
    place = [number - 1 for number in accumulate(map(int, stays))]
    own = facts.collectives
    rows = [step is None or stays[step] for step in own.step]
    columns = {field: tuple(compress(getattr(own, field), rows)) for field in RankCollectives.__struct_fields__}
    columns["step"] = tuple(None if step is None else place[step] for step in columns["step"])
    steps = RankSteps(*(tuple(compress(getattr(facts.steps, field), stays)) for field in RankSteps.__struct_fields__))
    return replace(facts, steps=steps, collectives=RankCollectives(**columns))


def _kept(recordings: Sequence[Recording | None]) -> frozenset[str] | None:
    """Names of the steps that count on every rank; None where all steps do."""
    own = [one for one in recordings if one is not None and one.steps_from != WHOLE]
    if not own or len(own) < len(recordings) or all(step.is_typical for one in own for step in one.steps):
        return None
    names = frozenset.intersection(*(frozenset(s.name for s in one.steps if s.is_typical) for one in own))
    return names if len(names) >= FEWEST else None


def common(values: Sequence[T]) -> T | None:
    """The value that all have; null if they differ."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _most(values: Sequence[str]) -> str:
    """The value that comes most often; of several the first."""
    return Counter(values).most_common(1)[0][0]
