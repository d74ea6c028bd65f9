"""Analyzes one file of a batch and writes its reports and its record; the same code runs on a cluster."""

from __future__ import annotations

from collections.abc import Callable

from traceanalyzer.batching import rank_reports, record, reports, summary_row
from traceanalyzer.batching.job import Job, JobEnd, JobOutcome
from traceanalyzer.errors import TraceAnalyzerError, UnusableInputError
from traceanalyzer.inputs import opening
from traceanalyzer.inputs.storage import Folder, open_folder
from traceanalyzer.pipeline import StepChoice, report_on
from traceanalyzer.report.model import Report
from traceanalyzer.trace.document import TableDocument


def process(task: Job, progress: Callable[[int], None]) -> JobOutcome:
    """Analyze a file, write its reports, and then its record. Errors are returned as a reason; none is raised.

    Args:
        task: The file and the options.
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
    except Exception as error:  # a bug costs one file, not the batch
        return JobOutcome(JobEnd.FAILED, reason=f"cannot be analyzed: {type(error).__name__}: {error}")
    return JobOutcome(JobEnd.DONE, record=done)


def _report(task: Job, folder: Folder, progress: Callable[[int], None]) -> bytes:
    options = task.options
    content = opening.read(task.location, progress)
    is_saved = isinstance(content, Report)
    choice = None if isinstance(content, TableDocument) else StepChoice(skip_warmup=options.skip_warmup)
    report = report_on(content, task.location, choice, options.config)
    del content  # free its memory for the texts of the reports
    outputs = reports.write(folder, task.name, report, options)
    rank = rank_reports.keep(folder, task.name, report)
    entry = summary_row.record(task.name, task.fingerprint, outputs, rank, report, is_saved=is_saved)
    done = record.encode(entry)
    folder.write(record.name_of(task.name), done)
    return done.encode()


def _reason(task: Job, message: str) -> str:
    """The text of an error without the file's name, because the line already begins with it."""
    for name in (task.location, task.location.rpartition("/")[2], task.name.rpartition("/")[2]):
        message = message.removeprefix(f"{name}: ")
    return " ".join(message.split())
