"""DeepSpeed: trains with sharded optimizers, gradients and parameters (ZeRO)."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, module, package, path

DEEPSPEED = Framework(
    id="deepspeed",
    title="DeepSpeed",
    role="parallel",
    names=matching(
        r"^LinearFunctionForZeroStage3(?:Backward)?$",
        r"^PreBackwardFunctionForModule(?:Backward)?$",
        r"^PostBackwardFunctionModule(?:Backward)?$",
    ),
    frames=matching(package("deepspeed"), path("deepspeed", r"(?:runtime|ops|utils)[/\\]"), module("DeepSpeedEngine")),
)
