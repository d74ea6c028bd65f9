"""The errors that users see. Every message states what is wrong, where, and what to do."""

from __future__ import annotations


class TraceAnalyzerError(Exception):
    """Base of all errors of this package; its text is one line, meant for people."""


class UnusableInputError(TraceAnalyzerError):
    """The input cannot be analyzed at all: missing, empty, or not a trace."""


class UsageError(TraceAnalyzerError):
    """The request itself makes no sense, whatever the input."""


class OutputError(TraceAnalyzerError):
    """A report could not be written."""


class MissingDependencyError(TraceAnalyzerError):
    """An optional library is needed and not installed."""

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'torch-traceanalyzer[{extra}]'")
