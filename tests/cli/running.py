"""Two ways to run the command line: in this process, which is fast, and as a program, which is what users do."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from traceanalyzer.cli import main

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
TRAINING = FIXTURES / "synthetic" / "gpu_training.json.gz"
PROGRAM = (sys.executable, "-m", "traceanalyzer")
PATIENCE_S = 60
"""A program that hangs fails its test instead of stopping the run."""

_INHERITED_TASTE = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "LANG", "LC_ALL", "LC_CTYPE")


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.stdout.decode("utf-8")

    @property
    def err(self) -> str:
        """Standard error as text."""
        return self.stderr.decode("utf-8")


def call(*arguments: str | Path, stdin: bytes = b"") -> Run:
    """Run in this process; an exception that `main` lets through fails the test, as its traceback would."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {
        "argv": ["traceanalyzer", *map(str, arguments)],
        "stdin": io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"),
        "stdout": io.TextIOWrapper(out, encoding="utf-8"),
        "stderr": io.TextIOWrapper(err, encoding="utf-8"),
    }
    code = 0
    with mock.patch.multiple(sys, **streams):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
    return Run(code, out.getvalue(), err.getvalue())


def environment(**changes: str) -> dict[str, str]:
    """The environment without what the developer's terminal and language would change."""
    kept = {key: value for key, value in os.environ.items() if key not in _INHERITED_TASTE}
    return kept | {"PYTHONUTF8": "1"} | changes


def spawn(
    *arguments: str | bytes | Path,
    stdin: bytes = b"",
    program: tuple[str, ...] = PROGRAM,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: int = subprocess.PIPE,
    patience_s: float = PATIENCE_S,
) -> Run:
    """Run as a program."""
    run = subprocess.run(
        [*program, *arguments],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(**(env or {})),
        cwd=cwd,
        timeout=patience_s,
        check=False,
    )
    return Run(run.returncode, run.stdout or b"", run.stderr)


def assert_one_line(run: Run) -> str:
    """The run was refused: exit code 2, nothing on standard output, and exactly one line that says why."""
    line = run.stderr.decode("utf-8")
    assert line.startswith("traceanalyzer: "), line
    assert line.endswith("\n")
    assert len(line) > len("traceanalyzer: \n")
    assert line[:-1].isprintable(), "one line without control characters"
    assert (run.code, run.stdout) == (2, b"")
    return line
