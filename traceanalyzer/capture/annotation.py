"""Puts named ranges into the trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from traceanalyzer.capture import require


@contextlib.contextmanager
def annotate(name: str) -> Iterator[None]:
    """Mark a named range, on the host and above the kernels that are launched in it.

    Works as a context manager and as a decorator:

        with annotate("forward"):
            loss = model(images)

        @annotate("augment")
        def augment(images): ...

    Args:
        name: Name of the range in the trace.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    with require.torch().profiler.record_function(name):
        yield
