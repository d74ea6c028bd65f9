"""timm (PyTorch Image Models): image models without a training loop."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

TIMM = Framework(
    id="timm",
    title="timm",
    role="inference",
    frames=matching(package("timm"), path("timm", r"(?:models|layers)[/\\]")),
)
