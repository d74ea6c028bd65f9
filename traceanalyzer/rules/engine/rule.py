"""Defines rules: an id of a problem, the texts about it, its thresholds, and how to detect it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts

HEADINGS = (
    "What it detects",
    "Why it matters",
    "What to do",
    "How the saving is estimated",
    "When it is wrong",
    "References",
)
"""Headings of the page of a rule, as it is printed."""

STAGES = ("preview", "stable", "deprecated")
"""Life of a rule: tried, trusted, and replaced by another one."""


@dataclass(frozen=True)
class Threshold:
    """A limit that decides whether there is a finding, and that a project can override."""

    key: str
    default: int | float
    unit: str
    """Unit as in `report.units`; shares are fractions."""
    meaning: str
    source: str
    """Source of the number; "own choice, because ..." is allowed."""


@dataclass(frozen=True)
class Draft:
    """A finding before its saving is limited by the other resources."""

    evidence: tuple[Evidence, ...]
    """Measured values that crossed a threshold, at least one, the deciding one first."""
    change: TimeSaved | None = None
    """The time that following the advice removes; None for a risk, or if the time is unknown."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Quantities that fill the rule's texts."""
    severity: str | None = None
    """Severity of a finding without a saving; else the saving decides."""
    ceiling: str | None = None
    """Most severe level that it can have, where the saving is a loose bound."""
    confidence: str | None = None
    """Confidence of this finding, if it differs from the rule's."""
    summary: Text | None = None
    """Text of this finding, if it differs from the rule's; so for the next two."""
    advice: Text | None = None
    code: str | None = None
    """Code of this finding, if it differs from the rule's; empty: none."""


Detector = Callable[[Facts, Mapping[str, float]], Iterable[Draft]]
"""Makes drafts from facts and thresholds; raises `facts.Missing` if the facts are not enough to judge."""


@dataclass(frozen=True)
class Rule:
    """One rule. `trace` judges a trace, `table` a run of a table document; None where the rule does not apply."""

    id: str
    """The name of its file with hyphens: a noun for the bad state."""
    title: Text
    summary: Text
    """The observation, with its numbers."""
    advice: Text
    """What to change, in the words of a colleague."""
    not_when: Text
    """When the advice does not apply."""
    severity: str
    """Range of severities for the documentation, such as `low to critical`."""
    confidence: str
    """`A`: exact evidence, `B`: inferred from names and shapes, `C`: a heuristic."""
    tags: tuple[str, ...]
    """`input`, `host`, `gpu`, `memory`, `communication`, `precision`, `inference`, `training`."""
    since: str
    """Version of this package that had the rule first."""
    thresholds: tuple[Threshold, ...] = ()
    code: str | None = None
    """A line of code to begin with; empty if there is none."""
    links: tuple[str, ...] = ()
    """Addresses of official documentation."""
    trace: Detector | None = None
    table: Detector | None = None
    no_trace: Message | None = None
    """The reason why a trace cannot be judged; needed if `trace` is None."""
    no_table: Message | None = None
    """Why a table cannot be judged; the missing timeline by default."""
    stage: str = "stable"
    """`preview`: never seen to be right on a recording, shown as such and ignored by `--fail-on`; `stable`;
    `deprecated`: runs only where it is selected by name, because another rule says the same better."""
    part_of: tuple[str, ...] = ()
    """Ids of rules that explain the same time better: a finding is left out where theirs claim most of its time."""
    is_rest: bool = False
    """Whether the rule is about time that no other rule explains, so that claims of others are subtracted from its
    saving."""
    sums_up_idle: bool = False
    """Whether it only sums up idle time of the device: left out where other findings explain most of that."""
    written: str | None = None
    """Page of the rule, as a docstring would have it; None for the docstring of the module of its detector."""

    @property
    def page(self) -> str:
        """Page of the rule, with the headings `HEADINGS`."""
        if self.written is not None:
            return self.written
        module = getattr(self.trace or self.table, "__module__", None)  # not every callable has one
        return "" if module is None else importlib.import_module(module).__doc__ or ""

    @property
    def defaults(self) -> dict[str, float]:
        """Default thresholds of the rule by key."""
        return {threshold.key: threshold.default for threshold in self.thresholds}
