"""Matrix products and convolutions run in fp32 on ordinary cores, although the GPU has Tensor Cores.

What it detects:
    Kernels of matrix products and convolutions whose names say that they compute in fp32 outside of Tensor Cores
    (`sgemm`, `scudnn`, `simt`, `winograd`, ...), on a GPU of compute capability 7.0 or newer. Products that are bound
    by memory or by their launch do not count. If the header names no GPU, the generation in the kernels' names
    (`volta_...`) gives a lower limit.

Why it matters:
    Tensor Cores multiply 4 to 16 times as fast as the ordinary cores of the same GPU, and half precision halves the
    bytes that everything else moves.

What to do:
    Use mixed precision: `torch.autocast`, with a `GradScaler` when training in float16. On Ampere and newer, first
    allow TF32, which is one line and changes no types. Sizes that are multiples of 8 use Tensor Cores best.

How the saving is estimated:
    At most what the ratio of the peak rates saves, but never more than a factor of three and never beyond what peak
    rate and memory bandwidth allow. At least what a factor of 1.3 saves.

When it is wrong:
    Some code needs the precision of fp32. GPUs before Volta have no Tensor Cores. Names of Triton kernels do not show
    whether they use Tensor Cores, so they are not counted either way. If some products on an Ampere or newer GPU
    already use Tensor Cores, `tf32-disabled` reports the others instead.

References:
    https://docs.pytorch.org/docs/stable/amp.html
    https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _program, _settings
from traceanalyzer.rules._precision import AMPERE, THRESHOLDS, VOLTA, Precision, fp32_products, precision
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule

_SUBJECT = Text("tensor-cores-unused-subject", "products in fp32 outside of Tensor Cores, share of the time on the GPU")
_BASIS = Text(
    "tensor-cores-unused-basis",
    "at least what a speedup of 1.3 saves; at most what the ratio of the peak rates saves, up to 3, and never below "
    "the time that peak rate and memory bandwidth allow",
)
_SUMMARY_UNKNOWN = Text(
    "tensor-cores-unused-summary-unknown",
    "{time:ns} per step ({share:share} of the time on the GPU) are products and convolutions in fp32 on ordinary "
    "cores. The GPU is unknown; Volta and newer have Tensor Cores for them.",
)
_SUMMARY_PARTLY = Text(
    "tensor-cores-unused-summary-partly",
    "Some products use Tensor Cores, but {time:ns} per step ({share:share} of the time on the GPU) are still computed "
    "in fp32 on ordinary cores.",
)
_ADVICE_AMPERE = Text(
    "tensor-cores-unused-advice-ampere",
    "Two steps, the cheaper one first: let fp32 products use TF32, which is one line at the start of the program; then "
    "run the forward pass and the loss under torch.autocast in bfloat16.",
)
_ADVICE_INFERENCE = Text(
    "tensor-cores-unused-advice-inference",
    "Run the model in 16 bits: float16 on Volta and Turing, bfloat16 from Ampere on, by converting it once or under "
    "torch.autocast, and compare its results with those in fp32.",
    note="torch.autocast is code",
)
_ADVICE_INFERENCE_TF32 = Text(
    "tensor-cores-unused-advice-inference-tf32",
    "Two steps, the cheaper one first: let fp32 products use TF32, which is one line at the start of the program; then "
    "run the model in bfloat16, and compare its results.",
)
_CODE_BFLOAT16 = 'with torch.autocast("cuda", dtype=torch.bfloat16): loss = criterion(model(x), y)'
_ADVICE_TF32_ALLOWED = Text(
    "tensor-cores-unused-advice-tf32-allowed",
    "TF32 is already allowed, but these products do not use it: run the forward pass and the loss under "
    "torch.autocast in bfloat16.",
)
_ADVICE_PARTLY = Text(
    "tensor-cores-unused-advice-partly",
    "Find what leaves mixed precision: a region with autocast switched off, a .float() on the way, or a module that is "
    "called outside of the autocast block.",
)


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
    if not _program.may_train(facts):
        advice, code = _of_inference(advice, code)
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["product_share"], "share", products.places),),
        TimeSaved("gpu", (low, high), _BASIS(), claims=products.claims),
        {"time": facts.gpu_per_step(products.time_ns), "share": share},
        confidence="C" if used.capability is None else None,
        summary=summary,
        advice=advice,
        code=code,
    )


def _of_inference(advice: Text | None, code: str | None) -> tuple[Text | None, str | None]:
    """Advice and code for programs without a loss."""
    if code is not None and code.startswith("torch."):
        return _ADVICE_INFERENCE_TF32, code
    if advice is None or advice is _ADVICE_TF32_ALLOWED:
        kind = "bfloat16" if code == _CODE_BFLOAT16 else "float16"
        return _ADVICE_INFERENCE, f"model = model.to(torch.{kind})  # and its inputs; or torch.autocast around the call"
    return advice, code


def _texts(facts: Facts, used: Precision) -> tuple[Text | None, Text | None, str | None]:
    """Summary, advice and code, if they differ from the rule's."""
    if used.capability is None:
        return _SUMMARY_UNKNOWN, None, None
    if used.uses_tensor_cores:
        return _SUMMARY_PARTLY, _ADVICE_PARTLY, None
    if _settings.uses_autocast(facts):
        return None, _ADVICE_PARTLY, None
    if used.capability >= AMPERE and _settings.matmul_tf32(facts):
        return None, _ADVICE_TF32_ALLOWED, _CODE_BFLOAT16
    if used.capability >= AMPERE:
        return None, _ADVICE_AMPERE, 'torch.set_float32_matmul_precision("high")'
    return None, None, None


RULE = Rule(
    id="tensor-cores-unused",
    title=Text("tensor-cores-unused-title", "Products run in fp32 without Tensor Cores"),
    summary=Text(
        "tensor-cores-unused-summary",
        "{time:ns} per step ({share:share} of the time on the GPU) are products and convolutions in fp32 on ordinary "
        "cores; Tensor Cores are not used for them.",
    ),
    advice=Text(
        "tensor-cores-unused-advice",
        "Run the forward pass and the loss under torch.autocast: in float16 on Volta and Turing, with a GradScaler "
        "when training; in bfloat16 from Ampere on, without one.",
    ),
    not_when=Text(
        "tensor-cores-unused-not-when",
        "The results need the digits of fp32, as in some scientific code; compare a few hundred steps of both before "
        "you decide.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("gpu", "precision"),
    since="0.1",
    thresholds=THRESHOLDS,
    code='with torch.autocast("cuda", dtype=torch.float16): loss = criterion(model(x), y)',
    links=(
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_find,
    table=_find,
)
