"""Names what takes a good part of a step on the CPU: operators, code outside of them, the optimizer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from math import fsum
from typing import Any

from msgspec.structs import replace

from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.host.pauses import HostPauses
from traceanalyzer.analyzers.host.stalls import HostStalls
from traceanalyzer.analyzers.optimizer import Optimizers
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.tables.printed_times import is_waiting
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.kernel_classes import KernelClass, operator_class
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import host_owners
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines.kind_of_work import GEMM, MOST, cache_ns, kind_of_copies, longest_of_operators
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, first_short
from traceanalyzer.rules.engine.headlines.typical import WORTH, WORTH_BESIDE
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording.left_out import MARKED

_SHOWN = 3
_WORTH_NO_OPERATOR = 0.2
"""Share of a step from which on code in no operator is named (own choice: recording events costs a good part of it)."""
_PARTS = frozenset({"mark", "function"})
"""Kinds of owners that are parts of the program, with names that people chose."""
_CALLING = frozenset({"operator", "autograd"})
"""Kinds of owners that are operators which the program calls, and functions that autograd evaluates."""
_SAME = 0.05
"""Owners whose time differs from that of a named operator by less than this share are that operator (own choice)."""
_MOSTLY_PAUSES = 0.8
"""Share of a step in long pauses from which on they are all that can be said of it (own choice)."""
_TINY_NS, _LEAST_CALLS, _DOMINATES = 18_000, 100, 0.25
"""Operators are tiny if at least so many follow one another this quickly, and none of them takes this share of a step
by itself (own choice: a call costs some microseconds in PyTorch, in Python and in the profiler, on any inputs)."""
_ONE_PART = 0.9
"""Share of a step from which on a part of the program is all of it, and its name shows nothing (own choice)."""
_PAUSED = 0.5
"""Least share of a step without its long pauses that its tiny operators are the limit (own choice)."""
_ROUNDED = 1.01
"""By what rounded times of rows may exceed a step together (own choice)."""
_MUCH_OUTSIDE = 0.3
"""Share of a step that is in no operator from which on that is not told as time of operators (own choice)."""
_LONG_CALL_NS = 40_000
"""A call that takes longer by itself computes, rather than being called (own choice: several times a tiny one)."""
_OF_CLASSES = frozenset({"aten::_log_softmax", "aten::nll_loss_forward", "aten::_ctc_loss", "aten::cross_entropy_loss"})
"""Operators of a loss whose first input has a number for each class; softmax may be one of an attention."""
_MANY_CLASSES, _NEARLY_ALL = 1000, 0.9
"""Classes from which on, and share of the time of matrix multiplications with which, an output layer is named (own
choice)."""
_NO_CODE = frozenset({"communication", "asleep"})
"""Resources whose time on the path may be in no operator, but is no code of the program."""
_COPY = "aten::copy_"
HOST = Text(
    "headline-cpu-host-4",
    "Limited by the CPU, which computes for {part:part} of {unit}.",
    note="unit is in the genitive: each step",
)
_MANY = Text(
    "headline-cpu-many-operators-2",
    "Limited by the CPU: it calls {calls:number} tiny operators for {part:part} of {unit}, one every {each:ns}.",
    note="unit is in the genitive: each step",
)
_MANY_IN = Text(
    "headline-cpu-many-operators-in",
    "Limited by the CPU, mostly in {name}: {calls:number} tiny operators for {part:part} of {unit}, one every "
    "{each:ns}.",
    note="unit is in the genitive: each step; name is a function or mark of the program",
)
_CALLS_COST = Text(
    "detail-cpu-calls-cost",
    "What takes time is calling operators rather than their arithmetic: larger batches, fused operators or "
    "torch.compile need fewer calls.",
)
_HOST_IN = Text(
    "headline-cpu-host-in-2",
    "Limited by the CPU for {part:part} of {unit}, longest in {name} ({time:ns}).",
    note="unit is in the genitive: each step; name is an operator such as aten::addmm, or a part of the program",
)
OUTSIDE = Text(
    "headline-cpu-host-outside-3",
    "Limited by the CPU for {part:part} of {unit}, longest outside of operators ({time:ns}).",
    note="unit is in the genitive: each step; outside of operators: in Python or a library outside of PyTorch",
)
OF_KIND = Text(
    "headline-cpu-kind",
    "Limited by the CPU: mostly {work}, {part:part} of {unit}.",
    note="unit is in the genitive: each step; work: matrix multiplications",
)
_MOST_OF_KIND = Text(
    "headline-cpu-most-of-kind",
    "Limited by the CPU for {part:part} of {unit}, most of all {work} ({time:ns}).",
    note="unit is in the genitive: each step; work: matrix multiplications",
)
OF_OPERATORS = (HOST, _HOST_IN, OUTSIDE, _MOST_OF_KIND)
"""Sentences about a step in which no kind of work takes most of the time, and what takes longest."""
_OUTPUT_LAYER = Text(
    "headline-work-output-layer",
    "the output layer of {classes:number} classes",
    note="after: most of all; part of a model; it multiplies matrices",
)
_AGAIN = Text(
    "headline-work-gradients-again",
    "gradients of gradients (create_graph=True)",
    note="after: mostly; a backward pass through another one; create_graph=True is code",
)
_CACHE = Text(
    "headline-work-cache",
    "copying the cache of keys and values",
    note="after: mostly; of attention, while a model generates text",
)
_AND_COMMUNICATION = Text(
    "headline-cpu-and-communication",
    "Limited by the CPU for {part:part} of {unit}, and by communication for {time:ns}.",
    note="unit is in the genitive: each step",
)
_OUTSIDE_COMPILED = Text(
    "headline-cpu-host-outside-compiled",
    "Limited by the CPU for {part:part} of {unit}, longest around {regions:number} parts of compiled code ({time:ns}).",
    note="unit is in the genitive: each step; the code that graph breaks leave between compiled parts",
)
_PAUSES = Text(
    "headline-cpu-pauses-2",
    "The trace does not show what takes {part:part} of {unit}: long pauses in which no operator runs.",
    note="unit is in the genitive: the trace; part reads: 140 of the 152 ms",
)
_MARK_PARTS = Text(
    "detail-cpu-pauses",
    "The program waits (for requests, files, a clock), or it runs code outside of PyTorch: record with "
    "with_stack=True, or put record_function marks around its parts.",
    note="with_stack and record_function are code",
)
_WITH_CALLED = Text(
    "detail-cpu-with-called",
    "With what they call: {owners}.",
    note="they are operators; owners is a list of others, such as aten::argsort 15.73 ms",
)
_OPERATORS = Text(
    "detail-cpu-operators",
    "What takes most of it: {operators}.",
    note="it is the step; operators is a list such as aten::mkldnn_convolution 15.73 ms",
)
_OF_GPU = Text(
    "detail-gpu-works-on",
    "The GPU works longest on {operators}.",
    note="operators is a list such as ampere_sgemm 15.73 ms",
)
_NO_OPERATOR = Text(
    "headline-cpu-no-operator",
    "code in no operator {time:ns}",
    note="part of a list: aten::addmm 3.2 ms; code is Python or a library outside of PyTorch",
)
_OPERATOR = Text("headline-cpu-operator", "{name} {time:ns}", note="part of a list: aten::addmm 3.2 ms; name is code")


def of_pauses(facts: Facts, said: Mapping[str, Any]) -> StepBound | None:
    """The headline of a program on the CPU that is mostly in long pauses, of which nothing was recorded; else None."""
    pauses = facts.find("host_pauses", HostPauses)
    if pauses is None or pauses.owners:
        return None
    time = facts.per_step(pauses.time_ns)
    if time < _MOSTLY_PAUSES * facts.step_ns:
        return None
    message = _PAUSES(part=(time, facts.step_ns), unit=said["unit"])
    return StepBound("host", message, time / facts.step_ns).qualified(_MARK_PARTS)


def with_collectives(found: StepBound, said: Mapping[str, Any], time: float) -> StepBound:
    """The headline, with the time in which nothing but collectives runs if that is more than what it names."""
    part, _ = found.message.params.get("part") or (0.0, 0.0)
    named = found.message.params.get("time", part if found.message.id == OF_KIND.id else 0.0)
    if found.bound != "host" or time <= named:
        return found
    return replace(found, message=_AND_COMMUNICATION(**said, time=time))


def with_operators(facts: Facts, found: StepBound, said: Mapping[str, Any]) -> StepBound:
    """The headline, with what takes a good part of a step by itself: operators, code outside of them, the optimizer.

    Of a table these are its rows by self time: in a range that somebody marked, what is outside of operators may take
    most.
    """
    path = None if facts.view else facts.find("critical_path", CriticalPath)
    found = found if path is None else _with_calls(facts, path, found, said)
    every = _own_times(facts, path)
    own = _worth_telling(every, facts.step_ns)
    own = _within_step(sorted(own, key=lambda entry: (-entry[1], entry[0])), facts.step_ns)[:_SHOWN]
    own = _parts_for(facts, path, own)
    if found.message.id == HOST.id:
        message = _of_kind(facts, every, own, said) or _longest(facts, found.message, own, said)
        found = replace(found, message=_around_compiled(facts, message, said))
    if not own:
        return found
    told = tuple(_OPERATOR(name=name, time=time) if name else _NO_OPERATOR(time=time) for name, time in own)
    found = found.and_says(_OPERATORS, operators=told)
    return found if path is None else _with_owners(path, own, found)


def _longest(facts: Facts, message: Message, own: list[tuple[str, float]], said: Mapping[str, Any]) -> Message:
    """The sentence with what takes longest, if there is room for it."""
    if not own:
        return message
    (name, time), *_ = own
    kind = kind_of_copies(facts) if name == _COPY else None
    of_kind = () if kind is None else (_MOST_OF_KIND(**said, work=kind, time=time),)
    longest = _HOST_IN(**said, name=name, time=time) if name else OUTSIDE(**said, time=time)
    return first_short((*of_kind, longest, message))


def _around_compiled(facts: Facts, message: Message, said: Mapping[str, Any]) -> Message:
    """The sentence about code in no operator, which most likely enters and leaves the parts of broken graphs."""
    code = facts.find("compilation", CompiledCode)
    if code is None or message.id != OUTSIDE.id or not code.breaks_per_step or not code.regions_per_step:
        return message
    parts = _OUTSIDE_COMPILED(**said, time=message.params["time"], regions=code.regions_per_step)
    return first_short((parts, message))


def _of_kind(
    facts: Facts, every: list[tuple[str, float]], own: list[tuple[str, float]], said: Mapping[str, Any]
) -> Message | None:
    """The sentence about one kind of arithmetic that takes longer than all else which takes a good part of a step.

    Args:
        facts: Of the run.
        every: What takes time in a step, and how much in ns.
        own: What takes a good part of it.
        said: The figures of the sentence.
    """
    found = _longest_kind(facts, every)
    if found is None:
        return None
    work, time = found[0], min(found[1], facts.step_ns)
    if time < max(WORTH * facts.step_ns, *(ns for _, ns in own), 0.0):
        return None
    if work.id == GEMM.id:
        work, time = _output_layer(facts) or (work, time)
    if time >= MOST * facts.step_ns:
        return OF_KIND(work=work, part=(time, facts.step_ns), unit=said["unit"])
    return _MOST_OF_KIND(**said, work=work, time=time)


def _longest_kind(facts: Facts, every: list[tuple[str, float]]) -> tuple[Message, float] | None:
    """The kind of work that takes longest in a step, and its time in ns: arithmetic, or gradients of gradients."""
    rows, stalled = if_known(lambda: facts.operators), _stalled(facts)
    long = {row.name for row in rows if row.host_self_ns - stalled.get(row.name, 0) > _LONG_CALL_NS * row.calls}
    whole = ((row.name, facts.per_step(row.host_total_ns)) for row in rows)
    computing = ((name, time - facts.per_step(stalled.get(name, 0))) for name, time in every if name)
    found = longest_of_operators(computing, long, whole)
    kinds = [*_kinds_of_several(facts), *([] if found is None else [found])]
    return max(kinds, key=lambda kind: kind[1], default=None)


def _kinds_of_several(facts: Facts) -> Iterator[tuple[Message, float]]:
    """Kinds of work that are several kinds of arithmetic, or copies for one purpose, and their ns per step."""
    passes = facts.find("passes", Passes)
    if passes is not None and passes.again_ns:
        yield _AGAIN(), facts.per_step(passes.again_ns)
    if (time := cache_ns(facts)) > 0:
        yield _CACHE(), facts.per_step(time)


def _output_layer(facts: Facts) -> tuple[Message, float] | None:
    """An output layer that takes nearly all time of matrix multiplications, and its ns per step; None without one."""
    rows = [(row, shapes) for row in if_known(lambda: facts.shaped) if (shapes := row.inputs.tensors)]
    classes = {shapes[0][-1] for row, shapes in rows if row.name in _OF_CLASSES and shapes[0]}
    times: Counter[int] = Counter()
    for row, shapes in rows:
        if operator_class(row.name) is KernelClass.GEMM:
            times.update(dict.fromkeys(classes.intersection(chain.from_iterable(shapes)), row.host_self_ns))
            times[0] += row.host_self_ns
    large = [size for size in classes if size >= _MANY_CLASSES and times[size] >= _NEARLY_ALL * times[0] > 0]
    return (_OUTPUT_LAYER(classes=max(large)), facts.per_step(times[max(large)])) if large else None


def _with_owners(path: CriticalPath, own: list[tuple[str, float]], found: StepBound) -> StepBound:
    """Add operators and functions of autograd that take much with all that they call, if they are others."""
    named = dict(own)
    owners = [(row.name, row.ns_per_step) for row in path.owners if row.name and row.kind in _CALLING]
    owners = [(name, time) for name, time in owners if time >= WORTH_BESIDE * path.step_ns][:_SHOWN]
    is_said = [any(abs(time - each) <= _SAME * time for each in named.values()) for _, time in owners]
    if all(is_said) or any(marks.is_optimizer(name) for name in named):
        return found
    return found.and_says(_WITH_CALLED, owners=tuple(_OPERATOR(name=name, time=time) for name, time in owners))


def _own_times(facts: Facts, path: CriticalPath | None) -> list[tuple[str, float]]:
    """Time of a step in each operator by itself, and "" for what is in none of them."""
    if facts.view:
        rows = [row for row, _ in facts.view.by_name]
        rows = [row for row in rows if not is_waiting(row.name)]
        return [("" if row.name.startswith(MARKED) else row.name, facts.per_step(row.self_cpu_ns or 0)) for row in rows]
    if path is not None:
        return _of_path(facts, path)
    return [(row.name, facts.per_step(row.host_self_ns)) for row in if_known(lambda: facts.operators)]


def _parts(path: CriticalPath) -> list[tuple[str, float]]:
    """The marks and functions of the program that take a good part of a step, if they take most of it."""
    own = [(row.name, row.ns_per_step) for row in path.owners if row.name and row.kind in _PARTS]
    if fsum(time for _, time in own) < MOST * path.step_ns:
        return []
    return [(name, time) for name, time in own if time >= WORTH_BESIDE * path.step_ns][:_SHOWN]


def _one_part(path: CriticalPath) -> str | None:
    """The mark or function of the program that takes most of a step by itself, if it is not all of the program."""
    own = [row for row in path.owners if row.name not in host_owners.ANONYMOUS and row.kind in _PARTS]
    most = (row for row in own if MOST * path.step_ns <= row.ns_per_step < _ONE_PART * path.step_ns)
    return next((row.name for row in most), None)


def _parts_for(facts: Facts, path: CriticalPath | None, own: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The parts of the program that take most of a step, where code outside of operators does; else what takes it."""
    if path is None or not own or own[0][0]:
        return own
    return _parts(path) or _of_purpose(facts) or own


