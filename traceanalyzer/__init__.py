"""Where PyTorch's GPU time goes, what to change, and what the change is worth.

    import traceanalyzer as ta
    trace = ta.load("trace.json.gz")
    report = ta.analyze(trace)
    print(ta.render(report, "markdown"))

Names are imported when they are first used, so that `traceanalyzer --help` stays fast.
"""

# No `from __future__`: that is a module, too, and would be looked for in the current folder before the next lines.
import os
import sys

if sys.argv[:1] == ["-m"] and {"traceanalyzer", "-mtraceanalyzer"} & {*sys.orig_argv} and not sys.flags.safe_path:
    # `python -m traceanalyzer` looks for all modules in the current folder first, where traces are and no code.
    sys.path[:1] = [entry for entry in sys.path[:1] if not (os.path.isdir(entry) and os.path.samefile(entry, "."))]  # noqa: PTH112, PTH121

from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceanalyzer._version import __version__
from traceanalyzer.report import show_with as _show_with

if TYPE_CHECKING:
    from traceanalyzer.batching.run import batch
    from traceanalyzer.comparison import diff
    from traceanalyzer.comparison.verification import verify
    from traceanalyzer.formats import render
    from traceanalyzer.inputs.opening import load, load_report
    from traceanalyzer.multirank import ranks
    from traceanalyzer.pipeline import StepChoice, analyze
    from traceanalyzer.prediction import whatif
    from traceanalyzer.querying import sql
    from traceanalyzer.report.model import Report
    from traceanalyzer.trace.model import Trace

__all__ = [
    "Report",
    "StepChoice",
    "Trace",
    "__version__",
    "analyze",
    "batch",
    "diff",
    "load",
    "load_report",
    "ranks",
    "render",
    "sql",
    "verify",
    "whatif",
]

# No module is named like one of these: `import traceanalyzer.diff` would replace the function `traceanalyzer.diff`. So
# their packages are `comparison` and `batching`, and the ranks of a run are joined in `multirank`.
_HOMES = {
    "Report": "traceanalyzer.report.model",
    "StepChoice": "traceanalyzer.pipeline",
    "Trace": "traceanalyzer.trace.model",
    "analyze": "traceanalyzer.pipeline",
    "batch": "traceanalyzer.batching.run",
    "diff": "traceanalyzer.comparison",
    "load": "traceanalyzer.inputs.opening",
    "load_report": "traceanalyzer.inputs.opening",
    "ranks": "traceanalyzer.multirank",
    "render": "traceanalyzer.formats",
    "sql": "traceanalyzer.querying",
    "verify": "traceanalyzer.comparison.verification",
    "whatif": "traceanalyzer.prediction",
}


def _render(report: Any, form: str) -> str:
    text: str = import_module(_HOMES["render"]).render(report, form)
    return text


_show_with(_render)  # in notebooks


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
