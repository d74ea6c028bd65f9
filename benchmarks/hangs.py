"""Time and memory of the report on the dumps of a large run that hangs: ``python -m benchmarks.hangs [FOLDER]``.

1,024 ranks with 2,000 entries each and without frames, written as torch writes them; rank 700 never comes to the last
collective. Asked: at most 60 s of CPU and 500 MB. The exit code is 1 if it takes more, or another rank is named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks import measure
from tests.builders.flight_recorder import FlightRun, as_torch

LATE = 700
MOST_CPU_S, MOST_BYTES = 60.0, 500e6


def write(folder: Path, ranks: int, entries: int) -> None:
    """Write the dumps; they are made of one, because all at once take gigabytes.

    Args:
        folder: Where to.
        ranks: How many dumps.
        entries: Of each.
    """
    run = FlightRun(2, first=5000)
    kinds = (("all_reduce", (1024,)), ("_all_gather_base", (64, 32)), ("_reduce_scatter_base", (4096,)))
    for number in range(entries - 1):
        name, shape = kinds[number % len(kinds)]
        run.collective(name, shape=shape, dtype="BFloat16")
    run.collective("all_reduce", absent=(1,))
    waits, late = run.dump(0), run.dump(1)
    for dump in (waits, late):
        dump["pg_config"]["0"]["ranks"] = str(list(range(ranks)))
    files = as_torch(waits), as_torch(late)
    for rank in range(ranks):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(files[rank == min(LATE, ranks - 1)])


def main() -> int:
    """Write the dumps, measure the report, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where to keep the dumps (by default nowhere)")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary, "dumps")
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            write(folder, options.ranks, options.entries)
        output = Path(temporary, "report.json")
        command = [sys.executable, "-m", "traceanalyzer", "report", str(folder), "-q", "-o", str(output)]
        took = measure.measure(command, options.runs).best
        found = json.loads(output.read_bytes())["analyses"]["hangs"]
    size = options.ranks * options.entries
    print(f"{options.ranks} ranks, {size:,} entries: {took.cpu_s:.1f} s CPU, {took.peak_bytes / 1e6:.0f} MB")
    print(f"verdict {found['verdict']}, ranks {found['ranks']}")
    is_right = found["verdict"] == "missing" and found["ranks"] == [min(LATE, options.ranks - 1)]
    return int(not is_right or took.cpu_s > MOST_CPU_S or took.peak_bytes > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
