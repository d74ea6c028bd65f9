"""What compile logs say: by themselves, and about the compiled code of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from traceanalyzer.knowledge import compiled_code, python_frames
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.compile_log import (
    CompileLog,
    LoggedBreak,
    LoggedCompilation,
    LoggedLookup,
    SourceLine,
)

_RESUME = "torch_dynamo_resume_in_"


class FailedCompilation(msgspec.Struct, frozen=True):
    """A compilation that ended with an error, after which the function runs without compilation or not at all."""

    compilation: str
    """Numbers of the function and of its compilation, as torch counts them."""
    function: str | None
    """Name of the function; null if the log does not say."""
    file: str | None
    """Its file; null if the log does not say."""
    line: int | None
    """Its first line; null if the log does not say."""
    error: str
    """The error message of torch."""


class SizeGuard(msgspec.Struct, frozen=True):
    """A condition on a size that became part of compiled code."""

    expression: str
    """The condition, with torch's names of symbols such as s0."""
    file: str | None
    """File of the line that caused the condition; null if it is not in the log."""
    line: int | None
    """The line that caused the condition; null if it is not in the log."""


class LoggedGraphBreak(msgspec.Struct, frozen=True):
    """A graph break in a compile log, whether its region was recorded or not."""

    compilation: str
    """The compilation that broke; empty if the log does not say."""
    function: str | None
    """Name of the function that was compiled; null if the log does not say."""
    file: str | None
    """File of the line that broke; null if the log does not say."""
    line: int | None
    """The line that broke; null if the log does not say."""
    code: str | None
    """Text of the line; null if the log does not have it."""
    reason: str
    """The reason in torch's words."""
    hint: str | None
    """Torch's first hint; null if it has none."""


class CacheUse(msgspec.Struct, frozen=True):
    """Lookups in one cache of compiled graphs."""

    cache: str
    """`fx_graph` (Inductor) or `aotautograd`, as torch names them."""
    hits: int
    """Graphs that were found."""
    misses: int
    """Graphs that were not found, and compiled."""
    bypasses: int
    """Graphs that cannot be cached."""
    missed_ns: int | None
    """Time in ns that compiling the missed graphs took; null if the log does not say."""
    saved_ns: int | None
    """Time in ns that the hits saved, as torch measured it when they were compiled; null if the log does not say."""
    bypass_reasons: tuple[str, ...]
    """Why graphs cannot be cached, each reason once."""


class CompilationPhases(msgspec.Struct, frozen=True):
    """Parts of the time of compilations in ns, which add up to it; null where the log does not contain them."""

    dynamo_ns: int | None = None
    """Dynamo: tracing Python to a graph, and making guards."""
    aot_ns: int | None = None
    """AOTAutograd: the backend without Inductor."""
    inductor_ns: int | None = None
    """Inductor: generating code and compiling kernels, or loading them from its cache."""
    other_backend_ns: int | None = None
    """A backend other than these."""


class LogFigures(CompilationPhases, frozen=True):
    """Sums over everything that the compile logs contain; the phases are those of all compilations."""

    compilations: int = 0
    """Number of compilations, each one once."""
    recompilations: int = 0
    """Those of them that are not the first of their function."""
    compiling_ns: int | None = None
    """Time of all compilations in ns, backward passes included; null if no time of any is known."""
    backward_ns: int | None = None
    """Part of it for backward passes, which are compiled later; null if there is none."""
    is_by_clock: bool = False
    """Whether some of the time is only known from the dates of the lines, which are exact to about a millisecond."""
    span_ns: int | None = None
    """Time from the first to the last entry in ns, by the dates of the lines; the longest of several logs."""
    entries: int = 0
    """Number of entries that were read."""


