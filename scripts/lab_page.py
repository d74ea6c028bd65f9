"""Write docs/lab.md from the results of the lab; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.lab import keeping, page, results
from examples.lab.score import score
from traceanalyzer.knowledge.profiler_overhead import overheads

PAGE = Path(__file__).parents[1] / "docs" / "lab.md"
RUNS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def text() -> str:
    """The expected text of the page."""
    runs = {}
    for name in RUNS:
        run = results.read(results.FOLDER / f"{name}.json")
        runs[name] = (run, score(run, keeping.KEPT.get(name)))
    return page.render(runs, overheads())


def main() -> int:
    """Write or check the page; returns 1 if the check finds a difference."""
    if "--check" not in sys.argv:
        PAGE.write_text(text(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text():
        return 0
    print("docs/lab.md is not up to date; run: python scripts/lab_page.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
