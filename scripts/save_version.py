"""Writes what this version saves: reports, differences, schemas and texts, into its folder in fixtures/saved.

Before a release: `python scripts/save_version.py`, then `python scripts/make_fixtures.py`. Later versions must read
and show these files, so a folder is never written again once its version is released.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import traceanalyzer as ta
from scripts.docs import SCHEMAS
from scripts.texts import collect
from tests.builders.saved import FOLDER, SavedFile, saved_files
from traceanalyzer._version import __version__
from traceanalyzer.formats import difference


def main() -> int:
    """Write the files of this version; returns 1 if none is known of it."""
    files = [file for file in saved_files() if file.version == __version__]
    for file in files:
        file.path.parent.mkdir(exist_ok=True)
        file.path.write_bytes(gzip.compress(content(file).encode(), mtime=0))
    print(f"Wrote {len(files)} files to {FOLDER / __version__}")
    return 0 if files else 1


def content(file: SavedFile) -> str:
    """What this version writes into a file."""
    kind, inputs = file.name.split(".")[-3], [FOLDER.parent / name for name in file.of]
    if kind == "schema":
        return SCHEMAS[file.name.partition(".")[0]]()
    if kind == "difference":
        return difference.answer(ta.diff(*inputs)).render("json")
    if kind == "report":
        report = ta.analyze(ta.load(inputs[0])) if len(inputs) == 1 else ta.ranks(inputs)
        return ta.render(report, "json")
    return (
        json.dumps({text.id: text.english for text in collect()}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
