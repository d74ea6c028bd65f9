"""Convolutions add a bias that the following batch norm removes again.

What it detects:
    Convolutions with a bias that are followed by a batch norm and add the bias in a separate kernel. In a trace, this
    is seen from the order of operators on the host; in a printed table, from convolutions, batch norms and in-place
    additions that occur equally often.

Why it matters:
    A batch norm subtracts the mean of each channel, and the bias with it. Adding the bias reads and writes the whole
    output of the convolution for nothing, and training computes its gradient, which is always zero.

What to do:
    Set `bias=False` in convolutions before a batch norm. To keep trained weights, move the bias into the running mean
    of the batch norm.

How the saving is estimated:
    The time of the kernels that add the bias and, in training, of the sums that compute its gradient.

When it is wrong:
    If the convolution's own kernel adds the bias, nothing is gained. Layer norm and group norm take the mean over
    several channels, so a bias before them has an effect. In a table, other additions may happen to occur equally
    often.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules._norms import norms
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("conv-bias-before-batchnorm-subject", "adding biases before batch norms, share of the time on the GPU")
_BASIS = Text(
    "conv-bias-before-batchnorm-basis", "the time of the kernels that add the biases and sum up their gradients"
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = norms(facts)
    if found is None or not found.with_bias or not facts.gpu_total_ns:
        return
    total = found.bias_ns + found.bias_gradient_ns
    share = total / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    time = facts.gpu_per_step(total)
    claims = {key: facts.gpu_per_step(ns) for key, ns in found.bias_claims.items() if ns}
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", found.places),),
        TimeSaved("gpu", (time, time), _BASIS(), claims=claims, is_removed=True),
        {"time": time, "share": share, "calls": round(found.with_bias / facts.steps)},
    )


RULE = Rule(
    id="conv-bias-before-batchnorm",
    title=Text("conv-bias-before-batchnorm-title", "Biases are added that batch norms remove again"),
    summary=Text(
        "conv-bias-before-batchnorm-summary",
        "{calls:count} convolutions per step add a bias right before a batch norm, which removes it again: {time:ns} "
        "({share:share} of the time on the GPU) for nothing.",
        one="{calls:count} convolution per step adds a bias right before a batch norm, which removes it again: "
        "{time:ns} ({share:share} of the time on the GPU) for nothing.",
    ),
    advice=Text(
        "conv-bias-before-batchnorm-advice",
        "Create these convolutions without a bias. For trained weights, subtract the bias from the running mean of the "
        "batch norm first; the result is the same.",
    ),
    not_when=Text(
        "conv-bias-before-batchnorm-not-when",
        "The batch norm is sometimes left out or replaced, so that the bias counts then.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("gpu", "training", "inference"),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.01,
            "share",
            "time of adding biases and summing up their gradients over all time on the GPU",
            "own choice, because less than one percent of a step is within noise",
        ),
    ),
    code="nn.Conv2d(64, 128, 3, padding=1, bias=False)",
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html",
    ),
    trace=_find,
    table=_find,
)
