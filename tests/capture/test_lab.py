"""The bottleneck lab: each fault that means something on a CPU is found, and so is its fix."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.capture.capturing import PATIENCE_S, needs_torch
from tests.cli.running import ROOT, spawn
from traceanalyzer.rules import MODULES

ON_A_CPU = {
    "slow-loader": ["dataloader-bound", "dataloader-single-process"],
    "clones": ["copies-materialized"],
    "redundant-passes": ["redundant-passes"],
    "tiny-operators": ["loop-vectorizable"],
}
BRIEFLY = ("--steps", "4", "--rounds", "1")
LAB = (sys.executable, "-m", "examples.lab")


def lab(*arguments: str | Path) -> str:
    """What the lab prints."""
    run = spawn(*arguments, *BRIEFLY, program=LAB, cwd=ROOT, patience_s=PATIENCE_S)
    assert run.code == 0, run.err
    return run.out


@cache
def rows() -> dict[str, dict[str, Any]]:
    """The table of all faults."""
    return {row["fault"]: row for row in json.loads(lab("table", "--json"))}


@pytest.mark.torch
@pytest.mark.parametrize("fault", ON_A_CPU)
def test_a_fault_is_found_and_measured_without_the_profiler(fault: str) -> None:
    needs_torch()
    row = rows()[fault]
    assert row["found"] == ON_A_CPU[fault]
    low, high = row["predicted_ms"]
    assert 0 < low <= high
    assert row["measured_ms"] == pytest.approx(row["before_ms"] - row["after_ms"])
    assert row["error_ms"] == pytest.approx(row["measured_ms"] - min(max(row["measured_ms"], low), high))
    assert row["error_share"] == pytest.approx(row["error_ms"] / row["before_ms"])


@pytest.mark.torch
@pytest.mark.parametrize("fault", sorted(ON_A_CPU.keys() - {"slow-loader"}))
def test_the_fix_is_silent(fault: str) -> None:
    """A loader may be what bounds a step with workers, too: that depends on the machine."""
    needs_torch()
    assert rows()[fault]["found_after_the_fix"] == []


@pytest.mark.torch
def test_workers_are_not_taken_for_none() -> None:
    needs_torch()
    assert "dataloader-single-process" not in rows()["slow-loader"]["found_after_the_fix"]


@pytest.mark.torch
def test_the_others_say_that_they_need_a_gpu() -> None:
    needs_torch()
    others = {name: row["skipped"] for name, row in rows().items() if name not in ON_A_CPU}
    assert len(others) == 12
    assert set(others.values()) <= {"needs a GPU", None}


@pytest.mark.torch
def test_a_run_can_be_kept_with_trimmed_traces_of_fault_and_fix(tmp_path: Path) -> None:
    needs_torch()
    lab("record", tmp_path)
    kept = {path.name for path in (tmp_path / "traces").iterdir()}
    assert {f"{fault}.{phase}.json.gz" for fault in ON_A_CPU for phase in ("before", "after")} <= kept
    assert all(len(path.read_bytes()) < 500_000 for path in (tmp_path / "traces").iterdir())
    table = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert len(table) == 2 + len(json.loads((tmp_path / "table.json").read_text(encoding="utf-8")))


STEP_EACH = """
import torch
from examples.lab.faults import FAULTS
from examples.lab.training import Size
for fault in FAULTS:
    for training in (fault.before, fault.after):
        if fault.name != "device-wide-sync":
            print(next(training.run(torch.device("cpu"), Size(4, 16, 8))), *fault.rules)
"""


@pytest.mark.torch
def test_every_training_makes_a_step_and_every_rule_exists() -> None:
    """Waiting for a device needs one; the others can run on a CPU, where they cost nothing."""
    needs_torch()
    run = spawn(program=(sys.executable, "-c", STEP_EACH), cwd=ROOT, patience_s=PATIENCE_S)
    lines = [line.split() for line in run.out.splitlines()]
    assert (run.code, len(lines)) == (0, 30), run.err
    assert {line[0] for line in lines} == {"4"}
    assert {rule for line in lines for rule in line[1:]} <= {module.replace("_", "-") for module in MODULES}
