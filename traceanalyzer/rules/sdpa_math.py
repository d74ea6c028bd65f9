"""Scaled dot-product attention runs as separate operators, because no fused kernel supports its inputs.

What it detects:
    Calls of `scaled_dot_product_attention` that use `_scaled_dot_product_attention_math` on the GPU and take 5 % of its
    time or more.

Why it matters:
    The fallback writes the whole matrix of scores to memory and reads it several times. Fused kernels keep it on the
    chip, and need memory for the output only.

What to do:
    Find out why the fused kernels cannot be used: types other than 16 bits, head sizes above 256 or not a multiple of
    8, a mask of an unusual shape, an input that needs a second derivative, or a backend that was switched off.

How the saving is estimated:
    At most the time of the fallback, at least nothing, because some inputs have no fused kernel.

When it is wrong:
    In fp32 without a mask, the memory-efficient kernel does run on NVIDIA GPUs; if the fallback was chosen for
    debugging, nothing is wrong.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    https://docs.pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_MATH = "aten::_scaled_dot_product_attention_math"
_LEAST_LEFT = 0.2
"""Part that a fused kernel needs at least (own choice: its two products remain)."""
_SUBJECT = Text("sdpa-math-subject", "attention by the fallback, share of the time on the GPU")
_BASIS = Text(
    "sdpa-math-basis",
    "at most the time of the fallback minus {left:share} for the products; at least nothing, because no fused kernel "
    "supports some inputs",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.operators if row.name == _MATH and row.device_total_ns]
    total = sum(row.device_total_ns for row in rows)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    kind = "operator" if facts.table is None else "row"
    where = tuple(CodePlace(kind, row.name, value=row.device_total_ns, unit="ns") for row in rows[:5])
    time, calls = facts.gpu_per_step(total), sum(row.calls for row in rows) / facts.steps
    high = (1 - _LEAST_LEFT) * time
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),),
        TimeSaved("gpu", (0.0, high), _BASIS(left=_LEAST_LEFT), claims={f"operator:{_MATH}": high}),
        {"calls": max(1, round(calls)), "time": time, "share": share},
        ceiling="high",
    )


RULE = Rule(
    id="sdpa-math",
    title=Text("sdpa-math-title", "Attention runs without a fused kernel"),
    summary=Text(
        "sdpa-math-summary",
        "{calls:count} calls of scaled_dot_product_attention per step fall back to separate kernels: {time:ns} "
        "({share:share} of the time on the GPU).",
        note="scaled_dot_product_attention is code",
        one="{calls:count} call of scaled_dot_product_attention per step falls back to separate kernels: {time:ns} "
        "({share:share} of the time on the GPU).",
    ),
    advice=Text(
        "sdpa-math-advice",
        "Allow only the fused kernels: PyTorch then warns why they refuse the inputs. The usual reasons are a type "
        "other than 16 bits, the size of the heads, or the form of the mask.",
    ),
    not_when=Text(
        "sdpa-math-not-when",
        "The fallback was asked for, or the attention needs a second derivative.",
    ),
    severity="info to high",
    confidence="A",
    tags=("gpu",),
    since="0.2",
    thresholds=(
        Threshold(
            "gpu_share",
            0.05,
            "share",
            "time of the fallback over the time on the GPU",
            "own choice, because a fused kernel still needs about half of less",
        ),
    ),
    code="with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION): y = model(x)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        "https://docs.pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html",
    ),
    trace=_find,
    table=_find,
    stage="preview",
)