class LogSummary(msgspec.Struct, frozen=True):
    """Entries of all logs of this process."""

    names: tuple[str, ...]
    compilations: tuple[LoggedCompilation, ...]
    breaks: tuple[LoggedBreak, ...]
    guards: tuple[SizeGuard, ...]

    @property
    def failures(self) -> tuple[FailedCompilation, ...]:
        """Compilations that ended with an error."""
        return tuple(
            FailedCompilation(entry.id, *_failed_at(entry), entry.failure)
            for entry in self.compilations
            if entry.failure is not None
        )

    @property
    def graph_breaks(self) -> tuple[LoggedGraphBreak, ...]:
        """All breaks, in the order of the log."""
        return tuple(
            LoggedGraphBreak(
                entry.id,
                entry.function.function if entry.function else None,
                *place_of(entry.at)[1:],
                entry.code or None,
                entry.reason,
                entry.hint or None,
            )
            for entry in self.breaks
        )

    @property
    def caches(self) -> tuple[CacheUse, ...]:
        """Lookups by cache, in the order of the log."""
        found: dict[str, list[LoggedLookup]] = {}
        for lookup in chain.from_iterable(entry.lookups for entry in self.compilations):
            found.setdefault(lookup.cache, []).append(lookup)
        return tuple(_cache_use(cache, lookups) for cache, lookups in found.items())

    def of(self, compilation: str | None) -> LoggedCompilation | None:
        """Log entries about a compilation; if several have the same id, about the last one."""
        return next((entry for entry in reversed(self.compilations) if entry.id == compilation), None)

    def code(self, compilation: str | None) -> SourceLine | None:
        """The function of a compilation."""
        entry = self.of(compilation)
        return None if entry is None else entry.code

    def broken(self, before: str | None, behind: str | None) -> LoggedBreak | None:
        """The break in one compilation after which another compilation continues.

        A compilation may break at several lines; the function that continues is named after the line.
        """
        here = [entry for entry in self.breaks if entry.id == before]
        code = self.code(behind)
        resumed = None if code is None or not code.function.startswith(_RESUME) else code.function.rpartition("_")[2]
        exact = [entry for entry in here if entry.at is not None and str(entry.at.line) == resumed]
        return next(iter(exact or here), None)


def summarize_logs(logs: Sequence[CompileLog], rank: int | None) -> LogSummary:
    """All log entries about one process.

    Args:
        logs: Logs of any processes.
        rank: Rank of the process; None selects the lowest rank in the logs.
    """
    ranks = {entry.rank for log in logs for entry in log.compilations if entry.rank is not None}
    wanted = {None, min(ranks, default=None) if rank is None else rank}
    guards = {SizeGuard(entry.expression, *place_of(entry.at)[1:]): None for log in logs for entry in log.guards}
    return LogSummary(
        tuple(log.name for log in logs),
        tuple(entry for log in logs for entry in log.compilations if entry.rank in wanted),
        tuple(entry for log in logs for entry in log.breaks if entry.rank in wanted),
        tuple(guards),
    )


def place_of(code: SourceLine | None) -> tuple[str | None, str | None, int | None]:
    """Function, file and line; unknown ones are None."""
    return (None, None, None) if code is None else (code.function or None, code.file, code.line)


def _failed_at(entry: LoggedCompilation) -> tuple[str | None, str | None, int | None]:
    """The function; of an unknown one, the line of its call."""
    return place_of(entry.code) if entry.code is not None else (None, *place_of(entry.caller)[1:])


def figures(logs: Sequence[CompileLog], summary: LogSummary) -> LogFigures | None:
    """Sums over the logs; None without logs."""
    if not logs:
        return None
    every = summary.compilations
    phases = [phases_of(entry) for entry in every]
    times = [entry.logged_ns if entry.duration_ns is None else entry.duration_ns for entry in every]
    backward = _sum(entry.backward_ns for entry in every)
    return LogFigures(
        **{name: _sum(getattr(one, name) for one in phases) for name in CompilationPhases.__struct_fields__},
        compilations=len(every),
        recompilations=sum(compiled_code.is_recompilation(entry.id) for entry in every),
        compiling_ns=_sum((*times, backward)),
        backward_ns=backward,
        is_by_clock=any(entry.duration_ns is None for entry in every),
        span_ns=max((log.span_ns for log in logs if log.span_ns is not None), default=None),
        entries=sum(log.entries for log in logs),
    )


def phases_of(entry: LoggedCompilation) -> CompilationPhases:
    """The phases of one compilation."""
    backend, inductor = entry.backend_ns, entry.inductor_ns
    if backend is None:
        return CompilationPhases(inductor_ns=inductor)
    dynamo = None if entry.duration_ns is None else max(0, entry.duration_ns - backend)
    if inductor is not None:
        return CompilationPhases(dynamo, max(0, backend - inductor), inductor)
    if entry.has_aot or any(lookup.cache == "aotautograd" for lookup in entry.lookups):
        return CompilationPhases(dynamo, backend)
    return CompilationPhases(dynamo, other_backend_ns=backend)


