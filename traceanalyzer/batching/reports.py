"""Reports as files of the folder."""

from __future__ import annotations

import threading

from traceanalyzer import renderers
from traceanalyzer.batching.record import Output
from traceanalyzer.batching.request import ReportOptions
from traceanalyzer.inputs import file_names
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.renderers import language
from traceanalyzer.report.model import Report

_rendering = threading.Lock()
"""Workers of a cluster may be threads; libraries that draw are not made for them."""


def write(folder: Folder, name: str, report: Report, options: ReportOptions) -> tuple[Output, ...]:
    """Write a report in all formats that were asked for.

    Args:
        folder: Of the reports.
        name: What the report is of: a file, or a run.
        report: The report.
        options: Formats and language.

    Raises:
        OutputError: A file cannot be written, or is somebody else's.
    """
    return tuple(_write(folder, name, report, form, options) for form in options.formats)


def _write(folder: Folder, name: str, report: Report, form: str, options: ReportOptions) -> Output:
    with _rendering:
        text = renderers.render(report, form, options.top, language.of(options.language))
    path = file_names.report_name(name, renderers.FORMATS[form][0])
    folder.write(path, text)
    return Output(form, path, len(text.encode("utf-8", "replace")))
