"""Detects faults of trainings: updates of parameters that take too long.

The rules here are optimizer-not-fused and optimizer-expensive. What becomes of gradients in between is in `zero_grad`;
passes that nothing uses, or that take too long, are in `passes`; other work of each step is in `beside_training`.
"""

from __future__ import annotations

import re
from math import fsum

import msgspec

from traceanalyzer.analyzers import optimizer as optimizers
from traceanalyzer.analyzers.operators import on_cpu
from traceanalyzer.analyzers.optimizer import tensor_loops
from traceanalyzer.knowledge import marks
from traceanalyzer.rules.engine import idle_time, program
from traceanalyzer.rules.engine.change import DeviceWork, HostTime
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, OfEvents, page
from traceanalyzer.rules.optimizer import beside_training, passes, zero_grad
from traceanalyzer.rules.optimizer.zero_grad import places
from traceanalyzer.structure.events import EventSet

_NOT_FUSED = page("optimizer-not-fused")
_EXPENSIVE = page("optimizer-expensive")
_SPECIAL = {
    "second-order": _EXPENSIVE.text("advice-second-order"),
    "orthogonal": _EXPENSIVE.text("advice-orthogonal"),
    "sparse": _EXPENSIVE.text("advice-sparse"),
}

FEWEST_CALLS = 100
"""Launches, or calls in a program without a GPU, of one update from which on it is a loop over parameters (own choice:
optimizers on lists launch some tens for any model)."""
_CLASS = re.compile(r"#(\w+)\.step$")
"""Finds the class of an optimizer in the name of its range."""
_SPARSE = re.compile("sparse|coalesce", re.IGNORECASE)
"""Names of optimizers and operators whose gradients are sparse; no fused form supports them."""
_LEAST, _MOST = 0.5, 0.97
"""Own choice for classes without a measured saving: the Python loops that collect parameters and a few launches
remain, which took 5 % on an H200."""
_MANY = 8
"""Own choice: so many optimizers of one class in a step have a layer or a tensor each, and one could have them all."""
_ARITHMETIC = 0.8
"""Own choice: an optimizer that does more than arithmetic on its parameters cannot be fused."""
_OPTION = {
    **dict.fromkeys(("Adam", "AdamW", "SGD", "Adagrad"), "fused"),
    **dict.fromkeys(("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"), "foreach"),
}
"""How torch.optim's classes update all parameters at once (torch 2.4; their documentation)."""

_Parts = tuple[float, float]
"""Least and greatest part of a time that is saved."""
_Saved = tuple[_Parts | None, _Parts | None, _Parts | None]

_SINCE = (2, 4)  # torch whose fused optimizers compute on a CPU (release notes)
_CALL_NS = 20_000  # own choice: longer calls move more memory than the cache of a core can hold
_FEWEST_LONG_CALLS = 32
"""Own choice: four calls for each of eight parameters, with which the saving was measured; fewer take little time."""
_MUCH = 0.1
"""Share of a step from which on few calls count, too (own choice); then half of their time goes at least."""
_LONG_CALL_NS = 200_000  # own choice: such calls move more memory than the caches of a processor can hold
_SAVED: dict[str, _Saved] = {
    "Adam": ((0.72, 0.97), (0.5, 0.8), (0.7, 0.92)),
    "AdamW": ((0.72, 0.97), (0.5, 0.8), (0.7, 0.92)),
    "Adagrad": ((0.55, 0.85), (0.4, 0.7), (0.35, 0.85)),
    "SGD": ((0.6, 0.9), (0.2, 0.4), (0.25, 0.5)),
}
"""Least and most of the time that fused=True saves on a CPU, with short, long and very long calls (see the page)."""
_SAVED_WITHOUT_MOMENTUM: _Saved = ((0.35, 0.6), None, None)
"""The same for SGD with one operation for each parameter."""
_MOMENTUM = "aten::mul_"

_PASSES_SAVED = 0.3, 0.65
"""Least and most of the time of Adam on lists that the fused form saves (page; half of it: own choice)."""
_ON_A_DEVICE = 0.8
"""Least part of an update on the CPU that goes away on a device, whose memory is ten times as fast (own choice)."""
_MOST_OF_STEP = 0.5  # from this share on an optimizer is what to look at, whatever can be saved (own choice)
_HIDDEN = 0.25
"""Least part of its time that must leave the device without work (own choice)."""


