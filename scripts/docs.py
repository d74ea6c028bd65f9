"""Write the generated documentation: parts of pages (cog), the schemas, and the pages of the rules.

python scripts/docs.py            write
python scripts/docs.py --check    fail if something is not up to date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from cogapp import Cog

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts import schemas
from traceanalyzer.report import units
from traceanalyzer.rules.engine.rule import Rule
from traceanalyzer.rules.engine.selection import builtin

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs"
SCHEMAS = {"report": schemas.report, "difference": schemas.difference, "capture": schemas.capture}
PAGES = ("README.md", "docs/metrics.md", "docs/configuration.md", "docs/frameworks.md")


def schema_files() -> dict[Path, str]:
    """The text of each published schema."""
    return {FOLDER / f"{name}.schema.json": text() for name, text in SCHEMAS.items()}


def rule_pages() -> dict[Path, str]:
    """The text of the page of every rule, and of the page that lists them."""
    folder = FOLDER / "rules"
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


def stale(pages: dict[Path, str]) -> list[Path]:
    """The files that are missing or hold another text."""
    return sorted(path for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text)


def main() -> int:
    """Write the generated files, or check that they are up to date."""
    check = "--check" in sys.argv
    failed = bool(Cog().main(["cog", "--check" if check else "-r", *(str(ROOT / page) for page in PAGES)]))
    pages = schema_files() | rule_pages()
    left = {path for path in (FOLDER / "rules").glob("*.md") if path not in pages}
    for path in stale(pages):
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date; run make format")
            failed = True
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages[path], "utf-8")
    for path in left:
        print(f"{path.relative_to(ROOT)} belongs to no rule; remove it")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
