"""Ray Train: starts the worker processes of a training job, whose loop may belong to another framework."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

RAY_TRAIN = Framework(
    id="ray-train",
    title="Ray Train",
    role="training",
    frames=matching(path("ray", "train", "")),
)
