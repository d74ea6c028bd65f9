"""Where does the time of graphs go: which modules and lines launched their kernels in the capture?

The figures of `modules` and `python_lines`, of the joined trace. A call counts once for each launch of its graph. Times
on the host are left out: in a replay the host does not run these calls.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers import modules
from traceanalyzer.analyzers.modules import python_lines
from traceanalyzer.structure.analysis import Analysis, narrowed
from traceanalyzer.structure.context import Context


class JoinedModule(msgspec.Struct, frozen=True):
    """All calls of one module, or of all modules of a class, in captured graphs."""

    name: str
    """Class and number of the module as the profiler names it, `Linear_0`; of a class without the number."""
    calls: int
    """Number of forward calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""


class JoinedPlace(msgspec.Struct, frozen=True):
    """All calls of one module in captured graphs from the same place."""

    name: str
    """Class and number of the module as the profiler names it."""
    parent: int | None
    """Row of the place around this one; null at the top."""
    depth: int
    """Number of places around this one; 0 at the top."""
    calls: int
    """Number of forward calls from this place, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""


class JoinedModules(msgspec.Struct, frozen=True):
    """Modules of captured graphs."""

    rows: tuple[JoinedModule, ...]
    """One row per module, the most device self time first."""
    classes: tuple[JoinedModule, ...]
    """One row per class of modules, in the same order."""
    tree: tuple[JoinedPlace, ...]
    """Modules by the place from which they are called: parents before their children."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    outside_device_ns: int
    """Part of it in ns that was launched outside of modules."""


class JoinedLine(msgspec.Struct, frozen=True):
    """All calls of one Python function in captured graphs."""

    name: str
    """The line as recorded, `file.py(123): function`."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of the work launched while the function was the innermost one, each in full."""
    device_total_ns: int
    """Device time in ns of the work launched anywhere within its calls; each launch counts once."""


class JoinedLines(msgspec.Struct, frozen=True):
    """Lines of Python that launched what graphs replay."""

    rows: tuple[JoinedLine, ...]
    """Every line that launched something, the most device self time first."""
    rows_outside_torch: tuple[JoinedLine, ...]
    """Lines outside of the package torch: what torch's own functions launch belongs to the line that called them."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    unattributed_device_ns: int
    """Part of it in ns that no recorded line launched."""


def by_module(context: Context) -> JoinedModules:
    """The modules of a joined trace."""
    found = modules.analyze(context)
    return JoinedModules(
        rows=narrowed(JoinedModule, (row for row in found.rows if row.device_total_ns)),
        classes=narrowed(JoinedModule, (row for row in found.classes if row.device_total_ns)),
        tree=narrowed(JoinedPlace, found.tree),
        device_ns=found.device_ns,
        outside_device_ns=found.outside_device_ns,
    )


def by_line(context: Context) -> JoinedLines:
    """The lines of a joined trace."""
    found = python_lines.analyze(context)
    return JoinedLines(
        rows=narrowed(JoinedLine, (row for row in found.rows if row.device_total_ns)),
        rows_outside_torch=narrowed(JoinedLine, (row for row in found.rows_outside_torch if row.device_total_ns)),
        device_ns=found.device_ns,
        unattributed_device_ns=found.unattributed_device_ns,
    )


JOINED = (
    Analysis(20, "joined_modules", JoinedModules, by_module, modules.ANALYSES[0].needs),
    Analysis(30, "joined_python_lines", JoinedLines, by_line, python_lines.ANALYSES[0].needs),
)
