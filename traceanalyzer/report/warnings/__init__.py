"""Warnings of a report: losses while reading, and doubts about the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import ReportWarning
from traceanalyzer.report.warnings.doubts import DOUBTS
from traceanalyzer.report.warnings.losses import LOSSES

TEXTS = (*LOSSES, *DOUBTS)
"""The text of every warning."""
_BY_ID = {text.id: text for text in TEXTS}

STEP_REASONS = {
    "earlier-work": Text(
        "step-reason-earlier-work", "work from before the recording", note="why a step is unlike others"
    ),
    "recording-end": Text("step-reason-recording-end", "the end of the recording", note="why a step is unlike others"),
    "loading": Text("step-reason-loading", "loading or compilation of code", note="why a step is unlike others"),
    "allocation": Text("step-reason-allocation", "allocation of memory", note="why a step is unlike others"),
    "loader": Text("step-reason-loader", "a long wait for the DataLoader", note="why a step is unlike others"),
    "other-phase": Text(
        "step-reason-other-phase", "another phase than most steps", note="why a step is unlike others; prefill, decode"
    ),
    "unknown": Text("step-reason-unknown", "an unknown cause", note="why a step is unlike others"),
}
"""Texts for the reasons of the analysis `recording` why a step is not typical."""


def warning(id: str, count: int, params: Mapping[str, Any]) -> ReportWarning:  # noqa: A002 - the contract's word
    """The warning with an id, filled in with the facts."""
    if "reasons" in params:
        params = {**params, "reasons": tuple(STEP_REASONS[reason]() for reason in params["reasons"])}
    return ReportWarning(id, count, _BY_ID[id](count=count, **params))