def _not_fused(facts: Facts, limits: Limits) -> Drafts:
    is_on_cpu = program.computes_on_cpu(facts)
    loops = facts.find("tensor_loops", tensor_loops.TensorLoops)
    for loop in loops.rows if loops and not is_on_cpu else ():
        yield from _loop(facts, loop, limits)
    found = (facts.find if loops else facts.need)("optimizers", optimizers.Optimizers)
    for row in found.rows if found else ():
        yield from (_not_fused_on_cpu if is_on_cpu else _not_fused_beside_device)(facts, row, limits)


def _loop(facts: Facts, row: tensor_loops.TensorLoop, limits: Limits) -> Drafts:
    """A loop of the program over tensors that launches as many kernels as an optimizer that is not fused."""
    host, launches = facts.per_step(row.host_ns), row.launches / row.runs
    if launches < limits["launches"] or host <= limits["host_share"] * facts.step_ns:
        return
    operators = ", ".join(name.removeprefix("aten::") for name in row.operators)
    name = f"{operators} in {row.owner}" if row.owner else operators
    where = (CodePlace("operator", name, None, host, "ns", row.start_ns),)
    of_loop, of_host = _NOT_FUSED.text("subject-loop")(), _NOT_FUSED.text("host-loop")()
    evidence = (
        _NOT_FUSED.evidence(limits, "launches", launches, where, subject=of_loop),
        _NOT_FUSED.evidence(limits, "host_share", host / facts.step_ns, where, subject=of_host),
    )
    params = {
        "tensors": row.turns,
        "operators": operators,
        "launches": round(launches),
        "host": OfEvents(host),
        "share": OfEvents(host, is_share=True),
        "device": facts.per_step(row.device_ns),
        "owner": row.owner or "",
    }
    yield Draft(
        evidence,
        _at_once(facts, row, host),
        params,
        confidence="B",
        title=_NOT_FUSED.text("title-loop"),
        summary=_NOT_FUSED.text("summary-loop-in") if row.owner else _NOT_FUSED.text("summary-loop"),
        advice=_NOT_FUSED.text("advice-loop"),
        code="torch._foreach_mul_(tensors, factor)  # instead of tensor.mul_(factor) in a loop over the tensors",
    )


def _at_once(facts: Facts, row: tensor_loops.TensorLoop, host: float) -> HostTime:
    """The operators of a loop on all tensors at once."""
    ended = idle_time.claims(facts, row.exposed)
    idle = fsum(ended.values())
    return HostTime(
        (_LEAST * host, _MOST * host),
        _NOT_FUSED.text("basis")(least=_LEAST, most=_MOST),
        (min(_LEAST * host, idle), min(_MOST * host, idle)),
        ended,
        within=tensor_loops.tensor_loops_at(start_ns=row.start_ns),
    )


def _not_fused_beside_device(facts: Facts, row: optimizers.Optimizer, limits: Limits) -> Drafts:
    host = facts.per_step(row.steady_ns)
    launches = row.launches / _updates(facts, row)
    share = host / facts.step_ns
    if launches < limits["launches"] or share <= limits["host_share"] or not _could_use_lists(row):
        return
    where = places(facts, (row,))
    evidence = (
        _NOT_FUSED.evidence(limits, "launches", launches, where),
        _NOT_FUSED.evidence(limits, "host_share", share, where, subject=_NOT_FUSED.text("host")()),
    )
    params = {
        "optimizer": row.name,
        "launches": round(launches),
        "host": OfEvents(host),
        "share": OfEvents(host, is_share=True),
        "device": facts.per_step(row.device_ns),
    }
    advice = _NOT_FUSED.text("advice-refused") if program.refuses_lists(facts) else None
    yield Draft(evidence, _fused(facts, row), params, advice=advice, code=_fused_code(row.name))


def _fused(facts: Facts, row: optimizers.Optimizer) -> HostTime:
    """All parameters updated at once, beside a device."""
    host = facts.per_step(row.steady_ns)
    least, most = _saved_beside_device(row)
    ended = idle_time.claims(facts, row.exposed)
    idle = fsum(ended.values())
    return HostTime(
        (least * host, most * host),
        _NOT_FUSED.text("basis")(least=least, most=most),
        (min(least * host, idle), min(most * host, idle)),
        ended,
        within=optimizers.optimizers_at(rows=(row,)),
        shares=(row.events,),
    )


def _saved_beside_device(row: optimizers.Optimizer) -> _Parts:
    """Least and most of the host time that the fused form saves: as measured with short calls on a CPU."""
    named = _CLASS.search(row.name)
    short = _SAVED[named[1]][0] if named and named[1] in _SAVED else None
    return short or (_LEAST, _MOST)


