"""Time and memory of a batch over many traces: ``python -m benchmarks.batch``.

Prints Markdown tables: the time for N traces with two processes against one and against one `report` after the other,
and the peak memory of all processes together against the bound of the batch: the sum of the estimates of the files that
are analyzed at the same time, plus the parent and the process that starts the workers.

Linux only: memory is the sum of the proportional set sizes (PSS) of the whole session, sampled every few milliseconds,
so that shared pages count once.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.compare import compile_package, default_sources, grow_apart
from traceanalyzer.batching.machine import peak_bytes
from traceanalyzer.inputs.sniffing import peek

MB = 10**6
PARENT_BYTES = 200 << 20
"""Memory of the program with all imports for its pages, and of the server that forks workers."""

TARGET = 0.6
_LOOK_S = 0.01


@dataclass(frozen=True)
class Run:
    """One way to analyze all files."""

    name: str
    wall_s: float
    peak_bytes: int
    """Peak memory of all processes together; 0 if it was not sampled."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with --check, return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, nargs="+", default=[15, 30, 60], help="sizes of the traces, in turns")
    parser.add_argument("--files", type=int, default=24, help="how many traces")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--format", action="append", dest="formats", help="of the reports; the batch's default if none")
    parser.add_argument("--runs", type=int, default=1, help="the best of so many counts")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args(arguments)
    compile_package()
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-benchmark-") as name:
        folder = Path(name)
        traces = make(folder / "in", options.files, options.mb)
        forms = [part for form in options.formats or [] for part in ("--format", form)]
        ways = (("report, one by one", 0), ("batch, 1 process", 1), (f"batch, {options.jobs} processes", options.jobs))
        turns = [[measure(way, traces, folder, jobs, forms) for way, jobs in ways] for _ in range(options.runs)]
        looked = [measure(way, traces, folder, jobs, forms, looks=True) for way, jobs in ways[1:]]
        runs = [best([turn[number] for turn in turns]) for number in range(len(ways))]
        runs[1:] = [replace(run, peak_bytes=look.peak_bytes) for run, look in zip(runs[1:], looked, strict=True)]
        bound = promised(traces, options.jobs)
    ratio = runs[2].wall_s / runs[1].wall_s
    print(f"{len(traces)} traces, {', '.join(f'{size:g} MB' for size in options.mb)} in turns\n")
    print("| | wall s | against 1 process | peak MB of all processes |\n| --- | ---: | ---: | ---: |")
    for run in runs:
        peak = f"{run.peak_bytes / MB:.0f}" if run.peak_bytes else "-"
        print(f"| {run.name} | {run.wall_s:.2f} | {run.wall_s / runs[1].wall_s:.2f} | {peak} |")
    print(f"\nTime with {options.jobs} processes: {ratio:.2f} of that with one (target: at most {TARGET}).")
    print(f"Peak memory: {runs[2].peak_bytes / MB:.0f} MB of at most {bound / MB:.0f} MB.")
    if options.json:
        figures = {"runs": [asdict(run) for run in runs], "ratio": ratio, "bound_bytes": bound}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return int(options.check and (ratio > TARGET or runs[2].peak_bytes > bound))


def make(folder: Path, files: int, sizes: Sequence[float]) -> list[Path]:
    """Traces of the sizes in turns, from the sources of `compare`; files of equal size are copies."""
    folder.mkdir()
    sources = list(default_sources().values())
    made: dict[tuple[Path, float], Path] = {}
    for number in range(files):
        source, size = sources[number % len(sources)], sizes[number % len(sizes)]
        target = folder / f"trace_{number:03}.json"
        if (source, size) in made:
            shutil.copyfile(made[source, size], target)
        else:
            grow_apart(source, target, size)
            made[source, size] = target
    return sorted(folder.iterdir())


def promised(traces: Sequence[Path], jobs: int) -> int:
    """The bound: estimates of the largest files in flight, and the memory of the batch itself."""
    estimates = []
    for trace in traces:
        with trace.open("rb") as file:
            estimates.append(peak_bytes(peek(file, trace.name, trace.stat().st_size)))
    return PARENT_BYTES + sum(sorted(estimates)[-jobs:])


def measure(
    name: str, traces: Sequence[Path], folder: Path, jobs: int, forms: list[str], *, looks: bool = False
) -> Run:
    """Run all files in one way; with no jobs, one report after the other.

    Sampling memory takes a core, which is not free if two processes use two cores, so the time of such a run is not
    valid.
    """
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    program = [sys.executable, "-m", "traceanalyzer"]
    if not jobs:
        start = time.perf_counter()
        for trace in traces:
            subprocess.run([*program, "report", trace, "-o", out / f"{trace.name}.json", "--quiet"], check=True)
        return Run(name, time.perf_counter() - start, 0)
    command = [*program, "batch", traces[0].parent, "-o", out, "--jobs", str(jobs), "--quiet", *forms]
    start = time.perf_counter()
    with subprocess.Popen(command, start_new_session=True) as running:
        peak = 0
        while looks and running.poll() is None:
            peak = max(peak, session_bytes(running.pid))
            time.sleep(_LOOK_S)
        running.wait()
    if running.returncode:
        raise SystemExit(f"batch ended with {running.returncode}")
    return Run(name, time.perf_counter() - start, peak)


def session_bytes(session: int) -> int:
    """Memory of all processes of a session."""
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and _session(entry.path) == session:
            total += _pss(entry.path)
    return total


def _session(process: str) -> int | None:
    try:
        return int(Path(process, "stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return None


def _pss(process: str) -> int:
    try:
        for line in Path(process, "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # it has ended
        pass
    return 0


def best(runs: Sequence[Run]) -> Run:
    """The run with the lowest time."""
    return min(runs, key=lambda run: run.wall_s)


if __name__ == "__main__":
    sys.exit(main())
