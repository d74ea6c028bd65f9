"""Large matrix products in 16 bits could be computed in FP8.

What it detects:
    Products of two matrices in fp16 or bf16 that are bound by arithmetic (by their shapes) and that take 40 % of the
    GPU's time or more, in a program that keeps the GPU busy, on a device whose data sheet has a rate for FP8. Nothing
    in the recording is in FP8 yet. Programs without training are told of FP4, too, if the device has a rate for it.

Why it matters:
    Matrix units compute about twice as many operations per second in FP8 as in 16 bits, and on the newest GPUs twice as
    many again, or four times, in FP4 (MXFP4, NVFP4: blocks of 32 or 16 numbers with a scale).

What to do:
    Convert the large linear layers, not the whole model: with torchao in training and in inference, with the server's
    own quantization in a server. Compile the model, so that the conversion of inputs is fused into other kernels. FP4
    is for inference alone: weights are converted once, with data that calibrates the scales.

How the saving is estimated:
    Not at all. Inputs must be scaled and converted, which costs a part of the saving, and it is unknown whether the
    results are accurate enough.

When it is wrong:
    FP8 has two or three bits of mantissa and FP4 has one, so results change: compare the loss or the quality of answers
    with and without it before it is used. Small models, and outputs with large outliers, suffer most. Products of few
    rows (as in a decoding server) take longer to read their weights than to compute and do not count; nor do batched
    products (attention as separate operators), convolutions, and products with sides that are not multiples of 16,
    which FP8 kernels do not support.

References:
    https://docs.pytorch.org/ao/stable/generated/torchao.float8.convert_to_float8_training.html
    https://docs.pytorch.org/ao/stable/generated/torchao.quantization.quantize_.html
    https://docs.vllm.ai/en/stable/features/quantization/fp8/
    https://docs.vllm.ai/projects/llm-compressor/en/0.7.0/examples/quantization_w4a4_fp4/
    https://docs.vllm.ai/features/quantization/quark.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _products, _program
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_UNIT = 16
"""Divisor of the sides of products in FP8 (documentation of torch's scaled products and of torchao)."""
_HALF = ("c10::Half", "c10::BFloat16")
_FP8 = re.compile(r"e[45]m[23]|fp8|float8|(?<![0-9a-f])bf8(?![0-9a-f])|scaled_mm|(?-i:_(?:F8|B8))", re.IGNORECASE)
"""Names of operators, types and kernels in FP8; AMD's libraries write `Cijk_..._F8...` and `..._B8...`. Within a hash,
`bf8` means nothing."""
_TRAINING = "torchao.float8.convert_to_float8_training(model)  # before torch.compile"
_INFERENCE = "torchao.quantization.quantize_(model, torchao.quantization.Float8DynamicActivationFloat8WeightConfig())"

_SUBJECT = Text("fp8-eligible-subject", "large matrix products in 16 bits, share of the time on the GPU")
_BUSY = Text("fp8-eligible-busy", "time in which the GPU works, share of the step")
_UNKNOWN = Text(
    "fp8-eligible-unknown", "it is not known whether this GPU computes in FP8: add its limits to the configuration"
)
_NO_TABLE = Text("fp8-eligible-no-table", "a printed table shows neither the GPU nor the types of inputs")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    kernels, resources = facts.kernels, facts.need_step_resources()
    found = facts.need("roofline", Roofline)
    if facts.gpu is None:
        raise Missing(_UNKNOWN())
    rows = [row for row in found.rows if _is_eligible(row)]
    used = any(_FP8.search(name) for row in found.rows for name in (row.name, row.input_types))
    if not rows or not facts.gpu.fp8 or used or any(_FP8.search(kernel.name) for kernel in kernels):
        return
    time, busy = sum(row.device_ns for row in rows), (resources.gpu_ns or 0) / resources.step_ns
    share = time / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"] or busy <= limits["busy_share"]:
        return
    where = tuple(
        CodePlace("operator", row.name, shapes=row.input_shapes, value=row.device_ns, unit="ns") for row in rows[:5]
    )
    evidence = (
        Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),
        Evidence(_BUSY(), busy, limits["busy_share"], "share", ()),
    )
    params = {
        "time": facts.gpu_per_step(time),
        "share": share,
        "fp8": facts.gpu.fp8,
        "half": rows[0].peak_tflops_per_s,
    }
    summary = advice = None
    if facts.gpu.fp4 and not _program.may_train(facts):
        params["fp4"] = facts.gpu.fp4
        summary, advice = _SUMMARY_FP4, _ADVICE_FP4
    yield Draft(evidence, params=params, severity="info", code=_code(facts), summary=summary, advice=advice)


