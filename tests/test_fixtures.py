"""The committed fixtures are what the scripts write, hold nobody's data, and are consistent in themselves."""

from __future__ import annotations

import gzip
import json
import re
import socket
import sys
from collections import Counter, defaultdict
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.builders import LAYOUTS, MODERN, OLD, ROCM, Raw, TraceBuilder, micros, ns
from tests.builders.captured import CAPTURED
from tests.builders.fixture_set import FOLDER, fixtures, readme
from tests.builders.malformed import MALFORMED, Malformed
from tests.builders.scrub import scrub, scrub_paths
from tests.builders.situations import SITUATIONS, Situation

ENTRIES = list(fixtures())
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.name != "README.md")
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
OVERLAPPING = {"overlapping_slices"}
UNLAUNCHED = {"kernels_without_launch"}

PRIVATE = re.compile(
    r"(?<![\w.])/(?:home|root|Users|usr|tmp|opt|work|var|mnt|data|srv|etc)/|[A-Za-z]:\\\\?\w|file://"
    r"|[\w.+-]+@[\w-]+\.\w{2,}|\"(?:host_name|username|traceName|PT_PROFILER_JOB_\w+)\""
)


def situations(*without: str) -> pytest.MarkDecorator:
    """Parametrize over the situations, except some."""
    chosen = [situation for situation in SITUATIONS if situation.name not in without]
    return pytest.mark.parametrize("situation", chosen, ids=lambda situation: situation.name)


@cache
def events_of(situation: Situation) -> list[dict[str, Any]]:
    """Parsed events, with exact times. They are shared: tests must not change them."""
    return list(situation.build().build(situation.layout)["traceEvents"])


def text_of(data: bytes) -> str:
    """Decompressed text, as far as it can be decompressed and decoded."""
    if data[:2] == b"\x1f\x8b":
        # The malformed ones store their text, so that it can be read in the file itself.
        with suppress(OSError, EOFError):
            data = gzip.decompress(data)
    return data.decode("utf-8", "replace").replace("\0", "")


# The committed files


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.path)
def test_the_committed_file_is_what_the_script_writes(entry: Any) -> None:
    path = FOLDER / entry.path
    assert path.exists(), "run: python scripts/make_fixtures.py"
    assert entry.matches(path.read_bytes()), "run: python scripts/make_fixtures.py"


def test_no_file_is_unknown_and_the_page_is_up_to_date() -> None:
    own = {path.relative_to(FOLDER).as_posix() for path in FILES if path.parent.name != "key_averages"}
    assert own == {entry.path for entry in ENTRIES}
    assert (FOLDER / "README.md").read_bytes() == readme(ENTRIES)


def test_a_changed_file_does_not_match() -> None:
    entry = next(entry for entry in ENTRIES if entry.path.endswith("gpu_training.json.gz"))
    stored = (FOLDER / entry.path).read_bytes()
    assert entry.matches(gzip.compress(gzip.decompress(stored), 1))
    assert not entry.matches(gzip.compress(gzip.decompress(stored) + b" "))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_private_is_in_the_file(path: Any) -> None:
    found = {match[0] for match in PRIVATE.finditer(text_of(path.read_bytes()))}
    assert not found
    for host in {socket.gethostname(), socket.getfqdn()} - {"localhost"}:
        assert f'"{host}"' not in text_of(path.read_bytes())


@pytest.mark.parametrize(
    "private",
    [
        '"/home/someone/train.py(3): main"',
        '"/root/x.py"',
        r'"C:\\Users\\someone"',
        "someone@example.com",
        '"host_name": "node7"',
        "/tmp/t.json",
    ],
)
def test_the_scan_would_find_it(private: str) -> None:
    assert PRIVATE.search(private)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_file_is_small_and_its_compression_has_no_date(path: Any) -> None:
    data = path.read_bytes()
    assert len(data) < (5_000 if path.parent.name == "malformed" else 150_000)
    if path.suffix == ".gz" and data[:2] == b"\x1f\x8b":
        assert data[4:8] == bytes(4)


# Captured traces


def calls_in_table(table: str) -> dict[str, int]:
    """Names and numbers of calls of a `key_averages()` table, by the columns that its dashes draw."""
    rule, header, *rows = [line for line in table.splitlines() if re.search(r"\S {2,}\S", line)]
    columns = [match.span() for match in re.finditer("-+", rule)]
    calls = next(span for span in columns if header[slice(*span)].strip() == "# of Calls")
    cells = [(row[slice(*columns[0])].strip(), row[slice(*calls)].strip()) for row in rows]
    return {name: int(count) for name, count in cells if name.startswith("aten::") and "..." not in name}


