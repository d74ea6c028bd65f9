"""timm (PyTorch Image Models): models of images, in other people's loops."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

TIMM = Framework(
    id="timm",
    title="timm",
    role="inference",
    frames=matching(package("timm"), path("timm", r"(?:models|layers)[/\\]")),
)
