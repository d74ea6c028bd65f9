"""The report on a trace: plain data that every format is made of, and a contract with its readers.

    model               Report: headlines, findings, results by key, warnings, skipped
    difference          what changed between two measurements
    gate                what --fail-on-regression judged, and by which noise
    verification        what became of findings after a change
    brief               a report in brief, and one finding of it
    compared            what a comparison shows of each side besides figures
    section             what a report shows, apart from its layout
    message             translatable texts: id, raw quantities, English
    units               quantities as people read them
    whole_trace         the words of texts about a trace without steps
    names               makes names from traces safe to show
    selection           what findings are about: events of devices or threads, idle time
    warnings            losses while reading, doubts about the figures
    warnings_of_ranks   doubts about a comparison of ranks
    warnings_of_tables  those of printed tables

Results are typed where they were computed and become JSON only when a report is written. The report is below the
analyzers and must not know their types, so `Report.analyses` is a mapping of any results. `Report.result(key, type)`
names the type where it is used, of a computed and of a saved report alike. Sections and formats see nothing else, and
commands take saved reports as well as traces. A field changes its meaning only with `SCHEMA_VERSION`; a reader of
another version says so instead of guessing. Unknown values that a later version may add (a cause, a unit, a state) are
shown unchanged. `scripts/schemas.py` generates the schemas in `docs/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_RENDERERS: list[Callable[[Any, str], str]] = []


def show_with(render: Callable[[Any, str], str]) -> None:
    """Set how a notebook shows reports: formats are made of reports, so that reports cannot import them.

    Args:
        render: From a report and the name of a format to text.
    """
    _RENDERERS[:] = [render]


def rendered(report: Any, form: str) -> str | None:
    """A report in a format, for a notebook; None if nothing that renders reports is loaded."""
    return _RENDERERS[0](report, form) if _RENDERERS else None
