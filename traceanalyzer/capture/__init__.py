"""Records traces: `profile`, `ThroughputMeter` and `annotate` for use in code, `traceanalyzer capture` without code.

    profiling   for use in code
    launch      starts a program with `agent` in it, and collects what it wrote
    agent       what runs inside the program

This package writes trace files and shares only their format with the analysis. torch is imported when recording starts.

`launch` puts a folder with a `sitecustomize` on PYTHONPATH, so every Python that the program starts finds the agent: no
change to the code, any launcher. Facts that events do not show are written into the trace (`trace/capture_facts.py`),
so files stay the only interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.capture.profiling import ThroughputMeter, annotate, profile

__all__ = ["ThroughputMeter", "annotate", "profile"]


def __getattr__(name: str) -> Any:
    """Import public names on demand, because the modules of the agent must load without them."""
    from importlib import import_module  # noqa: PLC0415

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.profiling"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
