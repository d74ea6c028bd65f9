"""The content of a structured compile log of torch (`TORCH_TRACE`): compilations, graph breaks, recompilations."""

from __future__ import annotations

import msgspec

from traceanalyzer.trace.model import Loss


class SourceLine(msgspec.Struct, frozen=True):
    """A line of the program, as the log names it."""

    file: str
    line: int
    function: str = ""


class LoggedLookup(msgspec.Struct, frozen=True):
    """A lookup in a cache of compiled graphs."""

    cache: str
    """`fx_graph` (Inductor) or `aotautograd`, as torch names them."""
    outcome: str
    """`hit`, `miss`, or `bypass` (a graph that cannot be cached)."""
    key: str = ""
    """Torch's key of the graph; empty where the log has none."""
    compiling_ns: int | None = None
    """Time that compiling it took, of a miss; of a hit, the time that it saved."""
    reason: str = ""
    """Why the cache was bypassed."""


class LoggedCompilation(msgspec.Struct, frozen=True):
    """One compilation of one function by torch.compile; None means that the log does not contain it."""

    id: str
    """`function/compilation`, as torch counts both from 0: 0/1 is the second compilation of the first function."""
    rank: int | None = None
    code: SourceLine | None = None
    """The function, at its first line."""
    caller: SourceLine | None = None
    """The line of the program that called it: the last of its stack in code of the user."""
    start_ns: int | None = None
    """Start since the first entry of the log, by the clock of its lines."""
    logged_ns: int | None = None
    """From its first to its last entry by the same clock, without the backward pass: about its duration."""
    duration_ns: int | None = None
    """Time of the compilation, its backend included; the backward pass is compiled later and adds its own time."""
    backend_ns: int | None = None
    """Part of it in the backend: AOTAutograd and Inductor, or another one; Dynamo takes the rest."""
    inductor_ns: int | None = None
    """Part of that in Inductor."""
    has_aot: bool = False
    """Whether AOTAutograd wrote about it."""
    backward_ns: int | None = None
    """Time of compiling the backward pass."""
    reasons: tuple[str, ...] = ()
    """Why earlier compilations of the function did not fit; empty for a first compilation."""
    failure: str | None = None
    """The error with which the compilation failed."""
    guards: int | None = None
    """Conditions that are checked at each call."""
    operations: int | None = None
    """Operations in the graph."""
    lookups: tuple[LoggedLookup, ...] = ()
    """Lookups in the caches of graphs, the backward pass included."""
    is_finished: bool = False
    """Whether its figures were written, which torch does at the end."""


class LoggedBreak(msgspec.Struct, frozen=True):
    """A place at which a graph ended because the code after it could not be traced."""

    id: str
    """The compilation that broke."""
    rank: int | None
    at: SourceLine | None
    reason: str
    """Torch's words, one line."""
    hint: str = ""
    """Torch's first hint, one line; empty where it has none."""
    code: str = ""
    """The line of the program; empty where the log does not show it."""
    function: SourceLine | None = None
    """The function that was compiled."""


class LoggedGuard(msgspec.Struct, frozen=True):
    """A condition on a symbolic size that a line of the program made part of the compiled code."""

    id: str | None
    expression: str
    at: SourceLine | None


class CompileLog(msgspec.Struct, frozen=True):
    """Everything that the tool uses of one log."""

    name: str
    entries: int
    """Entries that were read, payloads not counted."""
    size_bytes: int | None = None
    span_ns: int | None = None
    """From the first to the last entry, by the clock of the lines."""
    compilations: tuple[LoggedCompilation, ...] = ()
    breaks: tuple[LoggedBreak, ...] = ()
    guards: tuple[LoggedGuard, ...] = ()
    losses: tuple[Loss, ...] = ()
    has_generated_code: bool = False
    """Whether Inductor wrote code for some graph, or loaded it from its cache."""
    kernels: frozenset[str] = frozenset()
    """Names of kernels in that code; of long code, those at its beginning."""
