"""Writes reports on the traces for which experts wrote expectations, and compares both, if there is a corpus.

TRACEANALYZER_CORPUS names a folder with `corpus/`, `field/` (traces), `documents/` (printed tables), `expected/` (two
sets of expectations) and `tools/advice.py`, which compares them with reports and documents what an expectation says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.model import Report

OUT = Path(__file__).resolve().parent.parent / "build"
SETS = ("advice", "advice-field")
FOLDERS = ("corpus", "documents")
COMPRESSED = (".gz", ".json", ".txt")


def main() -> int:
    """Write the reports and run the comparisons; returns the exit code of those that must pass."""
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    tool = Path(folder or ".", "tools", "advice.py")
    if not folder or not tool.is_file():
        print("advice: TRACEANALYZER_CORPUS names no folder with tools/advice.py; nothing to compare", file=sys.stderr)
        return 2
    code = 0
    for name in SETS:
        found = compared(Path(folder), name)
        print(f"{name}\n\n{found.stdout}", flush=True)
        sys.stderr.write(found.stderr)
        code = max(code, found.returncode)
    return code


def report_of(path: Path) -> Report:
    """The report on a file."""
    return ta.analyze(ta.load(path))


def compared(
    folder: Path, name: str = SETS[0], report: Callable[[Path], Report] = report_of
) -> subprocess.CompletedProcess[str]:
    """Write the report on every input with an expectation, compare, and return the output of the tool.

    Args:
        folder: The folder with `corpus/`, `field/`, `documents/`, `expected/` and `tools/`.
        name: The set of expectations.
        report: Makes the report on a file; tests have made most before.
    """
    tool, expected, reports = folder / "tools" / "advice.py", folder / "expected" / name, OUT / name
    reports.mkdir(parents=True, exist_ok=True)
    for wanted in sorted(expected.glob("*.toml")):
        _write(wanted, folder, reports / f"{wanted.stem}.json", report)
    command = [sys.executable, str(tool), "--all", str(reports), str(expected)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _write(wanted: Path, folder: Path, target: Path, report: Callable[[Path], Report]) -> None:
    """Write one report; remove that of an earlier run if its inputs do not exist or cannot be read."""
    target.unlink(missing_ok=True)
    expectation = tomllib.loads(wanted.read_text("utf-8"))
    files = _inputs(wanted.stem, expectation.get("inputs"), folder)
    try:
        if files and expectation.get("command") == "ranks":
            target.write_text(ta.render(ta.ranks(files), "json"), "utf-8")
        elif files:
            target.write_text(ta.render(report(files[0]), "json"), "utf-8")
    except TraceAnalyzerError as error:
        print(f"advice: {error}", file=sys.stderr)


def _inputs(name: str, pattern: str | None, folder: Path) -> list[Path]:
    """The files that an expectation is of: those of its pattern, else the one with its name."""
    if pattern is not None:
        return sorted((folder / "field").glob(pattern))
    files = [path for part in FOLDERS for path in sorted(Path(folder, part).iterdir()) if path.is_file()]
    return [path for path in files if _name(path) == name][:1]


def _name(path: Path) -> str:
    """Name of a file without the suffixes of its format."""
    name = path.name
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return name


if __name__ == "__main__":
    sys.exit(main())
