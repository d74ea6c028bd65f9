"""One file of a batch: from a task to its reports and its record. The same function here and on a cluster."""

from __future__ import annotations

from collections.abc import Callable

from traceanalyzer import readers
from traceanalyzer.batch import digest, joined, record, written
from traceanalyzer.batch.storage import Folder, is_url, open_folder, open_input
from traceanalyzer.batch.task import End, Outcome, Task
from traceanalyzer.errors import TraceAnalyzerError, UnusableInputError
from traceanalyzer.pipeline import StepChoice, analyze, load
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

_REMOTE_BLOCK = 8 << 20


def process(task: Task, progress: Callable[[int], None]) -> Outcome:
    """Analyze a file, write its reports, and last its record. Whatever goes wrong is a reason, never an exception.

    Args:
        task: What to do.
        progress: Called with the number of input bytes after each read.
    """
    try:
        folder = open_folder(task.output, force=task.force)
        done = _report(task, folder, progress)
    except UnusableInputError as error:
        end = End.LEFT_OUT if task.may_be_nothing else End.FAILED
        return Outcome(end, reason=_reason(task, str(error)))
    except TraceAnalyzerError as error:
        return Outcome(End.FAILED, reason=_reason(task, str(error)))
    except MemoryError:
        return Outcome(End.FAILED, reason="does not fit into the memory that a worker may use")
    except Exception as error:  # a mistake of ours costs one file, not the batch
        return Outcome(End.FAILED, reason=f"cannot be analyzed: {type(error).__name__}: {error}")
    return Outcome(End.DONE, record=done)


def _report(task: Task, folder: Folder, progress: Callable[[int], None]) -> bytes:
    options = task.options
    measured = _load(task, progress)
    choice = StepChoice(skip_warmup=options.skip_warmup) if isinstance(measured, Trace) else None
    report = analyze(measured, choice, options.config)
    del measured  # the texts of the reports take its place
    outputs = written.write(folder, task.name, report, options)
    rank = joined.keep(folder, task.name, report)
    done = record.encode(digest.record(task.name, task.fingerprint, outputs, rank, report))
    folder.write(record.name_of(task.name), done)
    return done.encode()


def _load(task: Task, progress: Callable[[int], None]) -> Trace | TableDocument:
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


def _reason(task: Task, message: str) -> str:
    """Without the name that the line begins with already."""
    for name in (task.location, task.location.rpartition("/")[2], task.name.rpartition("/")[2]):
        message = message.removeprefix(f"{name}: ")
    return " ".join(message.split())
