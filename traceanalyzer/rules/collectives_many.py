"""A step has hundreds of short collectives.

What it detects:
    More than a hundred collectives per step whose kernels take less than 100 us on average and that together are
    exposed for 5 % of the step or more, even if the size of their messages is unknown. On the CPU (gloo), where each
    collective takes far longer: a backward pass with at least three all-reduces more than buckets of 25 MiB would need,
    each of less than 1 MiB on average.

Why it matters:
    Each collective costs a launch, a synchronization of all ranks, and some microseconds of latency; a small message
    ends before the links are busy.

What to do:
    Send tensors together: flat buckets, as DistributedDataParallel makes them, `all_reduce_coalesced`, or one
    collective over a list. Read metrics in one message per step.

How the saving is estimated:
    At most 90 % of the exposed time, as with a tenth of the messages; at least nothing, because ranks also wait for a
    late one with fewer messages. On the CPU at most the exposed time except for one message; at least the time of the
    shortest message in the recording for each removed message, because this is the cost of a message of any size.

When it is wrong:
    Tensor parallelism needs two collectives per layer, one after the other; those cannot be merged. If computation
    runs between every two collectives, fused or custom kernels help instead.

References:
    https://docs.pytorch.org/docs/stable/notes/ddp.html
    https://docs.pytorch.org/docs/stable/distributed.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import Communication, HostCollectives
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

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
    on_host = facts.find("host_collectives", HostCollectives)
    if on_host is not None:
        yield from _on_host(facts, on_host, limits)
        return
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


def _on_host(facts: Facts, found: HostCollectives, limits: Mapping[str, float]) -> Iterator[Draft]:
    """All-reduces of the CPU that would fit into fewer buckets."""
    passes, row = facts.find("passes", Passes), next((row for row in found.rows if row.operation == "all_reduce"), None)
    if row is None or row.total_bytes is None or passes is None or not passes.backward_passes:
        return
    calls, size = row.calls / passes.backward_passes, row.total_bytes / passes.backward_passes
    surplus = calls - max(1.0, -(-size // _BUCKET_BYTES)) - 1  # the first bucket of DDP is small by design
    exposed = facts.host_per_step(row.exposed_ns)
    if (
        surplus < limits["surplus"]
        or size >= calls * limits["bytes"]
        or exposed <= limits["exposed_share"] * facts.step_ns
    ):
        return
    shortest = float(row.min_ns)
    fewer = surplus * passes.backward_passes / facts.steps
    most = max(0.0, exposed - shortest)
    change = TimeSaved("host", (min(fewer * shortest, most), most), _BASIS_HOST(), claims={"communication": most})
    where = (CodePlace("operator", f"gloo: {row.operation}", value=row.calls, unit="count"),)
    params = {"calls": round(row.calls / facts.steps), "mean": row.total_ns / row.calls, "exposed": exposed}
    evidence = Evidence(_SURPLUS(), surplus, limits["surplus"], "number", where)
    yield Draft((evidence,), change, params, advice=_ADVICE_HOST, code=_CODE_HOST)


_BUCKET_BYTES = 25 * 2**20
"""Default bucket of DistributedDataParallel (`bucket_cap_mb=25`)."""
_SURPLUS = Text(
    "collectives-many-surplus", "all-reduces of a backward pass beyond those that buckets of the usual size need"
)
_BASIS_HOST = Text(
    "collectives-many-basis-host",
    "at most the exposed time but one message; at least the shortest message for each that goes away",
)
_ADVICE_HOST = Text(
    "collectives-many-advice-host",
    "Let DistributedDataParallel fill its buckets: leave bucket_cap_mb at its default, or raise it. Flatten what you "
    "reduce yourself into one tensor.",
)
_CODE_HOST = "model = DistributedDataParallel(model)  # without bucket_cap_mb"

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
        Threshold(
            "surplus",
            3,
            "count",
            "all-reduces on the CPU in a backward pass beyond those that buckets of 25 MiB need, and a first small one",
            "own choice: one or two more come from parameters that are ready late",
        ),
        Threshold(
            "bytes",
            2**20,
            "bytes",
            "mean size of these all-reduces, below which they count as small",
            "as comm-inefficient; the smallest bucket that DistributedDataParallel makes by default is of 1 MiB",
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
