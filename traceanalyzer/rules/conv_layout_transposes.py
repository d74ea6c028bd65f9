"""cuDNN changes the layout of tensors around convolutions on Tensor Cores.

What it detects:
    Kernels that convert channels first to channels last and back (`nchwToNhwc`, `nhwcToNchw` and the like), if most of
    the convolutions' time is on Tensor Cores, whose kernels need channels last.

Why it matters:
    Each such kernel reads and writes a whole activation or gradient, and computes nothing.

What to do:
    Keep model and input in channels last from the start, so that nothing has to be converted.

How the saving is estimated:
    At most the time of these kernels; at least half of it, because some remain around layers that need channels first.

When it is wrong:
    A model that is already in channels last converts a few tensors at its edges; that stays below the threshold. If
    convolutions do not run on Tensor Cores, channels first is just as good.

References:
    https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_REMAINS = 0.5
"""Share of the layout conversions that is surely saved (own choice)."""
_TRANSPOSE = re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|nhwcAddPadding|batched_transpose", re.IGNORECASE)
_SUBJECT = Text("conv-layout-transposes-subject", "changes of layout around convolutions, share of the time on the GPU")
_BASIS = Text(
    "conv-layout-transposes-basis",
    "at most the time of all changes of layout; at least {remains:share} of it, because some may remain",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    kernels = facts.kernels
    rows = [kernel for kernel in kernels if _TRANSPOSE.search(kernel.name)]
    convolutions = [kernel for kernel in kernels if kernel_class(kernel.name) is KernelClass.CONVOLUTION]
    on_tensor_cores = sum(kernel.total_ns for kernel in convolutions if kernel.tensor_cores)
    share = sum(kernel.total_ns for kernel in rows) / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"] or 2 * on_tensor_cores <= sum(kernel.total_ns for kernel in convolutions):
        return
    rows.sort(key=lambda kernel: (-kernel.total_ns, kernel.name))
    time = facts.gpu_per_step(sum(kernel.total_ns for kernel in rows))
    kind = "row" if facts.table is not None else "kernel"
    where = tuple(CodePlace(kind, kernel.name, value=kernel.total_ns, unit="ns") for kernel in rows[:5])
    claims = {f"kernel:{kernel.name}": facts.gpu_per_step(kernel.total_ns) for kernel in rows}
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", where),),
        TimeSaved("gpu", (_REMAINS * time, time), _BASIS(remains=_REMAINS), claims=claims, is_removed=True),
        {"time": time, "share": share, "calls": round(sum(kernel.calls for kernel in rows) / facts.steps)},
    )


RULE = Rule(
    id="conv-layout-transposes",
    title=Text("conv-layout-transposes-title", "Convolutions convert the layout of their tensors"),
    summary=Text(
        "conv-layout-transposes-summary",
        "{calls:count} kernels per step only convert channels first to channels last and back, which takes {time:ns} "
        "({share:share} of the time on the GPU).",
        one="{calls:count} kernel per step only converts channels first to channels last or back, which takes "
        "{time:ns} ({share:share} of the time on the GPU).",
    ),
    advice=Text(
        "conv-layout-transposes-advice",
        "Convert the model and its input to channels last once; convolutions, batch norms and activations keep the "
        "layout from there on.",
    ),
    not_when=Text(
        "conv-layout-transposes-not-when",
        "Much of the model consists of layers that need channels first, such as custom kernels or views by channel.",
    ),
    severity="info to critical",
    confidence="A",
    tags=("gpu", "precision"),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.02,
            "share",
            "time of changes of layout over all time on the GPU",
            "own choice, because a model in channels last turns only its input and output, which is less",
        ),
    ),
    code="model = model.to(memory_format=torch.channels_last); x = x.to(memory_format=torch.channels_last)",
    links=(
        "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_find,
    table=_find,
)
