"""What decides how long the step is, and what would a faster part be worth?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import fsum

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.steps import Timeline
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import word
from traceanalyzer.report.section import Fact, Section, SectionTable, Term, Topic
from traceanalyzer.sections import columns, host
from traceanalyzer.sections.columns import Column, detail, facts, table
from traceanalyzer.sections.kernels import class_label
from traceanalyzer.simulation.critical_path import CriticalPath, CriticalStretch
from traceanalyzer.simulation.replay_error import Replay

_MOST_TURNS = 5
"""Most parts that a sentence lists in the order of time (own choice)."""
_LEAST = 0.01
"""Least share of the step of a part that is mentioned."""
_MOST_HIDDEN = 0.05
"""Most share of the step that may be merged into neighbours in a sentence in the order of time (own choice)."""
_TURN_OF = {
    "loader": "loader",
    "host": "host",
    "launch": "host",
    "wake_up": "host",
    "copy": "copy",
    "communication": "communication",
    "unrecorded": "unrecorded",
    "asleep": "asleep",
}
"""The resources with separate names in a sentence; all others count as the GPU."""
_PIECES = {
    "loader": Text("path-time-loader", "DataLoader {time:ns}", "part of a list of what a step waits for"),
    "host": Text("path-time-host", "CPU {time:ns}", "part of a list of what a step waits for"),
    "gpu": Text("path-time-gpu", "GPU {time:ns}", "part of a list of what a step waits for"),
    "copy": Text("path-time-copy", "copies {time:ns}", "part of a list of what a step waits for"),
    "communication": Text(
        "path-time-communication", "communication {time:ns}", "part of a list of what a step waits for"
    ),
    "unrecorded": Text(
        "path-time-unrecorded", "work that was not recorded {time:ns}", "part of a list of what a step waits for"
    ),
    "asleep": Text(
        "path-time-asleep",
        "sleep and waits {time:ns}",
        "the program waits for a clock, a lock, a process, a file or the network; part of a list",
    ),
}
_AND = Text("path-and", "{before}, {next}", "each is a part of a step and its time, such as: CPU 40 ms")
_ALL = Text("path-all-of-one", "The whole step is {part}.", "part is such as: CPU 40 ms")
_NEARLY = Text("path-nearly-all-of-one", "Nearly the whole step is {part}.", "part is such as: CPU 40 ms")
_IN_ORDER = Text(
    "path-waits-in-order",
    "Critical path of the step ({sum:ns}): {parts}.",
    "parts is such as: CPU 40 ms, GPU 78 ms; sum is their sum",
)
_IN_ORDER_OF_ONE = Text(
    "path-waits-in-order-of-one",
    "Critical path of step {step} ({sum:ns}): {parts}.",
    "parts is such as: CPU 40 ms, GPU 78 ms; sum is their sum; step is its number or name",
)
_SHORT = Text(
    "path-short-turns",
    "The sentence on the critical path leaves out shorter turns, which take {time:ns} in all.",
    "the sentence is such as: Critical path of the step: CPU 40 ms, GPU 78 ms",
)
_IN_TURNS = Text(
    "path-waits-in-turns",
    "What the step waits for, in many short turns (critical path, {sum:ns}): {parts}.",
    "parts is such as: GPU 78 ms, CPU 40 ms; the greatest first; sum is their sum",
)
_MOST_ROWS = 10
"""Most rows of each table of parts (own choice: later rows have little effect)."""
TITLE = Text("path-title", "Critical path", "the chain of causes that decides how long a step takes")
_WORTH = Text("path-worth-title", "What a faster part is worth", "a table of parts of a program")

_CAN_BE_SLOWER = Text(
    "path-slack",
    "{slack:ns} of {all:ns} of kernels, copies and fills are off the critical path: each could take twice as long, one "
    "at a time, and the step would not get longer.",
)
_REPLAY = (
    Column(
        Text("path-replayed", "Step, replayed from its dependencies", "a label, followed by a time"),
        "ns",
        "modelled_ns",
    ),
    Column(Text("path-recorded", "Step, recorded", "a label, followed by a time"), "ns", "recorded_ns"),
    Column(
        Text("path-error", "Error of the replay", "a label, followed by a share of the step"), "share", "error_share"
    ),
)
_STARTS = (
    Column(
        Text("path-replay-starts", "Starts of device events are off by, median", "an error as a share of the step"),
        "share",
        "device_start_error_p50_share",
    ),
    Column(
        Text("path-replay-starts-most", "Starts, 95 % are off by at most", "an error as a share of the step"),
        "share",
        "device_start_error_p95_share",
    ),
)
_OTHER_DEVICES = Text(
    "path-other-devices",
    "Devices without recorded kernels are not part of the path; waiting for them counts as CPU time.",
)
_ABSTAINS = Text(
    "path-replay-abstains",
    "The replay is {error:exact_share} off the recorded step, more than 5 %, so no saving is predicted from it. The "
    "path itself is that of the trace.",
    "of the dependencies in a trace",
)
_QUEUES = Text(
    "path-replay-period",
    "If the recorded steps went on, each would take {share:exact_share} more or less, over 5 %, because work queues up "
    "or a queue runs empty, so no saving is predicted from a replay. The path itself is that of the trace.",
    "a replay of the dependencies in a trace; share is one of the step",
)
_PINNED = Text(
    "path-replay-pinned",
    "The trace does not show what {share:share} of the GPU's work waited for, more than 5 %, so no saving is "
    "predicted from a replay. The path itself is that of the trace.",
    "a replay of the dependencies in a trace; share is one of the time of kernels",
)
_RESOURCES = {
    "loader": Text("path-loader", "DataLoader"),
    "host": Text("path-host", "CPU"),
    "launch": Text("path-launch", "From launch to start", "time from the call that launches a kernel to its start"),
    "compute": Text("path-compute", "Kernels"),
    "copy": Text("path-copy", "Copies and fills"),
    "communication": Text("path-communication", "Communication"),
    "device_gap": Text("path-device-gap", "Between kernels", "pauses between kernels, which the GPU itself needs"),
    "wake_up": Text("path-wake-up", "From end to CPU", "time until a host that waits for the GPU goes on"),
    "unrecorded": Text("path-unrecorded", "Not recorded", "work that was launched before the recording"),
    "asleep": Text(
        "path-asleep",
        "Sleep and waits of the program",
        "the program waits for a clock, a lock, a process, a file or the network",
    ),
}
_UNNAMED = Text("path-no-operator", "(in no operator)")
_UNOWNED = Text("path-no-owner", "(nothing recorded)", "time of a thread in which no event was recorded")
_PER_STEP = Column(Text("path-per-step", "Time/step"), "ns", "ns_per_step")
_DEVICE_ALL = Column(
    Text("path-device-all", "GPU/step", "time of the GPU, whether the step waits for it or not"),
    "ns",
    "device_total_ns_per_step",
)
_SLACK = Column(
    Text("path-free", "Has slack", "time of kernels that could be slower without harm"),
    "ns",
    "device_slack_ns_per_step",
)
_GAIN = Text("path-gain", "Step gains", "share of saved time of the GPU by which a step gets shorter")
_OPERATOR = columns.OPERATOR.of(lambda row: row.operator or _UNNAMED)
_RESOURCE_COLUMNS = (
    Column(Text("path-resource", "The step waits for"), "", lambda part: resource_label(part.resource)),
    _PER_STEP,
    columns.SHARE,
)
_OPERATOR_COLUMNS = (
    _OPERATOR,
    Column(Text("path-on-path", "On path", "time of the step that waits for an operator"), "ns", "ns_per_step"),
)
_PARTS_OF_OPERATORS = (
    Column(Text("path-of-host", "CPU", "part of a time that the CPU takes"), "ns", "host_ns_per_step"),
    Column(Text("path-of-device", "GPU", "part of a time that the GPU takes"), "ns", "device_ns_per_step"),
)
_DEVICE_COLUMNS = (
    _OPERATOR,
    _DEVICE_ALL,
    Column(_GAIN, "share", lambda row: min(1.0, row.device_ns_per_step / row.device_total_ns_per_step)),
    _SLACK,
)
_OWNER_COLUMNS = (
    Column(
        Text("path-owner", "Owner of CPU time", "part of a program that takes time"),
        "",
        lambda row: _UNOWNED if row.kind is None else host.label(row),
        is_name=True,
    ),
    columns.PLACE.of(lambda row: "" if row.kind is None else host.where(row)),
    _PER_STEP,
)
_CLASS_COLUMNS = (
    Column(Text("path-class", "Kernels by kind of work"), "", lambda row: class_label(row.kernel_class or "other")),
    _PER_STEP,
)
_KERNEL_COLUMNS = (
    Column(Text("path-slack-kernel", "Could be twice as slow"), "", "name", is_name=True),
    _SLACK.of("slack_ns_per_step"),
    _DEVICE_ALL.of("ns_per_step"),
)
_TERMS = (
    Term(
        TITLE,
        Text(
            "define-path-say",
            "At each moment of a step, the one thing for which its end waits: CPU time, the DataLoader, a kernel, a "
            "copy, a pause between two of them. These times sum to the step. What is not on the path has slack.",
        ),
    ),
    Term(
        _GAIN,
        Text(
            "define-gain-say",
            "How much shorter the step gets for each unit of time by which an operator's work on the device gets "
            "shorter: its device time on the critical path, as a share of all its device time. It holds for small "
            "changes; whatif replays large ones.",
        ),
    ),
    Term(
        _SLACK.title,
        Text(
            "define-slack-say",
            "Device time of kernels, copies and fills any one of which could take twice as long without making the "
            "step longer. Several at once may make it longer.",
        ),
    ),
)


def resource_label(resource: str) -> Text | Message:
    """The text of a resource; its key if a later version added it."""
    return word(_RESOURCES, resource)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the path by resource with the error of the replay, and tables by operator, owner and kernel class."""
    path = report.result("critical_path", CriticalPath)
    if path is None or not path.step_ns or not path.parts:
        return
    replay = report.result("replay", Replay)
    parts = sorted((part for part in path.parts if part.ns_per_step > 0), key=lambda part: -part.ns_per_step)
    yield detail(
        "critical-path",
        TITLE,
        Topic.STEPS,
        (table("critical_path", _RESOURCE_COLUMNS, parts),),
        messages=(*left_out(path), *_other_devices(report), *_distrust(replay)),
        facts=_errors(replay) if replay is not None else (),
        terms=_TERMS,
    )
    shown = tuple(_worth(path, min(top, _MOST_ROWS)))
    if shown:
        yield detail("critical-path-worth", _WORTH, Topic.STEPS, shown, messages=_harmless(path))


