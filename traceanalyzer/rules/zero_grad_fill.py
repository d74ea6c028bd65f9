"""Detects zero-grad-fill: see pages/zero-grad-fill.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.optimizer import Optimizer, Optimizers
from traceanalyzer.analyzers.optimizer.passes import Passes
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.idle_claims import claims
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.autograd import is_zero_grad

_PAGE = page("zero-grad-fill")
_FILLS = frozenset({"aten::zero_", "aten::fill_", "aten::_foreach_zero_"})
_LOOP = 0.2
"""Own choice: setting gradients to None also takes a loop over the parameters, but no operator for each."""
_MOST_ON_CPU = 1.4
"""Own choice; the lab measured 4 to 8 % of a step where fills and additions take 5 to 6 % of it."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    graphs = facts.find("launches", LaunchFigures)
    if graphs is not None and graphs.graphs.launches:
        return
    rows = [row for row in facts.need("optimizers", Optimizers).rows if row.kind == "zero_grad" and _fills(row)]
    host = facts.host_per_step(sum(row.host_ns for row in rows))
    share = host / facts.step_ns
    if share <= limits["host_share"]:
        return
    if Processor.of(facts).is_cpu:
        yield _on_cpu(facts, rows, limits["host_share"])
        return
    ended = claims(facts, (idle for row in rows for idle in row.exposed))
    exposed = sum(ended.values())
    starved = min(facts.host_per_step(sum(row.starved_ns for row in rows)), exposed)
    evidence = (Evidence(_PAGE.text("subject")(), share, limits["host_share"], "share", _places(rows)),)
    change = TimeSaved(
        "host",
        ((1 - _LOOP) * host, host),
        _PAGE.text("basis")(loop=_LOOP),
        None if facts.resources.gpu_ns is None else ((1 - _LOOP) * starved, exposed),
        ended,
        tuple(f"operator:{row.name}" for row in rows),
    )
    yield Draft(evidence, change, {"fills": _each(rows), "host": host, "idle": starved, "share": share})


def _on_cpu(facts: Facts, rows: Sequence[Optimizer], limit: float) -> Draft:
    """Without a GPU the fills take their full time, and so does adding to them."""
    processor, passes = Processor.of(facts), facts.find("passes", Passes)
    total = sum(row.host_ns for row in rows)
    calls = sum(row.calls for row in rows)
    # of several backward passes after one call, only the first adds to zeros
    first = min(1.0, calls / passes.backward_passes) if passes and passes.backward_passes else 0.0
    adding = first * passes.added_ns if passes else 0.0
    host, added = processor.per_step(total), processor.per_step(adding)
    share = processor.share(total)
    change = TimeSaved(
        "host",
        ((1 - _LOOP) * (host + added), _MOST_ON_CPU * (host + added)),
        _PAGE.text("basis-cpu")(least=1 - _LOOP, most=_MOST_ON_CPU),
        claims={f"optimizer:{rows[0].name}": _MOST_ON_CPU * (host + added)},
    )
    params = {"fills": _each(rows), "host": host, "added": added, "share": share}
    evidence = Evidence(_PAGE.text("subject")(), share, limit, "share", _places(rows))
    return Draft((evidence,), change, params, summary=_PAGE.text("summary-cpu"))


def _places(rows: Sequence[Optimizer]) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns) for row in rows)


def _each(rows: Sequence[Optimizer]) -> int:
    """Fills of one call."""
    return round(sum(_fills(row) for row in rows) / sum(row.calls for row in rows))


def _fills(row: Optimizer) -> int:
    """The fills of a row: launches, or calls of the operators if nothing ran on a device."""
    return row.launches or sum(entry.calls for entry in row.operators if entry.name in _FILLS)


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_zero_grad(row.name) and row.calls and row.cpu_total_ns]
    calls = sum(row.calls or 0 for row in rows)
    inside = facts.host_per_step(sum((row.cpu_total_ns or 0) - (row.self_cpu_ns or 0) for row in rows))
    fills = sum(row.calls for row in facts.operators if row.name in _FILLS - {"aten::fill_"})
    if not calls or fills < calls or facts.table is None or not facts.table.cpu_ns:
        return
    share = inside * facts.steps / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.cpu_total_ns, unit="ns") for row in rows)
    evidence = (Evidence(_PAGE.text("subject")(), share, limits["host_share"], "share", where),)
    change = TimeSaved("host", ((1 - _LOOP) * inside, inside), _PAGE.text("basis-table")())
    yield Draft(evidence, change, {"host": inside, "share": share}, summary=_PAGE.text("summary-table"))


RULE = _PAGE.rule(trace=_trace, table=_table)
