"""The entries of compile logs about the code of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.trace.compile_log import CompileLog, LoggedBreak, LoggedCompilation, SourceLine

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


class Told(msgspec.Struct, frozen=True):
    """Entries of all logs of this process."""

    names: tuple[str, ...]
    compilations: tuple[LoggedCompilation, ...]
    breaks: tuple[LoggedBreak, ...]
    guards: tuple[SizeGuard, ...]

    @property
    def failures(self) -> tuple[FailedCompilation, ...]:
        """Compilations that ended with an error."""
        return tuple(
            FailedCompilation(found.id, *place_of(found.code or found.caller), found.failure)
            for found in self.compilations
            if found.failure is not None
        )

    def of(self, compilation: str | None) -> LoggedCompilation | None:
        """Log entries about a compilation; if several have the same id, about the last one."""
        return next((found for found in reversed(self.compilations) if found.id == compilation), None)

    def code(self, compilation: str | None) -> SourceLine | None:
        """The function of a compilation."""
        found = self.of(compilation)
        return None if found is None else found.code

    def broken(self, before: str | None, behind: str | None) -> LoggedBreak | None:
        """The break in one compilation after which another compilation continues.

        A compilation may break at several lines; the function that continues is named after the line.
        """
        here = [found for found in self.breaks if found.id == before]
        code = self.code(behind)
        resumed = None if code is None or not code.function.startswith(_RESUME) else code.function.rpartition("_")[2]
        exact = [found for found in here if found.at is not None and str(found.at.line) == resumed]
        return next(iter(exact or here), None)


def told(logs: Sequence[CompileLog], rank: int | None) -> Told:
    """All log entries about one process.

    Args:
        logs: Logs of any processes.
        rank: Rank of the process; None selects the lowest rank in the logs.
    """
    ranks = {found.rank for log in logs for found in log.compilations if found.rank is not None}
    wanted = {None, min(ranks, default=None) if rank is None else rank}
    guards = {
        SizeGuard(
            found.expression, None if found.at is None else found.at.file, None if found.at is None else found.at.line
        ): None
        for log in logs
        for found in log.guards
    }
    return Told(
        tuple(log.name for log in logs),
        tuple(found for log in logs for found in log.compilations if found.rank in wanted),
        tuple(found for log in logs for found in log.breaks if found.rank in wanted),
        tuple(guards),
    )


def place_of(code: SourceLine | None) -> tuple[str | None, str | None, int | None]:
    """Function, file and line; unknown ones are None."""
    return (None, None, None) if code is None else (code.function or None, code.file, code.line)
