"""The documentation is true: generated parts are up to date, links lead somewhere, named files exist."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from scripts import docs, house, new_rule
from traceanalyzer.pipeline import ANALYSES
from traceanalyzer.rules import SUBJECTS
from traceanalyzer.rules.engine import change, event_times, rule
from traceanalyzer.rules.engine.selection import builtin

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "traceanalyzer/rules/pages/*.md",
        "benchmarks/*.md",
        "skills/**/*.md",
        "fixtures/README.md",
        "tests/builders/README.md",
        "traceanalyzer/rules/engine/README.md",
    )
    for page in ROOT.glob(pattern)
)
READMES = ("README.md", "README.ru.md", "README.zh.md")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
FILE = re.compile(r"[\w.]+(/[\w.]+)+/?|\w[\w.]*\.(py|md|toml|json)")
"""A path, or the name of a file; no mere suffix."""
PROJECT = {"traceanalyzer", "tests", "scripts", "examples", "benchmarks", "fixtures", "docs", "skills"}
"""Folders of the project, with which the paths in pages begin."""
EXAMPLES = {"report.json", "report.md", "trace.json", "trace.json.gz"}
"""Files that only users have."""
_PARSER = MarkdownIt("commonmark").enable("table")


# Generated parts


def test_generated_parts_are_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, "scripts/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, f"run: make format\n{run.stdout}{run.stderr}"


def test_a_stale_page_would_be_noticed(tmp_path: Path) -> None:
    """The check on a copy with one changed word."""
    fixtures = [f"fixtures/synthetic/gpu_training{suffix}.json.gz" for suffix in ("", "_fed")]
    schemas = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.schema.json")]
    for name in ("scripts/docs.py", "scripts/schemas.py", *schemas, *fixtures):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    for page in PAGES:
        target = tmp_path / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.read_text("utf-8").replace("Waiting for data: ", "Waited for data: "), "utf-8")
    run = subprocess.run(
        [sys.executable, "scripts/docs.py", "--check"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "first_report.md" in run.stdout
    assert "schema.json is not up to date" not in run.stdout


def test_a_stale_schema_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in docs.SCHEMAS:
        (tmp_path / f"{name}.schema.json").write_text((ROOT / "docs" / f"{name}.schema.json").read_text("utf-8"))
    monkeypatch.setattr(docs, "FOLDER", tmp_path)
    assert docs.stale(docs.schema_files()) == []
    for name in docs.SCHEMAS:
        path = tmp_path / f"{name}.schema.json"
        path.write_text(path.read_text("utf-8").replace("in ns", "in seconds", 1), "utf-8")
    assert docs.stale(docs.schema_files()) == sorted(docs.schema_files())


def test_the_help_in_the_documentation_can_be_read() -> None:
    assert "\\b" not in (ROOT / "docs" / "cli.md").read_text("utf-8")


# Links


def links(page: Path) -> Iterator[str]:
    for block in _PARSER.parse(page.read_text("utf-8")):
        for token in block.children or []:
            if token.type == "link_open":
                yield str(token.attrs["href"])


def anchors(page: Path) -> set[str]:
    """Names that GitHub gives to the headings of a page."""
    blocks = _PARSER.parse(page.read_text("utf-8"))
    titles = [after.content for block, after in pairwise(blocks) if block.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


@each_page
def test_links_lead_to_files_that_exist(page: Path) -> None:
    assert_they_lead_somewhere(page, links(page))


def assert_they_lead_somewhere(page: Path, found: Iterable[str]) -> None:
    """Links to the web are not followed; a page may have none at all."""
    for link in found:
        if re.match(r"https?://|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


def test_there_are_links_to_check() -> None:
    found = set(links(ROOT / "README.md"))
    assert {"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/cli.md"} <= found
    assert "report.schema.json" in set(links(ROOT / "docs" / "README.md"))


@each_page
def test_every_page_has_one_title(page: Path) -> None:
    titles = [block for block in _PARSER.parse(page.read_text("utf-8")) if block.tag == "h1" and block.nesting == 1]
    assert len(titles) == 1


# What the texts name


def marked(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


PACKAGES = (
    *(path.parent.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("traceanalyzer/*/__init__.py"))),
    "traceanalyzer/capture/agent",
    "traceanalyzer/readers/kineto",
    "traceanalyzer/rules/engine",
)
"""Packages whose docstrings list their modules."""


def docstring(package: str) -> str:
    tree = ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))
    return ast.get_docstring(tree, clean=False) or ""


def listed(text: str) -> set[str]:
    """The modules that a docstring describes, one in a line."""
    return set(re.findall(r"^    (\w+)  +\S", text, re.MULTILINE))


def places(folder: Path) -> set[str]:
    """The names of the modules and packages of a folder, without suffixes."""
    names = (path for path in folder.iterdir() if path.suffix in ("", ".py", ".md"))
    return {path.stem for path in names if not path.name.startswith(("_", "README"))}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_its_modules_are(package: str) -> None:
    text, there = docstring(package), places(ROOT / package)
    if package == "traceanalyzer/rules":  # whose subjects are data
        there -= {*SUBJECTS, "pages"}
    assert listed(text) <= there
    assert there <= listed(text) | {*marked(text)}


@pytest.mark.parametrize("package", PACKAGES)
def test_files_that_a_package_names_exist(package: str) -> None:
    homes = (ROOT / package, ROOT / "traceanalyzer", ROOT)
    named = filter(FILE.fullmatch, marked(docstring(package)))
    assert [word for word in named if not any((home / word).exists() for home in homes)] == []


def test_a_package_that_forgets_a_module_would_be_noticed() -> None:
    assert listed("Reads.\n\n    one   the first\n    two   the second, `three`\n\nProse\n") == {"one", "two"}
    assert len(PACKAGES) >= 19


def test_the_page_about_rules_has_the_rule_that_the_script_writes() -> None:
    page = (ROOT / "traceanalyzer" / "rules" / "engine" / "README.md").read_text("utf-8")
    written = new_rule.DETECTION.format(constant="SLOW_THING", module="slow_thing", id="slow-thing")
    assert written.strip() in page
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {name for names in new_rule.NEEDED.values() for name in names} <= named
    assert named <= {*rule.__all__, *vars(change), *vars(event_times)}


def test_the_architecture_names_every_package_and_module() -> None:
    named = set(re.findall(r"\w+", ARCHITECTURE))
    assert places(ROOT / "traceanalyzer") - {"py"} <= named


def test_the_architecture_is_short() -> None:
    lines = ARCHITECTURE.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120] == []


def grid() -> dict[str, set[str]]:
    """The subjects of each row of ARCHITECTURE's grid that has some."""
    words = re.search(r"^    analyzers/ (.*)\n {20,}(.*)$", ARCHITECTURE, re.MULTILINE)
    assert words
    subjects = {*words[1].split(), *words[2].split()}
    others = re.findall(r"^    (\S+)/ +all subjects but (.*)$", ARCHITECTURE, re.MULTILINE)
    return {"analyzers": subjects, **{row: subjects - {*but.split()} for row, but in others}}


