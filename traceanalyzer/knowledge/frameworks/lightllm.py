"""LightLLM: serves language models. It has no marks of its own: only its files tell."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

LIGHTLLM = Framework(
    id="lightllm",
    title="LightLLM",
    role="serving",
    frames=matching(package("lightllm"), path("lightllm", r"(?:server|models|common)[/\\]")),
)
