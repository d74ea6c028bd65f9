"""Processes that decode windows: their parts are those of this process, and none outlives the reader."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.readers.kineto.many_windows import TEXT, everything, source_of
from tests.reading import read
from traceanalyzer import processes
from traceanalyzer.readers.kineto import ahead
from traceanalyzer.readers.kineto.columns import Collector
from traceanalyzer.readers.kineto.fields import POOL_OF
from traceanalyzer.readers.kineto.parts import Part, unpack
from traceanalyzer.readers.kineto.scanning import ScanningDecoder
from traceanalyzer.trace.model import all_tables

pytestmark = pytest.mark.skipif(not processes.can_fork(), reason="processes are not forked on this system")


def is_running(pid: int) -> bool:
    """Whether a process exists that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends(pids: list[int]) -> bool:
    """Whether all processes end within half a minute."""
    for _ in range(300):
        if not any(map(is_running, pids)):
            return True
        time.sleep(0.1)
    return False


def test_a_worker_makes_the_part_that_this_process_makes() -> None:
    text = json.dumps(json.loads(TEXT)["traceEvents"]).encode()
    own = ScanningDecoder().part(memoryview(text), [0, len(text) - 1])
    slots = ahead.shared_slots(2, len(text), 1 << 20)
    with ahead.started_workers(1, slots) as (worker,):
        slots[1].text[:] = text
        worker.give(1, [0, len(text) - 1])
        slot, sizes = worker.take()
    assert slot == 1
    assert sizes is not None
    part = unpack(slots[1].columns, sizes)
    assert own is not None
    assert part.pools == own.pools
    assert part.categories == own.categories
    assert {table: list(columns) for table, columns in part.tables.items()} == {
        table: list(columns) for table, columns in own.tables.items()
    }
    for table, columns in own.tables.items():
        for name, column in columns.items():
            np.testing.assert_array_equal(part.tables[table][name], column)


def test_a_worker_without_room_and_one_without_json_say_so() -> None:
    text = json.dumps(json.loads(TEXT)["traceEvents"]).encode()
    slots = ahead.shared_slots(1, len(text), 100)
    with ahead.started_workers(1, slots) as (worker,):
        slots[0].text[:] = text
        worker.give(0, [0, len(text) - 1])
        assert worker.take() == (0, None)
        worker.give(0, [1, 19])
        assert worker.take() == (0, None)
        assert worker.busy_with == []


@pytest.mark.usefixtures("small_windows")
def test_a_worker_that_dies_takes_nothing_with_it() -> None:
    collected, parts = 0, 0
    with ahead.windows_of(source_of(TEXT), 3) as found:
        for number, events in enumerate(found):
            if isinstance(events, Part):
                collected, parts = collected + events.elements, parts + 1
            else:
                collected += len(events)
            if number == 5:
                for child in multiprocessing.active_children():
                    os.kill(child.pid or 0, signal.SIGKILL)
    assert collected == len(json.loads(TEXT)["traceEvents"])
    assert parts > 0
    assert multiprocessing.active_children() == []


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("what", ["DecodingWorker", "shared_slots"])
def test_without_processes_or_their_memory_this_process_does_all(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    usual = everything(read(TEXT))
    monkeypatch.setattr(ahead, what, refused)
    assert everything(read(TEXT, jobs=3)) == usual


SLOW = """
import io, multiprocessing, os, sys, time
from traceanalyzer.readers.kineto import reader
from traceanalyzer.readers.kineto import windows
from traceanalyzer.readers.source import Source

class Slow(io.BytesIO):
    def readinto(self, buffer):
        if self.tell() > 3000:
            print(*(child.pid for child in multiprocessing.active_children()), flush=True)
            for _ in range(600):  # a signal that comes just before a sleep begins does not end it
                time.sleep(0.1)
        return super().readinto(buffer)

windows.WINDOW = 700
data = sys.stdin.buffer.read()
reader.read(Source(Slow(data), "trace.json", len(data), lambda _: None), 3, worthwhile=0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_no_process_outlives_the_reader(number: signal.Signals) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(TEXT)
    reader.stdin.close()
    children = list(map(int, reader.stdout.readline().split()))
    assert len(children) == 2
    if number == signal.SIGINT:
        os.killpg(reader.pid, number)  # as Ctrl-C does
    else:
        reader.send_signal(number)
    reader.wait(30)
    errors = reader.stderr.read() if reader.stderr else b""
    assert ends(children)
    assert errors.count(b"Traceback") == (number == signal.SIGINT)
    for stream in (reader.stdout, reader.stderr):
        assert stream is not None
        stream.close()


# Parts


def test_every_column_of_codes_has_its_pool() -> None:
    coded = {
        (name, column.name)
        for name, table in Collector().tables.items()
        for column in table.table.columns()
        if column.meaning.startswith(("code of", "row of"))
    }
    assert coded == {(name, column) for name, pools in POOL_OF.items() for column in pools}


def test_every_table_can_be_joined() -> None:
    trace = read(TEXT)
    assert set(Collector().tables) == set(all_tables(trace))