def test_a_subject_has_one_name_in_all_rows() -> None:
    rows = grid()
    assert list(rows) == ["analyzers", "rules", "sections", "docs/metrics"]
    package, subjects = ROOT / "traceanalyzer", rows["analyzers"]
    assert places(package / "analyzers") == subjects
    assert places(package / "rules") == rows["rules"] | {"engine", "pages"}
    assert places(package / "sections") & subjects == rows["sections"]
    assert places(ROOT / "docs" / "metrics") & subjects == rows["docs/metrics"]
    tests = {path.name for row in ("analyzers", "rules") for path in (ROOT / "tests" / row).iterdir() if path.is_dir()}
    assert tests - {"__pycache__", "expected", "raw"} <= subjects


def test_what_is_no_subject_is_named() -> None:
    """Sections and pages about more than one subject."""
    subjects = grid()["analyzers"]
    assert places(ROOT / "traceanalyzer" / "sections") - subjects == listed(docstring("traceanalyzer/sections"))
    assert places(ROOT / "docs" / "metrics") - subjects == {"critical_path", "recording", "savings"}


def test_the_edges_between_subjects_are_listed() -> None:
    assert set(re.findall(r"\b(\w+) -> (\w+)[,:]", ARCHITECTURE)) == house.edges()


@pytest.mark.parametrize(
    "name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md", "traceanalyzer/rules/engine/README.md"]
)
def test_files_that_are_named_exist(name: str) -> None:
    page = ROOT / name
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    homes = (ROOT, page.parent, ROOT / "docs", ROOT / "traceanalyzer", ROOT / "traceanalyzer" / "readers" / "kineto")
    words = list(filter(FILE.fullmatch, marked(text)))
    assert words
    for word in words:
        assert word in EXAMPLES or any((home / word).exists() for home in homes), word


@each_page
def test_paths_of_the_project_that_a_page_names_exist(page: Path) -> None:
    paths = filter(FILE.fullmatch, marked(page.read_text("utf-8")))
    missing = [path for path in paths if path.split("/")[0] in PROJECT and not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", [*READMES, "CONTRIBUTING.md"])
def test_make_targets_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([a-z-]+)(?=`|\s+#|\s*$)", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("name", READMES)
def test_a_readme_is_short_and_built_like_the_english_one(name: str) -> None:
    def shape(text: str) -> list[str]:
        """Levels of headings, languages of code, rows of tables, addresses."""
        return re.findall(r"^(#+ |```\w*|\|(?=-|.)|\[\w+\]: \S+)", text, re.MULTILINE)

    texts = {page: (ROOT / page).read_text("utf-8") for page in READMES}
    assert len(texts[name].splitlines()) <= 150
    assert shape(texts[name]) == shape(texts["README.md"])
    assert set(links(ROOT / name)) - {*READMES} == set(links(ROOT / "README.md")) - {*READMES}
    assert [page for page in READMES if page != name] == [page for page in READMES if f"]({page})" in texts[name]]


def test_the_readme_counts_the_rules() -> None:
    (count,) = re.findall(r"more than (\d+) rules", (ROOT / "README.md").read_text("utf-8"))
    assert int(count) < len(builtin()) <= int(count) + 20


def test_the_readme_names_the_python_that_is_needed() -> None:
    needed = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert needed
    assert f"Python {needed[1]} or newer" in (ROOT / "README.md").read_text("utf-8")


def test_every_analysis_is_in_the_schema_and_its_module_asks_a_question() -> None:
    schema = (ROOT / "docs" / "report.schema.json").read_text("utf-8")
    for analyzer in ANALYSES:
        assert f'"{analyzer.key}": {{' in schema
        module = importlib.import_module(analyzer.result.__module__)
        assert "?" in (module.__doc__ or "").splitlines()[0], module.__name__
