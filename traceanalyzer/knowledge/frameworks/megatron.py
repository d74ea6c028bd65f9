"""Megatron-LM and Megatron Core: train language models in tensor, pipeline and data parallel."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

MEGATRON = Framework(
    id="megatron",
    title="Megatron",
    role="training",
    frames=matching(path("megatron", r"(?:core|training|legacy|model|optimizer|schedules|mpu)(?:[/\\]|\.py\()")),
)
