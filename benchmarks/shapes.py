"""Measures extreme shapes of traces against an ordinary trace of the same size: ``python -m benchmarks.shapes``.

Prints a Markdown table. Each shape is written at sizes that double, and the report of each runs in a fresh process. A
row shows CPU seconds and peak memory, both also as multiples of an ordinary trace of the same size, and the growth: CPU
time per megabyte, without the start of the program, at the largest size divided by that at the smallest.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path

from benchmarks import shape_traces
from benchmarks.compare import FIXTURES, grow_apart, report_command
from benchmarks.measure import CommandError, Run, run_once
from benchmarks.shape_events import Events

ORDINARY = "ordinary"
LIMIT = 5
"""Limit of the cost of a shape, as a multiple of an ordinary trace of the same size."""
GROWTH_LIMIT = 1.5
"""Limit of the growth: time per megabyte should not grow with the size, and the rest allows for noise."""

BOMBS: dict[str, tuple[bytes, bytes, bytes]] = {
    "braces": (b'{"traceEvents": [', b"}", b"]}"),
    "spaces": (b'{"traceEvents": [', b" ", b"]}"),
    "commas": (b'{"traceEvents": [', b",", b"]}"),
    "brackets": (b'{"traceEvents": [', b"[", b"]}"),
    "empty objects": (b'{"traceEvents": [', b"{},", b"{}]}"),
    "string": (b'{"traceEvents": [{"name": "', b"a", b'"}]}'),
    "arguments": (b'{"traceEvents": [{"args": {"a": [', b"0,", b"0]}}]}"),
    "before the events": (b'{"displayTimeUnit": "', b"m", b'", "traceEvents": []}'),
    "spaces before the events": (b'{"displayTimeUnit": "ms",', b" ", b'"traceEvents": []}'),
    "after the events": (b'{"traceEvents": [{"ph":"X","cat":"cpu_op","ts":1,"dur":1}], "a": "', b"m", b'"}'),
    "text": (b"", b"a", b""),
    "lines": (b"", b"\n", b""),
}
"""The text before, the repeated text, and the text after it."""


@dataclass(frozen=True)
class Row:
    """One shape at all sizes."""

    shape: str
    sizes_mb: list[float]
    cpu_s: list[float]
    peak_mb: list[float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with --check, return 1 if a shape costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=3, help="the smallest of three sizes (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[], metavar="SHAPE", help="some shapes instead of all")
    parser.add_argument("--bombs-mb", type=float, default=0, help="also compressed files that unpack to so many MB")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a shape costs too much")
    options = parser.parse_args(arguments)
    sizes = [options.mb, 2 * options.mb, 4 * options.mb]
    chosen = [shape for shape in shape_traces.SHAPES if not options.only or shape.__name__ in options.only]
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-benchmark-") as name:
        folder = Path(name)
        start_s = run_once([sys.executable, "-c", "import traceanalyzer.cli, numpy"]).cpu_s
        ordinary = ordinary_row(folder, sizes)
        print(f"| shape ({', '.join(f'{size:g} MB' for size in sizes)}) | CPU s | of ordinary | peak MB "
              "| of ordinary | growth |\n| --- | ---: | ---: | ---: | ---: | ---: |")  # fmt: skip
        rows = [ordinary]
        print(line(ordinary, ordinary, start_s), flush=True)
        for shape in chosen:
            rows.append(row(folder, shape, sizes))
            print(line(rows[-1], ordinary, start_s), flush=True)
        if options.bombs_mb:
            print("\n| compressed | MB | unpacked MB | CPU s | peak MB | answer |\n| --- | ---: | ---: | ---: | ---: |")
            for bomb in BOMBS:
                print(bomb_line(folder, bomb, options.bombs_mb), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return int(options.check and any(is_too_much(each, ordinary, start_s) for each in rows))


def ordinary_row(folder: Path, sizes: Sequence[float]) -> Row:
    """A fixture of the project, grown: small enough for every size."""
    source = FIXTURES / "gpu_training.json.gz"
    trace = folder / "ordinary.json"
    found: list[tuple[float, Run]] = []
    for size in sizes:
        grow_apart(source, trace, size)
        found.append((trace.stat().st_size / 1e6, report(trace)))
    return _row(ORDINARY, found)


def row(folder: Path, shape: Callable[[int], Events], sizes: Sequence[float]) -> Row:
    """One shape at all sizes; written by another process, so that this one stays small."""
    trace = folder / "shape.json"
    found: list[tuple[float, Run]] = []
    for size in sizes:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            pool.submit(shape_traces.write, shape, trace, size).result()
        found.append((trace.stat().st_size / 1e6, report(trace)))
    return _row(shape.__name__, found)


def _row(shape: str, found: list[tuple[float, Run]]) -> Row:
    sizes = [size for size, _ in found]
    return Row(shape, sizes, [run.cpu_s for _, run in found], [run.peak_bytes / 1e6 for _, run in found])


def report(trace: Path) -> Run:
    """CPU time and memory of the report on a trace; NaN and 0 if the report is refused."""
    output = trace.with_suffix(".report.json")
    output.unlink(missing_ok=True)
    try:
        return run_once(report_command(trace, output))
    except CommandError as error:
        print(f"{trace.name}: {error}", file=sys.stderr)
        return Run(float("nan"), float("nan"), 0)


def growth(measured: Row, start_s: float) -> float:
    """CPU time per megabyte at the largest size over that at the smallest."""
    pace = [(cpu - start_s) / size for cpu, size in zip(measured.cpu_s, measured.sizes_mb, strict=True)]
    return pace[-1] / pace[0] if pace[0] > 0 else float("nan")


def relative(measured: Row, ordinary: Row) -> tuple[list[float], list[float]]:
    """CPU time and memory over those of an ordinary trace of the same size."""
    scale = [own / other for own, other in zip(measured.sizes_mb, ordinary.sizes_mb, strict=True)]
    cpu = [a / b / s for a, b, s in zip(measured.cpu_s, ordinary.cpu_s, scale, strict=True)]
    return cpu, [a / b for a, b in zip(measured.peak_mb, ordinary.peak_mb, strict=True)]


def is_too_much(measured: Row, ordinary: Row, start_s: float) -> bool:
    """Whether a shape costs more than the limits."""
    return max(*relative(measured, ordinary)[0]) > LIMIT or growth(measured, start_s) > GROWTH_LIMIT


def line(measured: Row, ordinary: Row, start_s: float) -> str:
    """A row of the table."""
    cpu, memory = relative(measured, ordinary)
    cells = [measured.shape.replace("_", " ")]
    for values, digits in ((measured.cpu_s, 1), (cpu, 1), (measured.peak_mb, 0), (memory, 1)):
        cells.append(", ".join(f"{value:.{digits}f}" for value in values))
    return f"| {' | '.join(cells)} | {growth(measured, start_s):.1f} |"


def bomb_line(folder: Path, name: str, megabytes: float) -> str:
    """CPU time and memory of a compressed file that unpacks to this size, and the beginning of the answer."""
    path = folder / "bomb.json.gz"
    before, unit, after = BOMBS[name]
    with gzip.open(path, "wb") as file:
        file.write(before)
        block = unit * (1_000_000 // len(unit))
        file.writelines(repeat(block, int(megabytes)))
        file.write(after)
    size = path.stat().st_size / 1e6
    output = folder / "bomb.report.json"
    output.unlink(missing_ok=True)
    # The shell hides the exit code of the report, because the figures also count if the file is refused.
    wrapped = "import subprocess, sys; print(subprocess.run(sys.argv[2:], stderr=open(sys.argv[1], 'w')).returncode)"
    errors = folder / "bomb.errors"
    run = run_once([sys.executable, "-c", wrapped, str(errors), *report_command(path, output)])
    answer = errors.read_text(encoding="utf-8").strip().splitlines() or ["a report"]
    return f"| {name} | {size:.1f} | {megabytes:g} | {run.cpu_s:.1f} | {run.peak_bytes / 1e6:.0f} | {answer[-1][:90]} |"


if __name__ == "__main__":
    sys.exit(main())
