"""Text Generation Inference: serves language models. It has no marks of its own: only its files tell."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

TGI = Framework(
    id="tgi",
    title="Text Generation Inference",
    role="serving",
    frames=matching(path("text_generation_server", "")),
)
