"""Matrix products in fp32 do not use TF32, although other products of the run use Tensor Cores.

What it detects:
    Kernels of matrix products that compute in fp32 on ordinary cores (`ampere_sgemm_...`), on a GPU of compute
    capability 8.0 or newer, while other products (convolutions in TF32, or mixed precision) do use Tensor Cores.

Why it matters:
    PyTorch allows TF32 for convolutions by default, but not for matrix products. TF32 keeps the range of fp32 and
    rounds the factors to 10 bits; the sums stay in fp32.

What to do:
    One line at the start of the program: `torch.set_float32_matmul_precision("high")`.

How the saving is estimated:
    At most what the ratio of the peak rates saves, but never more than a factor of three and never beyond what peak
    rate and memory bandwidth allow. At least what a factor of 1.3 saves.

When it is wrong:
    Some code is sensitive to rounding (solvers, some losses). Products bound by memory do not get faster, because the
    bytes stay the same. If nothing runs on Tensor Cores, `tensor-cores-unused` reports it instead and names this step
    first, so that no kernel is in two findings.

References:
    https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _settings
from traceanalyzer.rules._precision import THRESHOLDS, fp32_products, precision
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule

_SUBJECT = Text("tf32-disabled-subject", "matrix products in fp32 without TF32, share of the time on the GPU")
_BASIS = Text(
    "tf32-disabled-basis",
    "at least what a speedup of 1.3 saves; at most what the ratio of the peak rates saves, up to 3, and never below "
    "the time that peak rate and memory bandwidth allow",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if not precision(facts).is_a_switch or not facts.gpu_total_ns or _settings.matmul_tf32(facts):
        return
    products = fp32_products(facts, limits, tf32=True, only=frozenset({KernelClass.GEMM}))
    share = products.time_ns / facts.gpu_total_ns
    if share <= limits["product_share"]:
        return
    low, high = map(facts.gpu_per_step, products.saved_ns)
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["product_share"], "share", products.places),),
        TimeSaved("gpu", (low, high), _BASIS(), claims=products.claims),
        {"time": facts.gpu_per_step(products.time_ns), "share": share},
    )


RULE = Rule(
    id="tf32-disabled",
    title=Text("tf32-disabled-title", "Matrix products in fp32 do not use TF32"),
    summary=Text(
        "tf32-disabled-summary",
        "{time:ns} per step ({share:share} of the time on the GPU) are matrix products in fp32 on ordinary cores, "
        "while other products of this run use Tensor Cores.",
    ),
    advice=Text(
        "tf32-disabled-advice",
        "Allow TF32 for matrix products with one line at the start of the program; convolutions have it by default.",
    ),
    not_when=Text(
        "tf32-disabled-not-when",
        "These products need the digits of fp32: a solver, a distance of nearly equal vectors, a sensitive loss.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("gpu", "precision"),
    since="0.1",
    thresholds=THRESHOLDS,
    code='torch.set_float32_matmul_precision("high")',
    links=(
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
    ),
    trace=_find,
    table=_find,
)
