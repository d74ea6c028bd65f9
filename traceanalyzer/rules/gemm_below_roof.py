"""Large matrix products stay far below what the device could compute.

What it detects:
    Products of 16-bit or smaller types on matrix units that are bound by arithmetic (by their shapes), that take 10 %
    of the GPU's time or more, and that together reach less than half of the device's dense peak.

Why it matters:
    If the GPU is busy with large products, only their kernels can still be improved. Well-tuned libraries reach about
    60 to 75 % of the dense peak; clocks that drop under load cost the rest.

What to do:
    Let the library choose its kernels by measurement: on AMD, TunableOp or hipBLASLt; on NVIDIA, torch.compile with
    max-autotune. Sides that are multiples of 64 fill whole tiles. Look at clocks and power before anything else.

How the saving is estimated:
    At most down to 60 % of the peak, or to the best large product of the run. At least nothing: only a measurement
    shows whether there is a faster kernel.

When it is wrong:
    The peaks of data sheets are for the highest clocks. Products with small sides cannot fill the device and are not
    judged; nor are products of unfused attention or with misaligned sides, which have other rules.

References:
    https://docs.pytorch.org/docs/stable/cuda.tunable.html
    https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_REACHABLE = 0.6
"""Share of the dense peak that large products of tuned libraries reach: 59 to 75 % of an H100's 989 TFLOP/s for bf16
products with sides of 768 to 25,000 in traces of language and video models."""
_NARROW = ("Half", "BFloat16", "Float8")
"""Types that matrix units are made for."""

_SUBJECT = Text("gemm-below-roof-subject", "speed of large matrix products, share of the device's dense peak")
_BASIS = Text(
    "gemm-below-roof-basis",
    "at most down to {best:percent} of the peak; at least nothing, because only a measurement shows whether there is "
    "a faster kernel",
)
_NO_ROOF = Text("gemm-below-roof-no-roof", "the limits of this GPU are unknown: add them to the configuration")
_NO_TABLE = Text("gemm-below-roof-no-table", "a printed table does not show the types of inputs")
_ADVICE_AMD = Text(
    "gemm-below-roof-advice-amd",
    "Let the libraries choose their kernels by measurement: switch TunableOp on for a run, and keep the file that it "
    "writes; or let products go through hipBLASLt. Check first whether the clocks drop under load.",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("roofline", Roofline)
    rows = [row for row in found.rows if _is_large(row, limits["call_ns"])]
    if rows and found.roof is None:
        raise Missing(_NO_ROOF())
    time = sum(row.device_ns for row in rows)
    share = time / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    reached = sum((row.compute_share or 0.0) * row.device_ns for row in rows) / time if time else 1.0
    if share <= limits["gpu_share"] or reached >= limits["pace"]:
        return
    best = max(_REACHABLE, *(row.compute_share or 0.0 for row in rows))
    excess = {row: row.device_ns * max(0.0, 1 - (row.compute_share or 0.0) / best) for row in rows}
    saved = facts.gpu_per_step(sum(excess.values()))
    claims = {f"operator:{row.name}|{row.input_shapes}": facts.gpu_per_step(ns) for row, ns in excess.items() if ns}
    where = tuple(
        CodePlace("operator", row.name, shapes=row.input_shapes, value=row.device_ns, unit="ns") for row in rows[:5]
    )
    params = {
        "time": facts.gpu_per_step(time),
        "share": share,
        "rate": sum(row.flops for row in rows) / time / 1000,
        "peak": rows[0].peak_tflops_per_s,
        "reached": reached,
        "shapes": rows[0].input_shapes,
    }
    is_amd = any(device.vendor == "AMD" for device in facts.summary.devices) if facts.summary else False
    yield Draft(
        (Evidence(_SUBJECT(), reached, limits["pace"], "share", where),),
        TimeSaved("gpu", (0.0, saved), _BASIS(best=best), claims=claims),
        params,
        ceiling="medium",
        advice=_ADVICE_AMD if is_amd else None,
        code="os.environ['PYTORCH_TUNABLEOP_ENABLED'] = '1'  # before the first product" if is_amd else None,
    )


def _is_large(row: RooflineRow, least_ns: float) -> bool:
    """Whether arithmetic bounds a product, and its calls are long enough to fill the device."""
    narrow = any(name in row.input_types for name in _NARROW)
    known = row.compute_share is not None and row.bound == "compute"
    return row.family == "gemm" and narrow and known and row.device_ns >= least_ns * row.calls


RULE = Rule(
    id="gemm-below-roof",
    title=Text("gemm-below-roof-title", "Large matrix products stay far below the peak of the GPU"),
    summary=Text(
        "gemm-below-roof-summary",
        "Large matrix products take {time:ns} per step ({share:share} of the time on the GPU) and reach {rate:number} "
        "TFLOP/s, {reached:percent} of the dense peak of {peak:number} TFLOP/s; the longest is {shapes}.",
        note="TFLOP/s: 10^12 floating-point operations per second; shapes is a list of sizes",
    ),
    advice=Text(
        "gemm-below-roof-advice",
        "Let the compiler choose kernels by measurement (max-autotune), and give the sides lengths that are multiples "
        "of 64. Check first whether the clocks drop under load.",
        note="max-autotune is code",
    ),
    not_when=Text(
        "gemm-below-roof-not-when",
        "The clocks are limited by power or heat: then no kernel reaches more.",
    ),
    severity="info to medium",
    confidence="C",
    tags=("gpu",),
    since="0.2",
    thresholds=(
        Threshold(
            "pace",
            0.5,
            "share",
            "speed of these products over the dense peak",
            "own choice: tuned libraries reach 60 to 75 % with large sides",
        ),
        Threshold(
            "gpu_share",
            0.1,
            "share",
            "time of these products over the time on the GPU",
            "own choice, because a third of less is about the noise of a step",
        ),
        Threshold(
            "call_ns",
            100_000,
            "ns",
            "mean time of a call from which on a product is large",
            "own choice: about 50 GFLOP at the pace of an H100 or MI300X, enough for several waves of tiles",
        ),
    ),
    code='model = torch.compile(model, mode="max-autotune")',
    links=(
        "https://docs.pytorch.org/docs/stable/cuda.tunable.html",
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
    part_of=("attention-unfused", "matmul-dims-misaligned", "gemm-degenerate"),
)
