"""With gradient accumulation, gradients are exchanged after every backward pass.

What it detects:
    Several backward passes before one `Optimizer.step`, of which not only the last one exchanges gradients: the
    all-reduces of the others take about as long as those of the last one.

Why it matters:
    Only the sum over all passes is used, so one exchange before the update is enough; the others are wasted.

What to do:
    Run all backward passes except the last one under `model.no_sync()`.

How the saving is estimated:
    The all-reduces of the early passes are removed. A step gains at most their time in which no other kernel runs; at
    least half of that, because ranks also wait for each other in them, and may then wait in the last one instead. On
    the CPU (gloo) at most all of their time, because their threads take cores from the program even if they overlap its
    work, plus the time in which DistributedDataParallel copies gradients into buckets and back and starts sending, and
    35 % of both because these threads slow down other work (in the lab up to 1.33 times both was saved).

When it is wrong:
    Sharded models (FSDP, ZeRO) must reduce and scatter gradients after each pass to save memory; such collectives do
    not count. Pipelines and programs with several losses may need the early exchange.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import BACKWARD
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LEAST = 0.5
"""Least part of the time that is saved (own choice: one rank's trace does not show what of a collective is waiting)."""

_SLOWED = 1.35
"""Greatest saving on a CPU as a multiple of the time of the exchanges (measured in the lab, explained on the page)."""

_COPYING = re.compile(r"torch::distributed::reducer::|torch\.distributed\.ddp\.reducer::|c10d::allreduce_$")
"""Operators of DistributedDataParallel beside its collectives on the CPU."""

_SUBJECT = Text("ddp-sync-in-accumulation-subject", "backward passes that exchange gradients before the last one")
_NO_TABLE = Text("ddp-sync-in-accumulation-no-table", "a printed table does not show which pass exchanges gradients")
_BASIS = Text(
    "ddp-sync-in-accumulation-basis",
    "the all-reduces of all passes but the last one; at least {least:share} of their exposed part, because waiting "
    "for other ranks may move to the last pass",
)
_BASIS_HOST = Text(
    "ddp-sync-in-accumulation-basis-cpu",
    "at most {most:number} times the all-reduces of all passes but the last one and copying gradients for them, "
    "because their threads take cores from the program as well; at least {least:share} of their exposed part, because "
    "waiting for other ranks may move to the last pass",
)
_SUMMARY_HOST = Text(
    "ddp-sync-in-accumulation-summary-host",
    "{early:count} of {passes:count} backward passes exchange gradients although another pass follows before the "
    "update (updates: {updates:count}). How long that takes is not recorded.",
    one="{early:count} of {passes:count} backward passes exchanges gradients although another pass follows before "
    "the update (updates: {updates:count}). How long that takes is not recorded.",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("passes", Passes).accumulation
    if found is None or found.early_exchanges < limits["early_exchanges"]:
        return
    where = tuple(CodePlace("time", "backward", None, e.time_ns, "ns", e.start_ns, BACKWARD()) for e in found.examples)
    evidence = Evidence(_SUBJECT(), found.early_exchanges, limits["early_exchanges"], "count", where)
    params: dict[str, float] = {"passes": found.passes, "updates": found.updates, "early": found.early_exchanges}
    if found.time_ns is None or found.exposed_ns is None:
        yield Draft((evidence,), None, params, severity="info", summary=_SUMMARY_HOST)
        return
    time, exposed = facts.host_per_step(found.time_ns), facts.host_per_step(found.exposed_ns)
    claims = {"communication": time}
    if found.is_on_host:
        copying = found.early_exchanges / (found.early_exchanges + found.updates) * _copying(facts)
        interval = _LEAST * exposed, _SLOWED * (time + copying)
        change = TimeSaved("host", interval, _BASIS_HOST(most=_SLOWED, least=_LEAST), None, claims)
        yield Draft((evidence,), change, {**params, "time": time}, severity="info")
        return
    change = TimeSaved("communication", (time, time), _BASIS(least=_LEAST), (_LEAST * exposed, exposed), claims)
    yield Draft((evidence,), change, {**params, "time": time}, severity="info")


def _copying(facts: Facts) -> float:
    """Time per step in which gradients are copied into buckets and back, and all-reduces are started."""
    return facts.host_per_step(sum(row.host_total_ns for row in facts.operators if _COPYING.match(row.name)))


RULE = Rule(
    id="ddp-sync-in-accumulation",
    title=Text("ddp-sync-in-accumulation-title", "Gradients are exchanged more often than they are used"),
    summary=Text(
        "ddp-sync-in-accumulation-summary",
        "{early:count} of {passes:count} backward passes exchange gradients although another pass follows before the "
        "update (updates: {updates:count}): {time:ns} of all-reduces per step for nothing.",
        one="{early:count} of {passes:count} backward passes exchanges gradients although another pass follows before "
        "the update (updates: {updates:count}): {time:ns} of all-reduces per step for nothing.",
    ),
    advice=Text(
        "ddp-sync-in-accumulation-advice",
        "Run every backward pass but the last one before an update under model.no_sync().",
        note="model.no_sync() is code",
    ),
    not_when=Text(
        "ddp-sync-in-accumulation-not-when",
        "The model is sharded and has no room for whole gradients, or something reads the exchanged gradients early.",
    ),
    severity="info to critical",
    confidence="A",
    tags=("communication", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "early_exchanges",
            2,
            "count",
            "backward passes that exchange gradients, with another pass before the same update",
            "own choice, because a single one can be an update with an extra loss",
        ),
    ),
    code="with model.no_sync(): loss.backward()",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
