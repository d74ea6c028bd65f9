"""Waits for batches, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.loader import ANALYSES, analyze, in_workers
from traceanalyzer.knowledge.loaders import FETCH_NS
from traceanalyzer.structure import host_waits
from traceanalyzer.structure.context import Context

US = 1000
SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
PIPE = "enumerate(DataPipe)#Shuffler"


def test_waits_are_summed_by_iterator_and_compared_with_the_median() -> None:
    trace = TraceBuilder()
    trace.step(3, 0, 1000)
    for start, dur in ((0, 60), (100, 10), (200, 10), (300, 12), (400, 100)):
        trace.annotation(WORKERS, start, dur)
    trace.launch_kernel("k", 420, 30, at=90)
    (loader,) = analyze(Context(read_built(trace))).loaders
    assert (loader.in_process, loader.calls, loader.total_ns, loader.exposed_ns) == (False, 5, 192 * US, 162 * US)
    assert (loader.median_ns, loader.p95_ns, loader.first_ns) == (12 * US, 100 * US, 60 * US)
    assert loader.first_excess_ns == 48 * US
    assert (loader.long_calls, loader.excess_ns) == (1, 70 * US), "88 us too long, but only 70 exposed"
    longest = loader.longest[0]
    assert (longest.start_ns, longest.duration_ns, longest.exposed_ns) == (400 * US, 100 * US, 70 * US)
    assert (longest.step, longest.is_first) == ("3", False)


def test_a_wait_within_a_wait_counts_once() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation(PIPE, 10, 50)
    trace.annotation(SINGLE, 20, 20)
    (loader,) = analyze(Context(read_built(trace))).loaders
    assert (loader.name, loader.calls, loader.total_ns) == (PIPE, 1, 50 * US)


@pytest.mark.parametrize(("name", "wanted"), [(SINGLE, True), (WORKERS, False), (PIPE, None)])
def test_the_name_tells_who_prepares_batches(name: str, wanted: bool | None) -> None:
    assert host_waits.is_in_process(name) is wanted


def test_without_a_loader_there_is_a_reason() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    reason = ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert "no wait for a DataLoader" in reason.text


@pytest.mark.parametrize(
    ("name", "asleep"),
    [
        ("<built-in function sleep>", 300_000),
        ("<built-in method poll of select.poll object at 0x7f>", 300_000),
        ("<built-in method read of _io.FileIO object at 0x7f>", 300_000),
        ("<built-in method acquire of _thread.lock object at 0x7f>", 300_000),
        ("<built-in function sum>", 0),
        ("<built-in method readout of Camera object at 0x7f>", 0),
        ("train.py(3): sleep", 0),
    ],
)
def test_what_the_process_itself_waits_for_needs_no_core(name: str, asleep: int) -> None:
    """300 us of a wait of 1000; what begins before it counts as far as it lies inside."""
    trace = TraceBuilder()
    trace.step(0, 0, 5000)
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1000, 1000)
    trace.python_function(name, 1200, 300)
    trace.python_function(name, 3000, 500)
    (loader,) = analyze(Context(read_built(trace))).loaders
    assert loader.asleep_ns == asleep


def test_without_frames_it_is_unknown_what_a_wait_is_for() -> None:
    trace = TraceBuilder()
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1000, 1000)
    (loader,) = analyze(Context(read_built(trace))).loaders
    assert loader.asleep_ns is None


@pytest.mark.parametrize(
    ("asleep", "is_free", "least"),
    [
        (1.0, False, 18),  # six workers, each asleep for 18 ms, bring a batch every 3 ms
        (1.0, True, 18),
        (0.5, False, 9 - 0.31 * 9),  # of 9 ms that need a core each batch has all; no more than the sleep is saved
        (0.4, False, 21 - 14.4 - 0.31 * 10.8),  # two workers share 7.2 ms
        (0.4, True, 3 - 0.31 * 10.8),  # a core is free: one worker works while the program computes for 3 ms
    ],
)
def test_workers_wait_side_by_side(asleep: float, is_free: bool, least: float) -> None:
    """A step of 21 ms loads for 18 of them."""
    parts: Any = SimpleNamespace(duration_ns=21e6, dataloader_ns=18e6, dataloader_full_ns=18e6)
    saved = in_workers.saving(parts, (), asleep, in_workers.Room(2, 1, is_free))
    assert saved == pytest.approx((max(0.0, least * 1e6 - FETCH_NS), 18e6))


@pytest.mark.parametrize(("library", "workers"), [("transformers.Trainer", 4), ("transformers.pipeline", 1)])
def test_no_more_workers_are_priced_than_a_library_starts(library: str, workers: int) -> None:
    """A step of 100 ms sleeps for 90 of them; nine workers would bring batches as fast as they are needed."""
    parts: Any = SimpleNamespace(duration_ns=100e6, dataloader_ns=90e6, dataloader_full_ns=90e6)
    loader: Any = SimpleNamespace(made_by=library)
    assert in_workers.side_by_side(parts, (loader,), 1.0, in_workers.Room(16, 1, True)) == workers
