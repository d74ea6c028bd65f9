"""What is kept of a run of the lab on a machine with a GPU."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import traceanalyzer as ta
from examples.lab.measuring import Result
from examples.lab.table import markdown
from traceanalyzer.rewrite.trim import trim

_KEPT_STEPS = 3
"""Of each trace: enough to judge, small enough to be a fixture."""


def keep(results: Sequence[Result], folder: Path) -> None:
    """Write `table.md`, `table.json`, and from `captures/` a trimmed trace of each fault and fix to `traces/`."""
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    (folder / "table.md").write_text(markdown(results) + "\n", encoding="utf-8")
    rows = [dataclasses.asdict(result) for result in results]
    (folder / "table.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for path in sorted((folder / "captures").glob("*/*/*.json.gz")):
        fault, phase = path.parts[-3:-1]
        trim(str(path), folder / "traces" / f"{fault}.{phase}.json.gz", steps=_last_steps(path), force=True)


def _last_steps(path: Path) -> tuple[int, int]:
    """Numbers of the last recorded steps."""
    steps = ta.analyze(ta.load(path)).analyses["step_breakdown"].steps
    numbers = [int(step.name.rpartition("#")[2]) for step in steps]
    return numbers[-_KEPT_STEPS:][0], numbers[-1]
