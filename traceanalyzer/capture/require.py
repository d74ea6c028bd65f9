"""Imports torch, which only recording needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from traceanalyzer.errors import MissingDependencyError


def torch() -> Any:
    """Import and return torch.

    Raises:
        MissingDependencyError: torch is not installed; the message says how to install it.
    """
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":  # torch is installed, and one of its dependencies is missing
            raise
        raise MissingDependencyError("torch", extra="capture") from None