def _of_purpose(facts: Facts) -> list[tuple[str, float]]:
    """The part of the program around most of the step whose name shows its purpose, if it is one."""
    owners = host_owners.on_cpu(facts)
    rows = () if owners is None else owners.roles
    long = [row for row in rows if row.host_ns_per_step >= MOST * facts.step_ns]
    return [(owners.rows[row.owner].name, row.host_ns_per_step) for row in long[:1]] if owners is not None else []


def _with_calls(facts: Facts, path: CriticalPath, found: StepBound, said: Mapping[str, Any]) -> StepBound:
    """What is said of a step that is mostly calls of tiny operators; much code in none of them is not their time."""
    rows, stalled = if_known(lambda: facts.operators), _stalled(facts)
    pauses = facts.find("host_pauses", HostPauses)
    calls = facts.per_step(sum(row.calls for row in rows))
    lost = sum(stalled.values()) + (pauses.time_ns if pauses else 0)
    time = facts.step_ns - facts.per_step(lost)  # of operators and calling them
    longest, long = _long_times([(row.host_self_ns - stalled.get(row.name, 0), row.calls) for row in rows])
    if (
        calls < _LEAST_CALLS
        or time > _TINY_NS * calls
        or facts.per_step(max(longest, long)) >= _DOMINATES * facts.step_ns
    ):
        return found
    if time < _PAUSED * facts.step_ns:
        return found
    if found.message.id == HOST.id:
        found = replace(found, message=_many(facts, path, said, time, calls))
    return found.qualified(_CALLS_COST)


