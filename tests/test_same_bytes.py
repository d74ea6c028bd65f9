"""The same input gives the same bytes: with other seeds of hashes, and in other versions of Python that are at hand.

What made the difference, `sum` of floats, is refused by types (`scripts/exact_sums.py`), wherever it stands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.batching.making import tree
from tests.cli.running import FIXTURES, PROGRAM, ROOT, environment
from tests.installing import SOURCES, build_wheel, checked, run

SYNTHETIC, CAPTURED, LAB = (FIXTURES / name for name in ("synthetic", "captured", "lab"))
FAULTS = SYNTHETIC / "planted_faults.json.gz"
COMMANDS = (
    ("batch", SYNTHETIC, "-o", "batch", "--format", "json", "--format", "html", "--format", "markdown", "--jobs", "1"),
    ("report", FAULTS, "-o", "faults.xlsx", "-o", "faults.sarif", "--card", "faults.svg"),
    ("export", FAULTS, "-o", "faults.collapsed", "-o", "faults.txt", "-o", "tracks/"),
    ("report", FAULTS, "-o", "tables", "--format", "csv"),
    ("report", CAPTURED / "transformer_memory.json.gz", "-o", "memory.json", "-o", "memory.html"),
    ("report", CAPTURED / "plain.key_averages.txt", "-o", "printed.json", "-o", "printed.md"),
    ("diff", LAB / "fp64.small.before.json.gz", LAB / "fp64.small.after.json.gz", "-o", "diff.json", "-o", "diff.html"),
    ("ranks", *sorted(LAB.glob("ddp-slow-rank.*small.before.json.gz")), "-o", "ranks.json", "-o", "ranks.html"),
    ("whatif", SYNTHETIC / "gpu_training.json.gz", "-o", "whatif.json", "-o", "whatif.md"),
)


def outputs(program: tuple[str | Path, ...], folder: Path, seed: int) -> dict[str, bytes]:
    """All that the commands write, but for what needs an extra."""
    folder.mkdir()
    for command in COMMANDS:
        done = subprocess.run(
            [*program, *command, "-q"],
            cwd=folder,
            env=environment() | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return {name: data for name, data in tree(folder).items() if not name.endswith(".parquet")}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What this Python writes."""
    return outputs(PROGRAM, tmp_path_factory.mktemp("here") / "out", 1)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return build_wheel(ROOT, SOURCES, tmp_path_factory.mktemp("wheel"))


def test_another_seed_of_hashes(here: dict[str, bytes], tmp_path: Path) -> None:
    assert different(here, outputs(PROGRAM, tmp_path / "out", 2)) == []


@cache
def others() -> dict[str, str]:
    """Other Pythons at hand by their versions: on the path, or where pyenv keeps them."""
    found = {}
    for python in _candidates():
        told = subprocess.run(
            [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        version = told.stdout.strip()
        if told.returncode == 0 and version != f"{sys.version_info.major}.{sys.version_info.minor}":
            found.setdefault(version, python)
    return found


def _candidates() -> Iterator[str]:
    for version in (11, 12, 13):
        kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
        yield from map(str, sorted(kept.glob(f"3.{version}.*/bin/python3.{version}")))
        if python := shutil.which(f"python3.{version}"):
            yield python


@pytest.mark.install
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_another_python(here: dict[str, bytes], wheel: Path, tmp_path: Path, version: str) -> None:
    if version not in others():
        pytest.skip(f"nothing to compare: Python {version} runs this test, or is not installed")
    environment_of, pins = tmp_path / "environment", tmp_path / "pins.txt"
    checked([others()[version], "-m", "venv", "--without-pip", environment_of], tmp_path)
    python = environment_of / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pins.write_text("".join(f"{one.name}=={one.version}\n" for one in distributions() if "-" not in one.name))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    done = run([*pip, "install", "--quiet", "--only-binary", ":all:", "-c", pins, wheel], tmp_path)
    if done.returncode:
        pytest.skip(f"nothing to compare: pip cannot install the same dependencies for Python {version}")
    assert different(here, outputs((python, "-P", "-m", "traceanalyzer"), tmp_path / "out", 3)) == []


def different(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Names of files that differ, or that only one has."""
    assert len(one) > 100
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
