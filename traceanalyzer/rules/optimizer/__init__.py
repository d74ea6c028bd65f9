"""Detects faults of trainings: here updates of parameters, in `passes` those that nothing uses or that take too long.

The rules here are optimizer-not-fused, optimizer-expensive and zero-grad-fill.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.optimizer import IN_PLACE, Optimizer, Optimizers, optimizers_at
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.knowledge import marks
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import HostTime, Interval
from traceanalyzer.rules.engine.idle_time import claims
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.program import has_torch
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, OfEvents, page
from traceanalyzer.rules.optimizer import passes
from traceanalyzer.structure.autograd import is_zero_grad
from traceanalyzer.structure.events import ITS_OWN
from traceanalyzer.structure.owners import EVALUATION

_NOT_FUSED = page("optimizer-not-fused")
_EXPENSIVE = page("optimizer-expensive")
_ZERO_GRAD = page("zero-grad-fill")

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

_Saved = tuple[Interval | None, Interval | None, Interval | None]

_SINCE = (2, 4)
"""torch whose fused optimizers compute on a CPU (release notes of 2.4)."""
_CALL_NS = 20_000
"""Own choice: longer calls move more memory than the cache of a core can hold."""
_FEWEST_LONG_CALLS = 32
"""Own choice: four calls for each of eight parameters, with which the saving was measured; fewer take little time."""
_LONG_CALL_NS = 200_000
"""Own choice: such calls move more memory than the caches of a processor can hold."""
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

_SECOND_ORDER = re.compile("shampoo|soap|kfac|k_fac|muon", re.IGNORECASE)
_HIDDEN = 0.25
"""Least part of its time that must leave the device without work (own choice)."""

_FILLS = frozenset({"aten::zero_", "aten::fill_", "aten::_foreach_zero_"})
_LOOP = 0.2
"""Own choice: setting gradients to None also takes a loop over the parameters, but no operator for each."""
_OF_ADDING = 0.5
"""Greatest part of the host time of adding gradients to zeros that goes beside a device (own choice: each new gradient
is detached instead)."""
_MOST_ON_CPU = 1.4
"""Own choice; the lab measured 4 to 8 % of a step where fills and additions take 5 to 6 % of it."""


def _not_fused(facts: Facts, limits: Limits) -> Drafts:
    rows = facts.need("optimizers", Optimizers).rows
    if Processor.of(facts).is_cpu:
        for row in rows:
            yield from _not_fused_on_cpu(facts, row, limits)
        return
    for row in rows:
        host = facts.per_step(row.host_ns)
        launches, share = row.launches / _updates(facts, row), host / facts.step_ns
        if launches < limits["launches"] or share <= limits["host_share"] or not _could_use_lists(row):
            continue
        evidence = (
            Evidence(_NOT_FUSED.text("subject")(), launches, limits["launches"], "count", _places(facts, (row,))),
            Evidence(_NOT_FUSED.text("host")(), share, limits["host_share"], "share", _places(facts, (row,))),
        )
        ended = claims(facts, row.exposed)
        least, most = _saved_beside_device(row)
        direct, idle = (least * host, most * host), fsum(ended.values())
        exposed = min(direct[0], idle), min(direct[1], idle)
        basis = _NOT_FUSED.text("basis")(least=least, most=most)
        within, shares = optimizers_at(rows=(row,)), (row.events,)
        change = HostTime(direct, basis, exposed, ended, within=within, shares=shares)
        params = {
            "optimizer": row.name,
            "launches": round(launches),
            "host": OfEvents(host),
            "share": OfEvents(host, is_share=True),
        }
        params |= {"device": facts.per_step(row.device_ns)}
        advice = _NOT_FUSED.text("advice-refused") if program.refuses_lists(facts) else None
        yield Draft(evidence, change, params, advice=advice, code=_fused_code(row.name))


def _saved_beside_device(row: Optimizer) -> Interval:
    """Least and most of the host time that the fused form saves: as measured with short calls on a CPU."""
    named = _CLASS.search(row.name)
    short = _SAVED[named[1]][0] if named and named[1] in _SAVED else None
    return short or (_LEAST, _MOST)


def _updates(facts: Facts, row: Optimizer) -> float:
    """Number of updates of the model: all calls of a step are one, where each parameter has an optimizer of its own."""
    return facts.steps if row.calls >= _MANY * facts.steps else row.calls


def _could_use_lists(row: Optimizer) -> bool:
    """Whether it does arithmetic on one parameter at a time, and could do it on lists."""
    arithmetic = row.elementwise_launches >= _ARITHMETIC * row.launches
    own = row.kind == "step" and not row.closures
    return own and not row.list_operators and arithmetic and not _is_sparse(row)


def _not_fused_on_cpu(facts: Facts, row: Optimizer, limits: Limits) -> Drafts:
    """Without a GPU calls of operators take the time that launches take elsewhere."""
    processor = Processor.of(facts)
    each, share = row.in_place / _updates(facts, row), processor.share(row.host_ns)
    saved = _saved_on_cpu(facts, row, limits["launches"])
    if saved is None or share <= limits["host_share"]:
        return
    evidence = [Evidence(_NOT_FUSED.text("host")(), share, limits["host_share"], "share", _places(facts, (row,)))]
    if each >= limits["launches"]:
        subject = _NOT_FUSED.text("subject-table")()
        evidence.insert(0, Evidence(subject, each, limits["launches"], "count", _places(facts, (row,))))
    host = processor.per_step(row.host_ns)
    least, most = saved
    basis = _NOT_FUSED.text("basis-cpu")(least=least, most=most)
    refused = program.refuses_lists(facts)
    advice = _NOT_FUSED.text("advice-cpu-refused") if refused else _NOT_FUSED.text("advice-cpu")
    yield Draft(
        tuple(evidence),
        HostTime(
            (least * host, most * host),
            basis,
            claims={row.events: host},
            at=optimizers_at(rows=(row,)),
        ),
        {"optimizer": row.name, "calls": round(each), "host": OfEvents(host), "share": OfEvents(host, is_share=True)},
        summary=_NOT_FUSED.text("summary-cpu"),
        advice=advice,
        code=_fused_code(row.name),
    )


def _saved_on_cpu(facts: Facts, row: Optimizer, fewest: float = FEWEST_CALLS) -> Interval | None:
    """Least and most of the time of the updates that the fused form saves; None if there is none, or no loop.

    Args:
        facts: Of a program without a GPU.
        row: The optimizer.
        fewest: In-place operations of an update from which on short ones count.
    """
    named = _CLASS.search(row.name)
    if named is None or row.kind != "step" or row.list_operators or not row.in_place or _is_sparse(row):
        return None
    if row.closures or not has_torch(facts, _SINCE):
        return None
    plain = named[1] == "SGD" and all(entry.name != _MOMENTUM for entry in row.operators)
    short, long, longest = _SAVED_WITHOUT_MOMENTUM if plain else _SAVED.get(named[1], (None, None, None))
    if row.in_place_ns > _LONG_CALL_NS * row.in_place:
        return longest
    is_long = row.host_ns > _CALL_NS * row.in_place
    if row.in_place < (min(fewest, _FEWEST_LONG_CALLS) if is_long else fewest) * _updates(facts, row):
        return None
    return long if is_long else short


def _is_sparse(row: Optimizer) -> bool:
    return any(_SPARSE.search(name) for name in (row.name, *(entry.name for entry in row.operators)))


def _not_fused_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if marks.is_optimizer_step(row.name) and row.cpu_total_ns]
    calls = max((row.calls or 0 for row in rows), default=0)
    uses_lists = any("_foreach_" in row.name or "_fused_" in row.name for row in facts.operators)
    if not calls or uses_lists or facts.table is None or not facts.table.cpu_ns:
        return
    optimizer = sum(row.cpu_total_ns or 0 for row in rows)
    if any(_SPARSE.search(row.name) for row in rows) or _has_closure(facts, optimizer):
        return
    updates = [row for row in facts.operators if row.name in IN_PLACE]
    each = sum(row.calls for row in updates) / calls
    host = facts.per_step(optimizer)
    share = host * facts.steps / facts.table.cpu_ns
    if each < limits["launches"] or share <= limits["host_share"]:
        return
    where = [CodePlace("row", row.name, value=row.cpu_total_ns, unit="ns") for row in rows[:1]]
    longest = sorted(updates, key=lambda row: (-row.host_total_ns, row.name))[:4]
    where += [CodePlace("row", row.name, value=row.host_total_ns, unit="ns") for row in longest]
    evidence = (
        Evidence(_NOT_FUSED.text("subject-table")(), each, limits["launches"], "count", tuple(where)),
        Evidence(_NOT_FUSED.text("host")(), share, limits["host_share"], "share", tuple(where[:1])),
    )
    basis = _NOT_FUSED.text("basis-table")(least=_LEAST, most=_MOST)
    change = HostTime((_LEAST * host, _MOST * host), basis)
    params = {"optimizer": rows[0].name, "launches": round(each), "host": host, "share": share}
    summary, code = _NOT_FUSED.text("summary-table"), _fused_code(rows[0].name)
    yield Draft(evidence, change, params, confidence="C", summary=summary, code=code)


def _has_closure(facts: Facts, optimizer_ns: int) -> bool:
    """Whether the optimizer's time contains what autograd evaluates: a closure, as with LBFGS or PyTorch Lightning."""
    evaluated = sum(row.host_total_ns for row in facts.operators if row.name.startswith(EVALUATION))
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
    for row in facts.need("optimizers", Optimizers).rows:
        host = facts.per_step(row.host_ns)
        share = host / facts.step_ns
        if row.kind != "step" or row.closures or share <= limits["host_share"]:
            continue
        if _is_loop(facts, row) or _is_hidden(facts, row):
            continue
        is_second_order = _SECOND_ORDER.search(row.name) is not None
        is_fused = any("_fused_" in operator.name for operator in row.operators)
        yield Draft(
            (Evidence(_EXPENSIVE.text("subject")(), share, limits["host_share"], "share", _places(facts, (row,))),),
            params={"optimizer": row.name, "host": host, "share": share},
            severity="low",
            advice=_EXPENSIVE.text("advice-second-order") if is_second_order else None,
            code="" if is_second_order or is_fused else _fused_code(row.name),
        )


