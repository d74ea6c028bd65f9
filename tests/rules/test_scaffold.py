"""`scripts/new_rule.py` starts rules that work."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import compile_pages
from scripts import new_rule
from traceanalyzer.rules import SUBJECTS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A copy of the project with a rule that was just started, and its page compiled."""
    for folder in ("traceanalyzer", "tests", "scripts", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "locales"))
    for file in ("pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / file, tmp_path)
    command = [sys.executable, "scripts/new_rule.py", "steps", "slow-thing", "Something is slow"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    rules = tmp_path / "traceanalyzer" / "rules"
    compile_pages(sorted((rules / "pages").glob("*.md")), rules / "pages.json")
    return tmp_path


def test_a_started_rule_passes_the_registry_and_its_own_tests(started: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "tests/rules"]
    command += ["-k", "slow_thing or slow-thing"]
    run = subprocess.run(command, cwd=started, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout
    assert "passed" in run.stdout


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_rule_is_a_page_a_test_and_a_part_of_the_code_of_its_subject(subject: str) -> None:
    started = new_rule.files(subject, "slow-thing", "Something is slow", "0.1")
    assert len(started) == 3
    (code,) = (path for path in started if (ROOT / path).exists())
    assert Path("traceanalyzer", "rules", subject) in (Path(code).with_suffix(""), Path(code).parent)
    before, after = ((ROOT / code).read_text("utf-8"), started[code])
    assert {line for line in before.splitlines() if line.strip()} - {*after.splitlines()} <= {before.splitlines()[-1]}
    assert isinstance(ast.parse(after).body[-1], ast.Assign)


@pytest.mark.parametrize(("subject", "ident"), [("steps", "Slow_Thing"), ("nothing", "slow-thing")])
def test_refuses_a_name_that_is_no_id_and_a_subject_that_does_not_exist(subject: str, ident: str) -> None:
    command = [sys.executable, "scripts/new_rule.py", subject, ident, "x"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
