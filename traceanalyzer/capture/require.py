"""Imports torch, which recording needs and nothing else does."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from traceanalyzer.errors import MissingDependencyError


def torch() -> Any:
    """The module torch; a clear error if it is not installed.

    Raises:
        MissingDependencyError: It is not installed; the message says how to install it.
    """
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":  # installed, and something that it needs is not
            raise
        raise MissingDependencyError("torch", extra="capture") from None
