"""Writes the generated documentation: parts of the README (cog) and the schema of the report.

python scripts/docs.py            write
python scripts/docs.py --check    fail if something is not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from cogapp import Cog

from traceanalyzer import analyzers
from traceanalyzer.analyzers import tables
from traceanalyzer.report.model import Report

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs" / "report.schema.json"
PAGES = ("README.md", "docs/metrics.md")


def schema() -> str:
    """JSON Schema of the report, with the result of every analyzer, of traces and of tables, under its key."""
    results = {a.key: a.result for a in analyzers.ANALYZERS} | tables.RESULTS
    (whole, *parts), components = msgspec.json.schema_components(
        [Report, *results.values()], ref_template="#/$defs/{name}"
    )
    keys = dict(zip(results, parts, strict=True))
    report = components[whole["$ref"].rsplit("/", 1)[1]]
    report["properties"]["analyses"] = {"type": "object", "properties": keys, "additionalProperties": False}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "traceanalyzer report",
        **whole,
        "$defs": dict(sorted(components.items())),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def main() -> int:
    """Write or check."""
    check = "--check" in sys.argv
    stale = Cog().main(["cog", "--check" if check else "-r", *(str(ROOT / page) for page in PAGES)])
    if check and (not SCHEMA.exists() or SCHEMA.read_text("utf-8") != schema()):
        print(f"{SCHEMA.relative_to(ROOT)} is not up to date; run make format")
        stale = 1
    if not check:
        SCHEMA.write_text(schema(), "utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
