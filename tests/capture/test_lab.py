"""The bottleneck lab with torch: every program makes steps, faults are recorded and timed, the profiler's cost is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from examples.lab import measuring
from examples.lab.catalogue import BY_NAME, FAULTS
from examples.lab.keeping import keep
from tests.capture.capturing import PATIENCE_S, needs_torch
from tests.cli.running import ROOT, spawn
from traceanalyzer.errors import TraceAnalyzerError

LAB = (sys.executable, "-m", "examples.lab")
STEP_EACH = """
import importlib, torch
from examples.lab.catalogue import FAULTS
from examples.lab.parts import Setup, Size
setup = Setup(torch.device("cpu"), Size(batch=8, side=8, width=4, layers=4, tokens=8))
for fault in FAULTS:
    for side in ("before", "after") if fault.ranks == 1 else ():
        program = getattr(importlib.import_module(fault.module), side)(setup)
        print("step", fault.name, side, next(program))
        program.close()
"""


def run_lab(folder: Path, *faults: str) -> dict[tuple[str, str], Any]:
    """Rows of a short run by fault and size, with traces in `traces/`."""
    results = folder / "run.json"
    brief = ("--sizes", "small", "--steps", "4", "--rounds", "1")
    run = spawn(
        *("measure", *faults, *brief, "-o", results, "--traces", folder / "traces"),
        program=LAB,
        cwd=ROOT,
        patience_s=PATIENCE_S,
    )
    assert run.code == 0, run.err
    data = json.loads(results.read_text(encoding="utf-8"))
    assert not data.get("failed")
    return {(row["fault"], row["size"]): row for row in data["rows"]}


@pytest.mark.torch
def test_every_program_of_one_process_makes_steps() -> None:
    """Faults of the GPU are included: on a CPU they cost nothing, but run."""
    needs_torch()
    run = spawn(program=(sys.executable, "-W", "ignore", "-c", STEP_EACH), cwd=ROOT, patience_s=PATIENCE_S)
    assert run.code == 0, run.err
    steps = [line.split()[1:3] for line in run.out.splitlines() if line.startswith("step ")]
    alone = [fault.name for fault in FAULTS if fault.ranks == 1]
    assert steps == [[name, side] for name in alone for side in ("before", "after")]


@pytest.mark.torch
def test_faults_are_recorded_and_timed_and_their_traces_kept(tmp_path: Path) -> None:
    """One fault of one process and one of two ranks."""
    needs_torch()
    rows = run_lab(tmp_path, "loop-over-elements", "ddp-sync-in-accumulation")
    assert rows.keys() == {("loop-over-elements", "small"), ("ddp-sync-in-accumulation", "small")}
    loop = rows["loop-over-elements", "small"]
    assert "loop-vectorizable" in {said["rule"] for said in loop["before"]["recorded"]["said"]}
    assert "loop-vectorizable" not in {said["rule"] for said in loop["after"]["recorded"]["said"]}
    assert [turn["samples"] for turn in loop["before"]["turns"]] == [16]
    accumulation = rows["ddp-sync-in-accumulation", "small"]
    assert [turn["samples"] for turn in accumulation["after"]["turns"]] == [64]
    assert all(turn["step_ms"] > 0 for row in rows.values() for turn in row["before"]["turns"])
    kept = keep(tmp_path / "traces", tmp_path / "kept", ("small",))
    assert sorted(path.name for path in kept) == [
        f"{name}.small.{side}.json.gz"
        for name in ("ddp-sync-in-accumulation.rank1", "ddp-sync-in-accumulation", "loop-over-elements")
        for side in ("after", "before")
    ]


@pytest.mark.torch
def test_a_fault_whose_traces_cannot_be_analyzed_is_listed_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of one fault, of any kind, leaves the others their turn."""
    needs_torch()
    errors = iter((TraceAnalyzerError("no events"), RuntimeError("a line\nended with 1")))

    def fail(*_: object) -> NoReturn:
        raise next(errors)

    monkeypatch.setattr(measuring, "_rows", fail)
    run = measuring.measure((BY_NAME["clones"], BY_NAME["fp64"]), ("small",), measuring.Effort(), tmp_path)
    assert run.failed == {"clones": "no events", "fp64": "ended with 1"}


@pytest.mark.torch
def test_the_cost_of_events_is_measured_and_added_to_what_is_known(tmp_path: Path) -> None:
    """An event that costs 50 us would be a mistake of the script."""
    needs_torch()
    figures = tmp_path / "costs.json"
    known = (ROOT / "traceanalyzer" / "knowledge" / "profiler_overhead.json").read_bytes()
    figures.write_bytes(known)
    run = spawn("overhead", "-o", figures, "--rounds", "2", program=LAB, cwd=ROOT, patience_s=PATIENCE_S)
    assert run.code == 0, run.err
    *before, fresh = json.loads(figures.read_text(encoding="utf-8"))
    assert before == json.loads(known)
    assert fresh.keys() == before[0].keys() >= {"cpu", "torch", "operator", "shapes", "memory", "frame", "range"}
    assert all(abs(fresh[kind]["median_ns"]) < 50_000 for kind in ("operator", "shapes", "memory", "frame", "range"))
