"""Where a difference goes: the screen and files, in the formats that differences have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from traceanalyzer import output
from traceanalyzer.cli import one_line, standard_output
from traceanalyzer.cli.delivery import SCREEN, Target
from traceanalyzer.errors import UsageError
from traceanalyzer.renderers import difference as formats
from traceanalyzer.renderers.language import Language
from traceanalyzer.report.difference import Difference


def check(wanted: Sequence[Target]) -> None:
    """Refuse formats that only reports have.

    Raises:
        UsageError: One of them.
    """
    for target in wanted:
        if target.form not in formats.FORMATS:
            raise UsageError(f"{target.path}: a difference has no format {target.form}; use .md or .json")


@dataclass(frozen=True)
class DifferenceDelivery:
    """How a difference is written."""

    language: Language
    top: int | None = None
    force: bool = False
    quiet: bool = False

    def deliver(self, found: Difference, wanted: Sequence[Target]) -> None:
        """Write a difference to every target; `check` has passed them."""
        for target in wanted:
            if target.path == SCREEN:
                self._print(found, target.form)
                continue
            text = formats.render(found, target.form, self.top, self.language)
            output.write(Path(target.path), text, force=self.force)
            if not self.quiet:
                click.echo(f"Wrote {one_line(target.path)}", err=True)

    def _print(self, found: Difference, form: str) -> None:
        if form != "terminal":
            standard_output.put(formats.render(found, form, self.top, self.language))
            return
        with standard_output.guarded():
            formats.show(found, sys.stdout, self.top, self.language)
