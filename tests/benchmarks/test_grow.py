"""The generator of large traces changes the right numbers and nothing else."""

import gzip
import json
import os
import subprocess
import sys
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grow import Grown, grow, split_events, take_apart

# Kineto's own layout: keys of an event over several lines, several per line; metadata events in between.
KINETO = """
{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "GPU", "numSms": 80}
  ],
  "traceEvents": [
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 10, "tid": 11,
    "ts": 1712195495519689.047, "dur": 63.813,
    "args": {
      "External id": 4,"Record function id": 0, "Ev Idx": 0
    }
  },
  {
    "ph": "M", "name": "process_name", "ts": 1712195495519689.047, "pid": 10, "tid": 0,
    "args": {"name": "python"}
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm \\"ts\\": 5", "pid": 10, "tid": 11,
    "ts": 1712195495519690.500, "dur": 20,
    "args": {
      "External id": 5,"Sequence number": 18456, "Fwd thread id": 1, "Ev Idx": 1, "Input Dims": [[3, 4], []]
    }
  },
  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 11,
    "ts": 1712195495519691.12, "dur": 4.000,
    "args": {
      "External id": 5, "cbid": 211, "correlation": 90
    }
  },
  {
    "ph": "s", "id": 90, "pid": 10, "tid": 11, "ts": 1712195495519691.12, "cat": "ac2g", "name": "ac2g"
  },
  {
    "ph": "f", "id": 90, "pid": 0, "tid": 7, "ts": 1712195495519700, "cat": "ac2g", "name": "ac2g", "bp": "e"
  },
  {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
    "ts": 1712195495519700, "dur": 60.001,
    "args": {
      "External id": 5, "correlation": 90, "device": 0, "stream": 7, "id": 3, "grid": [1, 2, 3]
    }
  },
  {
    "ph": "X", "cat": "kernel", "name": "launched elsewhere", "pid": 0, "tid": 7,
    "ts": 1712195495519761.5, "dur": 1.25,
    "args": {
      "External id": 0, "correlation": 92, "device": 0, "stream": 7
    }
  },
  {
    "ph": "X", "cat": "python_function", "name": "a.py(1): f", "pid": 10, "tid": 11,
    "ts": 1712195495519689.047, "dur": 63.813,
    "args": {
      "Python id": 1, "Python parent id": null, "Ev Idx": 2
    }
  },
  {
    "ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "pid": 10, "tid": 11,
    "ts": 1712195495519690.047, "dur": 60.813,
    "args": {
      "Python id": 2, "Python parent id": 1, "Python module id": 0, "Ev Idx": 3
    }
  },
  {
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 10, "tid": 11,
    "ts": 1712195495519690.600,
    "args": {
      "Total Allocated": 512, "Bytes": 512, "Addr": 140101, "Device Id": 0, "Device Type": 1, "Ev Idx": 4
    }
  }
  ],
  "traceName": "/t", "displayTimeUnit": "ms"
}"""

# The same events from another writer: one line, no white space.
ONE_LINE = json.dumps(json.loads(KINETO.replace("1712195495", "").replace(".500", ".25")), separators=(",", ":"))

LAYOUTS = pytest.mark.parametrize("source", [KINETO, ONE_LINE], ids=["kineto", "one line"])
COPIES = 4
SPAN_US = {KINETO: 74, ONE_LINE: 74}  # 519689.047 to 519762.75, in whole microseconds
FRESH = ("External id", "correlation", "Ev Idx", "Python id", "Python parent id", "Sequence number")


def replicate(source: str, copies: int = COPIES) -> str:
    template = take_apart(source)
    return "".join([template.head, *islice(template.copies(), copies - 1), template.tail])


def parse(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return parsed


def copies_of_events(source: str) -> list[list[dict[str, Any]]]:
    """The events of each copy without metadata, the source's own first."""
    events = [event for event in parse(replicate(source))["traceEvents"] if event["ph"] != "M"]
    count = len(events) // COPIES
    return [events[start : start + count] for start in range(0, len(events), count)]


def ids(events: list[dict[str, Any]], key: str) -> list[int]:
    return [event["args"][key] for event in events if event.get("args", {}).get(key)]


@LAYOUTS
def test_first_copy_header_and_tail_are_the_source(source: str) -> None:
    template = take_apart(source)
    assert template.head + template.tail == source
    assert replicate(source, 1) == source
    assert parse(replicate(source)).keys() == parse(source).keys()


@LAYOUTS
def test_further_copies_differ_from_the_source_in_digits_only(source: str) -> None:
    def without_digits(text: str) -> str:
        return "".join(char for char in text if not char.isdigit())

    repeated = [event for event in split_events(source) if event.phase != "M"]
    text = "".join(source[event.separator_start : event.end] for event in repeated)
    copies = list(islice(take_apart(source).copies(), COPIES))
    assert len(copies) == COPIES
    for copy in copies:
        assert copy.startswith(",")
        assert without_digits(copy.lstrip(", \n")) == without_digits(text.lstrip())


@LAYOUTS
def test_metadata_is_written_once(source: str) -> None:
    events = parse(replicate(source))["traceEvents"]
    assert sum(event["ph"] == "M" for event in events) == 1
    assert len(events) == 1 + COPIES * (len(parse(source)["traceEvents"]) - 1)


@LAYOUTS
def test_times_move_by_the_span_exactly(source: str) -> None:
    first, *others = copies_of_events(source)
    assert others
    for number, copy in enumerate(others, start=1):
        shift = number * SPAN_US[source]
        assert [event["ts"] for event in copy] == [event["ts"] + shift for event in first]
        assert [event.get("dur") for event in copy] == [event.get("dur") for event in first]


def test_times_keep_their_decimals_as_written() -> None:
    assert "1712195495519764.500" in replicate(KINETO)
    assert "1712195495519765.12," in replicate(KINETO)
    assert '"ts": 1712195495519774,' in replicate(KINETO)


@LAYOUTS
def test_copies_do_not_overlap(source: str) -> None:
    copies = copies_of_events(source)
    starts = [min(event["ts"] for event in copy) for copy in copies]
    ends = [max(event["ts"] + event.get("dur", 0) for event in copy) for copy in copies]
    assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))


