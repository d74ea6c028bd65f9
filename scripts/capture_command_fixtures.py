"""Record the traces `fixtures/captured/command_*` with `traceanalyzer capture` on a CPU.

Needs torch 2.13. Run from anywhere: `python scripts/capture_command_fixtures.py [NAME ...]`, then `make_fixtures.py`.
Without names it records all of them again. The programs are in `scripts/captured_programs`.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.builders.scrub import scrub

PROGRAMS = Path(__file__).parent / "captured_programs"
FOLDER = Path(__file__).parents[1] / "fixtures" / "captured"
_PATIENCE_S = 240


@dataclass(frozen=True)
class Command:
    """One capture that makes a fixture."""

    traces: tuple[str, ...]
    """Names of the fixtures, in the order of ranks."""
    program: tuple[str, ...]
    """Arguments of the Python interpreter."""
    options: tuple[str, ...] = ()


COMMANDS = (
    Command(("command_workers",), ("training.py",), ("--steps", "3", "--memory")),
    Command(("command_stacks",), ("training.py",), ("--steps", "2", "--stacks", "--modules")),
    Command(
        ("command_rank0", "command_rank1"),
        ("-m", "torch.distributed.run", "--nproc-per-node", "2", "ranks.py"),
        ("--steps", "3"),
    ),
    Command(("command_compiled",), ("compiled.py",), ("--steps", "3")),
)


def main() -> None:
    """Record all fixtures, or those named on the command line."""
    wanted = set(sys.argv[1:])
    for command in COMMANDS:
        if not wanted or wanted & set(command.traces):
            record(command)


def record(command: Command) -> None:
    """Capture a program, and keep its traces."""
    with tempfile.TemporaryDirectory() as folder:
        capture = [sys.executable, "-m", "traceanalyzer", "capture", "-o", folder, *command.options, "--"]
        subprocess.run([*capture, sys.executable, *command.program], check=True, cwd=PROGRAMS, timeout=_PATIENCE_S)
        found = sorted(Path(folder).glob("*.json.gz"))
        for name, path in zip(command.traces, found, strict=True):
            text = scrub(gzip.decompress(path.read_bytes()).decode())
            data = gzip.compress(text.encode(), 9, mtime=0)
            (FOLDER / f"{name}.json.gz").write_bytes(data)
            print(f"{name}: {len(data):,} bytes compressed, {len(text):,} as written")


if __name__ == "__main__":
    main()