def _is_eligible(row: RooflineRow) -> bool:
    """Whether it is a product of two matrices in 16 bits that arithmetic bounds and whose sides FP8 kernels take."""
    sides = _products.sides(row.name, row.input_shapes)
    if sides is None or row.bound != "compute" or not any(name in row.input_types for name in _HALF):
        return False
    return row.name.removeprefix("aten::") not in ("bmm", "baddbmm") and not sides.n % _UNIT and not sides.k % _UNIT


def _code(facts: Facts) -> str:
    """What converts the model; nothing for a server, which has a setting, nor where it may train or not."""
    if _program.serves(facts):
        return ""
    return {"training": _TRAINING, "inference": _INFERENCE}.get(_program.workload(facts) or "", "")


_SUMMARY_FP4 = Text(
    "fp8-eligible-summary-fp4",
    "Large matrix products in 16 bits take {time:ns} per step ({share:share} of the time on the GPU). The dense peak "
    "of this GPU is {fp4:number} TFLOP/s in FP4, {fp8:number} TFLOP/s in FP8, and {half:number} TFLOP/s in 16 bits.",
    note="TFLOP/s: 10^12 floating-point operations per second; FP8, FP4: floating-point numbers of 8 and 4 bits",
)
_ADVICE_FP4 = Text(
    "fp8-eligible-advice-fp4",
    "If the products are still what takes the time after everything else, try FP8 for the large linear layers, and "
    "then FP4 (MXFP4 or NVFP4): with torchao, or with the quantization of the server that runs the model. FP4 has one "
    "bit of mantissa, so the accuracy suffers more: compare the quality of the results with and without it.",
    note="torchao is the name of a library",
)

RULE = Rule(
    id="fp8-eligible",
    title=Text("fp8-eligible-title", "Large matrix products in 16 bits could be computed in FP8"),
    summary=Text(
        "fp8-eligible-summary",
        "Large matrix products in 16 bits take {time:ns} per step ({share:share} of the time on the GPU). The dense "
        "peak of this GPU is {fp8:number} TFLOP/s in FP8, and {half:number} TFLOP/s in 16 bits.",
        note="TFLOP/s: 10^12 floating-point operations per second; FP8: floating-point numbers of 8 bits",
    ),
    advice=Text(
        "fp8-eligible-advice",
        "If the products are still what takes the time after everything else, try FP8 for the large linear layers: "
        "with torchao, or with the quantization of the server that runs the model. The accuracy must be checked: "
        "compare the quality of the results with and without it.",
        note="torchao is the name of a library",
    ),
    not_when=Text(
        "fp8-eligible-not-when",
        "The results must not change, or there is no way to measure how good they are.",
    ),
    severity="info",
    confidence="C",
    tags=("gpu", "precision"),
    since="0.2",
    thresholds=(
        Threshold(
            "gpu_share",
            0.4,
            "share",
            "time of these products over the time on the GPU",
            "own choice: a fifth of the GPU's time at most, if they became twice as fast, is worth a trial of accuracy",
        ),
        Threshold(
            "busy_share",
            0.8,
            "share",
            "time in which the GPU works, over the step",
            "own choice: a GPU that works for less waits for something else, which comes first",
        ),
    ),
    code=_TRAINING,
    links=(
        "https://docs.pytorch.org/ao/stable/generated/torchao.float8.convert_to_float8_training.html",
        "https://docs.pytorch.org/ao/stable/generated/torchao.quantization.quantize_.html",
        "https://docs.vllm.ai/en/stable/features/quantization/fp8/",
        "https://docs.vllm.ai/projects/llm-compressor/en/0.7.0/examples/quantization_w4a4_fp4/",
        "https://docs.vllm.ai/features/quantization/quark.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
    stage="preview",
)
