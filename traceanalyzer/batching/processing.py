"""Analyzes one file of a batch and writes its reports and its record; the same code runs on a cluster."""

from __future__ import annotations

from collections.abc import Callable

from traceanalyzer import readers
from traceanalyzer.batching import rank_reports, record, reports, summary_row
from traceanalyzer.batching.job import Job, JobEnd, JobOutcome
from traceanalyzer.errors import TraceAnalyzerError, UnusableInputError
from traceanalyzer.inputs.storage import Folder, is_url, open_folder, open_input
from traceanalyzer.pipeline import StepChoice, analyze, load
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

_REMOTE_BLOCK = 8 << 20


def process(task: Job, progress: Callable[[int], None]) -> JobOutcome:
    """Analyze a file, write its reports, and last its record. Any error becomes a reason, never an exception.

    Args:
        task: What to do.
        progress: Called with the number of input bytes after each read.
    """
    try:
        folder = open_folder(task.output, force=task.force)
        done = _report(task, folder, progress)
    except UnusableInputError as error:
        end = JobEnd.LEFT_OUT if task.may_be_nothing else JobEnd.FAILED
        return JobOutcome(end, reason=_reason(task, str(error)))
    except TraceAnalyzerError as error:
        return JobOutcome(JobEnd.FAILED, reason=_reason(task, str(error)))
    except MemoryError:
        return JobOutcome(JobEnd.FAILED, reason="does not fit into the memory that a worker may use")
    except Exception as error:  # a mistake of ours costs one file, not the batch
        return JobOutcome(JobEnd.FAILED, reason=f"cannot be analyzed: {type(error).__name__}: {error}")
    return JobOutcome(JobEnd.DONE, record=done)


def _report(task: Job, folder: Folder, progress: Callable[[int], None]) -> bytes:
    options = task.options
    measured = _load(task, progress)
    choice = StepChoice(skip_warmup=options.skip_warmup) if isinstance(measured, Trace) else None
    report = analyze(measured, choice, options.config)
    del measured  # the texts of the reports take its place
    outputs = reports.write(folder, task.name, report, options)
    rank = rank_reports.keep(folder, task.name, report)
    done = record.encode(summary_row.record(task.name, task.fingerprint, outputs, rank, report))
    folder.write(record.name_of(task.name), done)
    return done.encode()


def _load(task: Job, progress: Callable[[int], None]) -> Trace | TableDocument:
    if not is_url(task.location):
        return load(task.location, progress)
    name = task.name.rpartition("/")[2]
    try:
        with open_input(task.location, _REMOTE_BLOCK) as raw:
            source = Source(raw, name, task.size, progress)
            if source.is_empty:
                raise UnusableInputError(f"{name}: is empty (0 bytes)")
            return readers.read(source)
    except OSError as error:
        raise UnusableInputError(f"{name}: cannot be read: {error.strerror or error}") from None


def _reason(task: Job, message: str) -> str:
    """The text of an error without the file's name, which the line begins with already."""
    for name in (task.location, task.location.rpartition("/")[2], task.name.rpartition("/")[2]):
        message = message.removeprefix(f"{name}: ")
    return " ".join(message.split())
