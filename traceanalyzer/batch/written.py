"""Reports as files of the folder."""

from __future__ import annotations

import threading

from traceanalyzer import renderers
from traceanalyzer.batch import names
from traceanalyzer.batch.record import Output
from traceanalyzer.batch.request import Options
from traceanalyzer.batch.storage import Folder
from traceanalyzer.renderers import language
from traceanalyzer.report.model import Report

_rendering = threading.Lock()
"""Workers of a cluster may be threads; libraries that draw are not made for them."""


def write(folder: Folder, name: str, report: Report, options: Options) -> tuple[Output, ...]:
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


def _write(folder: Folder, name: str, report: Report, form: str, options: Options) -> Output:
    with _rendering:
        text = renderers.render(report, form, options.top, language.of(options.language))
    path = names.report_name(name, renderers.FORMATS[form][0])
    folder.write(path, text)
    return Output(form, path, len(text.encode("utf-8", "replace")))
