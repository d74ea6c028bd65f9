"""The kinds of changes by the resource that has less to do, as tests name them."""

from __future__ import annotations

from traceanalyzer.rules.engine.change import CollectivesShorter, DeviceWork, HostTime, LoaderShorter, StepChange

KINDS: dict[str, type[StepChange]] = {
    "loader": LoaderShorter,
    "host": HostTime,
    "gpu": DeviceWork,
    "communication": CollectivesShorter,
}
