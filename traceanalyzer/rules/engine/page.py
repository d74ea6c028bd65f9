"""The pages of the rules, `pages/<id>.md`: their texts, thresholds and links, from which rules are made."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import msgspec

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.rule import Detector, Rule, Threshold

_COMPILED = Path(__file__).parents[1] / "pages.json"
"""The pages as hatch_build.py compiles them."""
_SOURCES = Path(__file__).parents[1] / "pages"
"""The pages as people write them; only a checkout has them."""


class RulePage(msgspec.Struct, frozen=True):
    """What the page of a rule says; fields that a `Rule` has, too, are explained there."""

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
    stage: str = "stable"
    part_of: tuple[str, ...] = ()
    is_rest: bool = False
    sums_up_idle: bool = False

    def text(self, key: str) -> Text:
        """The text with this key."""
        return self.texts[key]

    def rule(self, trace: Detector | None = None, table: Detector | None = None) -> Rule:
        """The rule of this page with these detectors; the texts no-trace and no-table say why one is missing."""
        return Rule(
            id=self.id,
            title=self.text("title"),
            summary=self.text("summary"),
            advice=self.text("advice"),
            not_when=self.text("not-when"),
            severity=self.severity,
            confidence=self.confidence,
            tags=self.tags,
            since=self.since,
            thresholds=self.thresholds,
            code=self.code,
            links=self.links,
            trace=trace,
            table=table,
            no_trace=self._reason("no-trace"),
            no_table=self._reason("no-table"),
            stage=self.stage,
            part_of=self.part_of,
            is_rest=self.is_rest,
            sums_up_idle=self.sums_up_idle,
            written=self.written,
        )

    def _reason(self, key: str) -> Message | None:
        return self.texts[key]() if key in self.texts else None


class _Pages(msgspec.Struct, frozen=True):
    checksum: int
    """Of the sources, one after the other."""
    pages: tuple[RulePage, ...]


def page(ident: str) -> RulePage:
    """The page of a rule of this package."""
    return pages()[ident]


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
