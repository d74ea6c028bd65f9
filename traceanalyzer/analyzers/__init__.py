"""The analyses of a trace, in folders by subject; each module lists its own in `ANALYSES`, or in `JOINED`.

    loader          how long the program waits for batches, and who prepares them
    copies          copies and fills, and who waits for them
    waits           where the host waits for the device
    idle            when and why devices are idle
    launches        what lies between launch and start; kernels of graphs, joined with the calls of their capture
    kernels         kernels, their classes, and how near they come to the peak
    operators       operators, and torch's own table from a trace
    modules         modules, and lines of Python
    host            owners of host time, flame graphs, stalls
    optimizer       optimizers, passes of autograd, exchanges of gradients
    memory          levels, peaks and who holds them
    communication   collectives: time, speed, overlap
    ranks           all ranks of a run, measured and replayed together
    hangs           who holds up a run that stands still, by dumps of the flight recorder
    compilation     what torch.compile costs, from traces and logs
    serving         samples, tokens, decode graphs
    phases          what people marked
    steps           all slices of some times, and what lowers confidence
    tables          printed tables
    capture         facts that a capture adds

A file answers one question, which is the first line of its docstring. No list names all analyses: each has its place in
reports (`order`), and the modules are found by listing the folders, so that a new one touches no file that others edit.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType

import msgspec

from traceanalyzer.analyzers.launches import graph_join
from traceanalyzer.report.message import Message
from traceanalyzer.structure.analysis import Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import all_tables


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package and of the packages in it, by name."""
    for item in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = import_module(item.name)
        yield module
        if item.ispkg:
            yield from _modules(module)


_MODULES = tuple(_modules(import_module(__name__)))


def _listed(under: str) -> tuple[Analysis, ...]:
    """What all modules list under a name, in the order of the report."""
    return tuple(sorted((one for module in _MODULES for one in getattr(module, under, ())), key=lambda one: one.order))


ANALYSES: tuple[Analysis, ...] = _listed("ANALYSES")
"""All analyses of a trace but those of the causal model (`simulation`), in the order of the report."""

_BEFORE_ALL = 1
"""The first analyses, which compute data for nearly all others; they run before the others are shared."""

_TOGETHER = (
    ("host_owners", "idle", "slices", "step_idle", "synchronizations", "replay", "critical_path"),
    ("operators", "convolution_norms", "conversions"),
    ("memory", "python_lines", "memory_replay"),
)
"""Analyses that need the same of the trace, so that the process that begins with one runs all of them; they are begun
first, because they take longest."""

_MOST_SHARING = 2
"""Processes that share the analyses. Each computes and keeps intermediate results of its own, so more processes gain
little and take memory."""

WORTHWHILE_EVENTS = 200_000
"""Number of events from which on several processes run the analyses; fewer events take only some tenths of a second."""

JOINED: tuple[Analysis, ...] = _listed("JOINED")
"""Analyses of replayed graphs, joined with the calls of their capture; they run if a matching capture was given."""

RESULTS: dict[str, type[msgspec.Struct]] = {
    **{analysis.key: analysis.result for analysis in ANALYSES},
    "graph_join": graph_join.GraphJoin,
    **{analysis.key: analysis.result for analysis in JOINED},
}
"""The type of every result of a trace by its key."""


def run(
    context: Context,
    analyses: Sequence[Analysis] = ANALYSES,
    jobs: int = 1,
    worthwhile: int = WORTHWHILE_EVENTS,
) -> tuple[dict[str, msgspec.Struct], dict[str, Message]]:
    """Run every analysis for which the trace has the data.

    Args:
        context: The trace.
        analyses: In the order of the results.
        jobs: Greatest number of processes; it does not change the results.
        worthwhile: Number of events from which on more than one process is used.

    Returns:
        The results by key, and for each analysis that did not run the reason.
    """
    if jobs < 2 or sum(map(len, all_tables(context.trace).values())) < worthwhile:
        return _run(analyses, context)
    from traceanalyzer import processes  # noqa: PLC0415 - what starts processes is for large traces alone

    first = analyses[:_BEFORE_ALL]
    rest = analyses[_BEFORE_ALL:]
    done = [_run(first, context)]
    tasks = _tasks(rest)
    done += processes.shared(len(tasks), lambda number: _run(tasks[number], context), min(jobs, _MOST_SHARING))
    results = {key: result for part, _ in done for key, result in part.items()}
    skipped = {key: reason for _, part in done for key, reason in part.items()}
    keys = [analysis.key for analysis in analyses]
    return {key: results[key] for key in keys if key in results}, {key: skipped[key] for key in keys if key in skipped}


def _tasks(analyses: Sequence[Analysis]) -> list[list[Analysis]]:
    """What one process runs without a break: analyses that belong together, and each of the others."""
    together = [[analysis for analysis in analyses if analysis.key in keys] for keys in _TOGETHER]
    alone = [[analysis] for analysis in analyses if not any(analysis.key in keys for keys in _TOGETHER)]
    return [task for task in (*together, *alone) if task]


class OnDemand(Mapping[str, msgspec.Struct]):
    """Results by key, some of which are computed when they are asked for: a rule of others may ask for any."""

    def __init__(self, context: Context, done: Mapping[str, msgspec.Struct], later: Sequence[Analysis]) -> None:
        self._context = context
        self._done = dict(done)
        self._later = {analysis.key: analysis for analysis in later}

    def __getitem__(self, key: str) -> msgspec.Struct:
        if key not in self._done:
            self._done[key] = self._later[key].run(self._context)
        return self._done[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._done, **self._later})

    def __len__(self) -> int:
        return len({**self._done, **self._later})


def run_joined(join: graph_join.Join) -> tuple[dict[str, msgspec.Struct], dict[str, Message]]:
    """Run the analyses of graphs that were joined with captures.

    Returns:
        The results by key, and for each analysis that did not run the reason.
    """
    results, skipped = _run(JOINED, join.context) if join.context is not None else ({}, {})
    return {"graph_join": join.result, **results}, skipped


def _run(chosen: Sequence[Analysis], context: Context) -> tuple[dict[str, msgspec.Struct], dict[str, Message]]:
    skipped = {a.key: reason for a in chosen if (reason := a.missing(context)) is not None}
    results = {a.key: a.run(context) for a in chosen if a.key not in skipped}
    return results, skipped
