"""Kernels have fewer blocks than the GPU has multiprocessors, and no other kernel fills the rest.

What it detects:
    Kernels with less than one block per multiprocessor, while no kernel of another stream fills the rest, if the time
    lost this way (time of the kernel times the share of multiprocessors without a block) is at least a twentieth of all
    time on the GPU.

Why it matters:
    A multiprocessor without a block does nothing.

What to do:
    Give each kernel more work: a larger batch, several requests or sequences at once, fewer and larger tensors. If that
    is impossible, run independent parts on separate streams.

How the saving is estimated:
    At most the lost time, as if the same work were spread evenly. At least nothing: a larger batch does more work in
    the same time, not the same work in less time.

When it is wrong:
    Kernels of collectives have few blocks on purpose. Short kernels, as in decoding one token at a time, are bound by
    latency and do not count. Persistent kernels have as many blocks as multiprocessors or a few less, and lose little.
    Blocks per multiprocessor are not recorded on AMD's GPUs, in CUDA graphs and by older profilers.

References:
    https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html
    https://github.com/pytorch/kineto/blob/main/tb_plugin/docs/gpu_utilization.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels import SmFill, UnfilledKernel
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("sm-underfilled-subject", "time lost in multiprocessors without a block, share of the time on the GPU")
_BASIS = Text(
    "sm-underfilled-basis",
    "at most the time of these kernels times the share of multiprocessors without a block; at least 0, because a "
    "larger batch does more work in the same time",
)
_NO_TABLE = Text("sm-underfilled-no-table", "a printed table does not show how many blocks a kernel has")

_ADVICE_SERVING = Text(
    "sm-underfilled-advice-serving",
    "Let more requests share a step: raise the limit on requests that run together (max_num_seqs in vLLM, "
    "max-running-requests in SGLang) while memory for their keys and values lasts and answers come fast enough.",
    note="max_num_seqs and max-running-requests are settings; keys and values are those of attention (KV cache)",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.need("sm_fill", SmFill).rows if row.total_ns >= limits["kernel_ns"] * row.calls]
    lost = sum(_lost(row) for row in rows)
    share = lost / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["lost_share"]:
        return
    rows.sort(key=lambda row: (-_lost(row), row.kernel, row.operator or "", row.grid))
    time = sum(row.total_ns for row in rows)
    per_kernel: dict[str, float] = {}
    for row in rows:
        key = f"kernel:{row.kernel}"
        per_kernel[key] = per_kernel.get(key, 0.0) + facts.gpu_per_step(_lost(row))
    where = tuple(CodePlace("kernel", row.kernel, value=row.blocks_per_sm, unit="number") for row in rows[:5])
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["lost_share"], "share", where),),
        TimeSaved("gpu", (0.0, facts.gpu_per_step(lost)), _BASIS(), claims=per_kernel),
        {
            "time": facts.gpu_per_step(time),
            "share": time / facts.gpu_total_ns,
            "fill": sum(row.fill * row.total_ns for row in rows) / time,
        },
        ceiling="high",
        advice=_ADVICE_SERVING if _program.serves(facts) else None,
    )


def _lost(row: UnfilledKernel) -> float:
    """Time lost in multiprocessors without a block, converted to time of the whole GPU, in ns."""
    return row.total_ns * (1 - row.fill)


RULE = Rule(
    id="sm-underfilled",
    title=Text("sm-underfilled-title", "Kernels leave multiprocessors without work"),
    summary=Text(
        "sm-underfilled-summary",
        "Kernels with {time:ns} per step ({share:share} of the time on the GPU) have fewer blocks than the GPU has "
        "multiprocessors: {fill:share} of these have work.",
    ),
    advice=Text(
        "sm-underfilled-advice",
        "Give each kernel more work: raise the batch size while memory lasts, or put several requests, sequences or "
        "small tensors into one call.",
    ),
    not_when=Text(
        "sm-underfilled-not-when",
        "Answers must come one at a time and as fast as possible, or a larger batch would change how the model learns.",
    ),
    severity="info to high",
    confidence="B",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "lost_share",
            0.05,
            "share",
            "time lost in multiprocessors without a block over all time on the GPU",
            "own choice, because below a twentieth the cause is the form of a few layers, not the size of the batch",
        ),
        Threshold(
            "kernel_ns",
            10_000,
            "ns",
            "mean time below which a kernel is bound by latency",
            "own choice, because a launch takes 5 to 10 us and a kernel at least 2 to 5 us",
        ),
    ),
    code="DataLoader(dataset, batch_size=4 * batch_size)",
    links=(
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/index.html",
        "https://github.com/pytorch/kineto/blob/main/tb_plugin/docs/gpu_utilization.md",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
