"""Size of pages, and how long a browser takes to open them: ``python -m benchmarks.pages``.

Prints a Markdown table: for each trace the bytes of its page, and the time from asking for it to the second frame after
it was loaded, the best of some runs. Needs Chromium and Playwright, as the tests of pages do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import traceanalyzer as ta
from benchmarks.compare import compile_package
from tests.browser.conftest import SWITCHES
from tests.browser.opened import WINDOW
from traceanalyzer.formats import render

if TYPE_CHECKING:
    from playwright.sync_api import Page

LARGEST_BYTES, LONGEST_MS = 1_500_000, 1_500.0
"""Targets: a page that is attached to a pull request, and that opens before somebody looks away."""
_OPEN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
"""Milliseconds from the start of navigation to the second frame after the page was loaded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with --check, return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="*", help="traces; if none, those of TRACEANALYZER_CORPUS")
    parser.add_argument("--runs", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - optional

    compile_package()
    missed = 0
    print("| trace | page, kB | opens in, ms |\n| :-- | --: | --: |")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(SWITCHES))
        page = Path(folder) / "page.html"
        for trace in options.traces or default_traces():
            page.write_text(render(ta.analyze(ta.load(trace)), "html"), "utf-8")
            tab = browser.new_page(viewport={"width": WINDOW["width"], "height": WINDOW["height"]})
            took = min(opened(tab, page) for _ in range(options.runs))
            tab.close()
            missed += page.stat().st_size > LARGEST_BYTES or took > LONGEST_MS
            print(f"| {trace.name} | {page.stat().st_size / 1000:.0f} | {took:.0f} |", flush=True)
    print(f"\n{missed} above {LARGEST_BYTES / 1000:.0f} kB or {LONGEST_MS:.0f} ms.")
    return int(options.check and missed > 0)


def default_traces() -> Iterator[Path]:
    """The traces of the corpus and of real runs; without them a fixture."""
    corpus = os.environ.get("TRACEANALYZER_CORPUS")
    folders = [Path(corpus) / name for name in ("corpus", "field")] if corpus else [Path("fixtures/captured")]
    for folder in folders:
        yield from sorted(folder.rglob("*.json.gz"))


def opened(tab: Page, page: Path) -> float:
    """Open a page; returns how long that takes in ms."""
    tab.goto(page.as_uri())
    return float(tab.evaluate(_OPEN))


if __name__ == "__main__":
    sys.exit(main())
