"""Trainings of many kinds get the steps that their author counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.capturing import capture, facts, needs_torch, only, plainly, step_names, text, traces

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _torch() -> None:
    needs_torch()


def test_each_step_of_the_author_is_a_step() -> None:
    """Of each kind: what ends the steps, how many of 24 are seen, and how many of the author's are within each."""
    run = plainly("counted.py")
    assert run.code == 0, run.err
    assert run.out.splitlines() == [
        "reinforce optimizer 23 1",
        "rollouts optimizer 23 1",
        "cells optimizer 23 1",
        "cells-by-hand update 22 1",
        "accumulation optimizer 23 1",
        "accumulation-by-hand update 22 1",
        "accumulation-compiled update 18 1",
        "accumulation-of-batches optimizer 23 1",
        "accumulation-of-batches-by-hand update 23 1",
        "gan optimizer 23 1",
        "gan-by-hand update 23 1",
        "several optimizer 23 1",
        "in-backward update 18 1",
        "by-hand update 22 1",
        "by-data update 22 1",
        "functional backward 13 1",
        "gradients update 22 1",
        "alternating optimizer 23 1",
        "alternating-by-hand update 22 1",
        "inference-then-training optimizer 23 1",
    ]


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("cells", "optimizer"),
        ("accumulation-of-batches", "optimizer"),
        ("alternating-by-hand", "update"),
        ("accumulation-compiled", "update"),
    ],
)
def test_a_training_is_recorded_where_its_updates_are(tmp_path: Path, kind: str, source: str) -> None:
    """Calls of modules, micro-batches and an evaluation come first, and leave neither a trace nor control steps."""
    run = capture(tmp_path, "trainings.py", kind)
    assert (run.code, run.out) == (0, f"{kind}\n"), run.err
    trace = only(tmp_path)
    found = facts(trace)
    assert (found.steps_from, found.steps) == (source, len(step_names(trace)))
    assert text(trace).count('"author: step"') == found.steps == 5
    assert found.timing.before is not None
    assert found.timing.after is not None
    assert (found.timing.before.steps, found.timing.after.steps) == (1, 5)
    assert found.backward_per_step == (32.0 if "accumulation" in kind else 1.0)
    batches = {"accumulation-of-batches": 32.0, "alternating-by-hand": 1.0}.get(kind, 0.0)
    assert found.batches_per_step == batches, "without those of the evaluation"


def test_control_steps_of_a_recording_that_was_thrown_away_are_not_those_of_the_next(tmp_path: Path) -> None:
    """Batches with gradients were recorded and timed first; the program ends right after the recorded updates."""
    run = capture(tmp_path, "trainings.py", "accumulation-of-batches", "8")
    assert run.code == 0
    found = facts(only(tmp_path))
    assert (found.steps_from, found.steps, found.timing.after) == ("optimizer", 5, None)
    assert found.timing.profiled is not None
    assert found.timing.profiled.steps == 5


def test_what_was_recorded_before_the_first_backward_pass_is_thrown_away(tmp_path: Path) -> None:
    """Batches at the start are recorded to the end; then too few steps follow to record any."""
    run = capture(tmp_path, "trainings.py", "inference-then-training", "2")
    assert run.code == 0
    assert "nothing was captured: the program made 2 steps, and 8 are needed" in run.err
    assert traces(tmp_path) == []
