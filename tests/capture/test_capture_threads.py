"""Other threads of Python, the interpreter's lock, and samples of datasets, as the agent measures them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from traceanalyzer.capture.agent import samples, threads
from traceanalyzer.capture.agent.facts import place
from traceanalyzer.capture.agent.samples import SampleClock
from traceanalyzer.capture.agent.threads import OtherThreads

HERE = str(Path(__file__).parent)
needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has clocks of other threads")


@contextmanager
def running(work: Callable[[threading.Event, threading.Event], None]) -> Iterator[threading.Thread]:
    """A thread that works until the block ends; the block begins when it has begun."""
    begun, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(begun, stop))
    thread.start()
    begun.wait()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()


def compute(begun: threading.Event, stop: threading.Event) -> None:
    """Compute in Python; the first 20 ms on a core are over when the block begins."""
    while time.thread_time_ns() < 20_000_000:
        sum(range(1000))
    begun.set()
    while not stop.is_set():
        sum(range(1000))


def sleep(begun: threading.Event, stop: threading.Event) -> None:
    """Do nothing."""
    begun.set()
    stop.wait()


@needs_linux
def test_a_thread_that_computes_counts_from_lap_to_lap_and_is_named() -> None:
    others = OtherThreads(HERE)
    with running(compute):
        others.lap(is_recorded=False)
        time.sleep(0.05)
        ran = others.lap(is_recorded=True)
    assert ran is not None
    assert ran > 5_000_000
    (told,) = others.facts()["threads"]
    line = compute.__code__.co_firstlineno
    assert told == {"function": f"test_capture_threads.py({line}): compute", "ns": ran}


@needs_linux
def test_a_thread_that_sleeps_does_not_count() -> None:
    others = OtherThreads(HERE)
    with running(sleep):
        others.lap(is_recorded=False)
        ran = others.lap(is_recorded=True)
    assert ran is not None
    assert ran < 1_000_000
    assert others.lap(is_recorded=True) == 0, "it has ended"


@needs_linux
def test_the_clock_of_a_thread_by_its_number_is_its_own_clock() -> None:
    before = time.thread_time_ns()
    found = threads._ran_ns(threading.get_native_id())
    assert found is not None
    assert found >= before
    assert threads._ran_ns(2**22 + 1) == 0, "no thread has this number"


def test_the_lock_is_waited_for_where_another_thread_computes() -> None:
    free, held = OtherThreads(HERE), OtherThreads(HERE)
    with running(sleep):
        free.ask_for_lock()
    with running(compute):
        for _ in range(100):  # a thread that waits for a core holds no lock
            held.ask_for_lock()
            if max(held._waits, default=0) > 1_000_000:
                break
    alone = OtherThreads(HERE)
    alone.ask_for_lock()
    waited = alone.facts()["lock_wait_ns"]
    assert waited is None or waited < 1_000_000, "nobody computes: what else has threads here only sleeps"
    if held.facts()["lock_wait_ns"] is not None:  # where the system counts
        assert max(held._waits) > 1_000_000
        assert min(free._waits) < 1_000_000


@pytest.mark.parametrize(
    ("file", "project", "expected"),
    [
        ("/home/me/run/data/words.py", "/home/me/run", "data/words.py(7): item"),
        ("/home/me/run/data/words.py", "/home/me/other", "words.py(7): item"),
        ("/usr/lib/python3/site-packages/torchvision/folder.py", "/home/me", "torchvision/folder.py(7): item"),
        ("/words.py", "", "words.py(7): item"),
        ("<string>", "/home/me", "<string>(7): item"),
    ],
)
def test_a_place_tells_no_folder_outside_the_project(file: str, project: str, expected: str) -> None:
    code = place.__code__.replace(co_filename=file, co_firstlineno=7, co_name="item")
    assert place(code, project) == expected


class Words:
    """A dataset of numbers."""

    def __getitem__(self, index: int) -> int:
        return index


class Fetcher:
    """What a fetcher of torch does."""

    auto_collation = True

    def __init__(self, dataset: Any, collate: Callable[[Any], Any]) -> None:
        self.dataset, self.collate_fn = dataset, collate

    def fetch(self, index: list[int]) -> Any:
        return self.collate_fn([self.dataset[each] for each in index])


def loader(dataset: Any, workers: int = 0) -> Any:
    return SimpleNamespace(dataset=dataset, num_workers=workers, collate_fn=sum)


def wrapped(clock: SampleClock, *, is_wanted: bool = True) -> Callable[..., Any]:
    return clock.timed(Fetcher.fetch, is_wanted=lambda: is_wanted)


def test_samples_are_counted_with_the_function_that_makes_them() -> None:
    clock, source = SampleClock(HERE), loader(Words())
    clock.begins(source)
    fetcher = Fetcher(source.dataset, sum)
    assert wrapped(clock)(fetcher, [1, 2, 3]) == 6
    assert wrapped(clock)(fetcher, [4]) == 4
    assert fetcher.collate_fn is sum, "as it was"
    found = clock.facts(id(source))
    assert found is not None
    assert (found["batches"], found["samples"]) == (2, 4)
    assert found["ns"] >= found["collate_ns"]
    line = Words.__getitem__.__code__.co_firstlineno
    assert found["function"] == f"test_capture_threads.py({line}): Words.__getitem__"
    assert found["collate"] is None, "it has no code"


def test_what_is_not_wanted_or_fails_is_not_counted() -> None:
    clock, source = SampleClock(HERE), loader(Words())
    clock.begins(source)
    fetcher = Fetcher(source.dataset, sum)
    assert wrapped(clock, is_wanted=False)(fetcher, [1]) == 1
    with pytest.raises(TypeError):
        wrapped(clock)(fetcher, None)
    assert fetcher.collate_fn is sum
    assert clock.facts(id(source)) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork")
def test_forked_workers_tell_what_they_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, source = SampleClock(HERE), loader(Words(), workers=2)
    clock.begins(source)
    for worker in (0, 1):
        child = os.fork()
        if child == 0:
            monkeypatch.setattr(samples, "_worker", lambda number=worker: number)
            wrapped(clock, is_wanted=False)(Fetcher(source.dataset, sum), [1, 2])
            os._exit(0)
        os.waitpid(child, 0)
    found = clock.facts(id(source))
    assert found is not None
    assert (found["batches"], found["samples"]) == (2, 4)
