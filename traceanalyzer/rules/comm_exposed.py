"""The GPU communicates, or waits for other ranks, while nothing else runs on it.

What it detects:
    Kernels that communicate, of a collective library (NCCL, RCCL, oneCCL, HCCL) or of the program itself, during which
    no other kernel runs on the device.

Why it matters:
    Communication that is hidden behind computation is free. Exposed communication grows with the number of ranks and
    soon eats up the gain from more GPUs.

What to do:
    First check whether one rank is late: then the others wait for it, and no network setting helps. Exchange gradients
    while the backward pass still runs: DistributedDataParallel or FSDP with prefetching, buckets that fill early, no
    graph break before the optimizer. Send less: bf16 gradients, accumulation with `no_sync()`. Inference has no
    gradients: there, fewer ranks per layer and smaller types reduce what is sent.

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

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.recording import Recording
from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.rule import Draft, Rule, Threshold

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
_ADVICE_RANKS = Text(
    "comm-exposed-advice-ranks",
    "Overlap the exchange of gradients with the backward pass (gradient_as_bucket_view, smaller first bucket, FSDP "
    "prefetching), and send less: bf16 gradients, or no_sync() while gradients accumulate.",
)
_ADVICE_INFERENCE = Text(
    "comm-exposed-advice-inference",
    "Find out first whether a rank is late, by comparing the traces of all ranks. If none is, send less or less often: "
    "fewer ranks that share one layer, 16-bit or smaller types, and one collective instead of several.",
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
    params = {"exposed": exposed, "total": total, "step": resources.step_ns, "share": share}
    if _trains(facts):
        yield Draft((evidence,), change, params, advice=None if ranks is None else _ADVICE_RANKS)
        return
    advice = _ADVICE_INFERENCE if ranks is None else _ADVICE_INFERENCE_RANKS
    yield Draft((evidence,), change, params, advice=advice, code="")  # there are no gradients to exchange


def _trains(facts: Facts) -> bool:
    """Whether gradients may be exchanged; a recording with only a forward pass may also be of a training."""
    recording = facts.find("recording", Recording)
    if recording is None or recording.workload not in ("inference", "serving"):
        return True
    shown = {found.id for found in recording.frameworks}
    return any(known.id in shown and known.role in ("parallel", "training") for known in FRAMEWORKS)


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


RULE = Rule(
    id="comm-exposed",
    title=Text("comm-exposed-title", "Communication is not hidden by computation"),
    summary=Text(
        "comm-exposed-summary",
        "Of {total:ns} of communication per step, {exposed:ns} ({share:share} of the step of {step:ns}) run while the "
        "GPU computes nothing.",
    ),
    advice=Text(
        "comm-exposed-advice",
        "Find out first whether a rank is late, by comparing the traces of all ranks. If none is, overlap the "
        "exchange of gradients with the backward pass (gradient_as_bucket_view, smaller first bucket, FSDP "
        "prefetching), and send less: bf16 gradients, or no_sync() while gradients accumulate.",
    ),
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
    code="DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=25)",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        "https://docs.pytorch.org/docs/stable/fsdp.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
