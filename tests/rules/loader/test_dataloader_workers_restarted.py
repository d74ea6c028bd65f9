"""Tests of the rule `dataloader-workers-restarted`: numbers worked out by hand.

The programs: epochs that end and begin within the steps of a recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, sqrt

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.reading import read_built
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import LOADER, WORKERS
from tests.structure.recording.test_left_out_steps import in_epochs
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import analyze

STARTING = "torch/utils/data/dataloader.py(1130): _MultiProcessingDataLoaderIter.__init__"


def training(
    turns: Sequence[int] = (1, 4),
    *,
    steps: int = 6,
    between: int = 20_000,
    name: str = WORKERS,
    persistent: bool | None = False,
    frame: str | None = None,
    validation: str | None = None,
    last: int = 10_000,
) -> TraceBuilder:
    """Steps of 5 ms with waits of 1 ms; some begin with the end of an epoch: 10 ms, `between`, and 8 ms of waiting."""
    trace = TraceBuilder(devices=())
    if persistent is not None:
        loader = {"workers": 2, "persistent_workers": persistent, "epochs": len(turns)}
        trace.metadata["traceanalyzer"] = {"version": 1, "loaders": [loader]}
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            if number in turns:
                host.range(name, last)
                if validation is not None:
                    host.leaf(validation, between)
                elif frame is not None:
                    with host.frame(frame, before=between):
                        pass
                else:
                    host.work(between)
                host.range(name, 8_000)
            else:
                host.range(name, 1_000)
            host.leaf("aten::linear", 4_000)
    return finish(trace)


def fires() -> TraceBuilder:
    """Two of six steps begin with a new epoch, whose workers start anew."""
    return training()


def fires_by_frames() -> TraceBuilder:
    """Frames show the iterator that starts its workers."""
    return training(persistent=None, frame=STARTING)


def fires_once() -> TraceBuilder:
    """One change of epochs."""
    return training((3,))


def quiet() -> TraceBuilder:
    """A recording of one long epoch."""
    return training(())


def trap_persistent() -> TraceBuilder:
    """The workers are kept; the program does something between the epochs that no event shows."""
    return training(persistent=True)


def trap_validation() -> TraceBuilder:
    """Between the epochs the network is evaluated."""
    return training(validation="aten::conv2d")


def trap_two_batches() -> TraceBuilder:
    """A step reads two batches one after the other."""
    return training(between=50)


def trap_no_workers() -> TraceBuilder:
    """Epochs of a loader without workers."""
    return training(name=LOADER)


def trap_other_frames() -> TraceBuilder:
    """Frames show that the program writes a checkpoint between epochs."""
    return training(persistent=None, frame="train.py(12): save_checkpoint")


def fires_by_long_ends() -> TraceBuilder:
    """Neither frames nor a capture, but each epoch ends with a wait of 10 ms, in which workers end."""
    return training(persistent=None)


def nothing_known() -> TraceBuilder:
    """Neither frames nor a capture, and epochs end at once, as those of workers that stay."""
    return training(persistent=None, last=100)


RULE = "dataloader-workers-restarted"


def test_what_changes_of_epochs_cost() -> None:
    """Two steps of 42 ms among six, the others 5 ms; surely the waits, less two of 1 ms each: 16 of 18 ms.

    Both changes take equally long; their number is off by a change over the root of twelve, of two 14.4 %, 1.28 times.
    """
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    least, most = 2 * 16e6 / 6, 2 * 37e6 / 6
    middle = (least + most) / 2
    apart = hypot(middle - least, 1.28 * middle / 2 / sqrt(12))
    assert finding.saving.direct_ns_per_step == pytest.approx((middle - apart, middle + apart), rel=0.001)
    assert finding.summary.params["turns"] == 2
    assert finding.summary.params["each"] == pytest.approx(37e6, rel=0.001)
    assert finding.stage == "stable"


def test_one_change_does_not_tell_how_often_they_come() -> None:
    (finding,) = findings(fires_once(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0
    assert finding.severity == "medium"


def test_frames_tell_it_as_well() -> None:
    assert findings(fires_by_frames(), RULE)


def test_long_ends_of_several_epochs_tell_it_as_well() -> None:
    (finding,) = findings(fires_by_long_ends(), RULE)
    assert finding.summary.params["turns"] == 2
    assert not findings(fires_by_long_ends(), "dataloader-stalls")
    assert "long waits at the ends" in (skipped(training((3,), persistent=None), RULE) or ""), "one may be chance"


def test_without_a_sign_it_is_not_judged() -> None:
    assert "neither a capture nor" in (skipped(nothing_known(), RULE) or "")


def test_waits_between_epochs_are_no_business_of_the_loader_being_slow() -> None:
    assert findings(fires(), "dataloader-bound") == []


def test_changes_between_unmarked_steps_are_worth_what_they_are_of_the_recording() -> None:
    """Three changes of 95 ms, of which the two waits take 35 ms, between four epochs of five steps of 10 ms."""
    (finding,) = findings(in_epochs(epochs=4, batches=5, restart=60_000), RULE)
    assert finding.saving is None
    assert finding.once is not None
    least, most = finding.once.wall_ns
    assert finding.once.comes_back
    assert least < 3 * 35e6 < 3 * 95e6 < most * 1.01
    assert (finding.severity, finding.once.share_of_recording > 0.3) == ("critical", True)


def stopped_epochs(*, first: int = 2_000_000, pause: int = 300_000, epochs: int = 3) -> TraceBuilder:
    """Unmarked epochs of six batches of 50 ms, whose first waits are long, with a pause between them."""
    trace, at = TraceBuilder(devices=()), 0
    for epoch in range(epochs):
        for batch in range(6):
            wait = 300 if batch else first
            trace.annotation(WORKERS, at, wait)
            trace.op("aten::linear", at + wait + 5, 25_000)
            trace.op("aten::mm", at + wait + 25_005, 24_900)
            at += wait + 50_000
        at += pause if epoch < epochs - 1 else 0
    return trace


def test_epochs_that_stop_before_the_loader_ends_start_workers_anew() -> None:
    (finding,) = findings(stopped_epochs(), RULE)
    assert finding.summary.params["turns"] == 2
    assert finding.summary.params["total"] == pytest.approx(2 * 2300e6, rel=0.01)
    assert finding.once is not None
    assert finding.once.comes_back
    assert finding.once.share_of_recording == pytest.approx(4.6 / 7.5, rel=0.1)


@pytest.mark.parametrize(
    "trace",
    [stopped_epochs(first=20_000), stopped_epochs(pause=2), stopped_epochs(epochs=2)],
    ids=["short-waits", "no-pause", "one-change"],
)
def test_what_starts_no_workers(trace: TraceBuilder) -> None:
    assert findings(trace, RULE) == []


def test_steps_with_a_start_of_workers_are_no_typical_ones() -> None:
    recording = analyze(Context(read_built(stopped_epochs())))
    assert recording.typical_step_ns == pytest.approx(50.3e6, rel=0.01)
