"""Text Generation Inference: serves language models. It writes no marks and is recognized by its files."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

TGI = Framework(
    id="tgi",
    title="Text Generation Inference",
    role="serving",
    frames=matching(path("text_generation_server", "")),
)
