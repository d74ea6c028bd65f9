"""Detects gradients that are filled with zeros: zero-grad-fill."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from traceanalyzer.analyzers import optimizer as optimizers
from traceanalyzer.analyzers.optimizer import autograd_passes
from traceanalyzer.rules.engine import idle_time, program
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, OfEvents, page
from traceanalyzer.structure.autograd import is_zero_grad
from traceanalyzer.structure.events import ITS_OWN

_PAGE = page("zero-grad-fill")

_FILLS = frozenset({"aten::zero_", "aten::fill_", "aten::_foreach_zero_"})
_LOOP = 0.2
"""Own choice: setting gradients to None also takes a loop over the parameters, but no operator for each."""
_OF_ADDING = 0.5
"""Greatest part of the host time of adding gradients to zeros that goes beside a device (own choice: each new gradient
is detached instead)."""
_MOST_ON_CPU = 1.4
"""Own choice; the lab measured 4 to 8 % of a step where fills and additions take 5 to 6 % of it."""


def _zero_grad(facts: Facts, limits: Limits) -> Drafts:
    if program.launches_graphs(facts):
        return
    rows = _zeroing(facts)
    host = facts.per_step(fsum(row.steady_ns for row in rows))
    share = host / facts.step_ns
    if share <= limits["host_share"]:
        return
    if program.computes_on_cpu(facts):
        yield _zero_grad_on_cpu(facts, rows, limits)
        return
    added, on_device = _added_ns(facts, rows)
    is_longer_there = on_device > added
    exposed = fsum(idle_time.claims(facts, (idle for row in rows for idle in row.exposed)).values())
    starved = min(facts.per_step(fsum(row.starved_ns for row in rows)), exposed)
    params = {
        "fills": _each(rows),
        "host": OfEvents(host),
        "idle": starved,
        "share": OfEvents(host, is_share=True),
    }
    if is_longer_there:
        cleared = facts.on_device(fsum(row.device_ns for row in rows))
        params |= {"host": host, "share": share, "cleared": cleared, "added": facts.on_device(on_device)}
    change = _without_fills(facts, rows, (host, facts.per_step(added), starved), is_longer_there=is_longer_there)
    summary = _PAGE.text("summary-added") if is_longer_there else None
    yield Draft((_PAGE.evidence(limits, "host_share", share, places(facts, rows)),), change, params, summary=summary)


def _without_fills(
    facts: Facts,
    rows: tuple[optimizers.Optimizer, ...],
    times: tuple[float, float, float],
    *,
    is_longer_there: bool,
) -> HostTime:
    """The change without fills, and where the device is longer at adding to zeros, without that.

    Args:
        facts: Of the run.
        rows: The calls of zero_grad.
        times: Per step in ns: of the fills on the host, of adding to zeros there, and for which the device starves.
        is_longer_there: Whether the device takes longer than the host to add to zeros.
    """
    host, added, starved = times
    least = (1 - _LOOP) * host
    ended = idle_time.claims(facts, (idle for row in rows for idle in row.exposed))
    within = optimizers.optimizers_at(rows=rows)
    if is_longer_there:
        interval = least + _OF_ADDING * added, host + added
        basis = _PAGE.text("basis-added")(loop=_LOOP, part=_OF_ADDING)
        within = autograd_passes.additions_at(beside=within)
    else:
        interval = least, host + _OF_ADDING * added
        basis = _PAGE.text("basis-2")(loop=_LOOP, part=_OF_ADDING)
    return HostTime(
        interval,
        basis,
        None if facts.resources.gpu_ns is None else ((1 - _LOOP) * starved, fsum(ended.values())),
        ended,
        within=within,
        shares=tuple(row.events for row in rows),
        device=ITS_OWN,
    )


def _zeroing(facts: Facts) -> tuple[optimizers.Optimizer, ...]:
    """The calls of zero_grad that fill gradients with zeros."""
    rows = facts.need("optimizers", optimizers.Optimizers).rows
    return tuple(row for row in rows if row.kind == "zero_grad" and _fills(row))


def _zero_grad_on_cpu(facts: Facts, rows: Sequence[optimizers.Optimizer], limits: Limits) -> Draft:
    """Without a GPU the fills take their full time, and so does adding to them."""
    work = EventTimes.on_cpu(facts, ((row.events, row.steady_ns) for row in rows))
    added = work.processor.per_step(_added_ns(facts, rows)[0])
    least, most = (1 - _LOOP) * (work.time + added), _MOST_ON_CPU * (work.time + added)
    basis = _PAGE.text("basis-cpu")(least=1 - _LOOP, most=_MOST_ON_CPU)
    at = optimizers.optimizers_at(rows=tuple(rows))
    params = {
        "fills": _each(rows),
        "host": OfEvents(work.time),
        "added": added,
        "share": OfEvents(work.time, is_share=True),
    }
    return Draft(
        (_PAGE.evidence(limits, "host_share", work.share, places(facts, rows)),),
        work.processor.less_work((least, most), basis, {rows[0].events: most}, at),
        params,
        summary=_PAGE.text("summary-cpu"),
    )


def _added_ns(facts: Facts, rows: Sequence[optimizers.Optimizer]) -> tuple[float, float]:
    """Host time and device time in ns of adding gradients to zeros, which goes with the zeros.

    Of several backward passes after one call, only the first adds to zeros.
    """
    autograd, calls = facts.find("passes", autograd_passes.Passes), sum(row.calls for row in rows)
    if autograd is None or not autograd.backward_passes:
        return 0.0, 0.0
    part = min(1.0, calls / autograd.backward_passes)
    return part * autograd.added_ns, part * autograd.added_device_ns


def _each(rows: Sequence[optimizers.Optimizer]) -> int:
    """Fills of one call."""
    return round(sum(_fills(row) for row in rows) / fsum(row.calls for row in rows))


def _fills(row: optimizers.Optimizer) -> int:
    """The fills of a row: launches, or calls of the operators if nothing ran on a device."""
    return row.launches or sum(entry.calls for entry in row.operators if entry.name in _FILLS)


def _zero_grad_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.printed_marks if is_zero_grad(row.name) and row.calls and row.cpu_total_ns]
    fills = _printed_fills(facts)
    calls = sum(row.calls or 0 for row in rows)
    if not fills >= calls > 0 or facts.table is None or not facts.table.cpu_ns:
        return
    inside = facts.per_step(fsum((row.cpu_total_ns or 0) - (row.self_cpu_ns or 0) for row in rows))
    share = inside * facts.steps / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.cpu_total_ns, unit="ns") for row in rows)
    yield Draft(
        (_PAGE.evidence(limits, "host_share", share, where),),
        HostTime(((1 - _LOOP) * inside, inside), _PAGE.text("basis-table")()),
        {"host": inside, "share": share},
        summary=_PAGE.text("summary-table"),
    )


def _printed_fills(facts: Facts) -> int:
    """Fills with zeros in a table; what fills with other numbers is not told apart there."""
    return sum(row.calls for row in facts.operators if row.name in _FILLS - {"aten::fill_"})


def places(facts: Facts, rows: Sequence[optimizers.Optimizer]) -> tuple[CodePlace, ...]:
    """Calls of optimizers with their host time per step in ns, as places of findings."""
    times = ((row, facts.per_step(row.host_ns)) for row in rows)
    return tuple(CodePlace("operator", row.name, None, time, "ns", row.start_ns) for row, time in times)


RULES = (_PAGE.rule(trace=_zero_grad, table=_zero_grad_in_table),)
