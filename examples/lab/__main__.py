"""`python -m examples.lab run FAULT`, `table`, `record DIR`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from examples.lab.faults import BY_NAME, FAULTS, Fault
from examples.lab.measuring import Effort, Result, measure
from examples.lab.recording import keep
from examples.lab.table import markdown


def main() -> None:
    """Parse, run, print."""
    options = _options()
    effort = Effort(steps=options.steps, rounds=options.rounds)
    if options.command == "record":
        results = _measure(FAULTS, options.folder / "captures", effort)
        keep(results, options.folder)
        sys.stdout.write(f"Wrote {options.folder}/table.md, table.json and trimmed traces\n")
        return
    faults = FAULTS if options.command == "table" else [BY_NAME[options.fault]]
    with tempfile.TemporaryDirectory() as scratch:
        results = _measure(faults, options.output or Path(scratch), effort)
    rows = [dataclasses.asdict(result) for result in results]
    sys.stdout.write((json.dumps(rows, indent=2) if options.json else markdown(results)) + "\n")


def _measure(faults: tuple[Fault, ...] | list[Fault], folder: Path, effort: Effort) -> list[Result]:
    """One after the other, with a word about each on standard error."""
    results = []
    for fault in faults:
        sys.stderr.write(f"{fault.name} ...\n")
        results.append(measure(fault, folder, effort))
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.lab", description="What advice is worth, measured.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="one fault and its fix")
    run.add_argument("fault", choices=sorted(BY_NAME))
    table = commands.add_parser("table", help="all faults")
    record = commands.add_parser("record", help="all faults; keeps the table and trimmed traces")
    record.add_argument("folder", type=Path)
    for command in (run, table):
        command.add_argument("-o", "--output", type=Path, help="a folder that keeps the traces")
        command.add_argument("--json", action="store_true", help="print JSON")
    for command in (run, table, record):
        command.add_argument("--steps", type=int, default=Effort.steps, help="to record, and to time in each round")
        command.add_argument("--rounds", type=int, default=Effort.rounds, help="how often both trainings are timed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
