"""The same convolution runs with different algorithms, some of them slower than the best one seen.

What it detects:
    Calls of a convolution with equal inputs, padding and stride that launch different kernels, if the slower ones cost
    a notable time. Kernel names alone prove nothing: the benchmark sometimes chooses `implicit_convolve_sgemm`, too.

Why it matters:
    Without its benchmark, cuDNN chooses the algorithm by heuristics, and another one if memory for its workspace is
    short.

What to do:
    Set `torch.backends.cudnn.benchmark = True` if inputs have few different sizes: each new size is measured once. Keep
    some memory free, so that fast algorithms have room for their workspace.

How the saving is estimated:
    At most the difference to the fastest algorithm that was seen at least twice. At least nothing: cuDNN may have
    chosen the slower one for lack of memory, which the setting does not change.

When it is wrong:
    If input sizes keep changing, the benchmark measures all the time. Runs that must be bitwise reproducible fix the
    algorithm on purpose. The first calls with the benchmark on try out algorithms and prove nothing.

References:
    https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.convolutions import ConvolutionAlgorithms
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text(
    "cudnn-benchmark-off-subject", "time beyond that of the best algorithm seen, share of the time on the GPU"
)
_BASIS = Text(
    "cudnn-benchmark-off-basis",
    "at most the difference to the fastest algorithm that was seen at least twice; at least 0, because memory for "
    "the faster one may have been short",
)
_NO_TABLE = Text("cudnn-benchmark-off-no-table", "a printed table does not show which call launched which kernel")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("convolution_algorithms", ConvolutionAlgorithms)
    rows = [row for row in found.rows if row.saving_ns and row.algorithms[-1].calls >= limits["calls"]]
    saved = sum(row.saving_ns for row in rows)
    share = saved / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"] or _settings.wants_cudnn_choice(facts):
        return
    high = facts.gpu_per_step(saved)
    where = tuple(CodePlace("operator", r.name, shapes=r.input_shapes, value=r.saving_ns, unit="ns") for r in rows[:5])
    claims = {f"operator:{row.name}|{row.input_shapes}": facts.gpu_per_step(row.saving_ns) for row in rows}
    slow, best = rows[0].algorithms[-1], rows[0].algorithms[0]
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),),
        TimeSaved("gpu", (0.0, high), _BASIS(), claims=claims),
        {
            "count": len(rows),
            "operator": rows[0].name,
            "shapes": rows[0].input_shapes,
            "slow": slow.device_ns / slow.calls,
            "best": best.device_ns / best.calls,
        },
        ceiling="low",
    )


RULE = Rule(
    id="cudnn-benchmark-off",
    title=Text("cudnn-benchmark-off-title", "Equal convolutions run with different algorithms"),
    summary=Text(
        "cudnn-benchmark-off-summary",
        "{count:count} convolutions run with different algorithms for the same inputs; {operator} {shapes} takes "
        "{slow:ns} per call with one and {best:ns} with another.",
        one="{count:count} convolution runs with different algorithms for the same inputs: {operator} {shapes} takes "
        "{slow:ns} per call with one and {best:ns} with another.",
    ),
    advice=Text(
        "cudnn-benchmark-off-advice",
        "If inputs have few different sizes, let cuDNN measure once which algorithm is best, and leave memory free for "
        "its workspace.",
    ),
    not_when=Text(
        "cudnn-benchmark-off-not-when",
        "Input sizes vary all the time, or results must be reproducible bit by bit.",
    ),
    severity="info to low",
    confidence="B",
    tags=("gpu",),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.01,
            "share",
            "time above the best way seen over all time on the GPU",
            "own choice, because less than one percent of a step is within noise",
        ),
        Threshold(
            "calls",
            2,
            "count",
            "calls in the slowest way",
            "own choice, because a single slow call is the benchmark itself or a first use",
        ),
    ),
    code="torch.backends.cudnn.benchmark = True",
    links=(
        "https://docs.pytorch.org/docs/stable/backends.html#torch.backends.cudnn.torch.backends.cudnn.benchmark",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
