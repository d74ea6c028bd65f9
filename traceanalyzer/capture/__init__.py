"""Records traces: `profile`, `ThroughputMeter` and `annotate` for use in code, `traceanalyzer capture` without code.

This package writes trace files and shares only their format with the analysis. torch is imported when recording starts.
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
    """Import public names on demand, because the modules of the agent must load without them."""
    from importlib import import_module  # noqa: PLC0415

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
