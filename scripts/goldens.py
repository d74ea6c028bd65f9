"""Write the goldens: a small report and a difference in every text format; `--check` only compares.

They are in `tests/golden/`. Users see every change in them: read the diff line by line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec

from traceanalyzer.comparison import diff
from traceanalyzer.formats import FORMATS, render, spreadsheet
from traceanalyzer.formats import difference as difference_formats
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Generator, Report

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "golden"
FIXTURES = ROOT / "fixtures" / "synthetic"
REPORTED = "gpu_step_annotations.json"
"""Three steps on a GPU with one finding: small enough to be read completely."""
COMPARED = ("gpu_training.json.gz", "gpu_training_fed.json.gz")
"""A training before and after its loader got more workers."""

_NO_VERSION = Generator("traceanalyzer", "0.0.0")
"""Written in place of the program's version, so that a release changes no golden."""
_SUFFIXES = {"terminal": "txt", "markdown": "md"}
_ASSETS = re.compile(r"(<(style|script)\b[^>]*>).*?(</\2>)", re.DOTALL)
_HASHES = re.compile(r"sha256-[\w+/]+=*")


def goldens() -> dict[str, str]:
    """The text of every golden, by its path relative to the folder."""
    found = {f"report/{path}": text for path, text in _of_report(_report()).items()}
    return found | {f"difference/{path}": text for path, text in _of_difference(_difference()).items()}


def without_assets(page: str) -> str:
    """An HTML page without the content of scripts and styles, and the hashes that allow them."""
    return _HASHES.sub("sha256-...", _ASSETS.sub(r"\1...\3", page))


def differences(expected: dict[str, str]) -> list[str]:
    """The files that are missing, different or superfluous in the folder."""
    files = {path.relative_to(FOLDER).as_posix(): path for path in sorted(FOLDER.rglob("*.*"))}
    found = [f"missing: {name}" for name in expected if name not in files]
    found += [f"unknown: {name}" for name in files if name not in expected]
    return found + [
        f"differs: {name}"
        for name, path in files.items()
        if name in expected and path.read_bytes() != expected[name].encode()
    ]


def main() -> int:
    """Write the goldens, or check them; returns 1 if the check finds a difference."""
    expected = goldens()
    problems = differences(expected)
    if "--check" in sys.argv:
        for problem in problems:
            print(f"tests/golden: {problem}; run python scripts/goldens.py and read what changed")
        return 1 if problems else 0
    for problem in problems:
        kind, _, name = problem.partition(": ")
        path = FOLDER / name
        if kind == "unknown":
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(expected[name].encode())
    print(f"{len(expected)} goldens, {len(problems)} of them written or removed")
    return 0


def _report() -> Report:
    return msgspec.structs.replace(analyze(load(FIXTURES / REPORTED)), generator=_NO_VERSION)


def _difference() -> Difference:
    base, head = (FIXTURES / name for name in COMPARED)
    return msgspec.structs.replace(diff(base, head), generator=_NO_VERSION)


def _of_report(report: Report) -> dict[str, str]:
    found = {f"report.{_SUFFIXES.get(form, form)}": render(report, form) for form in FORMATS}
    found["report.html"] = without_assets(found["report.html"])
    tables = spreadsheet.csv_files(report)
    return found | {f"csv/{name}": text for name, text in tables.items()}


def _of_difference(difference: Difference) -> dict[str, str]:
    found = {
        f"difference.{_SUFFIXES.get(form, form)}": difference_formats.answer(difference).render(form)
        for form in difference_formats.FORMATS
    }
    return found | {"difference.html": without_assets(found["difference.html"])}


if __name__ == "__main__":
    sys.exit(main())