def _updates(facts: Facts, row: optimizers.Optimizer) -> float:
    """Number of updates of the model: all calls of a step are one, where each parameter has an optimizer of its own."""
    return facts.steps if row.calls >= _MANY * facts.steps else row.calls


def _could_use_lists(row: optimizers.Optimizer) -> bool:
    """Whether it does arithmetic on one parameter at a time, and could do it on lists."""
    arithmetic = row.elementwise_launches >= _ARITHMETIC * row.launches
    own = row.kind == "step" and not row.closures
    return own and not row.list_operators and arithmetic and not _is_sparse(row)


def _not_fused_on_cpu(facts: Facts, row: optimizers.Optimizer, limits: Limits) -> Drafts:
    """Without a GPU calls of operators take the time that launches take elsewhere."""
    work = EventTimes.on_cpu(facts, ((row.events, row.steady_ns),))
    saved = _saved_on_cpu(facts, row, limits["launches"])
    if saved is None or work.share <= limits["host_share"]:
        return
    where = places(facts, (row,))
    evidence = [_NOT_FUSED.evidence(limits, "host_share", work.share, where, subject=_NOT_FUSED.text("host")())]
    each = row.in_place / _updates(facts, row)
    if each >= limits["launches"]:
        subject = _NOT_FUSED.text("subject-table")()
        evidence.insert(0, _NOT_FUSED.evidence(limits, "launches", each, where, subject=subject))
    least, most = saved
    is_refused = program.refuses_lists(facts)
    basis = _NOT_FUSED.text("basis-cpu")(least=least, most=most)
    at = optimizers.optimizers_at(rows=(row,))
    yield Draft(
        tuple(evidence),
        work.processor.less_work((least * work.time, most * work.time), basis, work.claims(), at),
        {
            "optimizer": row.name,
            "calls": round(each),
            "host": OfEvents(work.time),
            "share": OfEvents(work.time, is_share=True),
        },
        summary=_NOT_FUSED.text("summary-cpu"),
        advice=_NOT_FUSED.text("advice-cpu-refused") if is_refused else _NOT_FUSED.text("advice-cpu"),
        code=_fused_code(row.name),
    )


def _saved_on_cpu(facts: Facts, row: optimizers.Optimizer, fewest: float = FEWEST_CALLS) -> _Parts | None:
    """Least and most of the time of an optimizer that the fused form saves; None if there is none, or no loop."""
    if not program.has_torch(facts, _SINCE):
        return None
    short, long, longest = _measured(row)
    if row.in_place_ns > _LONG_CALL_NS * row.in_place:
        return longest
    is_long = row.steady_ns > _CALL_NS * row.in_place
    if row.in_place < (min(fewest, _FEWEST_LONG_CALLS) if is_long else fewest) * _updates(facts, row):
        is_much = facts.per_step(row.steady_ns) >= _MUCH * facts.step_ns
        return (_LEAST, short[1]) if short and is_much and not is_long else None
    return long if is_long else short


def _measured(row: optimizers.Optimizer) -> _Saved:
    """What was measured of its class, if it does arithmetic on one parameter at a time, by itself."""
    named = _CLASS.search(row.name)
    is_loop = row.kind == "step" and row.in_place and not (row.closures or row.list_operators or _is_sparse(row))
    if not is_loop or named is None:
        return None, None, None
    plain = named[1] == "SGD" and all(entry.name != _MOMENTUM for entry in row.operators)
    return _SAVED_WITHOUT_MOMENTUM if plain else _SAVED.get(named[1], (None, None, None))


def _is_sparse(row: optimizers.Optimizer) -> bool:
    return any(_SPARSE.search(name) for name in (row.name, *(entry.name for entry in row.operators)))


class _PrintedSteps(msgspec.Struct, frozen=True):
    """Steps of the optimizers in a table."""

    names: tuple[str, ...]
    """Of the rows, the longest first."""
    calls: int
    """Of the optimizer that is called most often."""
    host_ns: int
    """Host time of all of them."""
    longest_ns: int
    """Host time of the first of them."""


def _printed_steps(facts: Facts) -> _PrintedSteps:
    rows = [row for row in facts.printed_marks if marks.is_optimizer_step(row.name) and row.cpu_total_ns]
    times = [row.cpu_total_ns or 0 for row in rows]
    calls = max((row.calls or 0 for row in rows), default=0)
    return _PrintedSteps(tuple(row.name for row in rows), calls, sum(times), times[0] if times else 0)


