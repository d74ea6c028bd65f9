"""The errors that users see. Every message states what is wrong, where, and what to do."""

from __future__ import annotations


class TraceAnalyzerError(Exception):
    """Base of all errors of this package; its text is one line, meant for people, without secrets of URLs."""

    def __init__(self, message: str) -> None:
        if ":/" in message:
            from traceanalyzer.urls import without_secrets  # noqa: PLC0415 - `--help` needs no patterns

            message = without_secrets(message)
        super().__init__(message)


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
