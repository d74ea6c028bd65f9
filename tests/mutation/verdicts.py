"""Conditions that every run must meet, however damaged its input is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.mutation.child import Outcome
from tests.mutation.commands import REPORT, Command

TIMES = 5
"""A damaged file may cost that many times what the undamaged one costs, ..."""
SPARE_S, SPARE_BYTES = 0.5, 50 << 20
"""... and this more: noise, and what an error path touches for the first time."""

_LONGEST_LINE = 600


def problems(command: Command, outcome: Outcome, folder: Path) -> Iterator[str]:
    """Problems of a run, apart from its cost."""
    if outcome.code < 0:
        yield f"was killed by signal {-outcome.code}: too much time or memory"
    elif outcome.code not in command.codes:
        yield f"exit code {outcome.code}"
    if "Traceback (most recent call last)" in outcome.err:
        yield f"traceback: {outcome.err.strip().splitlines()[-1][:200]}"
    if "Warning: " in outcome.err:
        yield f"warning of Python: {next(line for line in outcome.err.splitlines() if 'Warning: ' in line)[:200]}"
    if outcome.code == 2:
        yield from _not_one_line(outcome)
    if outcome.code in (0, 1, 3) and (folder / REPORT).exists():
        yield from _report(folder / REPORT)


def _not_one_line(outcome: Outcome) -> Iterator[str]:
    lines = outcome.err.splitlines()
    if len(lines) != 1 or not lines[0].startswith("traceanalyzer: ") or not lines[0].isprintable():
        yield f"is refused in {len(lines)} lines"
    elif len(lines[0]) > _LONGEST_LINE:
        yield f"is refused in a line of {len(lines[0])} characters"
    if outcome.out:
        yield "is refused after something was printed"


def _report(file: Path) -> Iterator[str]:
    """A report is JSON as the standard has it, and no rule failed."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} in a report")

    try:
        report: dict[str, Any] = json.loads(file.read_bytes(), parse_constant=refuse)
    except ValueError as error:
        yield f"{REPORT}: {error}"
        return
    for skipped in report["skipped"]:
        if skipped["reason"]["id"].endswith("-failed"):
            yield f"{skipped['id']}: {skipped['reason']['text']}"[:300]


def costs(outcome: Outcome, base: Outcome, grown: int = 0) -> Iterator[str]:
    """Whether a damaged file costs much more than the undamaged one.

    Args:
        outcome: Of the damaged file.
        base: Of the undamaged one.
        grown: Bytes by which the damage made the file larger; a text is held in memory as a whole.
    """
    if outcome.cpu_s > TIMES * base.cpu_s + SPARE_S:
        yield f"takes {outcome.cpu_s:.2f} s, undamaged {base.cpu_s:.2f} s"
    if outcome.memory > TIMES * (base.memory + grown) + SPARE_BYTES:
        yield f"takes {outcome.memory / 1e6:.0f} MB, undamaged {base.memory / 1e6:.0f} MB"
