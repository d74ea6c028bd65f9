"""DistributedDataParallel looks for unused parameters in each step, and finds none.

What it detects:
    The operator with which the reducer of `DistributedDataParallel` walks through the graph of autograd after each
    forward pass, as it does with `find_unused_parameters=True`. Its time, with that of the operators that pass the
    outputs on (`_DDPSink`) and of those that note each parameter that has a gradient, is more than one percent of the
    step. If gradients are copied back for more parameters than got one, some parameters are unused, and the search has
    a purpose: then nothing is said. `static_graph=True` searches once and is silent, too.

Why it matters:
    The walk visits all functions of the graph while the host launches nothing. In the backward pass the reducer notes
    each parameter that has a gradient, and sends these notes to all ranks. It also keeps the buckets as they are
    instead of putting them into the order in which gradients become ready.

What to do:
    Leave `find_unused_parameters` at its default if each parameter gets a gradient in each step on each rank. If some
    parameters are never used, freeze them with `requires_grad_(False)` before the model is wrapped; if the same ones
    are unused in each step, pass `static_graph=True` instead.

How the saving is estimated:
    At least the walk itself; at most also `_DDPSink` and, where shapes were recorded, the notes. What the order of the
    buckets and the additional all-reduce are worth is not counted: the one is unknown, and nothing waits for the other.
    On a CPU with torch 2.13, a model with 400 parameters took 1.2 ms less CPU time without the search, of 16.6 ms a
    step; its recording says 0.2 to 1.5 ms.

When it is wrong:
    Parameters are unused in other steps than the recorded ones, or on other ranks: without the search such a step
    fails. In a model that wraps parts of it, the search may serve one part only. With `gradient_as_bucket_view=True`,
    without shapes, or with gradient accumulation it is unknown whether all parameters are used, and the text says so.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SEARCH = "torch.distributed.ddp.reducer::search_unused_parameters"
_COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_SINKS = ("_DDPSink", "_DDPSinkBackward")
_NOTE = "aten::select"
"""What the reducer calls on its list of used parameters, which are int32 numbers in memory of the host: in the backward
pass for each gradient, at its end for each parameter. Sources of the names: torch/csrc/distributed/c10d/reducer.cpp,
torch/nn/parallel/distributed.py (torch 2.13)."""

_SUBJECT = Text("ddp-unused-search-subject", "search for unused parameters, share of the step")
_BASIS = Text(
    "ddp-unused-search-basis",
    "at least the walk through the graph; at most also passing outputs on, and noting the parameters that have a "
    "gradient",
)
_SUMMARY_UNKNOWN = Text(
    "ddp-unused-search-summary-unknown",
    "After each forward pass DistributedDataParallel walks through the graph of autograd to find parameters without a "
    "gradient: with what belongs to it, {time:ns} of host time per step ({share:share}). The recording does not show "
    "whether there are any.",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = {row.name: row for row in facts.operators if row.name in (_SEARCH, _COPY, _ACCUMULATE, *_SINKS)}
    search = rows.get(_SEARCH)
    if search is None:
        return
    copied, used = (rows[name].calls if name in rows else 0 for name in (_COPY, _ACCUMULATE))
    notes = _notes(facts, search.calls)
    parameters = copied or search.calls * sum(map(_listed, notes))
    if parameters > used > 0:
        return  # some have no gradient
    sinks = [rows[name] for name in _SINKS if name in rows]
    claims = {f"operator:{row.name}": facts.host_per_step(row.host_total_ns) for row in (search, *sinks)}
    claims |= {f"operator:{row.name}|{row.shapes}": facts.host_per_step(row.host_total_ns) for row in notes}
    time = sum(claims.values())
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    kind = "operator" if facts.table is None else "row"
    where = tuple(
        CodePlace(kind, row.name, row.shapes, facts.host_per_step(row.host_total_ns), "ns")
        for row in (search, *sinks, *notes)[:5]
    )
    evidence = Evidence(_SUBJECT(), share, limits["host_share"], "share", where)
    change = TimeSaved("host", (claims[f"operator:{_SEARCH}"], time), _BASIS(), claims=claims)
    params: dict[str, float] = {"time": time, "share": share}
    if parameters and parameters == used:
        params["parameters"] = round(parameters / search.calls)
        yield Draft((evidence,), change, params, ceiling="medium")
    else:
        yield Draft((evidence,), change, params, ceiling="medium", confidence="B", summary=_SUMMARY_UNKNOWN)


def _notes(facts: Facts, searches: int) -> list[OperatorFact]:
    """Calls on the list of used parameters: for each search, as many as it has parameters, or twice as many."""
    try:
        shaped = facts.shaped
    except Missing:
        return []
    own = [row for row in shaped if row.name == _NOTE and (row.types or "").startswith('["int",')]
    return [row for row in own if row.calls >= _listed(row) * searches > 0]


def _listed(row: OperatorFact) -> int:
    """Number of entries of the list that a call is about; 0 if it is none."""
    shapes = parse(row.shapes)
    return shapes[0][0] if shapes and len(shapes[0]) == 1 else 0


RULE = Rule(
    id="ddp-unused-search",
    title=Text("ddp-unused-search-title", "DistributedDataParallel searches for unused parameters in each step"),
    summary=Text(
        "ddp-unused-search-summary",
        "After each forward pass DistributedDataParallel walks through the graph of autograd to find parameters "
        "without a gradient: with what belongs to it, {time:ns} of host time per step ({share:share}). In the recorded "
        "steps it found none among {parameters:count}.",
    ),
    advice=Text(
        "ddp-unused-search-advice",
        "If each parameter gets a gradient in each step, leave out find_unused_parameters=True. If the same parameters "
        "are always unused, freeze them, or pass static_graph=True instead.",
        note="find_unused_parameters=True and static_graph=True are code",
    ),
    not_when=Text(
        "ddp-unused-search-not-when",
        "Which parameters are used differs between steps or ranks.",
    ),
    severity="info to medium",
    confidence="A",
    tags=("communication", "host", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "host_share",
            0.01,
            "share",
            "host time of the search and of what belongs to it over the step",
            "own choice, because less is within noise",
        ),
    ),
    code="model = DistributedDataParallel(model, find_unused_parameters=False)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
    ),
    trace=_find,
    table=_find,
    stage="preview",
)