def _is_loop(facts: Facts, row: Optimizer) -> bool:
    """Whether it is a loop over single parameters, which optimizer-not-fused reports."""
    if Processor.of(facts).is_cpu:
        return _saved_on_cpu(facts, row) is not None
    return row.launches >= FEWEST_CALLS * row.calls and _could_use_lists(row)


def _is_hidden(facts: Facts, row: Optimizer) -> bool:
    """Whether the device works meanwhile; unknown if events are missing."""
    if facts.resources.gpu_ns is None or facts.resources.host_ns is None:
        return False
    return fsum(claims(facts, row.exposed).values()) < _HIDDEN * facts.per_step(row.host_ns)


def _zero_grad(facts: Facts, limits: Limits) -> Drafts:
    graphs = facts.find("launches", LaunchFigures)
    if graphs is not None and graphs.graphs.launches:
        return
    rows = [row for row in facts.need("optimizers", Optimizers).rows if row.kind == "zero_grad" and _fills(row)]
    host = facts.per_step(fsum(row.host_ns for row in rows))
    share = host / facts.step_ns
    if share <= limits["host_share"]:
        return
    if Processor.of(facts).is_cpu:
        yield _zero_grad_on_cpu(facts, rows, limits["host_share"])
        return
    ended = claims(facts, (idle for row in rows for idle in row.exposed))
    exposed = fsum(ended.values())
    starved = min(facts.per_step(fsum(row.starved_ns for row in rows)), exposed)
    change = HostTime(
        ((1 - _LOOP) * host, host + _OF_ADDING * _added_ns(facts, rows)),
        _ZERO_GRAD.text("basis-2")(loop=_LOOP, part=_OF_ADDING),
        None if facts.resources.gpu_ns is None else ((1 - _LOOP) * starved, exposed),
        ended,
        within=optimizers_at(rows=tuple(rows)),
        shares=tuple(row.events for row in rows),
        device=ITS_OWN,
    )
    evidence = Evidence(_ZERO_GRAD.text("subject")(), share, limits["host_share"], "share", _places(facts, rows))
    params = {"fills": _each(rows), "host": OfEvents(host), "idle": starved, "share": OfEvents(host, is_share=True)}
    yield Draft((evidence,), change, params)