def _not_fused_in_table(facts: Facts, limits: Limits) -> Drafts:
    printed = _printed_steps(facts)
    if not _may_be_loops(facts, printed) or not printed.calls or facts.table is None or not facts.table.cpu_ns:
        return
    updates = [row for row in facts.operators if row.name in optimizers.IN_PLACE]
    updates.sort(key=lambda row: (-row.host_total_ns, row.name))
    each = sum(row.calls for row in updates) / printed.calls
    host = facts.per_step(printed.host_ns)
    share = host * facts.steps / facts.table.cpu_ns
    if each < limits["launches"] or share <= limits["host_share"]:
        return
    step = CodePlace("row", printed.names[0], value=printed.longest_ns, unit="ns")
    where = (step, *(CodePlace("row", row.name, value=row.host_total_ns, unit="ns") for row in updates[:4]))
    yield Draft(
        (
            _NOT_FUSED.evidence(limits, "launches", each, where, subject=_NOT_FUSED.text("subject-table")()),
            _NOT_FUSED.evidence(limits, "host_share", share, (step,), subject=_NOT_FUSED.text("host")()),
        ),
        HostTime((_LEAST * host, _MOST * host), _NOT_FUSED.text("basis-table")(least=_LEAST, most=_MOST)),
        {"optimizer": printed.names[0], "launches": round(each), "host": host, "share": share},
        confidence="C",
        summary=_NOT_FUSED.text("summary-table"),
        code=_fused_code(printed.names[0]),
    )


def _may_be_loops(facts: Facts, printed: _PrintedSteps) -> bool:
    """Whether printed optimizers may update one parameter after the other, and could update all at once."""
    uses_lists = any("_foreach_" in row.name or "_fused_" in row.name for row in facts.operators)
    is_sparse = any(map(_SPARSE.search, printed.names))
    return not uses_lists and not is_sparse and not _has_closure(facts, printed.host_ns)


def _has_closure(facts: Facts, optimizer_ns: int) -> bool:
    """Whether the optimizer's time contains what autograd evaluates: a closure, as with LBFGS or PyTorch Lightning."""
    evaluated = sum(row.host_total_ns for row in facts.operators if "::evaluate_function: " in row.name)
    whole = facts.table.cpu_ns if facts.table else None
    return whole is not None and evaluated > 0 and optimizer_ns + evaluated > whole


def _fused_code(call: str) -> str:
    """Code for the optimizer that the program uses, which keeps its settings; empty where it is none of torch's."""
    named = _CLASS.search(call)
    option = _OPTION.get(named[1]) if named else None
    if named is None or option is None:
        return ""
    return f"torch.optim.{named[1]}(parameters, **settings, {option}=True)  # settings: as before"


def _expensive(facts: Facts, limits: Limits) -> Drafts:
    for row in facts.need("optimizers", optimizers.Optimizers).rows:
        least, host = _least_and_host(facts, row)
        if _could_be_fused(facts, row) and facts.gpu_share(row.device_ns) > limits["gpu_share"]:
            yield _on_lists(facts, row, limits)
            continue
        if row.kind != "step" or row.closures or host / facts.step_ns <= limits[least]:
            continue
        if _is_loop(facts, row) or _is_hidden(facts, row):
            continue
        if _is_elsewhere(facts, row):
            yield _on_the_cpu(facts, row, limits)
            continue
        yield _of_its_host(facts, row, limits)


def _could_be_fused(facts: Facts, row: optimizers.Optimizer) -> bool:
    """Whether it works on lists of parameters with several kernels, where torch has one that does all of it."""
    named = _CLASS.search(row.name)
    is_adam = named is not None and named[1] in ("Adam", "AdamW") and row.kind == "step" and not row.closures
    is_fused = any("_fused_" in operator.name for operator in row.operators)
    return is_adam and row.list_operators > 0 and not is_fused and program.has_torch(facts, (2, 0))


def _on_lists(facts: Facts, row: optimizers.Optimizer, limits: Limits) -> Draft:
    """The arithmetic of the update passes over the parameters again and again."""
    work = EventTimes.on_device(facts, ((row.events, row.device_ns),))
    subject, where = _EXPENSIVE.text("subject-lists")(), places(facts, (row,))
    return Draft(
        (_EXPENSIVE.evidence(limits, "gpu_share", work.share, where, subject=subject),),
        work.shorter(_PASSES_SAVED, _EXPENSIVE.text("basis-lists")(least=_PASSES_SAVED[0], most=_PASSES_SAVED[1])),
        {"optimizer": row.name, **work.figures()},
        confidence="B",
        summary=_EXPENSIVE.text("summary-lists"),
        advice=_EXPENSIVE.text("advice-lists"),
        code=_fused_code(row.name),
    )


