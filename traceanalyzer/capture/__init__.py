"""Records traces: `profile`, `ThroughputMeter` and `annotate` in code, `traceanalyzer capture` without any.

It only writes trace files and meets the analysis through their format. torch is imported when something is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.capture.annotation import annotate
    from traceanalyzer.capture.profiling import profile
    from traceanalyzer.capture.throughput import ThroughputMeter

__all__ = ["ThroughputMeter", "annotate", "profile"]

_HOMES = {"ThroughputMeter": "throughput", "annotate": "annotation", "profile": "profiling"}


def __getattr__(name: str) -> Any:
    """Import on demand, because the modules of the agent must not need any of this."""
    from importlib import import_module  # noqa: PLC0415

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
