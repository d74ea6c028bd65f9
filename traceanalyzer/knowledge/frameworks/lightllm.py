"""LightLLM: serves language models. It writes no marks and is recognized by its files."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

LIGHTLLM = Framework(
    id="lightllm",
    title="LightLLM",
    role="serving",
    frames=matching(package("lightllm"), path("lightllm", r"(?:server|models|common)[/\\]")),
)