def _least_and_host(facts: Facts, row: optimizers.Optimizer) -> tuple[str, float]:
    """The threshold for an optimizer, and its host time per step in ns, of a plain one on a CPU without stalls."""
    if optimizers.matrices(row) is None and program.computes_on_cpu(facts):
        return "cpu_share", facts.per_step(row.steady_ns)  # any takes a good part: only most of a step tells much
    return "host_share", facts.per_step(row.host_ns)


def _of_its_host(facts: Facts, row: optimizers.Optimizer, limits: Limits) -> Draft:
    """The optimizer takes long on the host, and it is no loop over single parameters."""
    least, host = _least_and_host(facts, row)
    special = _SPECIAL.get(optimizers.matrices(row) or ("sparse" if _is_sparse(row) else ""))
    is_fused = any("_fused_" in operator.name for operator in row.operators)
    return Draft(
        (_EXPENSIVE.evidence(limits, least, host / facts.step_ns, places(facts, (row,))),),
        None if special else _at_most_all(facts, row),
        {"optimizer": row.name, "host": OfEvents(host), "share": OfEvents(host, is_share=True)},
        severity="low" if host < _MOST_OF_STEP * facts.step_ns else "high" if special else "medium",
        ceiling="high",
        advice=special,
        code="" if special or is_fused else _fused_code(row.name),
    )


def _at_most_all(facts: Facts, row: optimizers.Optimizer) -> DeviceWork | HostTime | None:
    """On a CPU at most all of an update that has a fused form; None where it has none, or beside a device."""
    named = _CLASS.search(row.name)
    could = named is not None and _OPTION.get(named[1]) == "fused" and not row.list_operators and not _is_sparse(row)
    if not could or not program.computes_on_cpu(facts) or not program.has_torch(facts, _SINCE):
        return None
    work = EventTimes.on_cpu(facts, ((row.events, row.steady_ns),))
    return work.removed(
        (0.0, row.steady_ns), _EXPENSIVE.text("basis-fused")(), at=optimizers.optimizers_at(rows=(row,))
    )


def _is_elsewhere(facts: Facts, row: optimizers.Optimizer) -> bool:
    """Whether it mostly computes on the CPU of a program that uses a device."""
    found = None if program.computes_on_cpu(facts) else facts.find("cpu_operators", on_cpu.CpuOperators)
    rows = [entry for entry in found.rows if entry.in_optimizer] if found else []
    return 2 * sum(entry.host_ns for entry in rows) >= row.host_ns


def _on_the_cpu(facts: Facts, row: optimizers.Optimizer, limits: Limits) -> Draft:
    """The parameters are on the CPU, although a device computes the rest."""
    host = facts.per_step(row.steady_ns)
    idle = min(host, facts.idle_per_step("cpu_operators"))
    change = HostTime(
        (_ON_A_DEVICE * host, host),
        _EXPENSIVE.text("basis-elsewhere")(least=_ON_A_DEVICE),
        (_ON_A_DEVICE * idle, idle),
        {EventSet.idle("cpu_operators"): idle},
        within=optimizers.optimizers_at(rows=(row,)),
    )
    return Draft(
        (_EXPENSIVE.evidence(limits, "host_share", host / facts.step_ns, places(facts, (row,))),),
        change,
        {"optimizer": row.name, "host": OfEvents(host), "share": OfEvents(host, is_share=True)},
        title=_EXPENSIVE.text("title-elsewhere"),
        summary=_EXPENSIVE.text("summary-elsewhere"),
        advice=_EXPENSIVE.text("advice-elsewhere"),
        code="",
    )


def _is_loop(facts: Facts, row: optimizers.Optimizer) -> bool:
    """Whether it is a loop over single parameters, which optimizer-not-fused reports."""
    if program.computes_on_cpu(facts):
        return _saved_on_cpu(facts, row) is not None
    return row.launches >= FEWEST_CALLS * row.calls and _could_use_lists(row)


def _is_hidden(facts: Facts, row: optimizers.Optimizer) -> bool:
    """Whether the device works meanwhile; unknown if events are missing."""
    if facts.resources.gpu_ns is None or facts.resources.host_ns is None:
        return False
    return fsum(idle_time.claims(facts, row.exposed).values()) < _HIDDEN * facts.per_step(row.host_ns)


RULES = (
    _NOT_FUSED.rule(trace=_not_fused, table=_not_fused_in_table),
    _EXPENSIVE.rule(trace=_expensive),
    *zero_grad.RULES,
    *passes.RULES,
    *beside_training.RULES,
)
