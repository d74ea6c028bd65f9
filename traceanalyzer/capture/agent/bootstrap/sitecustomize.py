"""Python imports this at start-up, because `traceanalyzer capture` put its folder on PYTHONPATH.

It removes the folder from `sys.path`, installs the import hook, and imports the `sitecustomize` that it shadows. If
there is none, it raises ImportError, as Python would have done without the capture.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys

_PACKAGE = "_traceanalyzer_agent"


def _arm(here: str) -> None:
    folder = os.path.dirname(here)  # noqa: PTH120 - every import here delays every Python that starts
    spec = importlib.util.spec_from_file_location(
        _PACKAGE,
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{_PACKAGE}.importing").arm()


def _next(here: str) -> None:
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None or spec.origin == os.path.join(here, "sitecustomize.py"):  # noqa: PTH118
        raise ImportError("no other sitecustomize", name="sitecustomize")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
sys.path[:] = [entry for entry in sys.path if entry != _here]
with contextlib.suppress(Exception):  # the program must run anyway; the parent reports what is missing
    _arm(_here)
_next(_here)
