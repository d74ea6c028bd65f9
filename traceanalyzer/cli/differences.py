"""Writes a difference to the screen and to files, in the formats for differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.cli import delivery
from traceanalyzer.cli.delivery import Target
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import difference as formats
from traceanalyzer.formats.language import Language
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
        delivery.deliver_texts(
            wanted,
            lambda form: formats.render(found, form, self.top, self.language),
            lambda stream: formats.show(found, stream, self.top, self.language),
            force=self.force,
            quiet=self.quiet,
        )
