"""The headline of a table of another tool: which of its parts, functions or kernels take most."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.tables.parts import PrintedPart
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import PARTS, as_code
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import without_whole
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, of_list
from traceanalyzer.rules.engine.headlines.typical import WORTH, WORTH_BESIDE

_SHOWN = 4
_WORTH_WITHIN = 0.02
"""Share of the whole time from which on a part within another one is named (own choice: less changes nothing)."""
_INPUT = Text(
    "headline-tool-input-2",
    "Waiting for data: {part:part}, according to {tool}.",
    note="tool is a program such as cProfile; part reads: 6 of the 10 s",
)
_COMMUNICATION = Text(
    "headline-tool-communication-2",
    "Limited by communication: {part:part} are collectives, according to {tool}.",
    note="tool is a program; part reads: 6 of the 10 s",
)
_RESULTS = Text(
    "headline-tool-results-2",
    "Waiting for the device: {part:part} until results are read, according to {tool}.",
    note="part reads: 6 of the 10 s; tool is a program",
)
_READ_IN = Text(
    "detail-tool-results",
    "They are read in {names}: what was launched before ends there. On a GPU only less work makes these waits shorter, "
    "not another place of the wait; a trace shows what it works on.",
    note="they are results of the device; names is a list of lines or functions of a program",
)
_PARTS = Text(
    "headline-tool-parts-3",
    "Of {whole:ns}, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as update (`step`) 300 ms, backward (`bwd`) 200 ms",
)
_PARTS_PER_STEP = Text(
    "headline-tool-parts-per-step-3",
    "Of {whole:ns} per step, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as update (`step`) 300 ms, backward (`bwd`) 200 ms",
)
_KERNELS = Text(
    "headline-tool-kernels-3",
    "Of {whole:ns} on the GPU, according to {tool}: {parts}.",
    note="tool is a program; parts is a list such as ampere_sgemm 300 ms",
)
_KERNELS_COMMUNICATE = Text(
    "headline-tool-kernels-communicate-2",
    "{part:part} on the GPU are collectives, waits included, according to {tool}.",
    note="part reads: 6 of the 10 s; waits: for other ranks; tool is a program",
)
_KERNELS_COPY = Text(
    "headline-tool-kernels-copy-2",
    "{part:part} on the GPU are copies, according to {tool}.",
    note="part reads: 6 of the 10 s; tool is a program",
)
_ALSO = Text("detail-tool-parts", "What takes most: {parts}.", note="parts is a list such as ampere_sgemm 300 ms")
_NAMED = Text("headline-tool-named", "{kind} ({name}) {time:ns}", note="part of a list: update (`step`) 300 ms")
_INNER = Text("headline-tool-inner", "{kind} ({name}) {time:ns} of it", note="part of a list, after what contains it")


def verdict(facts: Facts, run: PrintedRun) -> StepBound:
    """What bounds the program, if a part of it waits for data or communicates; else what takes most."""
    step = facts.step_ns
    loader = facts.resources.loader_ns or 0.0
    if run.cpu_ns and loader >= WORTH * step:
        return StepBound("input", _INPUT(part=(loader, step), tool=run.tool), loader / step)
    communicates = facts.per_step(sum(part.time_ns for part in _outermost(run, "communication")))
    if run.cpu_ns and communicates >= MOST * step:
        return StepBound("communication", _COMMUNICATION(part=(communicates, step), tool=run.tool), communicates / step)
    if (waits := _of_results(facts, run)) is not None:
        return waits
    if run.cpu_ns is not None or not run.kernels:
        return _of_parts(facts, run)
    calls = without_whole.of_run(run) if without_whole.outweigh(run) else None
    return calls or _of_kernels(facts, run)


def _of_results(facts: Facts, run: PrintedRun) -> StepBound | None:
    """That most of the time is waiting for what a device computes; None if it is not, or if the whole is unknown."""
    waits = [part for part in run.parts if part.part == "result"]
    waited = facts.per_step(sum(map(_time, waits)))
    if not run.cpu_ns or waited < MOST * facts.step_ns:
        return None
    names = ", ".join(as_code(part.name) for part in waits[:_SHOWN])
    message = _RESULTS(part=(waited, facts.step_ns), tool=run.tool)
    return StepBound("none", message, None).and_says(_READ_IN, names=names)


def _outermost(run: PrintedRun, kind: str) -> Iterator[PrintedPart]:
    """The parts of a kind that are in no other one of it: timers of steps contain those of micro steps."""
    own = {part.name for part in run.parts if part.part == kind}
    return (part for part in run.parts if part.name in own and part.within not in own)


def _on_device(run: PrintedRun) -> list[tuple[str, int]]:
    """Kernels and copies with their times in ns, the longest first."""
    rows = [(row.name, row.device_self_ns or 0) for row in run.kernels]
    rows += [(copy.name, copy.device_ns or 0) for copy in run.copies]
    return sorted(rows, key=lambda row: -row[1])


def _of_kernels(facts: Facts, run: PrintedRun) -> StepBound:
    """Which kernels and copies take most of the time on the device; and how much of it is no computing."""
    rows = _on_device(run)
    largest = [row for row in rows if row[1] >= WORTH_BESIDE * (run.device_ns or 0)][:_SHOWN] or rows[:1]
    told = [without_whole.PLAIN(name=as_code(name), time=facts.per_step(time)) for name, time in largest]
    collectives = sum(time for name, time in rows if kernel_class(name) is KernelClass.COMMUNICATION)
    copies = sum(copy.device_ns or 0 for copy in run.copies)
    for text, time in ((_KERNELS_COMMUNICATE, collectives), (_KERNELS_COPY, copies)):
        if run.device_ns and time >= MOST * run.device_ns:
            message = text(part=(facts.per_step(time), facts.step_ns), tool=run.tool)
            found = StepBound("none", message, None).and_says(_ALSO, parts=told)
            return found.and_says(without_whole.UNKNOWN_WHOLE)
    return of_list(_KERNELS, told, whole=facts.step_ns, tool=run.tool).and_says(without_whole.UNKNOWN_WHOLE)


def _of_parts(facts: Facts, run: PrintedRun) -> StepBound:
    """Which parts take most: by their own time where it is known, else those whose names tell what they do."""
    least = WORTH_BESIDE * (run.cpu_ns or 0)
    outer = sorted((part for part in _telling(run) if _time(part) >= least), key=lambda part: -_time(part))
    told = [one for part in outer[:_SHOWN] for one in _told(facts, part, run)]
    if not told:
        longest = max(run.parts, key=lambda part: part.time_ns)
        told = [without_whole.PLAIN(name=as_code(longest.name), time=facts.per_step(longest.time_ns))]
    if run.cpu_ns is None:
        return without_whole.of_largest(run, told)
    return of_list(_PARTS_PER_STEP if run.steps > 1 else _PARTS, told, whole=facts.step_ns, tool=run.tool)


def _telling(run: PrintedRun) -> Iterator[PrintedPart]:
    """Parts that are in no other one; calls only where there is nothing else."""
    shown = [part for part in run.parts if part.kind != "call"] or list(run.parts)
    own = [part for part in shown if part.self_ns is not None or part.part is not None] or shown
    inner = [part for part in own if part.within is None or not _is_told(part.within, run)]
    return (part for part in inner if not _consists(part, run))


def _is_told(name: str, run: PrintedRun) -> bool:
    """Whether the part of a name tells what it does, or is within one that does."""
    part = next((part for part in run.parts if part.name == name), None)
    while part is not None:
        if part.part is not None or part.self_ns is not None:
            return True
        part = next((outer for outer in run.parts if outer.name == part.within), None) if part.within else None
    return False


def _consists(part: PrintedPart, run: PrintedRun) -> bool:
    """Whether a part that does not tell what it does consists of printed ones, which are told instead."""
    if part.part is not None or part.self_ns is not None:
        return False
    return sum(inner.time_ns for inner in run.parts if inner.within == part.name) >= MOST * part.time_ns


def _time(part: PrintedPart) -> int:
    return part.time_ns if part.self_ns is None else part.self_ns


def _told(facts: Facts, part: PrintedPart, run: PrintedRun) -> Iterator[Message]:
    """A part, and those in it that do something else."""
    said = {"name": as_code(part.name), "time": facts.per_step(_time(part))}
    yield _NAMED(kind=PARTS[part.part](), **said) if part.part in PARTS else without_whole.PLAIN(**said)
    inners = [inner for inner in run.parts if inner.within == part.name and inner.part not in (None, part.part)]
    for inner in inners:
        if _time(inner) >= _WORTH_WITHIN * (run.cpu_ns or 0):
            yield _INNER(kind=PARTS[inner.part or ""](), name=as_code(inner.name), time=facts.per_step(inner.time_ns))
