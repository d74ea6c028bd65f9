"""Writes reports as files in the output folder."""

from __future__ import annotations

import threading

from traceanalyzer import formats
from traceanalyzer.batching.record import Output
from traceanalyzer.batching.request import ReportOptions
from traceanalyzer.formats import language
from traceanalyzer.inputs import file_names
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.report.model import Report

_rendering = threading.Lock()
"""Allows one rendering at a time: workers of a cluster may be threads, and drawing libraries are not thread-safe."""


def write(folder: Folder, name: str, report: Report, options: ReportOptions) -> tuple[Output, ...]:
    """Write a report in every requested format.

    Args:
        folder: Folder of the reports.
        name: Name of the file or run.
        report: The report.
        options: Formats and language.

    Raises:
        OutputError: A file cannot be written, or another program wrote it.
    """
    return tuple(_write(folder, name, report, form, options) for form in options.formats)


def _write(folder: Folder, name: str, report: Report, form: str, options: ReportOptions) -> Output:
    with _rendering:
        text = formats.render(report, form, options.top, language.of(options.language))
    path = file_names.report_name(name, formats.FORMATS[form][0])
    folder.write(path, text)
    return Output(form, path, len(text.encode("utf-8", "replace")))
