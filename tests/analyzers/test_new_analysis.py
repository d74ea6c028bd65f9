"""`scripts/new_analysis.py` starts analyses that work; how many files are left to edit by hand."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import new_analysis

ROOT = Path(__file__).parents[2]
SUBJECTS = sorted(path.parent.name for path in (ROOT / "traceanalyzer" / "analyzers").glob("*/__init__.py"))
FOLDERS = ("traceanalyzer", "tests", "scripts", "docs", "fixtures/synthetic", "report_templates")
QUESTION = "Which things are slow?"
BY_HAND = {
    "traceanalyzer/analyzers/kernels/slow_things.py",
    "traceanalyzer/sections/kernels.py",
    "tests/analyzers/kernels/test_slow_things.py",
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with an analysis that was just started."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, copy)
    run = _run(copy, "scripts/new_analysis.py", "kernels", "slow_things", QUESTION)
    assert run.returncode == 0, run.stdout
    return copy


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def _changed(copy: Path) -> set[str]:
    """The files of the copy that are new, or have another content than in the checkout."""
    paths = (path for folder in FOLDERS for path in (copy / folder).rglob("*") if path.is_file())
    names = (path.relative_to(copy).as_posix() for path in paths if "__pycache__" not in path.parts)
    return {name for name in names if _content(ROOT / name) != _content(copy / name)}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def test_three_files_and_a_page_are_edited_by_hand(started: Path) -> None:
    written = _changed(started)
    assert {name for name in written if "TODO" in (started / name).read_text("utf-8")} == BY_HAND
    assert written - BY_HAND == {"traceanalyzer/sections/__init__.py"}  # by the script
    without = _run(started, "scripts/docs.py")
    assert without.returncode != 0
    assert "no page says what `analyses.slow_things` means" in without.stdout + without.stderr
    page = started / "docs" / "metrics" / "slow_things.md"
    page.write_text("# Slow things\n\nIn the JSON: `analyses.slow_things`.\n", "utf-8")
    run = _run(started, "scripts/docs.py")
    assert run.returncode == 0, run.stdout + run.stderr
    generated = {"docs/metrics.md", "docs/report.schema.json"}
    assert _changed(started) - written == {"docs/metrics/slow_things.md", *generated}
    for name in generated:
        assert QUESTION in (started / name).read_text("utf-8")


def test_a_started_analysis_passes_its_own_tests(started: Path) -> None:
    test = "tests/analyzers/kernels/test_slow_things.py"
    run = _run(started, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", test)
    assert run.returncode == 0, run.stdout
    assert "3 passed" in run.stdout


def test_a_started_section_is_in_reports(started: Path) -> None:
    trace = started / "fixtures" / "synthetic" / "gpu_training.json.gz"
    run = _run(started, "-m", "traceanalyzer", "report", str(trace), "-o", str(started / "report.html"))
    assert run.returncode == 0, run.stderr
    assert "what the figures mean, for those who read no documentation" in (started / "report.html").read_text("utf-8")


def test_an_analysis_for_rules_alone_passes_its_own_tests(started: Path) -> None:
    before = _changed(started)
    run = _run(started, "scripts/new_analysis.py", "--no-section", "kernels", "odd_things", "Which things are odd?")
    assert run.returncode == 0, run.stdout
    test = "tests/analyzers/kernels/test_odd_things.py"
    assert _changed(started) - before == {"traceanalyzer/analyzers/kernels/odd_things.py", test}
    run = _run(started, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", test)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_section_is_a_part_of_the_sections_of_its_subject(subject: str) -> None:
    files = new_analysis.files(subject, "slow_things", QUESTION, 1)
    assert len(files) == 3
    sections = ROOT / "traceanalyzer" / "sections" / f"{subject}.py"
    before = sections.read_text("utf-8") if sections.exists() else ""
    after = files[sections.relative_to(ROOT).as_posix()]
    assert set(before.splitlines()) <= set(after.splitlines())
    tree = ast.parse(after)
    builder = tree.body[-1]
    assert isinstance(builder, ast.FunctionDef)
    assert builder.name == "build_slow_things"
    bound = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(new_analysis.NEEDED) | {"SlowThings"} <= bound


def test_an_analysis_never_replaces_a_file(started: Path) -> None:
    run = _run(started, "scripts/new_analysis.py", "kernels", "slow_things", QUESTION)
    assert (run.returncode, "exists" in run.stdout) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [("nothing", "slow_things", QUESTION), ("kernels", "Slow-Things", QUESTION), ("kernels", "slow", "no question")],
)
def test_refuses_what_is_no_subject_no_name_and_no_question(started: Path, arguments: tuple[str, ...]) -> None:
    assert _run(started, "scripts/new_analysis.py", *arguments).returncode == 2


def test_orders_are_free() -> None:
    from traceanalyzer import analyzers  # noqa: PLC0415 - as the script does

    orders = [one.order for one in analyzers.ANALYSES]
    assert len(set(orders)) == len(orders)
    assert new_analysis.free_order("kernels") not in orders


def test_a_list_of_sections_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no list of sections"):
        new_analysis.registered("SECTIONS = ()\n", "kernels", "slow_things")
