"""Writes the generated documentation: parts of pages (cog), the schemas, and the pages of the rules.

python scripts/docs.py            write
python scripts/docs.py --check    fail if something is not up to date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import schemas
from cogapp import Cog

from traceanalyzer.report import units
from traceanalyzer.rules.rule import Rule
from traceanalyzer.rules.selection import builtin

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = {"report": schemas.report, "difference": schemas.difference, "capture": schemas.capture}
PAGES = ("README.md", "docs/metrics.md", "docs/configuration.md")


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
    pages = {ROOT / "docs" / f"{name}.schema.json": text() for name, text in SCHEMAS.items()} | rule_pages()
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
