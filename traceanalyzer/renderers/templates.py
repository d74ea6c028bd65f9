"""Loads Jinja2 templates, which hold layout only: no words and no arithmetic."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def environment(*, autoescape: bool = False) -> Environment:
    """Templates beside the package's modules (a wheel), else beside the package (a checkout).

    Args:
        autoescape: For HTML; in other formats every value goes through an escape of its own.
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
