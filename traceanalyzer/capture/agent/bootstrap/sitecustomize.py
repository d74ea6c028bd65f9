"""Python imports this at start-up, because `traceanalyzer capture` put its folder on PYTHONPATH.

It removes the folder from `sys.path`, installs the import hook, and imports the `sitecustomize` that it shadows. If
there is none, it raises ImportError, as Python would have done without the capture.

Programs may start an old Python, so this file is also valid Python 2, which gets no hook: without annotations, and with
no import that fails there. It imports only what every Python has loaded at this moment: any other module of the
standard library would stay, and hide one of the program's that has its name (`secrets`, `token`).
"""

import os
import sys

_PACKAGE = "_traceanalyzer_agent"


def _arm(here):  # type: ignore[no-untyped-def]
    import _frozen_importlib  # noqa: PLC0415 - Python 2 has no such modules
    import _frozen_importlib_external  # noqa: PLC0415

    folder = os.path.dirname(here)  # noqa: PTH120 - every import here delays every Python that starts
    spec = _frozen_importlib_external.spec_from_file_location(
        _PACKAGE,
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        return
    package = _frozen_importlib.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)
    importing = _PACKAGE + ".importing"
    __import__(importing)
    sys.modules[importing].arm()


_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
sys.path[:] = [entry for entry in sys.path if entry != _here]
try:  # noqa: SIM105 - contextlib need not be imported for it
    _arm(_here)  # type: ignore[no-untyped-call]
except Exception:  # noqa: S110 - the program must run anyway; the parent reports what is missing
    pass
del sys.modules["sitecustomize"]
__import__("sitecustomize")  # of the program, if it has one
