"""Detects waste in serving models of language: small or padded batches, steps without graphs, queues, unused logits.

The rules are decode-batch-small, prefill-with-decode, graph-batch-padded, decode-not-in-graph, requests-queue and
logits-of-all-tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import fsum
from statistics import fmean, median

import msgspec

from traceanalyzer.analyzers.host import HostOwner
from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.phases import Phases
from traceanalyzer.analyzers.phases.kinds import StepKind
from traceanalyzer.analyzers.serving import decode_graphs
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.knowledge.kernel_classes import has_narrow_weights, reads_a_matrix_once
from traceanalyzer.rules.engine import host_owners, places, program
from traceanalyzer.rules.engine.change import DeviceWork
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, page
from traceanalyzer.structure.recording import RecordedStep, Recording
from traceanalyzer.structure.recording.left_out import COMMUNICATION, OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.typical import mean

_SMALL = page("decode-batch-small")
_MIXED = page("prefill-with-decode")
_PADDED = page("graph-batch-padded")
_EAGER = page("decode-not-in-graph")
_QUEUE = page("requests-queue")
_LOGITS = page("logits-of-all-tokens")

_COUNTS = frozenset({None, OTHER_PHASE, COMMUNICATION, UNKNOWN})
"""Reasons for being unlike other steps that leave a step to its phase: no edge of the recording, no one-time event."""
_IN_FLIGHT = "requests-in-flight"
"""Evidence in the analysis `recording` that several threads serve requests at the same time."""
_PER_INPUT = 8
"""Own choice: outputs per input of a product with a vocabulary; other layers have at most about four."""
_HALF_AS_WIDE = 0.5
"""What weights of 8 bits save of the time in which those of 16 are read."""
_PRODUCTS = frozenset({"aten::mm", "aten::addmm"})
_CHOOSING = frozenset(
    f"aten::{name}"
    for name in ("argmax", "multinomial", "topk", "sort", "max", "softmax", "_softmax", "log_softmax", "_log_softmax")
)
"""Operators that choose tokens, or compute their probabilities."""
_Rows = Sequence[tuple[OperatorFact, tuple[Shape, ...]]]


class _Logits(msgspec.Struct, frozen=True):
    """A product that computes the logits of more rows than tokens are chosen for."""

    row: OperatorFact
    count: int
    """Rows of the product."""
    inputs: int
    outputs: int
    """Size of the vocabulary."""
    chosen: int
    """Sequences that a token is chosen for."""

    @property
    def least_ns(self) -> float:
        """Time that goes away if memory bounds the product."""
        return (1 - self._elements(self.chosen) / self._elements(self.count)) * self.row.device_self_ns

    @property
    def most_ns(self) -> float:
        """Time that goes away if arithmetic bounds the product."""
        return (1 - self.chosen / self.count) * self.row.device_self_ns

    def _elements(self, rows: int) -> int:
        return self.inputs * self.outputs + rows * (self.inputs + self.outputs)


def _small(facts: Facts, limits: Limits) -> Drafts:
    recording, busy = facts.need("recording", Recording), facts.resources.gpu_ns
    steps = [step for step in recording.steps if step.phase == "decode" and step.tokens]
    if busy is None or (not steps and (program.serves(facts) or program.may_train(facts))):
        raise Missing(_SMALL.text("no-marks")())
    if not steps:
        yield from _vectors(facts, limits)
        return
    tokens = fmean(step.tokens or 0 for step in steps)
    if tokens >= limits["tokens"] or busy < limits["busy_share"] * facts.step_ns:
        return
    time = fmean(step.duration_ns for step in steps)
    params = {"tokens": round(tokens), "time": time, "rate": round(tokens / time * 1e9)}
    evidence = Evidence(_SMALL.text("subject")(), tokens, limits["tokens"], "number", places.longest_steps(steps))
    yield Draft((evidence,), params=params, severity="info")


def _vectors(facts: Facts, limits: Limits) -> Drafts:
    """The finding about a program whose products mostly are of single vectors, as those of one sequence that decodes.

    Raises:
        Missing: No kernel shows it.
    """
    rows = [row for row in if_known(lambda: facts.kernels) if reads_a_matrix_once(row.name)]
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows)).longest_first
    if not rows:
        raise Missing(_SMALL.text("no-marks")())
    busy = facts.resources.gpu_ns or 0.0
    if work.share <= limits["vector_share"] or busy < limits["busy_share"] * facts.step_ns:
        return
    subject = _SMALL.text("subject-vectors")()
    evidence = _SMALL.evidence(limits, "vector_share", work.share, work.places[:5], subject=subject)
    wide = [row for row in rows if not has_narrow_weights(row.name)]
    smaller = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in wide))
    is_narrow = 2 * smaller.total_ns < work.total_ns
    yield Draft(
        (evidence,),
        None if is_narrow else smaller.shorter((0.0, _HALF_AS_WIDE), _SMALL.text("basis")()),
        {**work.figures(), "step": facts.step_ns},
        severity="info",
        ceiling="medium",  # whether the model bears it is not known
        title=_SMALL.text("title-vectors"),
        summary=_SMALL.text("summary-vectors"),
        advice=_SMALL.text("advice-narrow") if is_narrow else _SMALL.text("advice-vectors"),
    )


def _mixed(facts: Facts, limits: Limits) -> Drafts:
    recording = facts.need("recording", Recording)
    mixed, decode = (_steps(recording, phase) for phase in ("mixed", "decode"))
    if not mixed or not decode:
        raise Missing(_MIXED.text("no-steps")())
    kind = _kind(facts, recording, "mixed")
    of_device = _device_ratio(kind, _kind(facts, recording, "decode"))
    if kind is None or of_device is None:
        raise Missing(_MIXED.text("no-device")())
    params = {"mixed": _median_ns(mixed), "decode": _median_ns(decode)}
    whole = params["mixed"] / params["decode"]
    ratio = min(whole, of_device)
    if ratio < limits["ratio"]:
        return
    subject = _MIXED.text("subject") if ratio == whole else _MIXED.text("subject-device")
    evidence = _MIXED.evidence(limits, "ratio", ratio, places.longest_steps(mixed), subject=subject())
    if kind.generation_requests is not None:
        params["requests"] = round(mean(kind.generation_requests, kind.steps))
    summary = _MIXED.text("summary-unknown") if kind.generation_requests is None else None
    yield Draft((evidence,), params=params, severity="info", summary=summary)


def _steps(recording: Recording, phase: str) -> list[RecordedStep]:
    """Steps of a phase without those that something else makes longer."""
    return [step for step in recording.steps if step.reason in _COUNTS and step.phase == phase]


def _median_ns(steps: Sequence[RecordedStep]) -> float:
    return float(median(step.duration_ns for step in steps))


def _device_ratio(mixed: StepKind | None, decode: StepKind | None) -> float | None:
    """How much longer the device works for a mixed step than for one of decoding; None if unknown."""
    if mixed is None or decode is None or not mixed.median_device_ns or not decode.median_device_ns:
        return None
    return mixed.median_device_ns / decode.median_device_ns


def _kind(facts: Facts, recording: Recording, phase: str) -> StepKind | None:
    """All steps of a phase by the marks of the framework; None if they are not known."""
    phases = facts.find("phases", Phases)
    rows = phases.kinds if phases is not None else ()
    return next((row for row in rows if row.kind == phase and row.framework == recording.framework), None)


def _padded(facts: Facts, limits: Limits) -> Drafts:
    batches = facts.need("decode_graphs", decode_graphs.DecodeGraphs).batches
    if all(batch.size is None for batch in batches):
        raise Missing(_PADDED.text("no-size")())
    rows = [batch for batch in batches if _padding_ns(batch)]
    rows.sort(key=lambda batch: (-_padding_ns(batch), batch.requests, batch.start_ns))
    time = fsum(batch.steps * batch.median_device_ns for batch in batches)
    padding = fsum(map(_padding_ns, rows))
    share = padding / time if time else 0.0
    if share < limits["share"] or not rows:
        return
    first, steps = rows[0], _count(batches)
    params = {
        "padded": _count(rows),
        "steps": steps,
        "requests": first.requests,
        "size": first.size,
        "share": share,
    }
    where = tuple(_place(batch, batch.median_device_ns) for batch in rows)
    yield Draft(
        (_PADDED.evidence(limits, "share", share, where),),
        DeviceWork((0.0, mean(padding, steps)), _PADDED.text("basis")()),
        params,
        ceiling="low",
        summary=None if first.is_exact else _PADDED.text("summary-at-least"),
    )


def _count(batches: Sequence[decode_graphs.DecodeBatch]) -> int:
    """Number of steps of some batches."""
    return sum(batch.steps for batch in batches)


def _padding_ns(batch: decode_graphs.DecodeBatch) -> float:
    """Time of the GPU in all steps of a batch, times the padded share of the graph's batch."""
    return batch.steps * batch.median_device_ns * (batch.size - batch.requests) / batch.size if batch.size else 0.0


