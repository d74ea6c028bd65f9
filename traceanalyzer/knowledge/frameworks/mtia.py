"""MTIA: the runtime of Meta's accelerators. Its events have kinds of their own, `mtia_runtime`, `mtia_ccp_events`.

Frames of `torch/mtia` tell nothing: PyTorch asks there in every program whether there is such a device.
"""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching

MTIA = Framework(
    id="mtia",
    title="MTIA",
    role="runtime",
    names=matching(r"^mtia_\w{1,40}$", r"^mtia::"),
)
