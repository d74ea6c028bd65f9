"""Measures time and memory of a command: ``python -m benchmarks.measure [--runs N] -- COMMAND ...``.

CPU time is user plus system time of the child and of the processes it waited for, as the kernel counted it; compare
this figure, because wall time depends on other programs on the machine. Peak memory is that of the largest single
process, so a command with worker processes uses more than this figure.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes; getrusage(2) of each system


class CommandError(Exception):
    """The measured command failed; its figures would mean nothing."""


@dataclass(frozen=True)
class Run:
    """One execution of a command."""

    cpu_s: float
    wall_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Measurement:
    """Several executions of one command."""

    runs: tuple[Run, ...]

    @property
    def best(self) -> Run:
        """The lowest figure of each kind, because noise only adds."""
        return self._each(min)

    @property
    def median(self) -> Run:
        """The median of each figure."""
        return self._each(statistics.median)

    def _each(self, pick: Callable[[list[float]], float]) -> Run:
        """A run in which each figure is picked from those of all runs."""
        return Run(
            cpu_s=pick([run.cpu_s for run in self.runs]),
            wall_s=pick([run.wall_s for run in self.runs]),
            peak_bytes=int(pick([run.peak_bytes for run in self.runs])),
        )


def run_once(command: Sequence[str]) -> Run:
    """Run a command to its end in a fresh process; its standard output is thrown away.

    The kernel counts the memory of the process that starts the command as the command's own, so the caller
    must be small: a benchmark that loads a trace does so in another process.

    Raises:
        CommandError: The command ended with another exit code than 0.
    """
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            last_lines = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise CommandError(f"exit code {process.returncode}: {' '.join(last_lines)}")
    return Run(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * MAXRSS_UNIT)


def measure(command: Sequence[str], runs: int) -> Measurement:
    """Run a command several times."""
    return Measurement(tuple(run_once(command) for _ in range(runs)))


def measure_in_turns(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, Measurement | CommandError]:
    """Run commands in turns for a comparison, so that a slow period of the machine affects all of them.

    A command that fails is not run again; its error is printed and used in place of its figures.
    """
    done: dict[str, list[Run]] = {name: [] for name in commands}
    failed: dict[str, CommandError] = {}
    for _ in range(runs):
        for name, command in commands.items():
            if name in failed:
                continue
            try:
                done[name].append(run_once(command))
            except CommandError as error:
                failed[name] = error
                print(f"{name} failed with {error}", file=sys.stderr)
    return {name: failed.get(name) or Measurement(tuple(done[name])) for name in commands}


def main() -> None:
    """Measure the command that the command line names; returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure a command's CPU time, wall time and peak memory.")
    parser.add_argument("--runs", type=int, default=3, help="how often to run it (default: %(default)s)")
    parser.add_argument("command", nargs="+", help="the command and its arguments, after --")
    options = parser.parse_args()
    try:
        measured = measure(options.command, options.runs)
    except CommandError as error:
        sys.exit(f"{options.command[0]} failed with {error}")
    for name, run in (("best", measured.best), ("median", measured.median)):
        print(f"{name:6}  CPU {run.cpu_s:.3f} s  wall {run.wall_s:.3f} s  peak {run.peak_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