def _zero_grad_on_cpu(facts: Facts, rows: Sequence[Optimizer], limit: float) -> Draft:
    """Without a GPU the fills take their full time, and so does adding to them."""
    processor, total = Processor.of(facts), sum(row.host_ns for row in rows)
    host, added, share = processor.per_step(total), _added_ns(facts, rows), processor.share(total)
    least, most = (1 - _LOOP) * (host + added), _MOST_ON_CPU * (host + added)
    basis = _ZERO_GRAD.text("basis-cpu")(least=1 - _LOOP, most=_MOST_ON_CPU)
    change = HostTime(
        (least, most),
        basis,
        claims={rows[0].events: most},
        at=optimizers_at(rows=tuple(rows)),
    )
    params = {"fills": _each(rows), "host": OfEvents(host), "added": added, "share": OfEvents(host, is_share=True)}
    evidence = Evidence(_ZERO_GRAD.text("subject")(), share, limit, "share", _places(facts, rows))
    return Draft((evidence,), change, params, summary=_ZERO_GRAD.text("summary-cpu"))


def _added_ns(facts: Facts, rows: Sequence[Optimizer]) -> float:
    """Host time per step in ns of adding gradients to zeros, which goes with the zeros.

    Of several backward passes after one call, only the first adds to zeros.
    """
    passes, calls = facts.find("passes", Passes), sum(row.calls for row in rows)
    first = min(1.0, calls / passes.backward_passes) if passes and passes.backward_passes else 0.0
    added, processor = first * passes.added_ns if passes else 0.0, Processor.of(facts)
    return processor.per_step(added) if processor.is_cpu else facts.per_step(added)


