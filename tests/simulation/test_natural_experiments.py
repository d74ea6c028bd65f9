"""Steps that are predicted from other steps of the same recording."""

from __future__ import annotations

from scripts.whatif_steps import predictions
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure.context import Context

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(waits: list[int]) -> TraceBuilder:
    """Steps in us: a wait for the loader, a launch, 60 of host work beside a kernel of 100, and a wait for it."""
    trace, at = TraceBuilder(), 0
    for number, wait in enumerate(waits):
        trace.step(number, at, wait + 150)
        trace.annotation(LOADER, at + 5, wait)
        at += wait
        trace.op("aten::mm", at + 10, 120)
        trace.launch_kernel("kernel", at + 30, 100, at=at + 20, call_dur=5)
        trace.launch("cudaStreamSynchronize", at + 85, 50)
        at += 150
    return trace


def test_a_step_is_predicted_from_one_with_another_wait() -> None:
    found = predictions(Context(read_built(training([100, 110, 100, 120]))))
    assert {(each.from_step, each.of_step) for each in found} >= {("0", "1"), ("1", "3"), ("3", "2")}
    assert max(each.error_share for each in found) == 0
