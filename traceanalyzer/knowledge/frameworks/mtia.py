"""MTIA: the runtime of Meta's accelerators. Its events have kinds of their own, `mtia_runtime`, `mtia_ccp_events`."""

from traceanalyzer.knowledge.frameworks.framework import Framework, matching, path

MTIA = Framework(
    id="mtia",
    title="MTIA",
    role="runtime",
    names=matching(r"^mtia_\w{1,40}$", r"^mtia::"),
    frames=matching(path("torch", "mtia", "")),
)
