"""PARAM: benchmarks of operators and models. Its marks begin with `[param|`."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching

PARAM = Framework(
    id="param",
    title="PARAM",
    role="benchmark",
    names=matching(r"^\[param\|"),
)
