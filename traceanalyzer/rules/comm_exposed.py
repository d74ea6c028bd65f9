"""The GPU communicates, or waits for other ranks, while nothing else runs on it.

What it detects:
    Kernels that communicate, of a collective library (NCCL, RCCL, oneCCL, HCCL) or of the program itself, during which
    no other kernel runs on the device.

Why it matters:
    Communication that is hidden behind computation is free. Exposed communication grows with the number of ranks and
    soon eats up the gain from more GPUs.

What to do:
    It depends on what the collectives do. Gradients (all-reduce) can travel while the backward pass still runs, in 16
    bits, and not at all while they accumulate. Sharded parameters (all-gather, reduce-scatter) can be gathered a layer
    ahead. Embeddings and experts (all-to-all) can be exchanged a batch earlier, and evenly. Pipelines (send and
    receive) take more microbatches. Check first whether one rank is late: then the others wait, and no setting of the
    network helps. Inference and servers have no gradients: they send less if fewer ranks share a layer, and with
    smaller types.

How the saving is estimated:
    At most the exposed time, and no more than there is computation to hide it behind. At least nothing: in the trace of
    one rank, waiting for a late rank looks the same as sending. If the traces of several ranks are compared
    (`traceanalyzer ranks`), waiting for each other is not counted.

When it is wrong:
    The trace of a single rank mixes waiting and sending. The first collectives of a run include setting up connections.
    Marks on the host (`nccl:all_reduce`, `record_param_comms`) are not GPU time and are not counted.

References:
    https://docs.pytorch.org/docs/stable/notes/ddp.html
    https://docs.pytorch.org/docs/stable/fsdp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.resources import StepResources

_SUBJECT = Text("comm-exposed-subject", "communication while no other kernel runs, share of the step")
_BASIS = Text(
    "comm-exposed-basis",
    "at most the communication that computation could hide; at least nothing, because waiting for a late rank and "
    "sending look the same in the trace of one rank",
)
_BASIS_RANKS = Text(
    "comm-exposed-basis-ranks",
    "at most the communication that computation could hide, without waiting for other ranks; at least nothing, "
    "because what is sent may be needed at once",
)
_LATE = Text(
    "comm-exposed-advice-late",
    "Find out first whether a rank is late, by comparing the traces of all ranks; the rest helps only if none is. "
    "{advice}",
    note="advice is one or several whole sentences",
)
_ALSO = Text("comm-exposed-advice-also", "{advice} {more}", note="two sentences, one after the other")
_GRADIENTS = Text(
    "comm-exposed-advice-all-reduce",
    "Reduce gradients while the backward pass still runs, as DistributedDataParallel and FSDP do, and send less: "
    "16-bit gradients, or no_sync() while gradients accumulate.",
    note="no_sync() is code",
)
_SHARDS = Text(
    "comm-exposed-advice-shards",
    "Gather sharded parameters and states one layer ahead (prefetching), keep them gathered between forward and "
    "backward pass where memory allows, and do not gather in each step what the optimizer needs less often.",
)
_EXCHANGE = Text(
    "comm-exposed-advice-all-to-all",
    "Start the all-to-all of embeddings or experts a batch or a layer earlier, so that it runs beside other work; "
    "balance what each rank sends (the sharding plan, the load of experts), and send 16-bit values.",
)
_STAGES = Text(
    "comm-exposed-advice-stages",
    "Cut the batch into more microbatches, or interleave the stages of the pipeline, so that a stage computes while "
    "another sends.",
)
_COPIES = Text(
    "comm-exposed-advice-broadcast",
    "Do not broadcast in each step what all ranks compute identically, such as buffers (broadcast_buffers=False).",
    note="broadcast_buffers=False is code",
)
_CURES = {
    "all_reduce": _GRADIENTS,
    "all_to_all": _EXCHANGE,
    "all_gather": _SHARDS,
    "reduce_scatter": _SHARDS,
    **dict.fromkeys(("send", "recv", "send_recv"), _STAGES),
    "broadcast": _COPIES,
}
"""What helps against each kind of collective in a training."""
_OF_A_KIND = 0.2
"""Least share of the collectives' time for which a kind gets its own advice (own choice)."""
_NOTED, _SHOWN = 0.05, 3
"""Least share of a kind that is named, and how many are (own choice)."""
_MOSTLY = 0.5
_KIND = Text("comm-exposed-kind", "{kind} {time:ns}", note="part of a list: all_reduce 10.2 ms; kind is a code")
_ADVICE_INFERENCE = Text(
    "comm-exposed-advice-inference",
    "Find out first whether a rank is late, by comparing the traces of all ranks. If none is, send less or less often: "
    "fewer ranks that share one layer, 16-bit or smaller types, one collective instead of several, and collectives "
    "within the layer's kernels where the framework has them.",
)
_ADVICE_INFERENCE_RANKS = Text(
    "comm-exposed-advice-inference-ranks",
    "Send less or less often: fewer ranks that share one layer, 16-bit or smaller types, and one collective instead of "
    "several.",
)
_NO_TABLE = Text("comm-exposed-no-table", "a printed table does not show what runs at the same time")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("communication", Communication)
    resources = facts.need_step_resources()
    ranks = facts.find("ranks", Ranks)
    exposed, total = _without_waiting(resources, ranks)
    if not exposed or not total or not resources.gpu_ns:
        return
    share = exposed / resources.step_ns
    if share < limits["exposed_share"]:
        return
    evidence = Evidence(_SUBJECT(), share, limits["exposed_share"], "share", _places(found))
    hideable = min(exposed, max(0.0, resources.gpu_ns - total))
    basis = _BASIS() if ranks is None else _BASIS_RANKS()
    change = TimeSaved("communication", (0.0, exposed), basis, (0.0, hideable), {"communication": exposed})
    params: dict[str, Any] = {"exposed": exposed, "total": total, "step": resources.step_ns, "share": share}
    kinds = _kinds(found)
    summary = None
    if len(kinds) > 1:
        steps = facts.steps
        params["kinds"] = tuple(_KIND(kind=kind, time=ns / steps) for kind, ns in list(kinds.items())[:_SHOWN])
        summary = _SUMMARY_KINDS
    if not _program.may_train(facts):
        advice = _ADVICE_INFERENCE if ranks is None else _ADVICE_INFERENCE_RANKS
        yield Draft((evidence,), change, params, summary=summary, advice=advice, code="")  # no gradients to exchange
        return
    params["advice"] = _cures(kinds)
    advice = _ADVICE if ranks is not None else _LATE
    yield Draft((evidence,), change, params, summary=summary, advice=advice, code=None if _reduces(kinds) else "")