def _place(batch: decode_graphs.DecodeBatch, ns: float) -> CodePlace:
    """The longest step of a batch, with a time in ns."""
    return CodePlace("step", batch.longest, None, ns, "ns", batch.start_ns)


def _eager(facts: Facts, limits: Limits) -> Drafts:
    batches = facts.need("decode_graphs", decode_graphs.DecodeGraphs).batches
    graphs = [batch for batch in batches if batch.in_graph]
    if not graphs:
        raise Missing(_EAGER.text("no-graph")())
    eager = (batch for batch in batches if not batch.in_graph)
    rows = [batch for batch in eager if _excess(batch, graphs) >= limits["idle_share"]]
    if not rows:
        return
    rows.sort(key=lambda batch: (-batch.steps * batch.median_idle_ns, batch.requests))
    first, other = rows[0], _nearest(rows[0], graphs)
    params = {
        "eager": _count(rows),
        "steps": _count(batches),
        "requests": first.requests,
        "time": first.median_duration_ns,
        "idle": first.median_idle_ns,
        "other": other.requests,
        "usual": other.median_duration_ns,
        "rest": other.median_idle_ns,
    }
    where = tuple(_place(batch, batch.median_idle_ns) for batch in rows)
    evidence = _EAGER.evidence(limits, "idle_share", _excess(first, graphs), where)
    advice = None if _are_larger(rows, graphs) else _EAGER.text("advice-between")
    yield Draft((evidence,), params=params, severity="low", advice=advice)


