"""Writes the generated documentation: parts of pages (cog), the schema of the report, and the pages of the rules.

python scripts/docs.py            write
python scripts/docs.py --check    fail if something is not up to date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import msgspec
from cogapp import Cog

from traceanalyzer import analyzers
from traceanalyzer.analyzers import tables
from traceanalyzer.report import units
from traceanalyzer.report.model import Report
from traceanalyzer.rules.rule import Rule
from traceanalyzer.rules.selection import builtin
from traceanalyzer.trace.capture_facts import CaptureFacts

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs" / "report.schema.json"
FACTS = ROOT / "docs" / "capture.schema.json"
PAGES = ("README.md", "docs/metrics.md", "docs/configuration.md")


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


def facts_schema() -> str:
    """JSON Schema of what a capture records inside the trace."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "traceanalyzer capture facts"}
    document = head | msgspec.json.schema(CaptureFacts)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def rule_pages() -> dict[Path, str]:
    """The documentation of every rule, and their list."""
    folder = ROOT / "docs" / "rules"
    rules = builtin()
    rows = [f"| [{rule.id}]({rule.id}.md) | {rule.title()} | {rule.severity} | {rule.confidence} |" for rule in rules]
    head = [
        "# Rules",
        "",
        "What traceanalyzer looks for. `traceanalyzer rules ID` prints a page; thresholds are set in `pyproject.toml`.",
        "Confidence: A is exact evidence, B is inferred from names and shapes, C is a heuristic.",
        "",
        "| Rule | Finding | Severity | Confidence |",
        "| :-- | :-- | :-- | :-- |",
    ]
    pages = {folder / "README.md": "\n".join([*head, *rows, ""])}
    return pages | {folder / f"{rule.id}.md": _rule_page(rule) for rule in rules}


def _rule_page(rule: Rule) -> str:
    first, _, rest = inspect.cleandoc(rule.page).partition("\n")
    lines = [f"# {rule.id}", "", first, ""]
    for line in rest.strip("\n").split("\n"):
        heading = re.fullmatch(r"([A-Z][\w ]+):", line)
        text = line.strip()
        lines += [f"## {heading[1]}", ""] if heading else [f"* <{text}>" if text.startswith("https://") else text]
    lines += ["", f"Severity {rule.severity}, confidence {rule.confidence}, since {rule.since}."]
    if rule.thresholds:
        lines += ["", "## Thresholds", "", "| Key | Default | Meaning | Source |", "| :-- | --: | :-- | :-- |"]
        lines += [
            f"| `{t.key}` | {units.render(t.default, t.unit)} | {t.meaning} | {t.source} |" for t in rule.thresholds
        ]
    return "\n".join([*lines, ""])


def main() -> int:
    """Write or check."""
    check = "--check" in sys.argv
    stale = Cog().main(["cog", "--check" if check else "-r", *(str(ROOT / page) for page in PAGES)])
    pages = {SCHEMA: schema(), FACTS: facts_schema()} | rule_pages()
    left = {path for path in (ROOT / "docs" / "rules").glob("*.md") if path not in pages}
    for path, text in pages.items():
        if check and (not path.exists() or path.read_text("utf-8") != text):
            print(f"{path.relative_to(ROOT)} is not up to date; run make format")
            stale = 1
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    for path in left:
        print(f"{path.relative_to(ROOT)} belongs to no rule; remove it")
    return 1 if stale or left else 0


if __name__ == "__main__":
    sys.exit(main())