def _kinds(found: Communication) -> dict[str, int]:
    """Time of the collectives by kind, if it is known, the most first."""
    times: dict[str, int] = {}
    for row in found.rows:
        if row.operation:
            times[row.operation] = times.get(row.operation, 0) + row.total_ns
    total = sum(times.values())
    shown = [item for item in times.items() if item[1] >= _NOTED * total]
    return dict(sorted(shown, key=lambda item: (-item[1], item[0])))


def _cures(kinds: Mapping[str, int]) -> Message:
    """One sentence for each kind of collective that takes a large part of the time.

    If no kind is known, it is the sentence about gradients. If other kinds take most of the time, gradients do not
    come first.
    """
    total = sum(kinds.values())
    chosen = dict.fromkeys(_CURES[kind] for kind, ns in kinds.items() if kind in _CURES and ns >= _OF_A_KIND * total)
    advice, *others = list(chosen) or [_GRADIENTS]
    message = advice()
    for other in others:
        message = _ALSO(advice=message, more=other())
    return message


def _reduces(kinds: Mapping[str, int]) -> bool:
    """Whether most of the time is the reduction of gradients, or the kinds are unknown."""
    return not kinds or kinds.get("all_reduce", 0) >= _MOSTLY * sum(kinds.values())


def _without_waiting(resources: StepResources, ranks: Ranks | None) -> tuple[float, float]:
    """Exposed and all communication; where all ranks are known, without the waiting for each other."""
    exposed, total = resources.exposed_communication_ns or 0.0, resources.communication_ns or 0.0
    if ranks is None:
        return exposed, total
    return max(0.0, exposed - (ranks.exposed_wait_ns or 0.0)), max(0.0, total - (ranks.wait_ns or 0.0))


def _places(found: Communication) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("kernel", _name(row), value=row.total_ns, unit="ns") for row in found.rows[:5])


def _name(row: CollectiveRow) -> str:
    return row.operation or row.process_group or "unknown"


_ADVICE = Text("comm-exposed-advice-kinds", "{advice}", note="one or several whole sentences")
_SUMMARY_KINDS = Text(
    "comm-exposed-summary-kinds",
    "Of {total:ns} of communication per step, {exposed:ns} ({share:share} of the step of {step:ns}) run while the GPU "
    "computes nothing. The largest kinds: {kinds}.",
    note="kinds is a list such as all_reduce 10.2 ms, all_gather 3.1 ms",
)

RULE = Rule(
    id="comm-exposed",
    title=Text("comm-exposed-title", "Communication is not hidden by computation"),
    summary=Text(
        "comm-exposed-summary",
        "Of {total:ns} of communication per step, {exposed:ns} ({share:share} of the step of {step:ns}) run while the "
        "GPU computes nothing.",
    ),
    advice=_ADVICE,
    not_when=Text(
        "comm-exposed-not-when",
        "The ranks wait for a slow rank: then balance their work, or find out why it is slow.",
    ),
    severity="info to critical",
    confidence="A",
    tags=("communication", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "exposed_share",
            0.05,
            "share",
            "exposed communication over the step",
            "own choice, because less is within what ranks differ by chance; TraceLens uses 5 % too",
        ),
    ),
    code="DistributedDataParallel(model, gradient_as_bucket_view=True)",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        "https://docs.pytorch.org/docs/stable/fsdp.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
    part_of=("pipeline-bubble",),
)