def _harmless(path: CriticalPath) -> Iterator[Message]:
    if path.device_slack_ns_per_step and path.device_ns_per_step:
        yield _CAN_BE_SLOWER(slack=path.device_slack_ns_per_step, all=path.device_ns_per_step)


def _other_devices(report: Report) -> Iterator[Message]:
    others = report.result("accelerators", Accelerators)
    if others is not None and others.devices:
        yield _OTHER_DEVICES()


def _distrust(path: Replay | None) -> Iterator[Message]:
    """Why no prediction is made from the replay."""
    if path is None or path.doubt is None:
        return
    match path.doubt:
        case "error":
            yield _ABSTAINS(error=path.error_share)
        case "pinned":
            yield _PINNED(share=path.pinned_share)
        case "period":
            yield _QUEUES(share=path.period_share)


def _errors(replay: Replay) -> tuple[Fact, ...]:
    """Differences of the replay from the recording."""
    return facts((*_REPLAY, *(_STARTS if replay.device_start_error_p50_share is not None else ())), replay)


def _worth(path: CriticalPath, top: int) -> Iterator[SectionTable]:
    """Tables of operators, owners, kinds of work and kernels; those with device work by what the step saves."""
    share = columns.share("ns_per_step", path.step_ns)
    parts = _PARTS_OF_OPERATORS if path.device_ns_per_step is not None else ()
    known = [row for row in path.operators if row.device_total_ns_per_step and row.device_slack_ns_per_step is not None]
    known.sort(key=lambda row: -row.device_ns_per_step)
    for id_, shown, rows in (
        ("operators", (*_OPERATOR_COLUMNS, share, *parts), path.operators),
        ("device_operators", _DEVICE_COLUMNS, known),
        ("owners", (*_OWNER_COLUMNS, share), path.owners),
        ("classes", (*_CLASS_COLUMNS, share), path.kernel_classes),
        ("slack", _KERNEL_COLUMNS, path.kernels_with_slack),
    ):
        if rows[:top]:
            yield table(f"critical_path_{id_}", shown, rows, top)


