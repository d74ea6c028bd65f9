"""Epochs that end and begin within the steps of a recording."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.situations.dataloader_bound import LOADER, WORKERS

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
                host.range(name, 10_000)
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


def nothing_known() -> TraceBuilder:
    """Neither frames nor a capture."""
    return training(persistent=None)
