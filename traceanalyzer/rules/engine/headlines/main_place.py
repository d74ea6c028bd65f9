"""Names in the headline where in the program most of the time goes: a mark, a function or a module of it.

That a step is mostly convolutions does not say whose they are. What has nearly all of a step is the whole program, and
names such as `train_step` or `forward` are in any program, so neither is a place in it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.host import HostOwner, HostOwners
from traceanalyzer.analyzers.modules import Modules, ModuleTimes
from traceanalyzer.knowledge import host_roles, marks, python_frames
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import host_owners, program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import named_operators, typical
from traceanalyzer.rules.engine.headlines.removable import BESIDE, said_of, with_time
from traceanalyzer.rules.engine.headlines.step_bound import MOST_WORDS, StepBound, is_short
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.left_out import OTHER_PHASE
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.typical import mean

_MOSTLY, _WHOLE = 0.55, 0.95
"""Shares of the time from which on a part of the program is named, and is all of it (own choice)."""
_BESIDE = 0.01
"""Share of the time of other modules beside one from which on that one is a part of the model (own choice)."""
_WORTH_OPERATOR = 0.2
"""Share of a part's time from which on its longest operator is named (own choice)."""
_NO_PLACE = frozenset(
    {host_roles.LOADER, host_roles.COMPILATION, host_roles.REQUESTS, host_roles.WRITING, "sleep", "guards"}
)
"""Roles that sentences name by themselves, or whose time is no work."""
_WORDS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+")
_ANY_PROGRAM = re.compile(
    r"all|backward|batch|bench(?:mark)?|body|bwd|call|closure|do|epochs?|fit|fn|forward|func|fwd|inner|iter(?:ations?)?|loop"
    r"|main|model|module|net|network|one|pass(?:es)?|profiler?|profiled|program|round|run|steps?|the|train(?:er|ing)?"
    r"|work(?:load)?|wrapp(?:ed|er)",
    re.IGNORECASE,
)
"""Words of names that are in any program."""
_NUMBER = re.compile(r"_\d+\Z")

_IN_UNIT = Text(
    "headline-unit-in",
    "{unit}, mostly in {owner}",
    note="ends a sentence such as: mostly convolutions, 35 of the 152 ms of each step, mostly in `teacher`; unit is in "
    "the genitive: each step; owner is a function, mark or module",
)
_UNIT_OF = Text(
    "headline-unit-of",
    "{unit} of {owner}",
    note="in the genitive: 35 of the 152 ms of each step of `evaluate`; owner is a function or mark that has all of "
    "these steps, but not all of the program",
)
_CPU_IN = Text(
    "headline-cpu-in",
    "Limited by the CPU, mostly in {owner}: {part:part} of {unit}.",
    note="unit is in the genitive: each step; owner is a function or mark of the program",
)
_CPU_IN_LONGEST = Text(
    "headline-cpu-in-longest",
    "Limited by the CPU, mostly in {owner}: {part:part} of {unit}, longest in {name} ({time:ns}).",
    note="unit is in the genitive: each step; owner is a function or mark of the program; name is an operator in it",
)
_OF_TRACE = Text(
    "detail-place-of-trace",
    "{owner} takes {part:part} of the trace.",
    note="owner is a function or mark of the program, such as the evaluation of a training; part: 35 of the 152 ms",
)
_OF_WORK = {text.id: text for text in (typical.PRODUCTS, typical.MOVES, typical.OTHER_GPU, named_operators.OF_KIND)}
"""Sentences about a kind of work that takes a part of a step."""
_OF_OPERATORS = {text.id: text for text in named_operators.OF_OPERATORS}
"""Sentences about a step on a CPU in which no kind of work takes most of it."""


class _Place(msgspec.Struct, frozen=True):
    """A part of the program that has most of the time of a step."""

    name: str
    share: float
    """Its share of the GPU's time, or of that of a CPU."""
    ns: float | None
    """Its time in ns per step; None of a module with its backward pass, of which only the share is known."""
    host_ns: int | None = None
    """Time in ns for which the host is in it, in all typical steps; None of a module."""
    longest: tuple[str, float] = ("", 0.0)
    """The operator that it calls which takes longest, and its time in ns per step."""


def with_place(facts: Facts, found: StepBound) -> StepBound:
    """The headline of a step that the GPU or, without one, the CPU bounds, with the place of most of that time."""
    own, is_apart = facts.step_resources, _is_one_phase(facts)
    whole = _whole(facts, found, own) if own is not None else 0.0
    place = _main(facts, on_device=found.bound != "host", is_apart=is_apart) if whole else None
    if place is None or f"`{place.name}`" in found.message.text:
        return found
    message = _named(facts, found.message, place, whole)
    if message is None:
        return found
    told = replace(found, message=message)
    if not is_apart or facts.summary is None or place.host_ns is None:
        return told
    return told.qualified(_OF_TRACE, owner=f"`{place.name}`", part=(place.host_ns, facts.summary.span_ns))


def _whole(facts: Facts, found: StepBound, own: StepResources) -> float:
    """The time in ns of a step that the headline is about: the GPU's, or the step; 0 where the CPU delays a GPU."""
    if found.bound.startswith("gpu"):
        return own.gpu_ns or 0.0
    return facts.step_ns if found.bound == "host" and own.gpu_ns is None else 0.0