def _many(facts: Facts, path: CriticalPath, said: Mapping[str, Any], time: float, calls: float) -> Message:
    """The sentence about calls of tiny operators, which take some time in ns per step, and the part that makes most."""
    outside = fsum(row.ns_per_step for row in path.operators if not row.operator)
    outside = outside if outside >= _MUCH_OUTSIDE * facts.step_ns else 0.0
    part = max(0.0, facts.step_ns - outside)
    told = dict(said) | ({"part": (part, facts.step_ns)} if outside else {})
    told |= {"calls": round(calls), "each": min(time, part) / calls}
    name = _one_part(path)
    return _MANY_IN(**told, name=f"`{name}`") if name else _MANY(**told)


def _long_times(own: list[tuple[int, int]]) -> tuple[int, int]:
    """Of operators, by their time in ns and their calls, the longest time, and the sum of those whose calls compute."""
    longest = max((ns for ns, _ in own), default=0)
    return longest, sum(ns for ns, count in own if ns > _LONG_CALL_NS * count)


def _stalled(facts: Facts) -> dict[str, int]:
    """By operator, the time in ns in which its threads had no core: it neither computes nor is called meanwhile."""
    stalls = facts.find("host_stalls", HostStalls)
    return {row.name: row.time_ns for row in stalls.rows if row.kind == "operator"} if stalls else {}


