"""Copies of real traces: the bandwidths that the profiler itself wrote, and HTA's sums of memory kernels."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import corpus_files
from traceanalyzer.analyzers import copies

pytestmark = pytest.mark.corpus


class Event(msgspec.Struct):
    """What these tests ask of an event; `args` is taken apart of copies only."""

    ph: object = None
    cat: object = None
    name: Any = None
    dur: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class File(msgspec.Struct):
    """A trace as its writer made it."""

    traceEvents: list[Event]  # noqa: N815 - the key of the file


@dataclass(frozen=True)
class Copy:
    """A copy or fill as the file has it."""

    name: str
    dur: float
    args: dict[str, Any]


@cache
def events(corpus: Path, name: str) -> list[Copy]:
    """The copies and fills as the file has them."""
    text = gzip.decompress((corpus / "corpus" / f"{name}.json.gz").read_bytes()).decode("utf-8", "replace")
    wanted = {"gpu_memcpy", "gpu_memset", "memcpy", "memset"}
    return [
        Copy(event.name, float(event.dur), msgspec.json.decode(event.args))
        for event in msgspec.json.decode(text, type=File).traceEvents
        if str(event.cat).lower() in wanted and event.ph == "X"
    ]


def test_counts_bytes_and_times_are_those_of_the_file(corpus: Path, corpus_name: str) -> None:
    context = corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    written = events(corpus, corpus_name)
    assert (copies.ANALYSES[0].missing(context) is None) == bool(written)
    rows = {row.name: row for row in copies.analyze(context).rows}
    assert set(rows) == {event.name for event in written}
    for name, row in rows.items():
        own = [event for event in written if event.name == name]
        sizes = [event.args.get("bytes") for event in own]
        assert row.calls == len(own)
        assert row.time_ns == pytest.approx(sum(1000 * event.dur for event in own), abs=len(own))
        known = [int(size) for size in sizes if isinstance(size, int)]
        if len(known) == len(sizes):  # some writers give the size as a text
            assert row.bytes == sum(known)


def test_the_best_bandwidth_is_one_that_the_profiler_wrote(corpus: Path, corpus_name: str) -> None:
    """The profiler divides by exact durations, the file holds them in whole microseconds before torch 2.3."""
    rows = {
        row.name: row
        for row in copies.analyze(corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")).rows
    }
    key = "memory bandwidth (GB/s)"
    best: dict[str, float] = {}
    whole_us = True
    for event in events(corpus, corpus_name):
        value, size = event.args.get(key), event.args.get("bytes")
        whole_us &= event.dur.is_integer()
        if isinstance(value, int | float) and math.isfinite(value) and isinstance(size, int) and size >= 65_536:
            best[event.name] = max(best.get(event.name, 0), value)
    if not best:
        pytest.skip("nothing to compare: the profiler wrote no bandwidth of a large copy")
    assert best.keys() <= rows.keys()
    for name, value in best.items():
        assert rows[name].max_bandwidth_gb_per_s == pytest.approx(value, rel=0.5 if whole_us else 1e-3)


def test_exposed_copies_are_the_memory_time_of_hta(corpus: Path) -> None:
    """All kernels and copies of this trace are on one stream, so nothing overlaps and HTA's truncation is small."""
    name = "owlv2_h100_inference"
    with gzip.open(corpus / "expected" / f"{name}.json.gz") as file:
        kinds = {row["kernel_type"]: row["sum"] for row in json.load(file)["hta"]["kernel_type"]}
    found = copies.analyze(corpus_files.context_of(corpus / "corpus" / f"{name}.json.gz"))
    assert found.overlapped_ns == 0
    assert found.exposed_ns / 1000 == pytest.approx(kinds["MEMORY"], abs=found.calls)  # HTA cuts each to whole us
