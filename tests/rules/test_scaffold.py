"""`scripts/new_rule.py` starts rules that work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import new_rule

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A copy of the project with a rule that was just started and registered."""
    for folder in ("traceanalyzer", "tests", "scripts", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "locales"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, text in new_rule.files("slow-thing", "Something is slow", "0.1").items():
        (tmp_path / path).write_text(text)
    registry = tmp_path / "traceanalyzer" / "rules" / "__init__.py"
    registry.write_text(registry.read_text().replace("MODULES = (", 'MODULES = (\n    "slow_thing",'))
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