def _within_step(own: list[tuple[str, float]], step_ns: float) -> list[tuple[str, float]]:
    """What fits into a step together, the longest first: other rows are, at least in part, of other threads."""
    left = step_ns * _ROUNDED
    kept = []
    for name, time in own:
        if time <= left:
            left -= time
            kept.append((name, time))
    return kept


def with_work_of_gpu(facts: Facts, found: StepBound) -> StepBound:
    """The headline of a table, with the rows that take a good part of the GPU's time: kernels if it has any."""
    if not facts.view or not facts.resources.gpu_ns:
        return found
    rows = facts.rows(RowKind.KERNEL) or facts.rows(RowKind.OPERATOR)
    own = [(row.name, facts.per_step(row.self_device_ns or row.device_total_ns or 0)) for row in rows]
    worth = sorted(_worth_telling(own, facts.resources.gpu_ns), key=lambda entry: (-entry[1], entry[0]))[:_SHOWN]
    told = tuple(_OPERATOR(name=name, time=time) for name, time in worth)
    return found.and_says(_OF_GPU, operators=told) if told else found


def _worth_telling(own: list[tuple[str, float]], step_ns: float) -> list[tuple[str, float]]:
    """What takes a good part of a step; code in no operator also if it takes more than each operator that does."""
    named = [(name, time) for name, time in own if name and time >= WORTH_BESIDE * step_ns]
    least = min(_WORTH_NO_OPERATOR * step_ns, max((time for _, time in named), default=math.inf))
    return [*named, *((name, time) for name, time in own if not name and time >= least)]


def _of_path(facts: Facts, path: CriticalPath) -> list[tuple[str, float]]:
    """Operators of the typical step, and "" for code in none of them, sleep and collectives excepted.

    An optimizer that takes most of the step is named instead of its arithmetic, but not one that computes the loss in a
    closure: its arithmetic is the model's.
    """
    optimizers = _leading_optimizers(facts, path)
    if optimizers:
        return optimizers
    elsewhere = fsum(part.ns_per_step for part in path.parts if part.resource in _NO_CODE)
    operators = [(row.operator, row.ns_per_step) for row in path.operators if row.operator]
    outside = fsum(row.ns_per_step for row in path.operators if not row.operator) - elsewhere
    return [*operators, ("", outside)]


def _leading_optimizers(facts: Facts, path: CriticalPath) -> list[tuple[str, float]]:
    """Optimizers without a closure that take most of the step."""
    recorded = facts.find("optimizers", Optimizers)
    with_closure = {row.name for row in recorded.rows if row.closures} if recorded else set()
    long = [(row.name, row.ns_per_step) for row in path.owners if row.name and row.ns_per_step >= MOST * path.step_ns]
    return [(name, time) for name, time in long if marks.is_optimizer(name) and name not in with_closure]
