"""Shortens the traces of a run with the tool itself, so that they can be kept: `fixtures/lab`."""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.rewrite.trim import trim

FOLDER = Path(__file__).parents[2] / "fixtures" / "lab"
LARGEST = 150_000
"""Bytes of a trace that is kept."""
_STEPS = 3


def keep(traces: Path, target: Path) -> list[Path]:
    """Write the last steps of all traces of a run, without names of the machine; returns what was written."""
    from tests.builders.scrub import scrub  # noqa: PLC0415 - of the checkout, like the lab

    target.mkdir(parents=True, exist_ok=True)
    written = []
    for folder in sorted(traces.glob("*/*/*/")):
        fault, size, side = folder.parts[-3:]
        with tempfile.TemporaryDirectory() as scratch:
            short = Path(scratch) / "short.json.gz"
            trim(str(newest(folder)), short, steps=_last_steps(newest(folder)))
            text = scrub(gzip.decompress(short.read_bytes()).decode("utf-8"))
        data = gzip.compress(text.encode("utf-8"), 9, mtime=0)
        if len(data) > LARGEST:
            sys.stderr.write(f"{fault} {size} {side}: {len(data)} bytes are too many\n")
            continue
        path = kept(fault, size, side, target)
        path.write_bytes(data)
        written.append(path)
    return written


def kept(fault: str, size: str, side: str, folder: Path = FOLDER) -> Path:
    """Where a shortened trace is, if it was kept."""
    return folder / f"{fault}.{size}.{side}.json.gz"


def newest(folder: Path) -> Path:
    """The trace that was recorded last into a folder."""
    return max(folder.glob("*.json.gz"))


def _last_steps(path: Path) -> tuple[int, int]:
    steps = ta.analyze(ta.load(path)).analyses["step_breakdown"].steps
    numbers = [int(step.name.rpartition("#")[2]) for step in steps]
    return numbers[-_STEPS:][0], numbers[-1]
