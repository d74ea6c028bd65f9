"""Ray Train: starts the workers of a training, whose loop may be another framework's."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

RAY_TRAIN = Framework(
    id="ray-train",
    title="Ray Train",
    role="training",
    frames=matching(path("ray", "train", "")),
)
