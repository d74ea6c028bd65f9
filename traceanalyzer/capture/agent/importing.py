"""Waits until the program imports torch; never imports it itself.

Until then it imports nothing that Python has not loaded before the program begins, and afterwards nothing that could be
a module of the program. So programs with a `secrets.py` or `statistics.py` of their own run as without a capture.
"""

import os
import sys

SCRATCH = "TRACEANALYZER_CAPTURE_SCRATCH"
"""The environment variable that names the temporary folder of a capture, for incomplete files and reports to the
parent."""
VARIABLE = "TRACEANALYZER_CAPTURE"
"""The environment variable that contains its settings as JSON."""

TYPE_CHECKING = False  # as typing has it, which the program may have not loaded
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any


def arm() -> None:
    """Watch for the import of torch, if this process belongs to a capture."""
    scratch, settings = os.environ.get(SCRATCH), os.environ.get(VARIABLE)
    if scratch and settings and "torch" not in sys.modules:
        _mark(scratch, HOOKED)
        sys.meta_path.insert(0, _TorchFinder(scratch, settings))


HOOKED = "hooked"
"""A file in the scratch folder; it exists when a Python process has loaded the hook."""
NO_TORCH = "no-torch"
"""A file in the scratch folder; it exists when a process failed to import torch."""


def _mark(folder: str, name: str) -> None:
    try:  # noqa: SIM105 - contextlib may not be loaded
        os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o600))  # noqa: PTH118 - as bootstrap
    except OSError:
        pass  # this process outlived the capture, whose folder has been removed


class _TorchFinder:
    """An import finder that finds no module itself, but calls back when the program has imported torch."""

    def __init__(self, scratch: str, settings: str) -> None:
        self._scratch, self._settings = scratch, settings

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
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
        _mark(self._scratch, NO_TORCH)
        return None

    def _follow(self, spec: "ModuleSpec") -> None:
        """Override a method of the loader of this spec; the override removes itself when it is called."""
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: "Any") -> None:
            del loader.exec_module  # type: ignore[union-attr]
            execute(module)
            self._arrived()

        loader.exec_module = exec_module  # type: ignore[method-assign,union-attr]

    def _arrived(self) -> None:
        with _StandardLibrary():  # for parts of torch, too, that the program would not have imported
            from . import program, settings  # noqa: PLC0415 - nothing of ours is imported in a process without torch

            given = settings.decode(self._settings)
            if given is None:
                return
            try:
                program.attach(given)
            except Exception as error:  # an error of the capture must not stop the program
                settings.Notes(given.scratch).tell(error=f"{type(error).__name__}: {error}")


class _StandardLibrary:
    """A context in which imports find the standard library's modules, even where the program has others of these names.

    Afterwards the program finds its own again.
    """

    def __enter__(self) -> None:
        library = os.path.dirname(os.__file__)  # noqa: PTH120 - as bootstrap
        self._path = sys.path[:]
        index = next((at for at, entry in enumerate(sys.path) if _is_within(entry, library)), 0)
        self._names = {name for entry in sys.path[:index] for name in _modules(entry)} & _names_of_the_library()
        self._of_program = self._take_out()
        sys.path[:] = sys.path[index:]

    def __exit__(self, *_: object) -> None:
        sys.path[:] = self._path
        self._take_out()
        sys.modules.update(self._of_program)

    def _take_out(self) -> "dict[str, Any]":
        names = [name for name in sys.modules if name.partition(".")[0] in self._names]
        return {name: sys.modules.pop(name) for name in names}


def _is_within(entry: str, folder: str) -> bool:
    """Whether an entry of `sys.path` is the folder of the standard library, or its archive, which comes before it."""
    return entry == folder or os.path.dirname(entry) == folder or entry.endswith(".zip")  # noqa: PTH120


def _modules(folder: str) -> "list[str]":
    try:
        return [name.partition(".")[0] for name in os.listdir(folder or ".")]  # noqa: PTH208 - pathlib may not be loaded
    except OSError:
        return []


def _names_of_the_library() -> "frozenset[str]":
    return getattr(sys, "stdlib_module_names", frozenset())  # of Python 3.10 and later
