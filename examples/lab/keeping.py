"""Shortens the traces of a run with the tool itself, so that they can be kept: `fixtures/lab`."""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import traceanalyzer as ta
from examples.lab.task import SIDES
from traceanalyzer.rewrite.trim import trim

FOLDER = Path(__file__).parents[2] / "fixtures" / "lab"
LARGEST = 150_000
"""Bytes of a trace that is kept."""
_STEPS = (3, 2, 1)
"""How many to keep: the first number with which both traces of a fault are small enough."""


def keep(traces: Path, target: Path, sizes: Collection[str]) -> list[Path]:
    """Write the last steps of the traces of a run, without names of the machine; returns what was written."""
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for folder in sorted(path for path in traces.glob("*/*/") if path.name in sizes):
        for steps in _STEPS:
            short = {side: _short(newest(folder / side), steps) for side in SIDES}
            if max(map(len, short.values())) <= LARGEST:
                break
        else:
            sys.stderr.write(f"{folder.parent.name} {folder.name}: the traces are too large\n")
            continue
        for side, data in short.items():
            written.append(kept(folder.parent.name, folder.name, side, target))
            written[-1].write_bytes(data)
    return written


def _short(trace: Path, steps: int) -> bytes:
    """The last steps of a trace, compressed."""
    from tests.builders.scrub import scrub  # noqa: PLC0415 - of the checkout, like the lab

    with tempfile.TemporaryDirectory() as scratch:
        short = Path(scratch) / "short.json.gz"
        trim(str(trace), short, steps=_last_steps(trace, steps))
        text = scrub(gzip.decompress(short.read_bytes()).decode("utf-8"))
    return gzip.compress(text.encode("utf-8"), 9, mtime=0)


def kept(fault: str, size: str, side: str, folder: Path = FOLDER) -> Path:
    """Where a shortened trace is, if it was kept."""
    return folder / f"{fault}.{size}.{side}.json.gz"


def newest(folder: Path) -> Path:
    """The trace that was recorded last into a folder."""
    return max(folder.glob("*.json.gz"))


def _last_steps(path: Path, count: int) -> tuple[int, int]:
    steps = ta.analyze(ta.load(path)).analyses["step_breakdown"].steps
    numbers = [int(step.name.rpartition("#")[2]) for step in steps]
    return numbers[-count:][0], numbers[-1]