@LAYOUTS
@pytest.mark.parametrize("key", FRESH)
def test_ids_are_fresh_in_each_copy(source: str, key: str) -> None:
    per_copy = [set(ids(copy, key)) for copy in copies_of_events(source)]
    assert all(per_copy)
    assert len(set.union(*per_copy)) == sum(len(found) for found in per_copy)


@LAYOUTS
def test_links_hold_within_each_copy(source: str) -> None:
    copies = copies_of_events(source)
    assert len(copies) == COPIES
    for copy in copies:
        by_name = {event["name"]: event for event in copy if event["ph"] == "X"}
        launch, kernel = by_name["cudaLaunchKernel"]["args"], by_name["gemm"]["args"]
        op = by_name['aten::mm "ts": 5']["args"]
        frame, module = by_name["a.py(1): f"]["args"], by_name["nn.Module: Linear_0"]["args"]
        assert kernel["correlation"] == launch["correlation"]
        assert kernel["External id"] == launch["External id"] == op["External id"]
        assert [event["id"] for event in copy if "id" in event] == [launch["correlation"]] * 2
        assert module["Python parent id"] == frame["Python id"]
        assert frame["Python parent id"] is None


@LAYOUTS
def test_what_is_no_id_of_an_event_stays(source: str) -> None:
    copies = copies_of_events(source)
    assert len(copies) == COPIES
    for copy in copies:
        by_name = {event["name"]: event.get("args", {}) for event in copy}
        assert by_name["launched elsewhere"]["External id"] == 0
        assert by_name["gemm"]["id"] == 3
        assert by_name["nn.Module: Linear_0"]["Python module id"] == 0
        assert by_name["[memory]"]["Addr"] == 140101
        assert by_name['aten::mm "ts": 5']["Fwd thread id"] == 1


@LAYOUTS
def test_steps_continue(source: str) -> None:
    events = parse(replicate(source))["traceEvents"]
    steps = [event["name"] for event in events if event["name"].startswith("ProfilerStep")]
    assert steps == ["ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9", "ProfilerStep#10"]


def test_file_reaches_the_size_and_says_what_it_holds(tmp_path: Path) -> None:
    source, target = tmp_path / "source.json.gz", tmp_path / "grown.json"
    source.write_bytes(gzip.compress(KINETO.encode()))
    grown = grow(source, target, 0.02)
    events = parse(target.read_text(encoding="utf-8"))["traceEvents"]
    assert grown == Grown(grown.copies, len(events), target.stat().st_size, len(KINETO.encode()))
    assert 20_000 <= grown.size_bytes < 20_000 + len(KINETO)


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    source, target = tmp_path / "source.json", tmp_path / "grown.json"
    data = KINETO.replace("\n", "\r\n").encode().replace(b"gemm", b"\xff\xe9")
    source.write_bytes(data)
    grow(source, target, 0)
    assert target.read_bytes() == data


def test_same_source_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    source.write_text(KINETO, encoding="utf-8")
    written = set()
    for seed in ("0", "1"):
        target = tmp_path / f"{seed}.json"
        command = [sys.executable, "-m", "benchmarks.grow", str(source), str(target), "--mb", "0.01"]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, cwd=Path(__file__).parents[2], env=environment, capture_output=True)
        written.add(target.read_bytes())
    assert len(written) == 1


def test_bare_array_grows() -> None:
    assert replicate('[{"ph":"X","ts":1,"dur":2},\n{"ph":"X","ts":5,"dur":1}]\n', 2) == (
        '[{"ph":"X","ts":1,"dur":2},\n{"ph":"X","ts":5,"dur":1},\n'
        '{"ph":"X","ts":6,"dur":2},\n{"ph":"X","ts":10,"dur":1}]\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"no": "events"}',
        '{"traceEvents": []}',
        '{"traceEvents": [{"ph": "M", "name": "process_name"}]}',
        '{"traceEvents": [{"ph": "X", "ts": -5, "dur": 1}]}',
        '{"traceEvents": [{"ph": "X", "ts": 1.5e12, "dur": 1}]}',
        '{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1} {"ph": "X", "ts": 2, "dur": 1}]}',
        '{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1},',
    ],
    ids=["no list", "empty", "only metadata", "negative", "exponent", "no comma", "truncated"],
)
def test_trace_that_cannot_be_grown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        take_apart(text)


def test_times_too_far_apart_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    source.write_text('[{"ph":"X","ts":0,"dur":1},{"ph":"X","ts":1712195495519689,"dur":1}]', encoding="utf-8")
    with pytest.raises(ValueError, match="too far apart"):
        grow(source, tmp_path / "grown.json", 0.01)
