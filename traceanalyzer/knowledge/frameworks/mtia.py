"""MTIA: the runtime of Meta's accelerators. Its events have the categories `mtia_runtime` and `mtia_ccp_events`.

Frames of `torch/mtia` are not evidence, because PyTorch checks in every program whether such a device exists.
"""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching

MTIA = Framework(
    id="mtia",
    title="MTIA",
    role="runtime",
    names=matching(r"^mtia_\w{1,40}$", r"^mtia::"),
)
