"""`python -m examples.lab list`, `measure`, `programs`, `keep`, `score`, `overhead`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from examples.lab import keeping, page, programs, results
from examples.lab.catalogue import BY_NAME, FAULTS
from examples.lab.score import score


def main() -> None:
    """Parse the command line and run the command."""
    options = _options()
    options.run(options)


def _list(_: argparse.Namespace) -> None:
    for fault in FAULTS:
        where = " (GPU)" if fault.needs_gpu else ""
        sys.stdout.write(f"{fault.name:26}{fault.fault}{where}; fix: {fault.fix}\n")


def _measure(options: argparse.Namespace) -> None:
    from examples.lab.measuring import Effort, measure  # noqa: PLC0415 - needs torch

    effort = Effort(record=options.record, steps=options.steps, rounds=options.rounds)
    faults = [BY_NAME[name] for name in options.faults] or FAULTS
    with tempfile.TemporaryDirectory() as scratch:
        run = measure(faults, options.sizes, effort, options.traces or Path(scratch))
    if options.output:
        results.write(run, options.output)
    sys.stdout.write(page.table(score(run, None)) + "\n")
    for name, why in run.failed.items():
        sys.stderr.write(f"{name} failed: {why}\n")


def _programs(options: argparse.Namespace) -> None:
    sys.stdout.write(programs.table() + "\n\n")
    if not options.without_faults:
        sys.stdout.flush()
        _measure(options)


def _keep(options: argparse.Namespace) -> None:
    for path in keeping.keep(options.traces, options.folder, options.sizes):
        sys.stdout.write(f"{path.stat().st_size:8} {path.name}\n")


def _score(options: argparse.Namespace) -> None:
    for path in options.results or sorted(results.FOLDER.glob("*.json")):
        run = results.read(path)
        rows = score(run, keeping.KEPT.get(path.stem))
        sys.stdout.write(f"{path.stem}\n\n{page.table(rows)}\n\n{page.summary(rows)}\n\n")


def _overhead(options: argparse.Namespace) -> None:
    from examples.lab import overhead  # noqa: PLC0415 - needs torch

    overhead.write(options.output, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.lab", description="What advice is worth, measured.")
    commands = parser.add_subparsers(required=True)
    commands.add_parser("list", help="all faults").set_defaults(run=_list)
    measure = commands.add_parser("measure", help="record and time faults (all, if none is named)")
    measure.add_argument("faults", nargs="*", choices=[*BY_NAME, []], metavar="FAULT")
    measure.add_argument("-o", "--output", type=Path, help="a JSON file for the results")
    measure.add_argument("--traces", type=Path, help="a folder that keeps the traces")
    measure.add_argument("--sizes", nargs="+", choices=("small", "large"), default=("small", "large"))
    measure.add_argument("--steps", type=int, help="steps of a turn; else as many as suit the size")
    measure.add_argument("--rounds", type=int, default=5, help="how often both programs are timed")
    measure.add_argument("--record", type=int, default=6, help="steps to record: an interval of more steps is narrower")
    measure.set_defaults(run=_measure)
    kinds = commands.add_parser("programs", help="what a capture says first of programs of many kinds, and 13 faults")
    kinds.add_argument("--without-faults", action="store_true", help="only what is said first")
    kinds.set_defaults(run=_programs, faults=programs.FAULTS, output=None, traces=None, sizes=("small",))
    kinds.set_defaults(steps=None, rounds=5, record=6)
    keep = commands.add_parser("keep", help="shorten the traces of a run and keep them")
    keep.add_argument("traces", type=Path)
    keep.add_argument("folder", type=Path, nargs="?", default=keeping.FOLDER)
    keep.add_argument("--sizes", nargs="+", choices=("small", "large"), default=("small",))
    keep.set_defaults(run=_keep)
    again = commands.add_parser("score", help="what this version predicts, beside what was measured")
    again.add_argument("results", type=Path, nargs="*")
    again.set_defaults(run=_score)
    cost = commands.add_parser("overhead", help="measure what the profiler costs per event")
    cost.add_argument("-o", "--output", type=Path, required=True)
    cost.add_argument("--rounds", type=int, default=25)
    cost.set_defaults(run=_overhead)
    return parser.parse_args()


if __name__ == "__main__":
    main()