def _main(facts: Facts, *, on_device: bool, is_apart: bool) -> _Place | None:
    """The innermost place with most of the time; all of it is one only where the steps are but a phase."""
    owners = None if facts.table is not None else host_owners.on_cpu(facts)
    if owners is None:
        return None
    places = [*_of_rows(owners, on_device=on_device), *_of_modules(facts, owners, on_device=on_device)]
    most = [place for place in places if place.share >= _MOSTLY and (is_apart or place.share < _WHOLE)]
    return min(most, key=lambda place: place.share, default=None)


def _is_one_phase(facts: Facts) -> bool:
    """Whether the typical steps are one of the phases of a training, such as its evaluation, and others are not."""
    recording = facts.find("recording", Recording)
    others = recording is not None and any(step.reason == OTHER_PHASE for step in recording.steps)
    return program.trains(facts) and (others or not program.steps_may_train(facts))


def _of_rows(owners: HostOwners, *, on_device: bool) -> Iterator[_Place]:
    """The marks and functions of the program."""
    whole = owners.device_ns if on_device else owners.time_ns
    if not whole:
        return
    for row in owners.rows:
        if row.kind not in ("mark", "function") or row.role in _NO_PLACE or _is_in_any_program(row):
            continue
        time = (row.device_ns or 0) if on_device else row.host_ns
        longest = (row.parts[0].name, mean(row.parts[0].host_ns, owners.steps)) if row.parts else ("", 0.0)
        yield _Place(row.name, time / whole, mean(time, owners.steps), row.host_ns, longest)


def _is_in_any_program(row: HostOwner) -> bool:
    """Whether the name of a mark or function shows nothing of what this program does."""
    if row.name in host_owners.ANONYMOUS or marks.is_wrapper(row.name) or marks.is_step(row.name):
        return True
    words = _WORDS.findall(row.name)
    return all(_ANY_PROGRAM.fullmatch(word) for word in words) or (row.kind == "mark" and bool(marks.passes(row.name)))


def _of_modules(facts: Facts, owners: HostOwners, *, on_device: bool) -> Iterator[_Place]:
    """The modules of the program that are a part of the model, each with its backward pass, over the recording."""
    found, summary = facts.find("modules", Modules), facts.summary
    whole = 0 if found is None or summary is None else found.device_ns if on_device else summary.span_ns
    if found is None or not whole:
        return
    own = {row.name for row in owners.rows if row.kind == "module" and python_frames.is_own_file(row.file or "")}
    times = [_module_ns(place, on_device=on_device) for place in found.tree]
    beside: defaultdict[int | None, int] = defaultdict(int)
    for place, time in zip(found.tree, times, strict=True):
        beside[place.parent] += time
    for place, time in zip(found.tree, times, strict=True):
        name = _NUMBER.sub("", place.name)
        if name in own and beside[place.parent] - time >= _BESIDE * whole:
            yield _Place(name, time / whole, None)


def _module_ns(times: ModuleTimes, *, on_device: bool) -> int:
    if on_device:
        return times.device_total_ns + times.backward_device_total_ns
    return times.host_total_ns + times.backward_host_total_ns


def _named(facts: Facts, message: Message, place: _Place, whole: float) -> Message | None:
    """The sentence with the place; None where it has no room, or the place may not be that of the work it names."""
    said = said_of(message)
    if message.id in _OF_WORK:
        return _beside_work(facts, message, said, place, whole)
    if message.id not in _OF_OPERATORS:
        return None
    if place.ns is None or place.share >= _WHOLE or message.id == named_operators.OUTSIDE.id:
        return _short(facts, _in_unit(_OF_OPERATORS[message.id], said, place))
    own = {"owner": f"`{place.name}`", "part": (place.ns, facts.step_ns), "unit": said["unit"]}
    name, time = place.longest
    longest = (_CPU_IN_LONGEST(**own, name=name, time=time),) if time >= _WORTH_OPERATOR * place.ns else ()
    return _short(facts, *longest, _CPU_IN(**own))


def _beside_work(facts: Facts, message: Message, said: dict[str, Any], place: _Place, whole: float) -> Message | None:
    """The sentence about a kind of work with the place in which most of it is, or else with the place's own time."""
    if place.share >= 1 - said["part"][0] / whole / 2:  # so most of the work is there, however the rest is spread
        return _short(facts, _in_unit(_OF_WORK[message.id], said, place))
    text = BESIDE.get(message.id)
    if text is None or place.ns is None:
        return None
    return _short(facts, text(**said, also=with_time(f"`{place.name}`", min(place.ns, whole))))


def _in_unit(text: Text, said: Mapping[str, Any], place: _Place) -> Message:
    unit = _UNIT_OF if place.share >= _WHOLE else _IN_UNIT
    return text(**{**said, "unit": unit(unit=said["unit"], owner=f"`{place.name}`")})


def _short(facts: Facts, *messages: Message) -> Message | None:
    """The first of some sentences that is short enough; None if none is."""
    room = MOST_WORDS - 2 * facts.is_cut
    return next((message for message in messages if is_short(message, room)), None)
