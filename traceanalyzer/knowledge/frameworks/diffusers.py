"""Hugging Face Diffusers: pipelines that generate images, video and sound."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

DIFFUSERS = Framework(
    id="diffusers",
    title="Diffusers",
    role="inference",
    frames=matching(package("diffusers"), path("src", "diffusers", r"(?:pipelines|models|schedulers)[/\\]")),
)
