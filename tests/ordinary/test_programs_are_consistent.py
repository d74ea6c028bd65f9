"""The recordings of ordinary programs are possible ones, and each has a label that can be compared with a report.

Nothing here asks the package what it makes of them: labels are written from the events alone.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.ordinary.halves import HALVES
from tests.ordinary.programs import PROGRAMS

LABELS = Path(__file__).parent / "labels"
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
BOUNDS = {"input", "host", "gpu-compute", "gpu-memory", "communication", "start-up", "capture", "none"}
WORKLOADS = {"training", "inference", "serving", "graph-capture", "start-up", "micro-benchmark", "fragment"}
LEVELS = {"info", "low", "medium", "high", "critical"}

Event = dict[str, Any]
Span = tuple[Decimal, Decimal, str]

each_program = pytest.mark.parametrize("name", sorted(PROGRAMS))


@cache
def texts_of(name: str) -> dict[str, bytes]:
    """The files of a program by name."""
    return PROGRAMS[name].texts()


@cache
def files_of(name: str) -> list[list[Event]]:
    """The events of each file of a program, with exact times. They are shared: tests must not change them."""
    parsed = [json.loads(text, parse_float=Decimal) for text in texts_of(name).values()]
    return [content if isinstance(content, list) else content["traceEvents"] for content in parsed]


def slices(events: list[Event]) -> list[Event]:
    """What has a duration, without the range of the profiler itself."""
    return [event for event in events if event["ph"] == "X" and event.get("cat") != "Trace"]


def on_device(event: Event) -> bool:
    return event.get("cat") in DEVICE


def spans_by(events: Iterable[Event]) -> dict[tuple[object, object], list[Span]]:
    """Spans of each thread or stream, in the order of time, the longer ones first."""
    rows: dict[tuple[object, object], list[Span]] = defaultdict(list)
    for event in events:
        rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    return {where: sorted(spans, key=lambda span: (span[0], -span[1])) for where, spans in rows.items()}


def crossing(spans: list[Span]) -> list[tuple[str, str]]:
    """Pairs of which the second begins inside the first and ends after it."""
    found, opened = [], list[Span]()
    for span in spans:
        while opened and opened[-1][1] <= span[0]:
            opened.pop()
        if opened and span[1] > opened[-1][1]:
            found.append((opened[-1][2], span[2]))
        opened.append(span)
    return found


def process_of(event: Event, hosts: Sequence[object]) -> object:
    """Which of several processes of one file an event is of: its number, or the place of its process or GPU."""
    if "rank" in event.get("args", {}) or len(hosts) < 2:
        return event.get("args", {}).get("rank", 0)
    return event["pid"] if on_device(event) else hosts.index(event["pid"])


def found_in(name: str, look: Callable[[list[Event]], list[object]]) -> list[object]:
    """What a look at each file of a program finds."""
    return [found for events in files_of(name) for found in look(events)]


def outside(events: list[Event]) -> list[object]:
    """Slices of negative length, and those that the profiler's own range does not contain."""
    windows = [(event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") == "Trace"]
    begin = min((start for start, _ in windows), default=Decimal(0))
    end = max((end for _, end in windows), default=Decimal("Infinity"))
    return [e["name"] for e in slices(events) if e["dur"] < 0 or e["ts"] < begin or e["ts"] + e["dur"] > end]


def crossing_on_threads(events: list[Event]) -> list[object]:
    threads = spans_by(event for event in slices(events) if not on_device(event))
    return [pair for spans in threads.values() for pair in crossing(spans)]


def overlapping_on_streams(events: list[Event]) -> list[object]:
    streams = spans_by(event for event in slices(events) if on_device(event))
    return [(a, b) for spans in streams.values() for a, b in pairwise(spans) if b[0] < a[1]]


def launched_wrong(events: list[Event]) -> list[object]:
    """Calls with a number that another one has, and device work before its call or, where there are calls, without."""
    calls = [event for event in slices(events) if event.get("cat", "").startswith("cuda_")]
    hosts = sorted({event["pid"] for event in calls})
    begins: dict[tuple[object, object], Decimal] = {}
    found: list[object] = []
    for call in calls:
        key = process_of(call, hosts), call["args"]["correlation"]
        found += [key] if key in begins else []
        begins[key] = call["ts"]
    for event in slices(events) if calls else ():
        if on_device(event):
            begin = begins.get((process_of(event, hosts), event["args"]["correlation"]), Decimal("Infinity"))
            found += [event["name"]] if event["ts"] < begin else []
    return found


def unknown_owners(events: list[Event]) -> list[object]:
    """External ids that no operator and no mark has."""
    owners = {e["args"]["External id"] for e in slices(events) if e.get("cat") in {"cpu_op", "user_annotation"}}
    named = {e["args"]["External id"] for e in slices(events) if "External id" in e.get("args", {})}
    return sorted(named - owners)


def unframed(events: list[Event]) -> list[object]:
    """What torch.profiler writes around events and is missing; the legacy one writes nothing."""
    if events[0]["pid"] == "CPU functions":
        return []
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    found: list[object] = [where for where in spans_by(slices(events)) if where not in named]
    return found + sorted({"Record Window End", "PyTorch Profiler (0)", "process_name"} - {e["name"] for e in events})


@each_program
def test_building_twice_gives_the_same_files(name: str) -> None:
    assert PROGRAMS[name].texts() == texts_of(name)


@each_program
@pytest.mark.parametrize(
    "look", [outside, crossing_on_threads, overlapping_on_streams, launched_wrong, unknown_owners, unframed]
)
def test_events_fit_together(name: str, look: Callable[[list[Event]], list[object]]) -> None:
    assert min(len(slices(events)) for events in files_of(name)) > 20
    assert found_in(name, look) == []


def test_looks_see_what_is_wrong() -> None:
    thread: Event = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "args": {"correlation": 1, "External id": 7}}
    first = thread | {"name": "a", "ts": Decimal(10), "dur": Decimal(10)}
    second = thread | {"name": "b", "ts": Decimal(15), "dur": Decimal(10)}
    kernels = [event | {"cat": "kernel", "pid": 0, "ts": event["ts"] - 8} for event in (first, second)]
    window = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": Decimal(12), "dur": Decimal(20)}
    assert outside([first, window]) == ["a"]
    assert outside([second, window]) == []
    assert crossing_on_threads([first, second]) == [("a", "b")]
    assert len(overlapping_on_streams(kernels)) == 1
    assert launched_wrong([first, second]) == [(0, 1)]
    assert launched_wrong([first, *kernels]) == ["a", "b"]
    assert unknown_owners([first]) == [7]
    assert unframed([first, window]) == [(1, 1), "Record Window End", "process_name"]


def test_there_are_sixty_in_two_halves_of_the_same_kinds() -> None:
    assert {half: len(names) for half, names in HALVES.items()} == {"first": 30, "second": 30}
    first, second = map(set, HALVES.values())
    assert first.isdisjoint(second)
    assert first | second == PROGRAMS.keys()
    kinds = [Counter(PROGRAMS[name].kind for name in half) for half in (first, second)]
    assert kinds[0].keys() == kinds[1].keys()
    assert all(abs(kinds[0][kind] - kinds[1][kind]) <= 1 for kind in kinds[0])


def test_each_program_has_its_label_in_the_folder_of_its_half() -> None:
    found = {half: {path.stem for path in (LABELS / half).iterdir()} for half in HALVES}
    assert found == {half: set(names) for half, names in HALVES.items()}


@each_program
def test_labels_can_be_compared_with_reports(name: str) -> None:
    (path,) = LABELS.glob(f"*/{name}.toml")
    label = tomllib.loads(path.read_text("utf-8"))
    required = {"workload", "framework", "bound", "note", "must"}
    assert required <= label.keys() <= required | {"typical_step_ms", "must_not", "saving", "free_gpu"}
    assert label["bound"]
    assert set(label["bound"]) <= BOUNDS
    assert label["workload"] in WORKLOADS
    assert label["framework"] == label["framework"].strip()
    assert label["note"]
    assert label["must"]
    for must in label["must"]:
        assert must.keys() <= {"id", "why", "any", "level", "where"}
        assert must["id"]
        assert must["why"]
        assert must.get("level", "medium") in LEVELS
        assert all(re.compile(pattern) for pattern in must["any"])
    for wrong in label.get("must_not", []):
        assert wrong.keys() <= {"match", "why", "min_severity", "scope"}
        assert wrong["why"]
        assert re.compile(wrong["match"])
    free = [label["free_gpu"]] if "free_gpu" in label else []
    assert all(entry.keys() == {"low_ms", "high_ms", "why"} for entry in free)
    assert all(0 <= saving["low_ms"] <= saving["high_ms"] for saving in (*free, *label.get("saving", [])))
    for saving in label.get("saving", []):
        assert saving.keys() <= {"id", "match", "low_ms", "high_ms", "low_claim_max_ms", "why"}
        assert all(re.compile(pattern) for pattern in saving["match"])
