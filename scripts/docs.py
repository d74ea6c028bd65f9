"""Write the generated documentation: parts of pages (cog), the schemas, and the list of the rules.

python scripts/docs.py            write
python scripts/docs.py --check    fail if something is not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

from cogapp import Cog

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts import schemas
from traceanalyzer.rules.engine.selection import builtin

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs"
SCHEMAS = {
    "report": schemas.report,
    "difference": schemas.difference,
    "verification": schemas.verification,
    "brief": schemas.brief,
    "finding": schemas.finding,
    "capture": schemas.capture,
}
GENERATED = ("cli", "configuration", "first_report", "frameworks", "install", "metrics", "query")
PAGES = tuple(f"docs/{name}.md" for name in GENERATED)


def schema_files() -> dict[Path, str]:
    """The text of each published schema."""
    return {FOLDER / f"{name}.schema.json": text() for name, text in SCHEMAS.items()}


def rule_list() -> dict[Path, str]:
    """The text of the page that lists the rules and links to their pages."""
    links = {rule.id: f"[{rule.id}](../../traceanalyzer/rules/pages/{rule.id}.md)" for rule in builtin()}
    rows = [f"| {links[rule.id]} | {rule.title()} | {rule.severity} | {rule.confidence} |" for rule in builtin()]
    head = [
        "# Rules",
        "",
        "What traceanalyzer looks for. `traceanalyzer rules ID` prints a page; thresholds are set in `pyproject.toml`.",
        "Confidence: A is exact evidence, B is inferred from names and shapes, C is a heuristic.",
        "",
        "| Rule | Finding | Severity | Confidence |",
        "| :-- | :-- | :-- | :-- |",
    ]
    return {FOLDER / "rules" / "README.md": "\n".join([*head, *rows, ""])}


def stale(pages: dict[Path, str]) -> list[Path]:
    """The files that are missing or hold another text."""
    return sorted(path for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text)


def main() -> int:
    """Write the generated files, or check that they are up to date."""
    check = "--check" in sys.argv
    failed = bool(Cog().main(["cog", "--check" if check else "-r", *(str(ROOT / page) for page in PAGES)]))
    pages = schema_files() | rule_list()
    for path in stale(pages):
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date; run make format")
            failed = True
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages[path], "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