def _cache_use(cache: str, lookups: Sequence[LoggedLookup]) -> CacheUse:
    by = {outcome: [one for one in lookups if one.outcome == outcome] for outcome in ("hit", "miss", "bypass")}
    return CacheUse(
        cache,
        hits=len(by["hit"]),
        misses=len(by["miss"]),
        bypasses=len(by["bypass"]),
        missed_ns=_sum(one.compiling_ns for one in by["miss"]),
        saved_ns=_sum(one.compiling_ns for one in by["hit"]),
        bypass_reasons=tuple(dict.fromkeys(one.reason for one in by["bypass"] if one.reason)),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


ANOTHER_PROGRAM = (
    "no function, kernel, graph or compiled region of the trace is in this compile log: it is of another program or "
    "process; name the log of the process that was recorded, or report on the log alone"
)


def is_of_trace(context: Context) -> bool | None:
    """Whether the logs are of the program of a trace, as far as names show it; None if they cannot.

    Graphs, generated kernels and Python functions tell programs apart, and whether kernels were generated at all.
    Numbers of compilations begin at 0/0 in each, so they decide only without these. A trace without any compiled code
    has nothing that a log explains, unless compilation failed.
    """
    names = set(context.trace.names)
    has_same_names = _has_same_names(names, context.compile_logs)
    if has_same_names is not None:
        return has_same_names
    compilations = [entry for log in context.compile_logs for entry in log.compilations]
    if not compilations:
        return None
    has_kernels = any(map(compiled_code.is_generated_kernel, names))
    if has_kernels and not any(log.has_generated_code for log in context.compile_logs):
        return False
    regions = _regions(names)
    if regions:
        return not regions.isdisjoint(entry.id for entry in compilations)
    if has_kernels or any(entry.failure for entry in compilations):
        return None
    has_compiled_code = any(map(compiled_code.is_compiled, names)) or any(map(compiled_code.is_compilation, names))
    return None if has_compiled_code else False


def _has_same_names(names: Iterable[str], logs: Sequence[CompileLog]) -> bool | None:
    """Whether trace and logs have a graph, kernel or function in common; None if there are none to be compared."""
    pairs = (
        (_graphs(names), _cached_graphs(logs)),
        (compiled_code.kernels_in(" ".join(names)), {kernel for log in logs for kernel in log.kernels}),
        (_functions(names), {_tail(line.file, line.function) for line in _lines(logs)}),
    )
    telling = [(traced, logged) for traced, logged in pairs if traced and logged]
    if not telling:
        return None
    return any(traced & logged for traced, logged in telling)


def _graphs(names: Iterable[str]) -> set[str]:
    """The keys of the graphs that the trace ran."""
    keys = map(compiled_code.graph_key, names)
    return {key for key in keys if key is not None}


def _cached_graphs(logs: Iterable[CompileLog]) -> set[str]:
    """The keys of the graphs that were looked up in a cache."""
    lookups = (lookup for log in logs for entry in log.compilations for lookup in entry.lookups)
    return {lookup.key for lookup in lookups if lookup.key}


def _functions(names: Iterable[str]) -> set[tuple[str, str]]:
    """The Python functions that the trace ran."""
    frames = map(python_frames.parse, names)
    return {_tail(frame.path, frame.function) for frame in frames if frame is not None}


def _regions(names: Iterable[str]) -> set[str]:
    """The compilations that the trace names, such as `0/1`."""
    compilations = (compiled_code.region_id(name) or compiled_code.named_compilation(name) for name in names)
    return {compilation for compilation in compilations if compilation}


def _lines(logs: Iterable[CompileLog]) -> Iterator[SourceLine]:
    for log in logs:
        for entry in log.compilations:
            yield from filter(None, (entry.code, entry.caller))
        yield from filter(None, (broken.at for broken in log.breaks))
        yield from filter(None, (guard.at for guard in log.guards))


def _tail(file: str, function: str) -> tuple[str, str]:
    """The last part of a path and a function: the profiler cuts the first parts off."""
    return file.replace("\\", "/").rpartition("/")[2], function
