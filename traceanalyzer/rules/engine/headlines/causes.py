"""What takes the time of a run, for its headline: owners of the host's time, work of the GPU, printed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import fsum

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.host import HostOwner, HostOwners
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls
from traceanalyzer.analyzers.optimizer import Optimizers
from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class, operator_class
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import host_owners
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording.left_out import MARKED

_WORTH = 0.1
"""Share of a step from which on an operator or a part of the program is named (own choice: half of what bounds a
step)."""
_LONG = 0.3
"""Share of a step from which on a single call is named."""
_MUCH = 0.2
"""Share of a step from which on time without an owner is mentioned."""
_BARE = ("operator", "call")
"""Kinds of owners without anything around them that names a part of the program."""
_OWN_RULES = frozenset({"loader", "compilation"})
"""Roles that the sentence names by itself."""

_OWNER = Text(
    "headline-owner",
    "{headline} While the GPU waits, {owner} takes {part:part}.",
    note="headline is a sentence; owner is a function, mark or module; part reads: 35 of the 152 ms",
)
_OWNER_WITH = Text(
    "headline-owner-with-role",
    "{headline} While the GPU waits, {owner} takes {part:part}, and {other} {other_part:part}.",
    note="headline is a sentence; owner and other are functions, marks or modules; part: 35 of the 152 ms",
)
_OWNER_OF_WHICH = Text(
    "headline-owner-of-which",
    "{headline} While the GPU waits, {owner} takes {part:part}; of that, {other} takes {other_part:part}.",
    note="headline is a sentence; owner and other are functions, marks or modules; part: 35 of the 152 ms",
)
_LEAVES = Text(
    "headline-owner-leaves",
    "{headline} It was not recorded which part of the program that is: there are no marks, modules or stacks around "
    "the operators (with_stack=True records stacks).",
    note="headline is a sentence",
)
_SILENT = Text(
    "headline-owner-silent",
    "{headline} For {part:part} it is unknown what the host does: no event of its thread was recorded.",
    note="headline is a sentence; part reads: 35 of the 152 ms",
)
_CALL = Text(
    "headline-long-call",
    "{headline} A single call of `{call}` in {owner} takes {time:ns}.",
    note="headline is a sentence; call is an operator or runtime call; owner a function, mark or module",
)
_CALL_WAITS = Text(
    "headline-long-call-waits",
    "{headline} A single call of `{call}` in {owner} takes {time:ns}: {wait} waits until {event} has ended.",
    note="headline is a sentence; call is an operator, wait a runtime call, event a kernel or copy",
)
_CALL_EARLIER = Text(
    "headline-long-call-earlier",
    "{headline} A single call of `{call}` in {owner} takes {time:ns}: {wait} waits for work that was launched before "
    "the recording began.",
    note="headline is a sentence; call is an operator, wait a runtime call",
)
_START_UP = Text(
    "headline-start-up-2",
    "This recording is mostly start-up: for {part:part} code is loaded or compiled, or "
    "memory is allocated, which happens only once. Record a few steps after a warm-up.",
)
_START_UP_IN = Text(
    "headline-start-up-in",
    "{headline} Most of it, {time:rounded_ns}, is in {name}, which most likely compiles code at its first call.",
    note="headline is a sentence; name is an operator or a function of TorchScript",
)
_START_UP_REST = Text(
    "headline-start-up-rest",
    "{headline} Without the start-up {rest:rounded_ns} are left, for {busy:percent} of which the GPU works.",
    note="headline is a sentence; rest is a time",
)
_SHOWN = 3
_WORTH_OUTSIDE = 0.2
"""Share of a step from which on code in no operator is named (own choice: recording events costs a good part of it)."""
_MOST = 0.5
"""Share of the step from which on an optimizer is named, and share of a start-up for its place (own choice: half)."""
_NO_CODE = frozenset({"communication", "asleep"})
"""Resources whose time on the path may be in no operator, but is no code of the program."""
_OPERATORS = Text(
    "headline-cpu-operators",
    "{headline} What takes most of it: {operators}.",
    note="headline is a sentence; operators is a list such as aten::mkldnn_convolution 15.73 ms",
)
_NO_OPERATOR = Text(
    "headline-cpu-no-operator",
    "code in no operator {time:ns}",
    note="part of a list: aten::addmm 3.2 ms; code is Python or a library outside of PyTorch",
)
_OPERATOR = Text("headline-cpu-operator", "{name} {time:ns}", note="part of a list: aten::addmm 3.2 ms; name is code")


def of_host(facts: Facts, headline: Message, step_ns: float) -> Message:
    """The sentence on a step that the host bounds, with the parts of the program that take most of its idle time.

    Args:
        facts: Of the run.
        headline: The sentence.
        step_ns: Duration of the typical step.
    """
    owners = host_owners.found(facts)
    if owners is None or step_ns <= 0:
        return headline
    headline = _with_owner(facts, owners, headline, step_ns)
    call = next(_long_calls(owners, step_ns), None)
    return headline if call is None else _with_call(headline, call)


def of_input(facts: Facts, headline: Message, step_ns: float) -> Message:
    """The sentence on a step that waits for its loader, with what the loader does, if it does it itself."""
    row = host_owners.largest(facts)
    if row is None or row.role not in ("preprocessing", "tokenization") or step_ns <= 0:
        return headline
    idle = row.idle_ns_per_step or 0.0
    return _OWNER(headline=headline, owner=host_owners.name(row), part=(idle, step_ns)) if idle else headline


def _with_owner(facts: Facts, owners: HostOwners, headline: Message, step_ns: float) -> Message:
    row = host_owners.largest(facts)
    if row is not None and (row.idle_ns_per_step or 0.0) >= _WORTH * step_ns:
        headline = _named(owners, row, headline, step_ns)
    elif fsum(row.idle_self_ns_per_step or 0.0 for row in owners.rows if row.kind in _BARE) >= _MUCH * step_ns:
        headline = _LEAVES(headline=headline)
    silent = owners.unowned.idle_self_ns_per_step or 0.0
    return _SILENT(headline=headline, part=(silent, step_ns)) if silent >= _MUCH * step_ns else headline


def _named(owners: HostOwners, row: HostOwner, headline: Message, step_ns: float) -> Message:
    """Add the owner, and another owner whose work a rule gives advice about."""
    said = {"headline": headline, "owner": host_owners.name(row), "part": (row.idle_ns_per_step or 0.0, step_ns)}
    for role in owners.roles:
        idle = role.idle_ns_per_step or 0.0
        if role.role == row.role or role.role in _OWN_RULES or idle < _WORTH * step_ns:
            continue
        other = owners.rows[role.owner]
        # a mark and its own part with a role have one name; elsewhere only sums show whether one is in the other
        text = _OWNER_OF_WHICH if other.name == row.name else _OWNER_WITH
        if text is _OWNER_WITH and (other.idle_ns or 0) + (row.idle_ns or 0) > (owners.idle_ns or 0):
            continue
        return text(**said, other=host_owners.name(other), other_part=(idle, step_ns))
    return _OWNER(**said)


def _long_calls(owners: HostOwners, step_ns: float) -> Iterator[HostOwner]:
    """Owners with a single call that takes much of a step while the device does nothing for at least half of that."""
    for row in sorted(owners.rows, key=lambda row: -(row.longest_call.duration_ns if row.longest_call else 0)):
        call = row.longest_call
        if call is None or call.duration_ns < _LONG * step_ns:
            return
        if 2 * (row.idle_self_ns or 0) >= call.duration_ns and call.name != row.name:
            yield row


def _with_call(headline: Message, row: HostOwner) -> Message:
    call = row.longest_call
    if call is None:
        return headline
    said = {"headline": headline, "call": call.name, "owner": host_owners.name(row), "time": call.duration_ns}
    if call.wait is None or 2 * call.waiting_ns < call.duration_ns:
        return _CALL(**said)
    if call.waits_for == "unrecorded-work":
        return _CALL_EARLIER(**said, wait=call.wait)
    if call.event is None:
        return _CALL(**said)
    return _CALL_WAITS(**said, wait=call.wait, event=call.event)


def of_startup(facts: Facts) -> Message:
    """The headline of a recording that is mostly start-up: what most of it is, and what is left without it."""
    startup, busy, calls = facts.startup_per_step, facts.resources.gpu_ns, facts.find("runtime_calls", RuntimeCalls)
    message = _START_UP(part=(startup, facts.step_ns))
    compiling = [row for row in (calls.rows if calls else ()) if row.kind == "compiling" and row.is_inferred]
    most = max(compiling, key=lambda row: row.time_ns, default=None)
    if most is not None and most.time_ns >= _MOST * startup:
        message = _START_UP_IN(headline=message, time=most.time_ns, name=f"`{most.name}`")
    rest = facts.step_ns - startup
    if busy is None or facts.table is not None or facts.tells_little or not rest:
        return message
    return _START_UP_REST(headline=message, rest=rest, busy=min(1.0, busy / rest))


def with_operators(facts: Facts, message: Message) -> Message:
    """The headline, with what takes a good part of a step by itself: operators, code outside of them, the optimizer.

    Of a table these are its rows by self time: in a range that somebody marked, what is outside of operators may take
    most.
    """
    path = facts.find("critical_path", CriticalPath)
    if facts.view:
        rows = [
            ("" if row.name.startswith(MARKED) else row.name, row.self_cpu_ns or 0) for row, _ in facts.view.by_name
        ]
        times = [(name, facts.per_step(time)) for name, time in rows]
    elif path is not None:
        times = _of_path(facts, path)
    else:
        times = [(row.name, facts.per_step(row.host_self_ns)) for row in if_known(lambda: facts.operators)]
    times = [entry for entry in times if entry[1] >= (_WORTH if entry[0] else _WORTH_OUTSIDE) * facts.step_ns]
    times.sort(key=lambda entry: (-entry[1], entry[0]))
    told = tuple(_OPERATOR(name=name, time=time) if name else _NO_OPERATOR(time=time) for name, time in times[:_SHOWN])
    return _OPERATORS(headline=message, operators=told) if told else message


def _of_path(facts: Facts, path: CriticalPath) -> list[tuple[str, float]]:
    """Operators of the typical step, and "" for code in none of them, sleep and collectives excepted.

    An optimizer that takes most of the step is named instead of its arithmetic, but not one that computes the loss in a
    closure: its arithmetic is the model's.
    """
    found = facts.find("optimizers", Optimizers)
    closures = {row.name for row in found.rows if row.closures} if found else set()
    optimizers = [
        (owner.name, owner.ns_per_step)
        for owner in path.owners
        if owner.name and marks.is_optimizer(owner.name) and owner.ns_per_step >= _MOST * path.step_ns
        if owner.name not in closures
    ]
    elsewhere = fsum(part.ns_per_step for part in path.parts if part.resource in _NO_CODE)
    operators = [(row.operator, row.ns_per_step) for row in path.operators if row.operator]
    outside = fsum(row.ns_per_step for row in path.operators if not row.operator) - elsewhere
    return optimizers or [*operators, ("", outside)]


_COMPUTE = frozenset({"gemm", "moe", "convolution", "attention"})
"""Classes of kernels that are bound by arithmetic at the sizes used in training."""
_MOVING = frozenset({"normalization", "elementwise", "reduction", "copy", "optimizer", "embedding", "pooling"})
"""Classes that mostly move data. Generated kernels without a known class and unknown kernels may be either."""
_HALF = 0.5

UNNAMED = "gpu"
"""The result if the names of the kernels do not decide it."""
MIXED = "gpu-mixed"
"""The result for a table of which they show that no kind of work takes most of the time."""


def gpu_bound(facts: Facts) -> str:
    """Kind of work with most of the GPU's time: `gpu-compute`, `gpu-memory`, `UNNAMED`, or of a table `MIXED`.

    It is the larger of the two known times, if half of the time is known; of a table it is half of all time, or none.
    Generated kernels count by their names.
    """
    times, total = _recorded_classes(facts) if facts.table is None else _printed_classes(facts)
    compute, moving = (sum(times.get(name, 0) for name in kinds) for kinds in (_COMPUTE, _MOVING))
    if max(compute, moving) >= _HALF * total > 0:
        return "gpu-compute" if compute >= moving else "gpu-memory"
    if facts.table is not None:
        return MIXED if compute + moving + times.get("communication", 0) >= _HALF * total > 0 else UNNAMED
    if compute + moving < _HALF * total or not total:
        return UNNAMED
    return "gpu-compute" if compute > moving else "gpu-memory"


def _recorded_classes(facts: Facts) -> tuple[dict[str, int], int]:
    """Device time by class, and in all: kernels, and copies and fills while no kernel runs; collectives in neither."""
    found, copies = facts.find("kernel_classes", KernelClasses), facts.find("copies", Copies)
    if found is None:
        return {}, 0
    times = Counter({row.name: row.total_ns for row in found.rows})
    total = found.total_ns - times.pop("communication", 0)
    alone = 0 if copies is None else copies.exposed_ns
    times["copy"] += alone
    return times, total + alone


def printed_communication(facts: Facts) -> float:
    """Device time per step in collectives, for a table; 0 if none is printed."""
    return facts.on_device(_printed_times(facts).get("communication", 0))


def _printed_times(facts: Facts) -> dict[str, int]:
    """Device time by class, from the printed kernels or operators, whichever names classify more time."""
    kernels = _by_class((kernel_class(row.name), row.total_ns) for row in if_known(lambda: facts.kernels))
    operators = _by_class((operator_class(row.name), row.device_self_ns) for row in if_known(lambda: facts.operators))
    return max(kernels, operators, key=lambda found: sum(found.values()) - found.get(KernelClass.OTHER.value, 0))


def _printed_classes(facts: Facts) -> tuple[dict[str, int], int]:
    """Device time by class, and of all of the device."""
    times = _printed_times(facts)
    whole = facts.table.device_ns if facts.table and not facts.table.annotations_in_total else None
    return times, max(sum(times.values()), whole or 0)


def _by_class(times: Iterable[tuple[KernelClass, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for kind, time in times:
        found[kind.value] += time
    return found
