"""Writes reports on the traces for which experts wrote expectations, and compares both, if there is a corpus.

TRACEANALYZER_CORPUS names a folder with `corpus/` (traces), `documents/` (printed tables), `expected/advice/` (one
expectation for each) and `tools/advice.py`, which compares them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.errors import TraceAnalyzerError

OUT = Path(__file__).resolve().parent.parent / "build" / "advice"
FOLDERS = ("corpus", "documents")
COMPRESSED = (".gz", ".json", ".txt")


def main() -> int:
    """Write the reports and run the comparison; returns the exit code of the comparison."""
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    tool = Path(folder or ".", "tools", "advice.py")
    if not folder or not tool.is_file():
        print("advice: TRACEANALYZER_CORPUS names no folder with tools/advice.py; nothing to compare", file=sys.stderr)
        return 2
    found = compared(Path(folder))
    sys.stdout.write(found.stdout)
    sys.stderr.write(found.stderr)
    return found.returncode


def compared(folder: Path) -> subprocess.CompletedProcess[str]:
    """Write the report on every input with an expectation, compare, and return the output of the tool.

    Args:
        folder: The folder with `corpus/`, `documents/`, `expected/advice/` and `tools/`.
    """
    tool, expected = folder / "tools" / "advice.py", folder / "expected" / "advice"
    files = {_name(path): path for part in FOLDERS for path in sorted(Path(folder, part).iterdir()) if path.is_file()}
    OUT.mkdir(parents=True, exist_ok=True)
    for wanted in sorted(expected.glob("*.toml")):
        _write(files.get(wanted.stem), OUT / f"{wanted.stem}.json")
    command = [sys.executable, str(tool), "--all", str(OUT), str(expected)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _name(path: Path) -> str:
    """Name of a file without the suffixes of its format."""
    name = path.name
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return name


def _write(source: Path | None, target: Path) -> None:
    """Write one report; remove that of an earlier run if the file does not exist or cannot be read."""
    target.unlink(missing_ok=True)
    if source is None:
        return
    try:
        target.write_text(ta.render(ta.analyze(ta.load(source)), "json"), "utf-8")
    except TraceAnalyzerError as error:
        print(f"advice: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
