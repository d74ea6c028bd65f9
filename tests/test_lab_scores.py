"""Scores of the lab: numbers worked out by hand; and what is kept of its runs is whole. Needs no torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import traceanalyzer as ta
from examples.lab import keeping, results
from examples.lab.catalogue import BY_NAME, FAULTS
from examples.lab.reading import recorded
from examples.lab.results import Recorded, Row, Run, Said, Side, Turn
from examples.lab.score import Score, score
from scripts import lab_page
from traceanalyzer.knowledge.profiler_overhead import overheads
from traceanalyzer.rules.engine.rule import pages

FOLDER = Path(__file__).parents[1] / "examples" / "lab"


@cache
def runs() -> dict[str, Run]:
    """What is kept of the lab's runs."""
    return {name: results.read(results.FOLDER / f"{name}.json") for name in lab_page.RUNS}


def side(turns: list[tuple[float, float, float]], *said: Said, step_ms: float = 10.0) -> Side:
    return Side(tuple(Turn(*turn) for turn in turns), Recorded(step_ms, said))


def one(fault: str, before: Side, after: Side) -> Score:
    run = Run("", "", runs()["first"].machine, {}, (Row(fault, "small", before, after),))
    (scored,) = score(run, None)
    return scored


LOOP = Said("loop-vectorizable", "high", (2.0, 6.0))
TURNS = [(10.0, 2.0, 16.0), (12.0, 0.0, 16.0), (9.0, 1.0, 16.0)]
FIXED = [(5.0, 1.0, 16.0), (5.0, 1.0, 16.0), (6.0, 0.0, 16.0)]


def test_a_saving_is_the_median_of_turns_in_pairs() -> None:
    """5, 7 and 3 ms; of 8, 12 and 8 ms without waiting 4, 8 and 2 are saved."""
    scored = one("loop-over-elements", side(TURNS, LOOP, step_ms=20.0), side(FIXED))
    assert scored.measured == (3.0, 5.0, 7.0)
    assert scored.undisturbed_shares == pytest.approx((2 / 8, 4 / 8, 8 / 12))
    assert scored.measured_shares == pytest.approx((3 / 9, 5 / 10, 7 / 12))
    assert scored.predicted == (2.0, 6.0)
    assert scored.predicted_shares == pytest.approx((0.1, 0.3))
    assert (scored.inside, scored.inside_share, scored.touches) == (True, False, True)
    assert scored.width == pytest.approx(4 / 4)
    assert (scored.fired, scored.false_alarms) == (("loop-vectorizable",), ())
    assert not scored.costs_nothing


def test_larger_batches_are_compared_for_as_many_samples() -> None:
    """Two samples in 4 ms, sixteen in 8: of as many samples one millisecond remains."""
    scored = one("tiny-batch", side([(4.0, 0.0, 2.0)]), side([(8.0, 0.0, 16.0)]))
    assert scored.measured == (3.0, 3.0, 3.0)
    assert scored.undisturbed_shares == (0.75, 0.75, 0.75)
    assert (scored.predicted, scored.inside, scored.width) == (None, None, None)


def test_the_finding_of_the_fault_that_promises_most_is_the_prediction() -> None:
    """Other findings are listed separately: those of medium severity or more, and expected rules after the fix."""
    said = (LOOP, Said("launch-bound-small-kernels", "low", (1.0, 8.0)), Said("dataloader-bound", "high", (9.0, 9.0)))
    scored = one("loop-over-elements", side(TURNS, *said), side(FIXED, LOOP, Said("fp64-on-gpu", "low")))
    assert scored.predicted == (1.0, 8.0)
    assert scored.fired == ("loop-vectorizable", "launch-bound-small-kernels")
    assert scored.others == ("dataloader-bound",)
    assert (scored.false_alarms, scored.still_said) == (("loop-vectorizable",), ())


