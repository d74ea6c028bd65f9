"""Changes of epochs: how they are recognized by pairs of waits, and their cost."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.loader.test_dataloader_workers_restarted import (
    STARTING,
    fires,
    fires_once,
    training,
    trap_no_workers,
    trap_two_batches,
    trap_validation,
)
from traceanalyzer.analyzers.loader import ANALYSES, LoaderEpochs, epochs
from traceanalyzer.structure.context import Context


def found(trace: TraceBuilder) -> LoaderEpochs:
    return epochs(Context(read_built(trace)))


def test_two_changes_of_38_ms_18_of_which_are_waits() -> None:
    epochs = found(fires())
    assert (epochs.turns, epochs.usual_ns) == (2, 1_000_000)
    assert (epochs.total_ns, epochs.wait_ns) == (2 * 38_000_000, 2 * 18_000_000)
    assert [turn.starts_processes for turn in epochs.longest] == [None, None]
    assert epochs.excess_ns == pytest.approx(2 * 37_000_000, rel=0.001), "steps of 42 ms among others of 5"


def test_the_longest_comes_first() -> None:
    assert [turn.duration_ns for turn in found(fires_once()).longest] == [38_000_000]


def test_without_other_waits_nothing_is_usual() -> None:
    alone = found(training((0,), steps=1))
    assert (alone.usual_ns, alone.excess_ns) == (0, None)


@pytest.mark.parametrize(("frame", "starts"), [(STARTING, True), ("train.py(12): save_checkpoint", False)])
def test_frames_tell_whether_processes_start(frame: str, starts: bool) -> None:
    assert [turn.starts_processes for turn in found(training(frame=frame)).longest] == [starts, starts]


@pytest.mark.parametrize("build", [trap_validation, trap_two_batches, trap_no_workers])
def test_other_pairs_of_waits_are_no_change(build) -> None:  # type: ignore[no-untyped-def]
    reason = ANALYSES[1].missing(Context(read_built(build())))
    assert reason is not None
    assert reason.id == "skip-no-epochs"
