"""Documentation as a site: every page is there, links lead somewhere, search works, nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from scripts import site
from traceanalyzer.rules.engine.selection import builtin

ROOT = Path(__file__).parents[1]
_BROKEN = """
import sys
from pathlib import Path
from scripts import site
real = site.page
site.page = lambda file, text, known: real(file, text, known) + (
    "\\n[a](docs/ci.md) [b](docs/nowhere.md#x) [c](docs/ci.md#nowhere)\\n" if file.name == "README.ru.md" else ""
)
site._LINK = site.re.compile("(?!)")
site.sources = lambda: [Path("README.ru.md"), Path("docs/ci.md")]
site.contents = lambda: ["README.ru.md", "docs/ci.md"]
print(*site.build(Path(sys.argv[1])), sep="\\n")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the site."""
    if find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: pip install --group site")
    folder = tmp_path_factory.mktemp("site")
    run = _python("scripts/site.py", "--into", folder)
    assert (run.returncode, run.stderr) == (0, "")
    return folder / "site"


def _python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_site_has_every_page(built: Path) -> None:
    metrics = {f"docs/metrics/{page.stem}.html" for page in (ROOT / "docs" / "metrics").glob("*.md")}
    rules = {f"traceanalyzer/rules/pages/{rule.id}.html" for rule in builtin()}
    samples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "samples").rglob("*.html")}
    assert samples
    there = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}
    assert metrics | rules | samples | {"index.html", "README.ru.html", "README.zh.html", "docs/cli.html"} <= there


def test_the_contents_have_four_parts_and_every_page_of_the_documentation(built: Path) -> None:
    page = (built / "docs" / "cli.html").read_text("utf-8")
    tabs = re.findall(r'<a href="[^"]*" class="md-tabs__link">\s*(.+?)\s*<', page)
    assert tabs == ["Home", "Start", "How to", "Reference", "Explanation", "Русский", "中文"]
    listed = json.dumps(site.contents())
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name in {"README.md", "translating.md"} or f'"docs/{path.name}"' in listed, path.name


def test_a_page_of_a_rule_is_for_readers(built: Path) -> None:
    text = (built / "traceanalyzer/rules/pages/h2d-pageable.html").read_text("utf-8")
    assert "Copies to the GPU come from pageable memory</h1>" in re.sub(r"<a [^>]*headerlink.*?</a>", "", text)
    assert "Severity: low to medium. Confidence: A." in text
    assert "advice-own" not in text


def test_generated_parts_leave_no_program_in_a_page(built: Path) -> None:
    assert "exit codes" in (built / "docs/cli.html").read_text("utf-8").lower()
    for page in ("docs/cli.html", "docs/metrics.html", "docs/first_report.html"):
        assert "cog.outl" not in (built / page).read_text("utf-8"), page


def test_search_knows_rules_and_metrics(built: Path) -> None:
    index = json.loads((built / "search" / "search_index.json").read_text("utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"traceanalyzer/rules/pages/h2d-pageable.html", "docs/metrics/loader.html"} <= places


def test_a_link_that_leads_nowhere_is_a_problem(built: Path, tmp_path: Path) -> None:
    assert built.exists()
    said = _python("-c", _BROKEN, tmp_path).stdout
    assert "docs/nowhere.md" in said
    assert "'docs/ci.md#nowhere'" in said
    assert "'docs/ci.md'," not in said


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://elsewhere/x.js">',
        "<script defer src=//elsewhere/x.js>",
        '<link rel="stylesheet" href="https://elsewhere/x.css">',
        '<img alt="" src="http://elsewhere/x.png">',
        "<style>body { background: url(https://elsewhere/x.png) }</style>",
    ],
)
def test_what_comes_from_another_server_is_a_problem(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f'<a href="https://elsewhere/">a link is none</a>{text}', "utf-8")
    (problem,) = site.loaded(tmp_path)
    assert problem.startswith("page.html loads from another server: ")