def test_what_cannot_be_told_from_noise_is_named() -> None:
    """Turns that disagree about the sign, or less than 2 % of a step."""
    unsure = one("clones", side([(10.0, 0.0, 16.0)] * 2), side([(9.0, 0.0, 16.0), (11.0, 0.0, 16.0)]))
    small = one("clones", side([(10.0, 0.0, 16.0)]), side([(9.9, 0.0, 16.0)]))
    large = one("clones", side([(10.0, 0.0, 16.0)]), side([(9.0, 0.0, 16.0)]))
    assert [scored.costs_nothing for scored in (unsure, small, large)] == [True, True, False]


def test_each_fault_has_its_file_and_known_rules() -> None:
    names = {fault.module.rpartition(".")[2] for fault in FAULTS}
    assert names == {path.stem for path in (FOLDER / "faults").glob("*.py")} - {"__init__"}
    assert len(BY_NAME) == len(FAULTS)
    known = pages().keys()
    assert {rule for fault in FAULTS for rule in fault.rules} <= known


def test_every_run_holds_every_fault_of_a_cpu_at_two_sizes() -> None:
    expected = {
        (fault.name, size) for fault in FAULTS if not (fault.needs_gpu or fault.is_new) for size in ("small", "large")
    }
    for name, run in runs().items():
        assert run.versions.keys() == {"python", "torch", "traceanalyzer"}
        if run.machine.gpu is not None:
            continue
        assert {(row.fault, row.size) for row in run.rows} == expected, name
        turns = {len(side.turns) for row in run.rows for side in (row.before, row.after)}
        assert turns == {5 if name in ("first", "second") else 7}
    assert len(expected) >= 2 * 24


def test_a_run_on_a_gpu_holds_the_faults_of_a_gpu() -> None:
    (run,) = [run for run in runs().values() if run.machine.gpu is not None]
    assert {fault.name for fault in FAULTS if fault.needs_gpu} <= {row.fault for row in run.rows}


@pytest.mark.parametrize("name", keeping.KEPT)
def test_kept_traces_are_of_both_sides_and_this_version_judges_them(name: str) -> None:
    folder = keeping.KEPT[name]
    scored = score(runs()[name], folder)
    assert all(row.is_fresh for row in scored)
    expected = {
        keeping.kept(row.fault.name, row.row.size, side, folder, rank)
        for row in scored
        for side in ("before", "after")
        for rank in range(row.fault.ranks)
    }
    kept = set(folder.glob("*.json.gz"))
    assert kept == expected
    assert max(path.stat().st_size for path in kept) <= keeping.LARGEST


def test_each_rank_has_a_folder_and_a_file_of_its_own() -> None:
    assert [keeping.of_rank(Path("runs/ddp-buffers"), rank).name for rank in (0, 1)] == [
        "ddp-buffers",
        "ddp-buffers.rank1",
    ]
    names = [keeping.kept("ddp-buffers", "small", "after", rank=rank).name for rank in (0, 1)]
    assert names == ["ddp-buffers.small.after.json.gz", "ddp-buffers.rank1.small.after.json.gz"]


def test_ranks_are_judged_together() -> None:
    """Findings that only a comparison of ranks shows, and findings of the trace of rank 0 alone."""
    told = {
        fault: {said.rule for said in recorded([keeping.kept(fault, "small", "before", rank=r) for r in (0, 1)]).said}
        for fault in ("ddp-slow-rank", "ddp-buffers")
    }
    assert "comm-straggler" in told["ddp-slow-rank"]
    assert "ddp-buffer-broadcast" in told["ddp-buffers"]


def test_a_trimmed_trace_is_a_whole_trace() -> None:
    report = ta.analyze(ta.load(keeping.kept("redundant-passes", "small", "before")))
    assert len(report.analyses["step_breakdown"].steps) == 3


def test_the_page_is_what_the_script_writes() -> None:
    assert lab_page.PAGE.read_text(encoding="utf-8") == lab_page.text(), "run: python scripts/lab_page.py"


def test_the_package_reads_what_the_profiler_costs() -> None:
    """Half of the rounds lie around the median, and an operator costs something."""
    for entry in overheads():
        costs = (entry.operator, entry.shapes, entry.memory, entry.frame, entry.range)
        assert all(cost.low_ns <= cost.median_ns <= cost.high_ns for cost in costs)
        assert entry.operator.low_ns > 0
    assert len(overheads()) >= 2
