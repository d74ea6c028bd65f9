"""Docstrings are long enough: the check of `make lint`, and proof that it finds short ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_docstrings import problems

ROOT = Path(__file__).parents[1]
CHECK = [sys.executable, "scripts/check_docstrings.py"]
SOUND = '''"""A module that has four words."""

LIMIT = 3
"""Most rows shown."""


class Row:
    """One row of a table."""

    name: str
    """Name of the row."""

    def __init__(self) -> None:
        self.seen = 0
        """Rows read so far."""

    def total(self) -> int:
        """Return the sum of all cells."""
        return self._sum()
'''


def test_the_code_keeps_to_it() -> None:
    run = subprocess.run(CHECK, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_make_lint_runs_it() -> None:
    assert "scripts/check_docstrings.py" in (ROOT / "Makefile").read_text("utf-8")


def test_sound_code_passes() -> None:
    assert list(problems(SOUND)) == []


@pytest.mark.parametrize(
    ("whole", "short"),
    [
        ("A module that has four words.", "The answer."),
        ("Most rows shown.", "Own choice."),
        ("One row of a table.", "One table row."),
        ("Name of the row.", "The name."),
        ("Rows read so far.", "Rows."),
        ("Return the sum of all cells.", "See `Progress`."),
    ],
)
def test_a_short_docstring_is_noticed(whole: str, short: str) -> None:
    assert SOUND.count(whole) == 1
    [(line, problem)] = problems(SOUND.replace(whole, short))
    assert line == SOUND[: SOUND.index(whole)].count("\n") + 1
    assert short in problem


def test_a_planted_one_fails_the_run(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text('"""As before."""\n', "utf-8")
    run = subprocess.run([*CHECK, str(planted)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f'{planted}:1: "As before." says too little' in run.stdout
