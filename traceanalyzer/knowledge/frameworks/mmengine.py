"""MMEngine, and its predecessor MMCV: the Runner of OpenMMLab's projects owns the loop."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, package, path

MMENGINE = Framework(
    id="mmengine",
    title="MMEngine",
    role="training",
    frames=matching(
        package("mmengine"), path("mmengine", r"(?:runner|model|optim)[/\\]"), path("mmcv", r"runner[/\\]")
    ),
)
