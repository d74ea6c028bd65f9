"""DataParallel: one process copies its model to all devices at each step."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, module, path

DATAPARALLEL = Framework(
    id="dataparallel",
    title="DataParallel",
    role="parallel",
    names=matching(r"^DataParallel\.forward$"),
    frames=matching(
        path("torch", "nn", "parallel", r"data_parallel\.py\([0-9]{1,9}\): forward$"), module("DataParallel")
    ),
)