def sentence(report: Report) -> Iterator[Message]:
    """The sentence, if the report has a path of some length, and work of all devices can be on it."""
    path, others = report.result("critical_path", CriticalPath), report.result("accelerators", Accelerators)
    if path is not None and path.step_ns and path.parts and not (others and others.devices):
        shown = report.result("timeline", Timeline)
        yield _sentence(path, shown.step if shown is not None else "")


def _sentence(path: CriticalPath, step: str) -> Message:
    """The path in one sentence: in the order of time if it has few parts, otherwise by size."""
    turns, hidden = _turns(path.stretches)
    if not _is_ordered(turns, hidden):
        return _by_size(path)
    parts = [_PIECES[chain](time=ns) for chain, ns in turns]
    if len(parts) == 1 and path.steps == 1:
        return (_NEARLY if hidden else _ALL)(part=parts[0])
    whole = sum(ns for _, ns in turns)
    if path.steps > 1 and step:
        return _IN_ORDER_OF_ONE(parts=_chain(parts), sum=whole, step=step)
    return _IN_ORDER(parts=_chain(parts), sum=whole)


def _by_size(path: CriticalPath) -> Message:
    """What the step waits for in all, the longest first, without what is too short to mention."""
    sums: dict[str, float] = {}
    for part in path.parts:
        chain = _TURN_OF.get(part.resource, "gpu")
        sums[chain] = sums.get(chain, 0.0) + part.ns_per_step
    ranked = sorted(sums, key=lambda chain: (-sums[chain], chain))
    kept = [chain for chain in ranked if sums[chain] >= _LEAST * path.step_ns] or ranked[:1]
    parts = [_PIECES[chain](time=sums[chain]) for chain in kept]
    return _IN_TURNS(parts=_chain(parts), sum=fsum(sums[chain] for chain in kept))


