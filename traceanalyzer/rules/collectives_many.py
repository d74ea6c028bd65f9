"""A step has hundreds of short collectives.

What it detects:
    More than a hundred collectives per step whose kernels take less than 100 us on average and that together are
    exposed for a twentieth of the step or more, whether the size of their messages is known or not.

Why it matters:
    Each collective costs its launch, a meeting of all ranks, and some microseconds of latency; a small message is over
    before the links are busy.

What to do:
    Send tensors together: flat buckets, as DistributedDataParallel makes them, `all_reduce_coalesced`, or one
    collective over a list. Read metrics in one message per step.

How the saving is estimated:
    At most nine tenths of the exposed time, as with a tenth of the messages; at least nothing, because ranks that wait
    for a late rank also wait if there are fewer messages.

When it is wrong:
    Tensor parallelism needs two collectives per layer, one after the other; those cannot be merged. If computation
    runs between every two collectives, fused or custom kernels help instead.

References:
    https://docs.pytorch.org/docs/stable/notes/ddp.html
    https://docs.pytorch.org/docs/stable/distributed.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts, Missing
from traceanalyzer.rules.rule import Draft, Rule, Threshold

_MOST = 0.9
"""Own choice: a tenth of the messages still costs a tenth of the latency."""
_SUBJECT = Text("collectives-many-subject", "collectives per step")
_BASIS = Text(
    "collectives-many-basis",
    "at most {most:share} of their exposed time, as with a tenth of the messages; at least nothing, because waiting "
    "for a late rank remains",
)
_NO_TABLE = Text("collectives-many-no-table", "a printed table does not show what runs at the same time")
_NO_GRADIENTS = Text(
    "collectives-many-inference", "without gradients, collectives run between layers and cannot be merged"
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("communication", Communication)
    if not _program.may_train(facts):
        raise Missing(_NO_GRADIENTS())
    rows = [row for row in found.rows if row.mean_ns < limits["mean_ns"]]
    calls = sum(row.calls for row in rows) / facts.steps
    own = facts.need_step_resources()
    time, total = sum(row.total_ns for row in rows), sum(row.total_ns for row in found.rows)
    exposed = (own.exposed_communication_ns or 0.0) * (time / total if total else 0.0)
    if calls <= limits["calls"] or exposed <= limits["exposed_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("kernel", row.operation or "unknown", value=row.calls, unit="count") for row in rows[:5])
    change = TimeSaved(
        "communication",
        (0.0, _MOST * exposed),
        _BASIS(most=_MOST),
        (0.0, _MOST * exposed),
        {"communication": _MOST * exposed},
    )
    params = {"calls": round(calls), "mean": time / sum(row.calls for row in rows), "exposed": exposed}
    yield Draft((Evidence(_SUBJECT(), calls, limits["calls"], "number", where),), change, params, ceiling="high")


RULE = Rule(
    id="collectives-many",
    title=Text("collectives-many-title", "Many short collectives instead of a few long ones"),
    summary=Text(
        "collectives-many-summary",
        "A step has {calls:count} collectives of {mean:ns} on average; {exposed:ns} of their time does not overlap "
        "with computation.",
    ),
    advice=Text(
        "collectives-many-advice",
        "Send tensors together: let DistributedDataParallel fill its buckets, flatten what you reduce yourself into "
        "one tensor, and reduce metrics once per step instead of one by one.",
    ),
    not_when=Text(
        "collectives-many-not-when",
        "Each collective needs the result of the last one, as between the layers of tensor parallelism.",
    ),
    severity="info to high",
    confidence="B",
    tags=("communication", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "calls",
            100,
            "count",
            "short collectives per step",
            "own choice: buckets of 25 MiB make some ten messages of a model with 100 million parameters",
        ),
        Threshold(
            "mean_ns",
            100_000,
            "ns",
            "mean duration of collectives that count as short",
            "own choice: the latency of an all-reduce within a node is 10 to 50 us, between nodes up to 100",
        ),
        Threshold(
            "exposed_share",
            0.05,
            "share",
            "exposed time of these collectives over the step",
            "own choice, as for comm-exposed",
        ),
    ),
    code="flat = torch.cat([g.reshape(-1) for g in tensors]); torch.distributed.all_reduce(flat)",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        "https://docs.pytorch.org/docs/stable/distributed.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
    stage="preview",
)
