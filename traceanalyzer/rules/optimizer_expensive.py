"""The optimizer takes a large part of each step.

What it detects:
    A range `Optimizer.step#...` that takes a sixth of the step or more on the host, unless it loops over single
    parameters, which optimizer-not-fused reports. Time that overlaps the GPU's work does not count, nor do calls in
    which autograd runs: they contain the forward and the backward pass as a closure (LBFGS, PyTorch Lightning).

Why it matters:
    Most optimizers take a few percent of a step. Those that compute preconditioners (Shampoo, SOAP, K-FAC), or gather
    sharded state, take far more, and do it in each step although their matrices change slowly.

What to do:
    Compute preconditioners every ten or hundred steps, distribute them over the ranks, and overlap their communication
    with the backward pass. On the CPU, use the fused form of torch's optimizers.

How the saving is estimated:
    Not at all: a trace does not show how rarer updates affect convergence.

When it is wrong:
    With a small batch and a large model, any optimizer takes a large part; accumulate gradients over several batches.
    The first steps of an optimizer allocate its state.

References:
    https://docs.pytorch.org/docs/stable/optim.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer import Optimizer, Optimizers
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _fused_optimizers, optimizer_not_fused
from traceanalyzer.rules._idle_claims import claims
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SECOND_ORDER = re.compile("shampoo|soap|kfac|k_fac|muon", re.IGNORECASE)
_SUBJECT = Text("optimizer-expensive-subject", "host time of the optimizer's step, share of the step")
_NO_TABLE = Text("optimizer-expensive-no-table", "a printed table does not show what the GPU's work hides")
_HIDDEN = 0.25
"""Least part of its time that must leave the device without work (own choice)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    for row in facts.need("optimizers", Optimizers).rows:
        host = facts.host_per_step(row.host_ns)
        share = host / facts.step_ns
        if row.kind != "step" or row.closures or share <= limits["host_share"]:
            continue
        if _is_loop(facts, row) or _is_hidden(facts, row):
            continue
        place = CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns)
        advice = _ADVICE_SECOND_ORDER if _SECOND_ORDER.search(row.name) else None
        yield Draft(
            (Evidence(_SUBJECT(), share, limits["host_share"], "share", (place,)),),
            params={"optimizer": row.name, "host": host, "share": share},
            severity="low",
            advice=advice,
            code="" if advice is not None or _is_fused(row) else optimizer_not_fused.fused_code(row.name),
        )


def _is_loop(facts: Facts, row: Optimizer) -> bool:
    """Whether it is a loop over single parameters, which optimizer-not-fused reports."""
    if Processor.of(facts).is_cpu:
        return _fused_optimizers.saved_on_cpu(facts, row) is not None
    return row.launches >= _fused_optimizers.FEWEST_CALLS * row.calls and optimizer_not_fused.is_loop(row)


def _is_fused(row: Optimizer) -> bool:
    return any("_fused_" in operator.name for operator in row.operators)


def _is_hidden(facts: Facts, row: Optimizer) -> bool:
    """Whether the device works meanwhile; unknown if events are missing."""
    if facts.resources.gpu_ns is None or facts.resources.host_ns is None:
        return False
    return sum(claims(facts, row.exposed).values()) < _HIDDEN * facts.host_per_step(row.host_ns)


_ADVICE_SECOND_ORDER = Text(
    "optimizer-expensive-advice-second-order",
    "Compute its matrices (preconditioners, roots, orthogonalization) every ten or hundred steps instead of each time "
    "where the method allows it, distribute them over the ranks, and overlap what it gathers with the backward pass.",
)

RULE = Rule(
    id="optimizer-expensive",
    title=Text("optimizer-expensive-title", "The optimizer takes a large part of the step"),
    summary=Text(
        "optimizer-expensive-summary",
        "{optimizer} takes {host:ns} of host time per step ({share:share} of the step).",
        note="optimizer is a name such as Optimizer.step#Shampoo.step",
    ),
    advice=Text(
        "optimizer-expensive-advice",
        "Use the optimizer's fused form where it has one, and update less often: accumulate gradients over several "
        "batches, or make the batch larger.",
    ),
    not_when=Text(
        "optimizer-expensive-not-when",
        "The model is large and the batch small: then accumulate gradients before you change the optimizer.",
    ),
    severity="low",
    confidence="A",
    tags=("host", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "host_share",
            0.15,
            "share",
            "host time of the optimizer's step over the step",
            "own choice: fused optimizers take 1 to 5 %, loops over parameters about 15 % (ResNet-50 on a V100)",
        ),
    ),
    code="torch.optim.AdamW(parameters, **settings, fused=True)  # settings: as before",
    links=(
        "https://docs.pytorch.org/docs/stable/optim.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
