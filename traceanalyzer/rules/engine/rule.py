"""Defines rules: an id of a problem, the texts about it, its thresholds, and how to detect it.

The texts, thresholds and links of the rules of this package are in their pages, `pages/<id>.md`. All that a detection
takes and makes can be imported from here.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.report.selection import PeakSaving
from traceanalyzer.rules.engine.change import StepChange
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.structure.events import EventSet

__all__ = ["CodePlace", "Draft", "Drafts", "EventSet", "Evidence", "Facts", "Limits", "Missing", "OfEvents", "Rule"]
__all__ += ["RulePage", "Threshold", "page", "pages"]

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

_COMPILED = Path(__file__).parents[1] / "pages.json"
"""The pages as hatch_build.py compiles them."""
_SOURCES = Path(__file__).parents[1] / "pages"
"""The pages as people write them; only a checkout has them."""


class Threshold(msgspec.Struct, frozen=True):
    """A limit that decides whether there is a finding, and that a project can override."""

    key: str
    default: int | float
    unit: str
    """Unit as in `report.units`; shares are fractions."""
    meaning: str
    source: str
    """Source of the number; "own choice, because ..." is allowed."""


class OfEvents(msgspec.Struct, frozen=True):
    """The time of the events that a change is about, as a quantity of a text, so that it is that of their place.

    Where nothing of them is in a typical step, as in a table, it is the time that the rule worked out.
    """

    ns_per_step: float
    """What the rule worked out."""
    is_share: bool = False
    """Whether the text has it as a share of the step."""

    def recorded(self, ns_per_step: float | None, step_ns: float) -> float:
        """The quantity, if the events take this long in a typical step; None: they are in none."""
        time = self.ns_per_step if ns_per_step is None else ns_per_step
        if not self.is_share:
            return time
        return time / step_ns if step_ns else 0.0


class Draft(msgspec.Struct, frozen=True):
    """A finding before its saving is limited by the other resources."""

    evidence: tuple[Evidence, ...]
    """Measured values that crossed a threshold, at least one, the deciding one first."""
    change: StepChange | None = None
    """The time that following the advice removes; None for a risk, or if the time is unknown."""
    params: Mapping[str, Any] = {}
    """Quantities that fill the rule's texts; a text among them is filled with the others, and `OfEvents` with the time
    that was recorded."""
    severity: str | None = None
    """Severity of a finding without a saving; else the saving decides."""
    ceiling: str | None = None
    """Most severe level that it can have, where the saving is a loose bound; what is saved at least may lift it."""
    confidence: str | None = None
    """Confidence of this finding, if it differs from the rule's."""
    title: Text | None = None
    """Text of this finding, if it differs from the rule's; so for the next three."""
    summary: Text | None = None
    advice: Text | None = None
    code: str | None = None
    """Code of this finding, if it differs from the rule's; empty: none."""
    peak: PeakSaving | None = None
    """What following the advice saves of a device's memory."""
    part: EventSet | None = None
    """Idle time that it is about without claiming it. Of a sum (`Rule.sums_up_idle`) its largest part: the sum is left
    out where another finding is about that."""
    is_of_machine: bool = False
    """Whether it is about the machine that the program ran on: what can be changed in the program comes before it."""
    is_of_recording: bool = False
    """Whether it is about the recording, of which the others say little until there is another one: it comes first."""


Limits = Mapping[str, float]
"""Thresholds of a rule by key, as a project wants them."""
Drafts = Iterator[Draft]
"""What a detection yields."""
Detector = Callable[[Facts, Limits], Iterable[Draft]]
"""Makes drafts from facts and thresholds; raises `facts.Missing` if the facts are not enough to judge."""


class Rule(msgspec.Struct, frozen=True):
    """One rule.

    `trace` judges a trace, `table` a run of a table document, `log` a compile log without a trace, `dumps` those of
    flight recorders, and `snapshot` one of the memory. None where the rule does not apply.
    """

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
    action: Text | None = None
    """What to do in a few words, where a finding has the advice above; None if that depends on the finding."""
    actions: Mapping[str, Text] = {}
    """The same by the id of the advice, for findings with other advice."""
    cause: Text | None = None
    """What a finding is about, as a noun that a headline can name, filled as the summary; None if none should."""
    causes: Mapping[str, Text] = {}
    """The same by the id of the summary, for findings with another summary."""
    code: str | None = None
    """A line of code to begin with; empty if there is none."""
    code_before: str | None = None
    """What this line of code replaces; None if that is unknown."""
    links: tuple[str, ...] = ()
    """Addresses of official documentation."""
    trace: Detector | None = None
    table: Detector | None = None
    log: Detector | None = None
    dumps: Detector | None = None
    snapshot: Detector | None = None
    no_trace: Message | None = None
    """The reason why a trace cannot be judged; needed if `trace`, `dumps` and `snapshot` are None."""
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