def left_out(path: CriticalPath) -> Iterator[Message]:
    """A note on the part that the sentence leaves out, if it is large enough."""
    turns, hidden = _turns(path.stretches)
    if _is_ordered(turns, hidden) and hidden >= _LEAST * (hidden + sum(ns for _, ns in turns)):
        yield _SHORT(time=hidden)


def _is_ordered(turns: Sequence[tuple[str, int]], hidden: int) -> bool:
    """Whether the turns are few and cover enough of the step to be listed in order."""
    whole = hidden + sum(ns for _, ns in turns)
    return 0 < len(turns) <= _MOST_TURNS and hidden <= _MOST_HIDDEN * whole


def _turns(stretches: Sequence[CriticalStretch]) -> tuple[list[tuple[str, int]], int]:
    """The resources that the step waits for in order, with times in ns, and the total time of turns that were left out.

    The shortest turn is left out while there are too many, or while it is too short to mention.
    """
    turns = _joined([(_TURN_OF.get(each.resource, "gpu"), each.duration_ns) for each in stretches])
    whole, hidden = sum(ns for _, ns in turns), 0
    while len(turns) > 1:
        shortest = min(range(len(turns)), key=lambda position: turns[position][1])
        ns = turns[shortest][1]
        if len(turns) <= _MOST_TURNS and ns >= _LEAST * whole:
            break
        hidden += ns
        turns = _joined([*turns[:shortest], *turns[shortest + 1 :]])
    return turns, hidden


def _joined(turns: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Merge consecutive turns of one resource."""
    groups = groupby(turns, key=lambda turn: turn[0])
    return [(chain, sum(ns for _, ns in members)) for chain, members in groups]


def _chain(parts: Sequence[Message]) -> Message:
    """Join the parts of a list."""
    sentence = parts[0]
    for part in parts[1:]:
        sentence = _AND(before=sentence, next=part)
    return sentence
