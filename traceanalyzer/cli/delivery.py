"""Where a report goes: the screen, files, folders, in the formats that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from traceanalyzer import output, renderers
from traceanalyzer.cli import one_line, standard_output
from traceanalyzer.config import SEVERITIES
from traceanalyzer.errors import OutputError, UsageError
from traceanalyzer.renderers.language import Language
from traceanalyzer.report.model import Report

FOUND = 1
"""Exit code where a finding is as severe as `--fail-on` says."""

SCREEN = "-"

Texts = Mapping[str, Callable[[], str]]


@dataclass(frozen=True)
class Target:
    """A file, a folder (of CSV files) or `-`, and its format."""

    path: str
    form: str


@dataclass(frozen=True)
class Delivery:
    """How reports are written."""

    language: Language
    top: int | None = None
    force: bool = False
    quiet: bool = False

    def deliver(self, report: Report, wanted: Sequence[Target], texts: Texts) -> None:
        """Write a report to every target.

        Args:
            report: The report.
            wanted: Where to.
            texts: Formats that are no rendering of the report, and what makes their text.
        """
        for target in wanted:
            if target.path == SCREEN:
                self._print(report, target.form, texts)
                continue
            for path in self._write(report, target, texts):
                if not self.quiet:
                    click.echo(f"Wrote {one_line(str(path))}", err=True)

    def _print(self, report: Report, form: str, texts: Texts) -> None:
        if form in renderers.BINARY:
            raise UsageError(f"{form} cannot be printed; name a file with -o")
        if form == "terminal":
            from traceanalyzer.renderers import terminal  # noqa: PLC0415 - rich is slow to import

            with standard_output.guarded():
                terminal.show(report, sys.stdout, top=self.top, language=self.language)
        else:
            standard_output.put(self._text(report, form, texts))

    def _write(self, report: Report, target: Target, texts: Texts) -> list[Path]:
        path = Path(target.path)
        if target.form == "csv":
            return self._write_folder(report, path)
        if target.form == "xlsx":
            from traceanalyzer.renderers import spreadsheet  # noqa: PLC0415 - only for this format

            with output.writing(path, force=self.force) as file:
                file.write(spreadsheet.workbook(report, self.language))
            return [path]
        output.write(path, self._text(report, target.form, texts), force=self.force)
        return [path]

    def _write_folder(self, report: Report, folder: Path) -> list[Path]:
        from traceanalyzer.renderers import spreadsheet  # noqa: PLC0415 - only for this format

        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made: {error.strerror or error}") from None
        files = spreadsheet.csv_files(report, self.language)
        for name, text in files.items():
            output.write(folder / name, text, force=self.force)
        return [folder / name for name in files]

    def _text(self, report: Report, form: str, texts: Texts) -> str:
        return texts[form]() if form in texts else renderers.render(report, form, self.top, self.language)


def targets(outputs: Sequence[str], form: str | None, suffixes: dict[str, str] | None = None) -> list[Target]:
    """Where to write and in which format; the screen if nothing is said.

    Args:
        outputs: What `-o` says.
        form: What `--format` says.
        suffixes: Suffixes of formats that only one command has.

    Raises:
        UsageError: The format of an output is not known.
    """
    if not outputs:
        return [Target(SCREEN, form or "terminal")]
    if SCREEN in outputs and form is None:
        raise UsageError("-o - needs --format: standard output has no suffix")
    own = suffixes or {}
    return [Target(path, form or own.get(Path(path).suffix.lower()) or renderers.format_of(path)) for path in outputs]


def exit_if_found(report: Report, fail_on: str | None) -> None:
    """End with exit code 1 if a finding is as severe as wanted, or more."""
    if fail_on is None:
        return
    worst = SEVERITIES.index(fail_on)
    if any(SEVERITIES.index(finding.severity) >= worst for finding in report.findings):
        sys.exit(FOUND)
