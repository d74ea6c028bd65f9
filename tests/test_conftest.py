"""The fixture that looks for leaks finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEAKS = """
import locale, os

def test_folder(tmp_path):
    os.chdir(tmp_path)

def test_variable():
    os.environ["LEFT_BEHIND"] = "1"

def test_locale():
    other = {"C": "C.UTF-8"}.get(locale.setlocale(locale.LC_ALL), "C")
    locale.setlocale(locale.LC_ALL, other)

def test_clean(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEFT_BEHIND", "2")
"""


def test_leaks_are_found(tmp_path: Path) -> None:
    leaky = tmp_path / "test_leaky.py"
    leaky.write_text(LEAKS, encoding="utf-8")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    run = subprocess.run(
        [*command, "-c", os.devnull, str(leaky)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    errors = {line.split("::")[1].split()[0] for line in run.stdout.splitlines() if line.startswith("ERROR ")}
    assert errors == {"test_folder", "test_variable", "test_locale"}
    assert "4 passed, 3 errors" in run.stdout
