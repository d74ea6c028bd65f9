"""Gradients are filled with zeros instead of being dropped.

What it detects:
    `Optimizer.zero_grad` writes zeros into the gradient of every parameter, one small launch after the other, and the
    GPU is idle between these launches. In a printed table, the host time of the operators that `zero_grad` calls.

Why it matters:
    The fills take hardly any time on the GPU, but each costs the host several microseconds, during which the GPU has
    nothing to do. Dropped gradients cost nothing, and the backward pass then writes gradients instead of adding to
    them.

What to do:
    Call `zero_grad(set_to_none=True)`, which is the default since PyTorch 2.0; do not turn it off.

How the saving is estimated:
    The host time of the calls is saved. A step gets shorter at least by the time that the GPU waited for these launches
    within the calls, and at most by the time that it waits for late launches until the host next waits for the GPU. In
    a program without a GPU, autograd's additions to the zeros are saved as well, because it then keeps new gradients as
    they are; up to 1.4 times both, because memory that is neither written nor read stays out of the cache.

When it is wrong:
    Captured CUDA graphs need gradients at fixed addresses. Code that reads gradients of parameters that received none
    must expect None instead of zeros.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.optimizer import Optimizer, Optimizers
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._idle_claims import claims
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.autograd import is_zero_grad

_FILLS = frozenset({"aten::zero_", "aten::fill_", "aten::_foreach_zero_"})
_LOOP = 0.2
"""Own choice: setting gradients to None also takes a loop over the parameters, but no operator for each."""

_MOST_ON_CPU = 1.4
"""Own choice; the lab measured 4 to 8 % of a step where fills and additions take 5 to 6 % of it."""

_SUBJECT = Text("zero-grad-fill-subject", "host time of zero_grad, share of the step")
_IDLE = Text("zero-grad-fill-idle", "time in zero_grad in which the GPU does nothing until the next launch arrives")
_BASIS = Text(
    "zero-grad-fill-basis",
    "the host time of the calls minus {loop:share} for the loop that remains; a step gains at least the GPU's idle "
    "time within the calls, at most its idle time until the host next waits for it",
)
_BASIS_CPU = Text(
    "zero-grad-fill-basis-cpu",
    "the host time of the calls and of adding new gradients to the zeros; at least {least:share} of it, and up to "
    "{most:number} times, because that memory stays out of the cache",
)
_BASIS_TABLE = Text(
    "zero-grad-fill-basis-table", "the host time of what zero_grad calls; a table does not show what the GPU does then"
)


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
    evidence = (Evidence(_SUBJECT(), share, limits["host_share"], "share", _places(rows)),)
    change = TimeSaved(
        "host",
        ((1 - _LOOP) * host, host),
        _BASIS(loop=_LOOP),
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
        _BASIS_CPU(least=1 - _LOOP, most=_MOST_ON_CPU),
        claims={f"optimizer:{rows[0].name}": _MOST_ON_CPU * (host + added)},
    )
    params = {"fills": _each(rows), "host": host, "added": added, "share": share}
    evidence = Evidence(_SUBJECT(), share, limit, "share", _places(rows))
    return Draft((evidence,), change, params, summary=_SUMMARY_CPU)


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
    evidence = (Evidence(_SUBJECT(), share, limits["host_share"], "share", where),)
    change = TimeSaved("host", ((1 - _LOOP) * inside, inside), _BASIS_TABLE())
    yield Draft(evidence, change, {"host": inside, "share": share}, summary=_SUMMARY_TABLE)


_SUMMARY_CPU = Text(
    "zero-grad-fill-summary-cpu",
    "Each zero_grad fills {fills:count} gradients with zeros: {host:ns} per step ({share:share}), and {added:ns} for "
    "adding the new gradients to them.",
    one="Each zero_grad fills {fills:count} gradient with zeros: {host:ns} per step ({share:share}), and {added:ns} "
    "for adding the new gradient to it.",
)
_SUMMARY_TABLE = Text(
    "zero-grad-fill-summary-table",
    "zero_grad calls operators that take {host:ns} of host time per step ({share:share}): it fills gradients with "
    "zeros.",
)

RULE = Rule(
    id="zero-grad-fill",
    title=Text("zero-grad-fill-title", "Gradients are filled with zeros instead of dropped"),
    summary=Text(
        "zero-grad-fill-summary",
        "Each zero_grad fills {fills:count} gradients with zeros, one after the other: {host:ns} of host time per step "
        "({share:share}), in which the GPU does nothing for {idle:ns}.",
        one="Each zero_grad fills {fills:count} gradient with zeros: {host:ns} of host time per step ({share:share}), "
        "in which the GPU does nothing for {idle:ns}.",
    ),
    advice=Text(
        "zero-grad-fill-advice",
        "Drop the gradients: zero_grad(set_to_none=True). It is the default since PyTorch 2.0, so on a newer version "
        "look for a call that turns it off.",
        note="set_to_none=True is code",
    ),
    not_when=Text(
        "zero-grad-fill-not-when",
        "The step is captured as a CUDA graph, or some code reads the gradients of parameters that got none.",
    ),
    severity="info to medium",
    confidence="A",
    tags=("host", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "host_share",
            0.01,
            "share",
            "host time of the calls over the step (in a table, of what they call over all host time)",
            "own choice, because less is within the noise of a step",
        ),
    ),
    code="optimizer.zero_grad(set_to_none=True)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    table=_table,
)
