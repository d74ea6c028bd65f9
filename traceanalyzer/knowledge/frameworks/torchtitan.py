"""TorchTitan: pretrains language models with PyTorch's own parallelism."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

TORCHTITAN = Framework(
    id="torchtitan",
    title="TorchTitan",
    role="training",
    frames=matching(
        package("torchtitan"), path("torchtitan", r"(?:train\.py\(|(?:models|components|distributed)[/\\])")
    ),
)
