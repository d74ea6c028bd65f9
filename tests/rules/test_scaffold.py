"""`scripts/new_rule.py` starts rules that work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import compile_pages
from scripts import new_rule

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A copy of the project with a rule that was just started, and its page compiled."""
    for folder in ("traceanalyzer", "tests", "scripts", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "locales"))
    for file in ("pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / file, tmp_path)
    for path, text in new_rule.files("slow-thing", "Something is slow", "0.1").items():
        (tmp_path / path).write_text(text)
    rules = tmp_path / "traceanalyzer" / "rules"
    compile_pages(sorted((rules / "pages").glob("*.md")), rules / "pages.json")
    return tmp_path


def test_a_started_rule_passes_the_registry_and_its_own_tests(started: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "tests/rules", "-k", "slow"]
    run = subprocess.run(command, cwd=started, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout
    assert "passed" in run.stdout


def test_refuses_a_name_that_is_no_id() -> None:
    run = subprocess.run(
        [sys.executable, "scripts/new_rule.py", "Slow_Thing", "x"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
