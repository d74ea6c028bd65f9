"""Build the documentation as a site with search, into build/site: no page loads anything from another server.

The pages are those of the repository, at the same paths, so every link works in both. The four parts and the order of
the pages are those of docs/README.md.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
RULES = Path("traceanalyzer/rules/pages")
PAGES = (
    "*.md",
    "docs/**/*",
    f"{RULES.as_posix()}/*.md",
    "benchmarks/README.md",
    "examples/rule_package/README.md",
    "fixtures/README.md",
    "fixtures/key_averages/README.md",
    "tests/builders/README.md",
    f"{RULES.parent.as_posix()}/engine/README.md",
)
FOLDED = {"docs/rules/README.md": RULES, "docs/metrics.md": Path("docs/metrics")}
"""Pages that lead a folder in the contents, and the folder."""

_GENERATED = re.compile(r"<!-- \[\[\[.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)
_TABLE_ROW = re.compile(r"^\| \[(.+?)\]\((.+?)\) \|", re.MULTILINE)


def sources() -> list[Path]:
    """The files of the site, relative to the repository."""
    files = {file.relative_to(ROOT) for pattern in PAGES for file in ROOT.glob(pattern) if file.is_file()}
    return sorted(files)


def copied(folder: Path) -> None:
    """Copy the files of the site; pages become what the site needs."""
    files = sources()
    known = {*files, *(parent for file in files for parent in file.parents)}
    for file in files:
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(page(file, (ROOT / file).read_text("utf-8"), known), "utf-8")
        else:
            shutil.copyfile(ROOT / file, target)


def page(file: Path, text: str, known: set[Path]) -> str:
    """A page without marks of generated parts and without links to what is no part of the site."""
    if file.parent == RULES:
        text = _rule(text)
    pieces = _FENCED.split(_GENERATED.sub("", text))
    return "".join(
        piece if number % 2 else _LINK.sub(lambda link: _kept(link, file, known), piece)
        for number, piece in enumerate(pieces)
    )


def _rule(text: str) -> str:
    """The page of a rule for readers: its facts in a sentence, without the texts that translators need."""
    facts = dict(re.findall(r"^([\w-]+): (.+)$", text.split("---\n")[1], re.MULTILINE))
    shown = text.split("---\n", 2)[2].partition("\n## Texts\n")[0]
    name, body = shown.strip().removeprefix("# ").split("\n", 1)
    kinds = facts["tags"].strip("[]")
    line = f"Rule `{name}`. Severity: {facts['severity']}. Confidence: {facts['confidence']}. About: {kinds}."
    return f"# {_findings()[name]}\n\n{line} [All rules](../../../docs/rules/README.md).\n{body}\n"


@cache
def _findings() -> dict[str, str]:
    """The title of each rule's findings."""
    rules = (ROOT / "docs" / "rules" / "README.md").read_text("utf-8")
    return dict(re.findall(r"^\| \[([\w-]+)\]\(.+?\) \| (.+?) \|", rules, re.MULTILINE))


def _kept(link: re.Match[str], file: Path, known: set[Path]) -> str:
    address = link[3].partition("#")[0]
    if not address or re.match(r"[a-z]+:", address):
        return link[0]
    target = Path(os.path.normpath(file.parent / address))
    return link[0] if target in known and target.suffix else link[2]


def contents() -> list[Any]:
    """The contents of the site, from the tables of docs/README.md."""
    parts = re.split(r"^## (.+)$", (ROOT / "docs" / "README.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    found: list[Any] = [{"Home": "README.md"}]
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        rows = ((name, Path(os.path.normpath(Path("docs") / path))) for name, path in _TABLE_ROW.findall(text))
        found.append({title: [_entry(name, path.as_posix()) for name, path in rows if path != Path("README.md")]})
    return [*found, {"Русский": "README.ru.md"}, {"中文": "README.zh.md"}]


def _entry(name: str, path: str) -> dict[str, Any]:
    folder = FOLDED.get(path)
    if folder is None:
        return {name: path}
    names = _findings() if folder == RULES else sorted(file.stem for file in (ROOT / folder).glob("*.md"))
    return {name: [path, *(f"{folder.as_posix()}/{below}.md" for below in names)]}


def settings(pages: Path, site: Path) -> dict[str, Any]:
    """What mkdocs needs to know."""
    from pymdownx.slugs import slugify  # noqa: PLC0415 - development only, and slow

    modes = {"light": "default", "dark": "slate"}
    return {
        "site_name": "traceanalyzer",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "use_directory_urls": False,  # pages open from a disk, too
        "nav": contents(),
        "theme": {
            "name": "material",
            "font": False,  # the reader's own, from no server
            "features": ["navigation.indexes", "navigation.tabs", "search.highlight", "content.code.copy"],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {mode})",
                    "scheme": scheme,
                    "toggle": {"icon": "material/theme-light-dark", "name": "Change between light and dark"},
                }
                for mode, scheme in modes.items()
            ],
        },
        "extra": {"generator": False},
        "plugins": ["search"],
        "markdown_extensions": [
            "tables",
            "sane_lists",
            {"toc": {"slugify": slugify(case="lower"), "permalink": True}},
            "pymdownx.superfences",
        ],
        "validation": {
            "links": {"anchors": "warn", "unrecognized_links": "warn", "absolute_links": "warn"},
            "nav": {"omitted_files": "ignore"},
        },
    }


def build(folder: Path) -> Iterator[str]:
    """Build the site below a folder; yields what is wrong with it."""
    from mkdocs.commands.build import build as mkdocs_build  # noqa: PLC0415 - development only
    from mkdocs.config import load_config  # noqa: PLC0415

    pages, site = folder / "site-pages", folder / "site"
    for old in (pages, site):
        shutil.rmtree(old, ignore_errors=True)
    copied(pages)
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("mkdocs").addHandler(handler)
    config = pages.parent / "mkdocs.yml"
    config.write_text("{}", "utf-8")
    mkdocs_build(load_config(config_file=str(config), **settings(pages, site)))
    yield from said
    yield from loaded(site)


def loaded(site: Path) -> Iterator[str]:
    """What pages and styles of the site would load from another server."""
    tags = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^\s"'>]+"""
        r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon)[^>]*\bhref=["']?(?:https?:)?//[^\s"'>]+"""
        r"""|url\(["']?(?:https?:)?//[^)]+|@import[^;]+//[^;]+"""
    )
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in tags.findall(file.read_text("utf-8")):
            yield f"{file.relative_to(site)} loads from another server: {found}"


def main() -> int:
    """Build the site; returns 1 if something is wrong with it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=BUILD, help="folder in which site/ is written")
    problems = list(build(parser.parse_args().into))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
