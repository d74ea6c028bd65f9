"""The names that `import traceanalyzer` provides, and modules that it must not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import traceanalyzer

HEAVY = ("numpy", "pandas", "rich", "jinja2", "torch", "matplotlib", "msgspec")
NAMES = [
    "Report",
    "StepChoice",
    "Trace",
    "__version__",
    "analyze",
    "batch",
    "diff",
    "load",
    "load_report",
    "ranks",
    "render",
]


def loaded_after(statement: str) -> set[str]:
    """Top-level packages in a fresh interpreter after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", ["traceanalyzer", "traceanalyzer.cli", "traceanalyzer.errors"])
def test_importing_is_cheap(module: str) -> None:
    loaded = loaded_after(f"import {module}")
    assert "traceanalyzer" in loaded
    assert not loaded & set(HEAVY)


def test_the_check_would_notice() -> None:
    assert {"numpy", "msgspec"} <= loaded_after("import traceanalyzer.pipeline")


def test_names_are_imported_when_they_are_used() -> None:
    assert "numpy" in loaded_after("import traceanalyzer; traceanalyzer.load")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name: str) -> None:
    assert getattr(traceanalyzer, name) is not None
    assert name in traceanalyzer.__all__


def test_dir_lists_the_public_names() -> None:
    assert dir(traceanalyzer) == sorted(traceanalyzer.__all__)
    assert set(NAMES) <= set(dir(traceanalyzer))


def test_unknown_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="module 'traceanalyzer' has no attribute 'analyse'"):
        traceanalyzer.analyse  # noqa: B018
    with pytest.raises(ImportError):
        exec("from traceanalyzer import nothing_of_the_kind")


def test_the_same_object_every_time() -> None:
    assert traceanalyzer.load is traceanalyzer.load
    assert traceanalyzer.Trace.__module__ == "traceanalyzer.trace.model"


def test_the_version_is_that_of_the_package() -> None:
    parts = traceanalyzer.__version__.split(".")
    assert len(parts) >= 3
    assert all(part.isdigit() for part in parts[:2])