def _are_larger(rows: Sequence[decode_graphs.DecodeBatch], graphs: Sequence[decode_graphs.DecodeBatch]) -> bool:
    """Whether all batches are above the largest size that a graph has."""
    largest = max(max(batch.requests, batch.size or 0) for batch in graphs)
    return min(batch.requests for batch in rows) > largest


def _nearest(
    batch: decode_graphs.DecodeBatch, graphs: Sequence[decode_graphs.DecodeBatch]
) -> decode_graphs.DecodeBatch:
    """The steps in graphs whose number of requests is nearest."""
    return min(graphs, key=lambda other: (abs(other.requests - batch.requests), other.requests, other.start_ns))


def _excess(batch: decode_graphs.DecodeBatch, graphs: Sequence[decode_graphs.DecodeBatch]) -> float:
    """Idle time of the GPU beyond that of the nearest steps in graphs, over the duration of the step."""
    if not batch.median_duration_ns:
        return 0.0
    return (batch.median_idle_ns - _nearest(batch, graphs).median_idle_ns) / batch.median_duration_ns


def _queue(facts: Facts, limits: Limits) -> Drafts:
    found = host_owners.for_requests(facts)
    if found is not None and found[1] > limits["idle_share"] * facts.step_ns:
        yield _without_load(facts, limits, *found)
        return
    waits = facts.need("synchronizations", Synchronizations)
    if not _serves_at_once(facts):
        raise Missing(_QUEUE.text("no-server")())
    busy, span = _device(facts)
    rows = sorted(waits.rows, key=lambda row: (-row.waiting_ns, row.call))
    # runtime calls are nested, so only calls of one name are summed
    alike = [row for row in rows if row.call == rows[0].call]
    time = sum(row.waiting_ns for row in alike)
    calls = sum(row.calls for row in alike)
    waiting = time / span
    if calls < 2 or busy < limits["busy_share"] * span or waiting <= limits["waiting"]:
        return
    where = tuple(CodePlace("call", row.call, None, row.waiting_ns, "ns") for row in rows)
    params = {
        "waiting": waiting,
        "calls": calls,
        "call": rows[0].call,
        "time": time,
        "span": span,
        "busy": busy / span,
    }
    yield Draft((_QUEUE.evidence(limits, "waiting", waiting, where),), params=params, severity="info")


