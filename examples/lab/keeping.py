"""Cuts the traces of a run with the tool itself, so that they are small enough for `fixtures/lab`."""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import traceanalyzer as ta
from examples.lab.catalogue import FAULTS, Fault
from examples.lab.task import SIDES
from traceanalyzer.rewrite.trim import trim

FOLDER = Path(__file__).parents[2] / "fixtures" / "lab"
KEPT = {"second": FOLDER, "eighth": FOLDER / "h200"}
"""Folders of the shortened traces of runs; those of other runs were not kept."""
LARGEST = 250_000
"""Largest size in bytes of a kept trace."""


def keep(traces: Path, target: Path, sizes: Collection[str]) -> list[Path]:
    """Write the last steps of the traces of a run, without names of the machine; returns the files written."""
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for fault in FAULTS:
        for size in sizes:
            sources = {key: of_rank(traces / fault.name, key[1]) / size / key[0] for key in _keys(fault)}
            if not all(folder.is_dir() for folder in sources.values()):
                continue
            short = _shortest({key: newest(folder) for key, folder in sources.items()}, fault.kept_steps)
            if short is None:
                sys.stderr.write(f"{fault.name} {size}: the traces are too large\n")
                continue
            for (side, rank), data in short.items():
                written.append(kept(fault.name, size, side, target, rank))
                written[-1].write_bytes(data)
    return written


def _keys(fault: Fault) -> list[tuple[str, int]]:
    """The sides (before, after) and ranks of a fault."""
    return [(side, rank) for side in SIDES for rank in range(fault.ranks)]


def _shortest(traces: Mapping[tuple[str, int], Path], most: int) -> dict[tuple[str, int], bytes] | None:
    """All traces of a fault at one size with as many steps as fit; None if not even one step does."""
    for steps in range(most, 0, -1):
        short = {key: _short(path, steps) for key, path in traces.items()}
        if max(map(len, short.values())) <= LARGEST:
            return short
    return None


def _short(trace: Path, steps: int) -> bytes:
    """The last steps of a trace, compressed."""
    from tests.builders.scrub import scrub  # noqa: PLC0415 - of the checkout, like the lab

    with tempfile.TemporaryDirectory() as scratch:
        short = Path(scratch) / "short.json.gz"
        trim(str(trace), short, steps=_last_steps(trace, steps))
        text = scrub(gzip.decompress(short.read_bytes()).decode("utf-8"))
    return gzip.compress(text.encode("utf-8"), 9, mtime=0)


def kept(fault: str, size: str, side: str, folder: Path = FOLDER, rank: int = 0) -> Path:
    """Path of a shortened trace, which exists only if the trace was kept."""
    return folder / f"{of_rank(Path(fault), rank).name}.{size}.{side}.json.gz"


def of_rank(folder: Path, rank: int) -> Path:
    """Folder of the traces of a rank; rank 0 uses the fault's own folder."""
    return folder.with_name(f"{folder.name}.rank{rank}") if rank else folder


def newest(folder: Path) -> Path:
    """The trace that was recorded last into a folder."""
    return max(folder.glob("*.json.gz"))


def _last_steps(path: Path, count: int) -> tuple[int, int]:
    steps = ta.analyze(ta.load(path)).analyses["step_breakdown"].steps
    numbers = [int(step.name.rpartition("#")[2]) for step in steps]
    return numbers[-count:][0], numbers[-1]
