"""Detects tensor-cores-unused: see pages/tensor-cores-unused.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules._precision import AMPERE, VOLTA, Precision, fp32_products, precision
from traceanalyzer.rules.engine import program, settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("tensor-cores-unused")
_CODE_BFLOAT16 = 'with torch.autocast("cuda", dtype=torch.bfloat16): loss = criterion(model(x), y)'


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    used = precision(facts)
    if used.is_a_switch or (used.capability is not None and used.capability < VOLTA) or not facts.gpu_total_ns:
        return
    products = fp32_products(facts, limits, tf32=False)
    share = products.time_ns / facts.gpu_total_ns
    if share <= limits["product_share"]:
        return
    low, high = map(facts.gpu_per_step, products.saved_ns)
    summary, advice, code = _texts(facts, used)
    if not program.may_train(facts):
        advice, code = _of_inference(advice, code)
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["product_share"], "share", products.places),),
        TimeSaved("gpu", (low, high), _PAGE.text("basis")(), claims=products.claims),
        {"time": facts.gpu_per_step(products.time_ns), "share": share},
        confidence="C" if used.capability is None else None,
        summary=summary,
        advice=advice,
        code=code,
    )


def _of_inference(advice: Text | None, code: str | None) -> tuple[Text | None, str | None]:
    """Advice and code for programs without a loss."""
    if code is not None and code.startswith("torch."):
        return _PAGE.text("advice-inference-tf32"), code
    if advice is None or advice is _PAGE.text("advice-tf32-allowed"):
        kind = "bfloat16" if code == _CODE_BFLOAT16 else "float16"
        return _PAGE.text(
            "advice-inference"
        ), f"model = model.to(torch.{kind})  # and its inputs; or torch.autocast around the call"
    return advice, code


def _texts(facts: Facts, used: Precision) -> tuple[Text | None, Text | None, str | None]:
    """Summary, advice and code, if they differ from the rule's."""
    if used.capability is None:
        return _PAGE.text("summary-unknown"), None, None
    if used.uses_tensor_cores:
        return _PAGE.text("summary-partly"), _PAGE.text("advice-partly"), None
    if settings.uses_autocast(facts):
        return None, _PAGE.text("advice-partly"), None
    if used.capability >= AMPERE and settings.matmul_tf32(facts):
        return None, _PAGE.text("advice-tf32-allowed"), _CODE_BFLOAT16
    if used.capability >= AMPERE:
        return None, _PAGE.text("advice-ampere"), 'torch.set_float32_matmul_precision("high")'
    return None, None, None


RULE = _PAGE.rule(trace=_find, table=_find)