def _each(rows: Sequence[Optimizer]) -> int:
    """Fills of one call."""
    return round(sum(_fills(row) for row in rows) / fsum(row.calls for row in rows))


def _fills(row: Optimizer) -> int:
    """The fills of a row: launches, or calls of the operators if nothing ran on a device."""
    return row.launches or sum(entry.calls for entry in row.operators if entry.name in _FILLS)


def _zero_grad_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_zero_grad(row.name) and row.calls and row.cpu_total_ns]
    calls = sum(row.calls or 0 for row in rows)
    inside = facts.per_step(fsum((row.cpu_total_ns or 0) - (row.self_cpu_ns or 0) for row in rows))
    fills = sum(row.calls for row in facts.operators if row.name in _FILLS - {"aten::fill_"})
    if not calls or fills < calls or facts.table is None or not facts.table.cpu_ns:
        return
    share = inside * facts.steps / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.cpu_total_ns, unit="ns") for row in rows)
    evidence = Evidence(_ZERO_GRAD.text("subject")(), share, limits["host_share"], "share", where)
    change = HostTime(((1 - _LOOP) * inside, inside), _ZERO_GRAD.text("basis-table")())
    params = {"host": inside, "share": share}
    yield Draft((evidence,), change, params, summary=_ZERO_GRAD.text("summary-table"))


def _places(facts: Facts, rows: Sequence[Optimizer]) -> tuple[CodePlace, ...]:
    """Calls of optimizers with their host time per step in ns, as places of findings."""
    times = ((row, facts.per_step(row.host_ns)) for row in rows)
    return tuple(CodePlace("operator", row.name, None, time, "ns", row.start_ns) for row, time in times)


RULES = (
    _NOT_FUSED.rule(trace=_not_fused, table=_not_fused_in_table),
    _EXPENSIVE.rule(trace=_expensive),
    _ZERO_GRAD.rule(trace=_zero_grad, table=_zero_grad_in_table),
    *passes.RULES,
)
