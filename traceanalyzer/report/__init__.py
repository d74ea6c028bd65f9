"""The report on a trace: plain data that every format is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_RENDERERS: list[Callable[[Any, str], str]] = []


def show_with(render: Callable[[Any, str], str]) -> None:
    """Set how a notebook shows reports: formats are made of reports, so that reports cannot import them.

    Args:
        render: From a report and the name of a format to text.
    """
    _RENDERERS[:] = [render]


def rendered(report: Any, form: str) -> str | None:
    """A report in a format, for a notebook; None if nothing that renders reports is loaded."""
    return _RENDERERS[0](report, form) if _RENDERERS else None
