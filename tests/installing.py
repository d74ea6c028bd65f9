"""Building wheels and running programs of fresh environments, without a network and without the checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (
    "traceanalyzer",
    "report_templates",
    "hatch_build.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
)
"""What the build of the package needs."""

_IN_CHECKOUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def run(
    command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run without anything in the environment that leads back to the checkout."""
    clean = {key: value for key, value in os.environ.items() if key not in _IN_CHECKOUT}
    return subprocess.run(command, cwd=cwd, env=clean | dict(env or {}), capture_output=True, text=True, check=False)


def checked(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a program that must not fail, and return its output."""
    done = run(command, cwd, env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(project: Path, sources: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Path:
    """The wheel of a project, built from a copy of it."""
    build(copied(project, sources, folder / "sources"), "wheel", folder, env)
    (built,) = folder.glob("*.whl")
    return built


def build(project: Path, kind: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Build a "wheel" or "sdist" into a folder, with the backend that is installed, else with one that pip fetches."""
    has_backend = importlib.util.find_spec("hatchling") is not None
    isolation = ["--no-isolation"] if has_backend else []
    done = run([sys.executable, "-m", "build", f"--{kind}", *isolation, "--outdir", folder, project], folder, env)
    if done.returncode and not has_backend:
        pytest.skip("hatchling is not installed and cannot be fetched: pip install hatchling")
    assert done.returncode == 0, done.stdout + done.stderr


def copied(project: Path, sources: Sequence[str], folder: Path) -> Path:
    """A copy, so that nothing is written into the checkout and nothing else can slip into the wheel."""
    for name in sources:
        for source in sorted([project / name, *(project / name).rglob("*")]):
            if source.is_file() and "__pycache__" not in source.parts:
                target = folder / source.relative_to(project)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
    return folder


def programs_with(wheel: Path, folder: Path) -> Path:
    """The programs of a fresh environment with a wheel in it; dependencies are lent from this one."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check"]
    checked([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], folder)
    site = checked([programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder)
    # A folder that a .pth file names is searched after the environment's own, and its .pth files are not read:
    # the editable install of the checkout stays out of sight.
    lent = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    Path(site.strip(), "lent.pth").write_text("\n".join(lent), "utf-8")
    return programs