@pytest.mark.parametrize("capture", CAPTURED, ids=lambda capture: capture.name)
def test_the_captured_trace_has_the_calls_of_its_tables(capture: Any) -> None:
    trace, tables = (FOLDER / "captured" / name for name in capture.files)
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    calls: Counter[str] = Counter()
    nested: Counter[str] = Counter()
    ends: dict[tuple[str, object], float] = {}
    for event in sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: (e["ts"], -e["dur"])):
        # torch merges an operator with the one of the same name around it, if it is the only one in there
        name, place = event["name"], (event["name"], event["tid"])
        calls[name] += 1
        nested[name] += event["ts"] < ends.get(place, 0)
        ends[place] = max(ends.get(place, 0), event["ts"] + event["dur"])
    expected = calls_in_table(tables.read_text(encoding="utf-8").split("\n# ")[0])
    assert len(expected) >= 3
    assert all(calls[name] - nested[name] <= count <= calls[name] for name, count in expected.items())


def test_scrubbing_keeps_layout_and_takes_names_out() -> None:
    text = (
        '{\n    "schemaVersion": 1,\n      "host_name": "node7",\n    "traceEvents": [\n'
        '{"name": "/srv/a/lib/site-packages/torch/x.py(3): f", "pid": 99, "tid": 120},\n'
        '{"name": "thread 120 (python)", "pid": 99, "args": {"sort_index": 120}}\n],'
        '"traceName": "/srv/t.json" }'
    )
    assert scrub(text) == (
        '{\n    "schemaVersion": 1,\n    "traceEvents": [\n'
        '{"name": "torch/x.py(3): f", "pid": 1001, "tid": 1002},\n'
        '{"name": "thread 1002 (python)", "pid": 1001, "args": {"sort_index": 1002}}\n] }'
    )
    assert scrub_paths("a;/srv/b/run.py(1): main;torch/c.py(2): d") == "a;run.py(1): main;torch/c.py(2): d"


# Situations


@situations()
def test_building_twice_gives_the_same_bytes(situation: Situation) -> None:
    assert situation.build().to_bytes() == situation.build().to_bytes()


@situations("ddp_nccl", "no_profiler_step", "rocm_training")  # the same kinds of event as gpu_training
def test_all_layouts_hold_the_same_events(situation: Situation) -> None:
    trace = situation.build()
    usual = trace.build()
    for name, layout in LAYOUTS.items():
        other = trace.build(layout)
        assert other["traceEvents"] == usual["traceEvents"], name
        assert other == usual or layout.bare_array, name


