"""Waits until the program imports torch; never imports it itself."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any

from . import settings
from .settings import Settings


def arm() -> None:
    """Watch for the import of torch, if this process belongs to a capture."""
    given = settings.decode(os.environ.get(settings.VARIABLE))
    if given is None or "torch" in sys.modules:
        return
    _mark(given.scratch, HOOKED)
    sys.meta_path.insert(0, _TorchFinder(given))


HOOKED = "hooked"
"""A file in the scratch folder; it exists when a Python process has loaded the hook."""
NO_TORCH = "no-torch"
"""A file in the scratch folder; it exists when a process failed to import torch."""


def _mark(folder: str, name: str) -> None:
    with contextlib.suppress(OSError):  # this process outlived the capture, whose folder has been removed
        os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o600))  # noqa: PTH118 - as bootstrap


class _TorchFinder:
    """An import finder that finds no module itself, but calls back when the program has imported torch."""

    def __init__(self, given: Settings) -> None:
        self._settings = given

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders return, with a loader that calls back after loading."""
        if name != "torch":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                self._follow(spec)
                return spec
        _mark(self._settings.scratch, NO_TORCH)
        return None

    def _follow(self, spec: ModuleSpec) -> None:
        """Override a method of the loader of this spec; the override removes itself when it is called."""
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: Any) -> None:
            del loader.exec_module  # type: ignore[union-attr]
            execute(module)
            self._arrived()

        loader.exec_module = exec_module  # type: ignore[method-assign,union-attr]

    def _arrived(self) -> None:
        from . import program  # noqa: PLC0415 - nothing of ours is imported in a process without torch

        try:
            program.attach(self._settings)
        except Exception as error:  # an error of the capture must not stop the program
            settings.Notes(self._settings.scratch).tell(error=f"{type(error).__name__}: {error}")
