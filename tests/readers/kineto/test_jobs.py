"""A trace is the same however many processes decode it, and none of them is left afterwards."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.situations import SITUATIONS
from tests.readers.kineto.many_windows import SMALL, TEXT, everything
from tests.reading import read
from traceanalyzer import processes
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.formats import render
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.kineto import reader, windows
from traceanalyzer.readers.source import Source

pytestmark = pytest.mark.skipif(not processes.can_fork(), reason="processes are not forked on this system")

CORPUS = ("ddp_a100_nccl_rank0", "toy_train_mi250_rocm", "mtia_inference", "qwen_0_5b_h100_inference")


# The same trace


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
        reader.read(source, jobs, worthwhile=0)
    assert multiprocessing.active_children() == []