@situations(*OVERLAPPING)
def test_host_slices_nest(situation: Situation) -> None:
    threads = defaultdict(list)
    elsewhere = {*DEVICE, "gpu_user_annotation", "mtia_ccp_events", "Trace"}
    for event in events_of(situation):
        if event["ph"] == "X" and event["cat"] not in elsewhere:
            span = (event["ts"], event["ts"] + event["dur"], event["name"])
            threads[event["pid"], event["tid"]].append(span)
    assert threads
    for slices in threads.values():
        open_ends: list[Decimal] = []
        for start, end, name in sorted(slices, key=lambda item: (item[0], -item[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], name
            open_ends.append(end)


@situations(*OVERLAPPING)
def test_a_stream_runs_one_thing_at_a_time(situation: Situation) -> None:
    streams = defaultdict(list)
    for event in events_of(situation):
        if event.get("cat") in DEVICE:
            streams[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for runs in streams.values():
        runs.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(runs))


def test_the_overlapping_situation_overlaps() -> None:
    situation = next(s for s in SITUATIONS if s.name == "overlapping_slices")
    kernels = sorted((e["ts"], e["ts"] + e["dur"]) for e in events_of(situation) if e.get("cat") == "kernel")
    assert kernels[1][0] < kernels[0][1] < kernels[1][1]


@situations(*UNLAUNCHED)
def test_device_work_starts_after_its_launch(situation: Situation) -> None:
    events = [event for event in events_of(situation) if event["ph"] == "X"]
    launches = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event["cat"] not in DEVICE and "correlation" in event["args"] and "bytes" not in event["args"]
    }
    for event in events:
        if event["cat"] in DEVICE:
            assert event["ts"] > launches[event["args"]["correlation"]]


@situations()
def test_external_ids_name_one_host_event(situation: Situation) -> None:
    hosts = {"cpu_op", "user_annotation", "Operator"}
    ids = [e["args"]["External id"] for e in events_of(situation) if e.get("cat") in hosts]
    assert len(ids) == len(set(ids))


@situations()
def test_memory_totals_follow_the_records(situation: Situation) -> None:
    totals: dict[int, int] = {}
    for event in events_of(situation):
        if event["name"] == "[memory]":
            args = event["args"]
            before = totals.get(args["Device Id"], args["Total Allocated"] - args["Bytes"])
            assert args["Total Allocated"] == before + args["Bytes"]
            assert args["Device Id"] < 0 or args["Total Reserved"] >= args["Total Allocated"]
            totals[args["Device Id"]] = args["Total Allocated"]


def test_kernels_of_a_step_end_after_the_step() -> None:
    situation = next(s for s in SITUATIONS if s.name == "gpu_training")
    events = events_of(situation)
    step = next(e for e in events if e["name"] == "ProfilerStep#5" and e["cat"] == "user_annotation")
    end = step["ts"] + step["dur"]
    launched = {
        e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime" and step["ts"] <= e["ts"] < end
    }
    ends = [e["ts"] + e["dur"] for e in events if e.get("cat") == "kernel" and e["args"]["correlation"] in launched]
    assert max(ends) > end


# Malformed files


def test_malformed_names_are_unique() -> None:
    assert len({file.name for file in MALFORMED}) == len(MALFORMED)


@pytest.mark.parametrize("file", MALFORMED, ids=lambda file: file.name)
def test_the_counts_fit_what_json_can_read(file: Malformed) -> None:
    """Where the file is sound JSON after all, the table must count every slice and record in it."""
    try:
        parsed = json.loads(text_of(file.data).removeprefix("\ufeff"), strict=True)
    except ValueError:
        return
    listed = parsed.get("traceEvents", []) if isinstance(parsed, dict) else parsed
    found = [
        event
        for event in (listed if isinstance(listed, list) else [])
        if isinstance(event, dict) and (event["ph"] == "X" or event["name"] == "[memory]")
        if event.get("cat") != "Trace"
    ]
    assert len(found) == file.readable + file.lost


@pytest.mark.parametrize(
    "name",
    [
        "truncated_in_event.json",
        "unescaped_quote.json",
        "damaged_border.json",
        "bare_inf.json",
        "nul_tail.json",
    ],
)
def test_broken_files_are_broken(name: str) -> None:
    file = next(file for file in MALFORMED if file.name == name)
    with pytest.raises(ValueError, match=r"."):
        json.loads(file.data.decode())


# The builder


@given(st.integers(-(10**18), 10**18))
def test_times_survive_exactly(nanoseconds: int) -> None:
    assert ns(micros(nanoseconds)) == nanoseconds
    assert ns(str(micros(nanoseconds))) == nanoseconds


def test_inexact_times_are_refused() -> None:
    with pytest.raises(TypeError):
        ns(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finer"):
        ns("0.0001")


def test_decimals_are_written_with_every_digit() -> None:
    trace = TraceBuilder(origin="1712195495519689.047")
    trace.op("aten::mm", "0.003", 5)
    assert b'"ts": 1712195495519689.050, "dur": 5.000' in trace.to_bytes()
    assert trace.build()["traceEvents"][0]["ts"] == Decimal("1712195495519689.05")
    assert b'"ts":1712195495519689.05,"dur":5.0,' in trace.to_bytes(LAYOUTS["minified"])


def test_raw_text_is_written_as_it_stands() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 1, args={"est. achieved occupancy %": Raw("inf")})
    assert b'"est. achieved occupancy %": inf' in trace.to_bytes()


def test_a_launch_finds_the_innermost_operator() -> None:
    trace = TraceBuilder()
    outer = trace.op("aten::linear", 0, 100)
    inner = trace.op("aten::addmm", 10, 50)
    correlations = [trace.launch_kernel("k", 200 + at, 5, at=at) for at in (20, 70, 150)]
    kernels = {
        event["args"]["correlation"]: event["args"].get("External id")
        for event in trace.build()["traceEvents"]
        if event.get("cat") == "kernel"
    }
    assert [kernels[ident] for ident in correlations] == [inner, outer, None]


def test_dialects_differ_where_writers_did() -> None:
    def kernel(trace: TraceBuilder) -> dict[str, Any]:
        trace.op("aten::mm", "10.7", 20)
        trace.launch_kernel("k", 30, "5.4", at=15, stream=7, grid=(54, 1, 1))
        return next(e for e in trace.build()["traceEvents"] if e.get("cat") in DEVICE)

    modern, old, rocm = (kernel(TraceBuilder(dialect)) for dialect in (MODERN, OLD, ROCM))
    assert (modern["tid"], old["tid"]) == (7, "stream 7")
    assert (modern["dur"], old["dur"]) == (Decimal("5.4"), 5)
    assert modern["args"]["External id"] == old["args"]["external id"] == 1
    assert modern["args"]["blocks per SM"] == Decimal("0.5")
    assert "blocks per SM" not in rocm["args"]
    assert rocm["args"]["kind"] == "Dispatch Kernel"


def test_options_are_in_the_header_only_when_on() -> None:
    header = TraceBuilder(options=["with_stack"], devices=()).build()
    assert header["with_stack"] == 1
    assert "record_shapes" not in header
    assert header["deviceProperties"] == []
