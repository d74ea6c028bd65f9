"""Every trace of the corpus and every fixture opens without a word on the console, and axe-core is content."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import corpus_files
from tests.browser.opened import Opened
from tests.formats.html.advised import advised
from tests.formats.samples import EVERY, FIXTURES, report_of
from traceanalyzer.formats import html
from traceanalyzer.formats.html.cells import stages
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.model import Report

pytestmark = pytest.mark.browser

FULL = os.environ.get("TRACEANALYZER_FULL") == "1"
SOME = EVERY if FULL else EVERY[::8]
"""Fixtures that are opened; each takes seconds, and the damaged ones look alike."""

PHONE = {"width": 390, "height": 844}
CHECKED = (
    "gpu_training.json.gz",
    "cpu_only.json",
    "ddp_nccl.json.gz",
    "modules_and_stacks.json.gz",
    "transformer_memory.json.gz",
    "truncated_in_event.json",
)
"""Fixtures that together have every section; the others have no other elements."""


def small(report: Report) -> str:
    """A page with the same elements and fewer rows, because axe-core takes long for each row."""
    return html.assemble(report, ENGLISH, stages(2)[-1])


def check_layout(shown: Opened) -> None:
    """Nothing is wider than the window, on a screen or a phone, folded or not."""
    shown.unfold()
    assert shown.find("h1").count() == 1
    assert shown.overflow() == 0
    shown.page.set_viewport_size(PHONE)
    assert shown.overflow() == 0


def check_access(shown: Opened, axe: str) -> None:
    """Light with all rules, dark with those that depend on colours, and with all where there is time."""
    shown.unfold()
    assert shown.violations(axe) == []
    shown.page.emulate_media(color_scheme="dark")
    assert shown.violations(axe, *(() if FULL else ("color-contrast", "link-in-text-block"))) == []


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_every_fixture_opens_quietly(path: Path, looked_at: Callable[[str], Opened]) -> None:
    check_layout(looked_at(html.render(report_of(path), 20)))


@pytest.mark.parametrize("name", CHECKED if FULL else CHECKED[::2])
def test_fixtures_are_accessible(name: str, looked_at: Callable[[str], Opened], axe: str) -> None:
    report = report_of(next(path for path in EVERY if path.name == name))
    check_access(looked_at(small(advised(report))), axe)


@pytest.mark.parametrize(
    "path",
    [*sorted((FIXTURES / "key_averages").glob("t*.txt")), FIXTURES / "key_averages" / "article.md"],
    ids=lambda p: p.name,
)
def test_documents_open_quietly(path: Path, looked_at: Callable[[str], Opened]) -> None:
    check_layout(looked_at(corpus_files.page_of(path)))


def test_a_document_with_runs_is_accessible(looked_at: Callable[[str], Opened], axe: str) -> None:
    check_access(looked_at(small(report_of(FIXTURES / "key_averages" / "article.md"))), axe)


@pytest.mark.corpus
@pytest.mark.some
def test_every_trace_of_the_corpus(
    corpus: Path, corpus_name: str, looked_at: Callable[[str], Opened], axe: str
) -> None:
    path = corpus / "corpus" / f"{corpus_name}.json.gz"
    check_layout(looked_at(corpus_files.page_of(path)))
    if FULL or zlib.crc32(corpus_name.encode()) % 8 == 0:  # axe-core takes half a minute for some
        check_access(looked_at(small(corpus_files.report_of(path))), axe)
