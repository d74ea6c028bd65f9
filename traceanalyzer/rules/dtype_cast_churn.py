"""Activations are cast to another floating-point type and back.

What it detects:
    In the forward pass, casts (`to`, `_to_copy`) of tensors of one shape from one floating-point type to another, and
    casts of the same shape back again; casts of the same shapes in the backward pass are included.

Why it matters:
    Each cast reads and writes the whole tensor without computing anything, and the wide copy needs twice the memory.

What to do:
    Use a fused form of the operation that needs the wide type (`torch.nn.functional.rms_norm`, `layer_norm`), which
    computes in float inside the kernel, or let `torch.compile` fuse the casts with their neighbours. Load the whole
    model in one type, or leave all casts to autocast.

How the saving is estimated:
    At most the time of the casts. At least half of it: a kernel that reads the narrow type and computes in the wide one
    needs neither cast, but if only one of the two is removed, half of the time remains. In a program without a GPU at
    least the time of the casts on the host, and at most 1.4 times this time with the cost of calling the casts
    (autograd's functions, and up to 20 us of Python between the previous operator and the cast). In the lab, where
    casts were separate modules, between 0.8 times the former and 1.4 times the latter was saved.

When it is wrong:
    Autocast casts each weight once per step and direction, which is normal and does not count. Parts that compute in
    float do so for accuracy: the type of the computation must stay, but the tensors in memory need not be wide.

References:
    https://docs.pytorch.org/docs/stable/amp.html
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.copies.within_memory import Conversion, Conversions
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._processor import Processor, host_share
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_RMS_NORM = re.compile("rms_?norm", re.IGNORECASE)
_LEAST = 0.5
"""Least part of the time that is saved (own choice, explained on the rule's page)."""
_CALLS = 1.4
"""Greatest saving as a multiple of the time of casts and of calling them (measured in the lab, explained on the
page)."""
_FLOATING = frozenset({"double", "float", "c10::Half", "c10::BFloat16"})

_SUBJECT = Text("dtype-cast-churn-subject", "casts there and back, share of the time in which the GPU works")
_SUBJECT_CPU = Text("dtype-cast-churn-subject-cpu", "casts there and back, share of the step")
_BASIS_CPU = Text(
    "dtype-cast-churn-basis-cpu",
    "at least the time of the casts; at most {calls:number} times of it with what is there only to call them",
)
_NO_TYPES = Text(
    "dtype-cast-churn-no-types",
    "element types were not recorded: use profile(record_shapes=True), and torch 1.10 or newer",
    note="profile(record_shapes=True) is code",
)
_NO_TABLE = Text("dtype-cast-churn-no-table", "a printed table does not show element types")
_BASIS = Text(
    "dtype-cast-churn-basis",
    "at most the time of the casts; at least {least:share} of it, because one of every two casts may remain",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    processor = Processor.of(facts)
    rows = [row for row in facts.need("conversions", Conversions).rows if row.on_device != processor.is_cpu]
    if rows and all(row.to_type is None for row in rows):
        raise Missing(_NO_TYPES())
    churn = _there_and_back(rows)
    if processor.is_cpu:
        yield from _on_cpu(processor, churn, limits)
        return
    time = facts.gpu_per_step(sum(row.device_ns for row in churn))
    share = time / facts.resources.gpu_ns if facts.resources.gpu_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    where = tuple(_place(facts, row) for row in churn)
    claims = _claims(facts, churn)
    change = TimeSaved("gpu", (_LEAST * time, time), _BASIS(least=_LEAST), claims=claims, is_removed=True)
    calls = round(sum(row.calls for row in churn) / facts.steps)
    params = {"casts": max(1, calls), "time": time, "share": share}
    first = churn[0]
    texts = {"one": _short(first.from_type), "other": _short(first.to_type), "caller": first.caller or ""}
    evidence = Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where)
    summary = _SUMMARY_CALLER if first.caller else None
    code = None if _RMS_NORM.search(first.caller or "") else ""
    yield Draft((evidence,), change, {**params, **texts}, summary=summary, code=code)


def _on_cpu(processor: Processor, casts: Sequence[Conversion], limits: Mapping[str, float]) -> Iterator[Draft]:
    """Without a GPU casts take time of the host, most of it for their calls where tensors are small."""
    churn = [row for row in casts if not row.input_shapes.startswith("[[]")]  # numbers are no activations
    total = sum(row.host_ns for row in churn)
    share = processor.share(total)
    if share <= processor.limit(limits):
        return
    where = tuple(
        CodePlace(
            "operator", row.operator, row.input_shapes or None, processor.per_step(row.host_ns), "ns", row.start_ns
        )
        for row in churn
    )
    high = _CALLS * processor.per_step(sum(max(row.call_ns, row.host_ns) for row in churn))
    low = processor.per_step(total)
    change = TimeSaved("host", (low, min(high, processor.facts.step_ns)), _BASIS_CPU(calls=_CALLS))
    calls = round(sum(row.calls for row in churn) / processor.facts.steps)
    params = {"casts": max(1, calls), "time": processor.per_step(total), "share": share}
    texts = {"one": _short(churn[0].from_type), "other": _short(churn[0].to_type)}
    evidence = Evidence(_SUBJECT_CPU(), share, processor.limit(limits), "share", where)
    code = None if _RMS_NORM.search(churn[0].caller or "") else ""
    yield Draft((evidence,), change, {**params, **texts}, summary=_SUMMARY_CPU, code=code)


def _there_and_back(rows: Sequence[Conversion]) -> list[Conversion]:
    """Casts of tensors with shapes that the forward pass casts from one type to another and back."""
    casts = [row for row in rows if _is_cast(row)]
    forward = {(row.input_shapes, row.from_type, row.to_type) for row in casts if not row.is_backward}
    both = {shape for shape, a, b in forward if (shape, b, a) in forward}
    return [row for row in casts if row.input_shapes in both]


def _claims(facts: Facts, casts: Sequence[Conversion]) -> dict[str, float]:
    claims: dict[str, float] = {}
    for row in casts:
        key = f"operator:aten::copy_|{row.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(row.device_ns)
    return claims


def _is_cast(row: Conversion) -> bool:
    return row.to_type in _FLOATING and row.from_type in _FLOATING and row.to_type != row.from_type


def _short(kind: str | None) -> str:
    return (kind or "").removeprefix("c10::")


def _place(facts: Facts, row: Conversion) -> CodePlace:
    return CodePlace(
        "operator", row.operator, row.input_shapes or None, facts.gpu_per_step(row.device_ns), "ns", row.start_ns
    )


_SUMMARY_CPU = Text(
    "dtype-cast-churn-summary-cpu",
    "{casts:count} casts per step between {one} and {other} and back take {time:ns} ({share:share} of the step).",
    note="one and other are element types such as BFloat16",
)
_SUMMARY_CALLER = Text(
    "dtype-cast-churn-summary-caller",
    "{casts:count} casts per step between {one} and {other} and back take {time:ns} ({share:share} of the GPU's "
    "time), most of them in {caller}.",
    note="one and other are element types such as BFloat16, caller a class of modules or an operator",
)

RULE = Rule(
    id="dtype-cast-churn",
    title=Text("dtype-cast-churn-title", "Activations are cast to another type and back"),
    summary=Text(
        "dtype-cast-churn-summary",
        "{casts:count} casts per step between {one} and {other} and back take {time:ns} ({share:share} of the GPU's "
        "time).",
        note="one and other are element types such as BFloat16",
    ),
    advice=Text(
        "dtype-cast-churn-advice",
        "Keep the tensors in one type. A fused norm or torch.compile computes in float inside the kernel and reads and "
        "writes the narrow type; leave other casts to autocast.",
        note="torch.compile is code",
    ),
    not_when=Text(
        "dtype-cast-churn-not-when",
        "The wide result is needed in memory for accuracy, as in a loss or a running sum.",
    ),
    severity="low to medium",
    confidence="B",
    tags=("gpu", "precision"),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.03,
            "share",
            "time of the casts over the time in which the GPU works",
            "own choice, because the lower half of it is about the noise of a step",
        ),
        host_share("time of the casts", 0.03, "own choice, because less is about the noise of a step on a CPU"),
    ),
    code="torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)",
    links=(
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html",
    ),
    trace=_trace,
    part_of=("elementwise-fusion-chain",),
    no_table=_NO_TABLE(),
)
