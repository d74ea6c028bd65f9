"""Detectron2: trains detectors; its Trainer owns the loop."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

DETECTRON2 = Framework(
    id="detectron2",
    title="Detectron2",
    role="training",
    frames=matching(package("detectron2"), path("detectron2", r"(?:modeling|engine|layers)[/\\]")),
)
