"""The content of a structured compile log of torch (`TORCH_TRACE`): compilations, graph breaks, recompilations."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.trace.model import Loss


@dataclass(frozen=True)
class SourceLine:
    """A line of the program, as the log names it."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class LoggedCompilation:
    """One compilation of one function by torch.compile; None means that the log does not contain it."""

    id: str
    """`function/compilation`, as torch counts both from 0: 0/1 is the second compilation of the first function."""
    rank: int | None = None
    code: SourceLine | None = None
    """The function, at its first line."""
    caller: SourceLine | None = None
    """The line that called it."""
    duration_ns: int | None = None
    """Time of the compilation, its backend included; the backward pass is compiled later and adds its own time."""
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
    cache_hits: int = 0
    """Graphs that were found in the caches of Inductor and of the autograd compiler."""
    cache_misses: int = 0


@dataclass(frozen=True)
class LoggedBreak:
    """A place at which a graph ended because the code after it could not be traced."""

    id: str
    """The compilation that broke."""
    rank: int | None
    at: SourceLine | None
    reason: str
    """Torch's words, one line."""
    hint: str = ""
    """Torch's first hint, one line; empty where it has none."""


@dataclass(frozen=True)
class LoggedGuard:
    """A condition on a symbolic size that a line of the program made part of the compiled code."""

    id: str | None
    expression: str
    at: SourceLine | None


@dataclass(frozen=True)
class CompileLog:
    """Everything that the tool uses of one log."""

    name: str
    entries: int
    """Entries that were read, payloads not counted."""
    compilations: tuple[LoggedCompilation, ...] = ()
    breaks: tuple[LoggedBreak, ...] = ()
    guards: tuple[LoggedGuard, ...] = ()
    losses: tuple[Loss, ...] = ()
