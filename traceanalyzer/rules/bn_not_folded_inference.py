"""In inference, batch norms run as separate kernels after convolutions.

What it detects:
    A recording without a backward pass in which batch norms with fixed statistics follow convolutions. In a printed
    table, kernels of batch norms for inference (`bn_fw_inf`), as many convolutions as batch norms, and no backward.

Why it matters:
    With fixed statistics, a batch norm is a scale and a shift per channel, which can be folded into the weights and
    bias of the convolution. As a separate kernel it reads and writes the whole activation again.

What to do:
    Fold batch norms into convolutions before serving: `fuse_conv_bn_eval`, `torch.jit.freeze` with
    `optimize_for_inference`, `torch.compile` with freezing, or TensorRT.

How the saving is estimated:
    At most the time of the kernels for batch norms and for adding biases, which compilers do within the convolution. At
    least the batch norms alone if the convolutions already add a bias. If they have none, at least nothing: the folded
    bias then needs a separate kernel unless it is fused.

When it is wrong:
    Evaluation between training steps, because the weights still change. A batch norm that several convolutions share,
    or that comes before its convolution, cannot be folded this way.

References:
    https://docs.pytorch.org/tutorials/intermediate/torch_compile_conv_bn_fuser.html
    https://docs.pytorch.org/docs/stable/generated/torch.jit.optimize_for_inference.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules._norms import norms
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("bn-not-folded-inference-subject", "batch norms after convolutions, share of the time on the GPU")
_BASIS = Text(
    "bn-not-folded-inference-basis",
    "at most the batch norms and the adding of biases; at least the batch norms, because the convolutions add a bias "
    "anyway",
)
_BASIS_NO_BIAS = Text(
    "bn-not-folded-inference-basis-no-bias",
    "at most the batch norms; at least 0, because the folded bias may need a separate kernel",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = norms(facts)
    if found is None or not found.is_inference or not found.norm_ns or not facts.gpu_total_ns:
        return
    share = found.norm_ns / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    norm, bias = facts.gpu_per_step(found.norm_ns), facts.gpu_per_step(found.bias_ns)
    has_bias = found.bias_ns > 0 and found.with_bias == found.calls
    direct = (norm, norm + bias) if has_bias else (0.0, norm + bias)
    claims = {key: facts.gpu_per_step(ns) for key, ns in (*found.norm_claims.items(), *found.bias_claims.items()) if ns}
    yield Draft(
        (Evidence(_SUBJECT(), share, limits["gpu_share"], "share", found.places),),
        TimeSaved("gpu", direct, _BASIS() if has_bias else _BASIS_NO_BIAS(), claims=claims, is_removed=True),
        {"time": norm, "share": share, "calls": round(found.calls / facts.steps)},
    )


RULE = Rule(
    id="bn-not-folded-inference",
    title=Text("bn-not-folded-inference-title", "Batch norms are not folded into convolutions"),
    summary=Text(
        "bn-not-folded-inference-summary",
        "This is inference, and {calls:count} batch norms per step run in separate kernels after convolutions: "
        "{time:ns} ({share:share} of the time on the GPU).",
        one="This is inference, and {calls:count} batch norm per step runs in a separate kernel after a convolution: "
        "{time:ns} ({share:share} of the time on the GPU).",
    ),
    advice=Text(
        "bn-not-folded-inference-advice",
        "Fold the batch norms into the convolutions before serving: fuse_conv_bn_eval for a model in eval mode, or let "
        "torch.compile with freezing or TensorRT do it, which also add the bias within the convolution.",
    ),
    not_when=Text(
        "bn-not-folded-inference-not-when",
        "This is the evaluation in between training steps, or a batch norm is shared by several convolutions.",
    ),
    severity="info to critical",
    confidence="B",
    tags=("gpu", "inference"),
    since="0.1",
    thresholds=(
        Threshold(
            "gpu_share",
            0.02,
            "share",
            "time of batch norms behind convolutions over all time on the GPU",
            "own choice, because less is not worth a change of how the model is served",
        ),
    ),
    code="fused = torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)",
    links=(
        "https://docs.pytorch.org/tutorials/intermediate/torch_compile_conv_bn_fuser.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.jit.optimize_for_inference.html",
    ),
    trace=_find,
    table=_find,
)
