"""Loads Jinja2 templates, which contain only layout, no texts and no arithmetic."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def environment(*, autoescape: bool = False) -> Environment:
    """Load templates from the package (a wheel) or from beside it (a checkout).

    Args:
        autoescape: Whether to escape values for HTML; templates of other formats escape each value themselves.
    """
    folders = [_PACKAGE / "report_templates", _PACKAGE.parent / "report_templates"]
    return Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=autoescape,  # noqa: S701 - see above
    )