class RulePage(msgspec.Struct, frozen=True):
    """What the page of a rule says: its texts, and fields of its `Rule`, which are explained there."""

    id: str
    severity: str
    confidence: str
    tags: tuple[str, ...]
    since: str
    thresholds: tuple[Threshold, ...]
    links: tuple[str, ...]
    texts: dict[str, Text]
    """Texts by the part of their id after that of the rule."""
    written: str
    code: str | None = None
    code_before: str | None = None
    stage: str = "stable"
    part_of: tuple[str, ...] = ()
    is_rest: bool = False
    sums_up_idle: bool = False

    def text(self, key: str) -> Text:
        """The text with this key."""
        return self.texts[key]

    def evidence(
        self,
        limits: Limits,
        key: str,
        value: float,
        where: tuple[CodePlace, ...] = (),
        *,
        subject: Message | None = None,
    ) -> Evidence:
        """A measured value that crossed a threshold of the page.

        Args:
            limits: The thresholds, as a project wants them.
            key: The name of the threshold that decided.
            value: What was measured, in the unit of the threshold.
            where: Where it was seen, the most important place first.
            subject: What was measured; by default the text `subject` of the page.
        """
        unit = next(threshold.unit for threshold in self.thresholds if threshold.key == key)
        return Evidence(subject or self.text("subject")(), value, limits[key], unit, where)

    def rule(
        self,
        trace: Detector | None = None,
        table: Detector | None = None,
        log: Detector | None = None,
        dumps: Detector | None = None,
        snapshot: Detector | None = None,
    ) -> Rule:
        """The rule of this page with these detectors; the texts no-trace and no-table say why one is missing."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != "texts"}
        actions, causes = self._named("action-"), self._named("cause-")
        return Rule(
            title=self.text("title"),
            summary=self.text("summary"),
            advice=self.text("advice"),
            not_when=self.text("not-when"),
            action=self.texts.get("action"),
            cause=self.texts.get("cause"),
            actions={self.text(f"advice-{name}").id: text for name, text in actions.items()},
            causes={self.text(f"summary-{name}").id: text for name, text in causes.items()},
            trace=trace,
            table=table,
            log=log,
            dumps=dumps,
            snapshot=snapshot,
            no_trace=self._reason("no-trace"),
            no_table=self._reason("no-table"),
            **own,
        )

    def _named(self, start: str) -> dict[str, Text]:
        """The texts whose key starts so, by the rest of it."""
        return {key.removeprefix(start): text for key, text in self.texts.items() if key.startswith(start)}

    def _reason(self, key: str) -> Message | None:
        return self.texts[key]() if key in self.texts else None


class _Pages(msgspec.Struct, frozen=True):
    checksum: int
    """Of the sources, one after the other."""
    pages: tuple[RulePage, ...]


def page(ident: str) -> RulePage:
    """The page of a rule of this package."""
    return pages()[ident]


def of_whole_run(ident: str, summary: Text) -> Text:
    """What a rule says of a whole run, in which nothing is per step, where its page has such a text."""
    known = pages().get(ident)
    return known.texts.get(f"{summary.id.removeprefix(f'{ident}-')}-run", summary) if known else summary


@cache
def pages() -> dict[str, RulePage]:
    """All pages by the id of the rule, in the order of the documentation.

    Raises:
        TraceAnalyzerError: In a checkout, the pages were not compiled since they changed.
    """
    try:
        compiled = msgspec.json.decode(_COMPILED.read_bytes(), type=_Pages)
        is_current = not _SOURCES.is_dir() or compiled.checksum == _checksum(_SOURCES)
    except (FileNotFoundError, msgspec.MsgspecError):
        is_current = False
    if not is_current:
        raise TraceAnalyzerError(f"{_COMPILED} is missing or older than the pages of rules: run python hatch_build.py")
    return {entry.id: entry for entry in compiled.pages}


def _checksum(folder: Path) -> int:
    checksum = 0
    for file in sorted(folder.glob("*.md")):
        checksum = zlib.crc32(file.read_bytes(), checksum)
    return checksum
