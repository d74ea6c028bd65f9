"""Runs programs under `traceanalyzer capture`, and reads the resulting files."""

from __future__ import annotations

import gzip
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.cli.running import PROGRAM, Run, spawn
from traceanalyzer.trace.capture_facts import CaptureFacts

PROGRAMS = Path(__file__).parent / "programs"
CAPTURE = (*PROGRAM, "capture")
PATIENCE_S = 240
"""Importing torch takes seconds, and several processes may do it at a time."""


def needs_torch() -> None:
    """Skip without torch; to import it here would leave marks on the process that tests."""
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")


def capture(
    folder: Path,
    program: str,
    *arguments: str | Path,
    options: tuple[str, ...] = (),
    via: tuple[str, ...] = (),
    **how: Any,
) -> Run:
    """Capture one of the programs here."""
    command = [sys.executable, *via, str(PROGRAMS / program), *map(str, arguments)]
    return spawn("-o", str(folder), *options, "--", *command, program=CAPTURE, patience_s=PATIENCE_S, **how)


def plainly(program: str, *arguments: str) -> Run:
    """Run the program without a capture."""
    return spawn(*arguments, program=(sys.executable, str(PROGRAMS / program)), patience_s=PATIENCE_S)


def traces(folder: Path) -> list[Path]:
    """The traces in a folder, in the order of their names."""
    return sorted(folder.glob("*.json.gz")) if folder.exists() else []


def only(folder: Path) -> Path:
    """The trace, where there must be one; and nothing unfinished is beside it."""
    (trace,) = traces(folder)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    return trace


def text(trace: Path) -> str:
    """All of it."""
    return gzip.decompress(trace.read_bytes()).decode()


def step_names(trace: Path) -> list[str]:
    """Marks of steps, in the order of time."""
    events = [e for e in json.loads(text(trace))["traceEvents"] if str(e.get("name")).startswith("ProfilerStep#")]
    return [event["name"] for event in sorted(events, key=lambda event: event["ts"])]


def facts(trace: Path) -> CaptureFacts:
    """What the capture recorded beside the events."""
    loaded = ta.load(trace)
    assert isinstance(loaded, ta.Trace)
    assert not loaded.losses
    assert loaded.info.capture is not None
    return loaded.info.capture
