"""A trace is the same however many processes decode it, and none of them is left afterwards."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import LAYOUTS
from tests.builders.damage import clean
from tests.builders.situations import SITUATIONS
from tests.reading import read
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers import kineto
from traceanalyzer.readers.kineto import ahead, windows, workers
from traceanalyzer.readers.kineto.columns import Collector
from traceanalyzer.readers.kineto.decoding import EventDecoder
from traceanalyzer.readers.kineto.parts import POOL_OF, Part, part_from, unpack
from traceanalyzer.readers.source import Source
from traceanalyzer.renderers import render
from traceanalyzer.trace.model import Trace, all_tables

pytestmark = pytest.mark.skipif(not workers.can_start(), reason="processes are not forked on this system")

SMALL = 700
"""Bytes of a window that holds a few events."""

CORPUS = ("ddp_a100_nccl_rank0", "toy_train_mi250_rocm", "mtia_inference", "qwen_0_5b_h100_inference")
TEXT = clean(120).to_bytes(LAYOUTS["current"])
POOLS = ("names", "shapes", "types", "dims", "strides", "concrete", "collectives", "sources", "threads")


def everything(trace: Trace) -> dict[str, Any]:
    """All that is in a trace, codes and their order included."""
    found: dict[str, Any] = {name: tuple(getattr(trace, name)) for name in POOLS}
    found |= {
        f"{name}.{column.name}": getattr(table, column.name).tobytes()
        for name, table in all_tables(trace).items()
        for column in table.columns()
    }
    return found | {"info": trace.info, "losses": trace.losses}


def source_of(data: bytes) -> Source:
    return Source(io.BytesIO(data), "trace.json", len(data), lambda _: None)


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


# The same trace


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", SMALL)


@pytest.mark.usefixtures("small_windows")
def test_the_number_of_processes_changes_nothing() -> None:
    for number, situation in enumerate(SITUATIONS):
        data = situation.build().to_bytes(situation.layout)
        jobs = 2 + number % 2
        assert everything(read(data[:200_000], jobs=jobs)) == everything(read(data[:200_000])), situation.name


@pytest.mark.parametrize("name", CORPUS)
def test_reports_are_the_same_to_the_byte(name: str, corpus: Path) -> None:
    data = (corpus / "corpus" / f"{name}.json.gz").read_bytes()
    one, *others = (read(data, jobs=jobs) for jobs in (1, 2, 3))
    for other in others:
        assert everything(other) == everything(one)
    assert render(analyze(others[0]), "json") == render(analyze(one), "json")


@pytest.mark.usefixtures("small_windows")
@given(st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.binary(min_size=1, max_size=30)), max_size=4))
def test_damage_is_the_same_damage(changes: list[tuple[int, bytes]]) -> None:
    damaged = bytearray(TEXT)
    for at, change in changes:
        damaged[at : at + len(change)] = change
    answers = []
    for jobs in (1, 2):
        try:
            answers.append(everything(read(bytes(damaged), jobs=jobs)))
        except UnusableInputError as error:
            answers.append({"error": str(error)})
    assert answers[0] == answers[1]


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("event", ['{"ph": "X", "cat": "cpu_op", "name": "bad", "ts": NaN, "dur": 1}', '{"ph": ', "17"])
def test_damage_in_every_window(event: str) -> None:
    events = json.loads(TEXT)["traceEvents"]
    text = ", ".join(
        json.dumps(found) + (f", {event}" if number % 3 == 0 else "") for number, found in enumerate(events)
    )
    data = f'{{"traceEvents": [{text}]}}'.encode()
    one, several = read(data), read(data, jobs=3)
    assert one.losses
    assert everything(several) == everything(one)


@pytest.mark.usefixtures("small_windows")
def test_a_damaged_window_that_reads_on_beyond_its_border() -> None:
    """Each read ends with an event that is whole: recovery takes it, and the next window begins behind it."""
    event = '{"ph": "X", "cat": "cpu_op", "name": "%s", "ts": %d, "dur": 3}'
    texts = [event % (f"op {number}", 1000 + number) for number in range(95)]
    texts[30] = texts[30].replace('"ts"', "'ts'")
    head = '{"traceEvents": ['.ljust(71)
    data = (head + ",".join(text.rjust(69) for text in texts) + "]}").encode()
    assert data[SMALL - 1 : SMALL + 1] == data[6 * SMALL - 1 : 6 * SMALL + 1] == b"},"
    one, several = read(data), read(data, jobs=3)
    assert (len(one.host), [loss.id for loss in one.losses]) == (94, ["read-lost-event"])
    assert everything(several) == everything(one)


@pytest.mark.usefixtures("small_windows")
def test_a_file_that_is_cut() -> None:
    data = TEXT[: len(TEXT) // 2]
    one, several = read(data), read(data, jobs=2)
    assert [loss.id for loss in one.losses] == ["read-truncated"]
    assert everything(several) == everything(one)


@pytest.mark.usefixtures("small_windows")
def test_a_process_that_is_written_in_two_ways_counts_as_it_came_first() -> None:
    ops = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": 7 + number, "ts": 10 * number, "dur": 5}
        for number, pid in enumerate([1, 1.0] * 40)
    ]
    data = json.dumps({"traceEvents": ops}).encode()
    one, several = read(data), read(data, jobs=3)
    assert {thread.pid for thread in one.threads} == {"1"}
    assert everything(several) == everything(one)


def test_what_follows_the_part_that_is_read_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", SMALL)
    monkeypatch.setattr(windows, "_LARGEST_METADATA", 2 * SMALL)
    monkeypatch.setattr(windows, "_LARGEST_ELEMENT", 2 * SMALL)
    data = gzip.compress(TEXT.rstrip()[:-1] + b', "more": "' + os.urandom(5 * SMALL).hex().encode() + b'"}') + b"rest"
    one, several = read(data), read(data, jobs=3)
    assert "read-gzip-trailing" not in {loss.id for loss in one.losses}
    assert everything(several) == everything(one)


# Errors


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_no_trace_is_refused_with_the_same_words(jobs: int) -> None:
    with pytest.raises(UnusableInputError, match=r"^trace.json: is not a profiler trace: no traceEvents list in"):
        read(b'{"other": "x"}', jobs=jobs)


class BreaksOff(io.BytesIO):
    """A file whose medium fails."""

    def readinto(self, buffer: Any, /) -> int:
        if self.tell() > len(TEXT) // 2:
            raise OSError(5, "Input/output error")
        return super().readinto(buffer)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_of_the_file_are_raised(jobs: int) -> None:
    source = Source(BreaksOff(TEXT), "trace.json", len(TEXT), lambda _: None)
    with pytest.raises(OSError, match="Input/output error"):
        kineto.read(source, jobs, worthwhile=0)
    assert multiprocessing.active_children() == []


# Workers


def test_a_worker_makes_the_part_that_this_process_makes() -> None:
    text = json.dumps(json.loads(TEXT)["traceEvents"]).encode()
    own = part_from(EventDecoder(), memoryview(text))
    slots = workers.slots(2, len(text), 1 << 20)
    with workers.started(1, slots) as (worker,):
        slots[1].text[:] = text
        worker.give(1, slice(0, len(text)))
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
    slots = workers.slots(1, len(text), 100)
    with workers.started(1, slots) as (worker,):
        slots[0].text[:] = text
        worker.give(0, slice(0, len(text)))
        assert worker.take() == (0, None)
        worker.give(0, slice(1, 20))
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
@pytest.mark.parametrize("what", ["Worker", "slots"])
def test_without_processes_or_their_memory_this_process_does_all(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    usual = everything(read(TEXT))
    monkeypatch.setattr(workers, what, refused)
    assert everything(read(TEXT, jobs=3)) == usual


SLOW = """
import io, multiprocessing, os, sys, time
from traceanalyzer.readers import kineto
from traceanalyzer.readers.kineto import windows
from traceanalyzer.readers.source import Source

class Slow(io.BytesIO):
    def readinto(self, buffer):
        if self.tell() > 3000:
            print(*(child.pid for child in multiprocessing.active_children()), flush=True)
            time.sleep(60)
        return super().readinto(buffer)

windows.WINDOW = 700
data = sys.stdin.buffer.read()
kineto.read(Source(Slow(data), "trace.json", len(data), lambda _: None), 3, worthwhile=0)
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
        column.name
        for table in Collector().tables.values()
        for column in table.table.columns()
        if column.meaning.startswith(("code of", "row of"))
    }
    assert coded == set(POOL_OF)


def test_every_table_can_be_joined() -> None:
    trace = read(TEXT)
    assert set(Collector().tables) == set(all_tables(trace))