def _without_load(facts: Facts, limits: Limits, owner: HostOwner, time: float) -> Draft:
    """What is said of a server that waits for requests, which no change of the program makes shorter."""
    share = time / facts.step_ns
    subject = _QUEUE.text("subject-load")()
    evidence = _QUEUE.evidence(limits, "idle_share", share, (host_owners.place(owner, time),), subject=subject)
    return Draft(
        (evidence,),
        params={"owner": host_owners.name(owner), "time": time, "step": facts.step_ns, "rest": facts.step_ns - time},
        severity="low",
        title=_QUEUE.text("title-load"),
        summary=_QUEUE.text("summary-load"),
        advice=_QUEUE.text("advice-load"),
    )


def _serves_at_once(facts: Facts) -> bool:
    """Whether several threads serve requests at the same time."""
    recording = facts.find("recording", Recording)
    return recording is not None and any(sign.kind == _IN_FLIGHT for sign in recording.evidence)


def _device(facts: Facts) -> tuple[float, float]:
    """Time in which the device works and time in which it was recorded, in ns.

    Raises:
        Missing: It is not known.
    """
    accelerators = facts.find("accelerators", Accelerators)
    if accelerators is not None and accelerators.devices and accelerators.devices[0].span_ns:
        return accelerators.devices[0].busy_ns, accelerators.devices[0].span_ns
    if facts.resources.gpu_ns is None or not facts.step_ns:
        raise Missing(_QUEUE.text("no-device")())
    span = facts.recorded_steps_ns
    return facts.resources.gpu_ns / facts.step_ns * span, span


def _logits(facts: Facts, limits: Limits) -> Drafts:
    if program.workload(facts) == "training":
        return
    products = _large_products(facts, limits)
    rows = [entry.row for entry in products]
    work = EventTimes.on_device(facts, ((row.events, row.device_self_ns) for row in rows))
    if work.share <= limits["gpu_share"]:
        return
    saved = EventTimes.on_device(facts, ((entry.row.events, entry.most_ns) for entry in products))
    least = fsum(entry.least_ns for entry in products)
    change = saved.removed((least, saved.total_ns), _LOGITS.text("basis")())
    where = places.of_operators(facts, rows, lambda row: facts.on_device(row.device_self_ns))
    evidence = _LOGITS.evidence(limits, "gpu_share", work.share, where)
    params = {"rows": products[0].count, "chosen": products[0].chosen, **work.figures()}
    yield Draft((evidence,), change, params)


def _large_products(facts: Facts, limits: Limits) -> list[_Logits]:
    """Products with a vocabulary that compute far more rows than are used, the longest first."""
    rows = [(row, shapes) for row in facts.shaped if (shapes := row.inputs.tensors)]
    products = (_product(row, shapes, rows, limits["outputs"]) for row, shapes in rows)
    large = [entry for entry in products if entry and entry.count >= limits["rows_per_choice"] * entry.chosen]
    return sorted(large, key=lambda entry: (-entry.row.device_self_ns, entry.row.shapes or ""))


def _product(row: OperatorFact, tensors: Sequence[Shape], rows: _Rows, least: float) -> _Logits | None:
    """A product with a vocabulary of at least so many tokens, for whose rows tokens are chosen; None of others."""
    if row.name not in _PRODUCTS or len(tensors) < 2 or not row.device_self_ns:
        return None
    a, b = tensors[-2:]
    if len(a) != 2 or len(b) != 2 or a[1] != b[0] or b[1] < max(least, _PER_INPUT * b[0]):
        return None
    chosen = _chosen(rows, a[0], b[1])
    return _Logits(row, a[0], b[0], b[1], chosen) if chosen else None


def _chosen(rows: _Rows, count: int, outputs: int) -> int | None:
    """For how many sequences tokens are chosen, of a product with so many rows; None where all rows may be used."""
    cut = {t[0][0] for row, t in rows if row.name == "aten::select" and _is_of(t[0], count, outputs)}
    chosen = {math.prod(t[0][:-1]) for row, t in rows if row.name in _CHOOSING and t[0][-1] == outputs}
    return max(cut) if len(cut) == 1 and chosen and max(chosen) <= max(cut) else None


def _is_of(shape: Shape, count: int, outputs: int) -> bool:
    """Whether a tensor [batch, tokens, outputs] is the result of a product with so many rows."""
    return len(shape) == 3 and shape[-1] == outputs and math.prod(shape[:-1]) == count


RULES = (
    _SMALL.rule(trace=_small),
    _MIXED.rule(trace=_mixed),
    _PADDED.rule(trace=_padded),
    _EAGER.rule(trace=_eager),
    _QUEUE.rule(trace=_queue),
    _LOGITS.rule(trace=_logits, table=_logits),
)
