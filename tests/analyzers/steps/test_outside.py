"""What lies outside of the typical steps: numbers worked out by hand."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.structure.recording.test_left_out_steps import in_epochs
from traceanalyzer.analyzers.steps import outside
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import Outside, Recording

US = 1000
Row = tuple[str, int, int, int | None, str]


def recorded(trace: TraceBuilder) -> Recording:
    return outside.recorded(Context(read_built(trace)))


def rows(found: Recording) -> list[Row]:
    """Kind, start, duration, time of the device in us, and reason."""

    def row(part: Outside) -> Row:
        busy = None if part.device_busy_ns is None else part.device_busy_ns // US
        return part.kind, part.start_ns // US, part.duration_ns // US, busy, part.reason

    return list(map(row, found.outside))


def owners(found: Recording) -> list[tuple[str, str, int] | None]:
    """Kind, name and time in us of what the host does for longest."""
    return [part.owner and (part.owner.kind, part.owner.name, part.owner.time_ns // US) for part in found.outside]


def program(*lengths: int, first: int = 0, pause: int = 0) -> TraceBuilder:
    """Steps, the device at work from 20 to 90 of each; the recording begins at 0."""
    trace, start = TraceBuilder(), first
    trace.op("aten::empty", 0, 5)
    for number, length in enumerate(lengths):
        trace.step(number, start, length)
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel("gemm", start + 20, length - 30, at=start + 10, call_dur=5)
        start += length + pause
    return trace


def test_time_before_and_after_the_steps() -> None:
    trace = program(100, 100, 100, first=200)
    trace.annotation("load", 50, 120)
    trace.annotation("save", 510, 80)
    trace.launch_kernel("copy", 540, 30, at=520, call_dur=5)
    found = recorded(trace)
    assert rows(found) == [("before", 0, 200, 0, "no-step"), ("after", 500, 90, 30, "no-step")]
    assert owners(found) == [("mark", "load", 120), ("mark", "save", 80)]
    assert (found.outside_ns, found.outside_omitted) == (290 * US, 0)


def test_time_between_steps() -> None:
    found = recorded(program(100, 100, 100, pause=10))
    assert rows(found) == [("between", 100, 10, 0, "no-step"), ("between", 210, 10, 0, "no-step")]
    assert owners(found) == [None, None], "nothing was recorded there"


def test_steps_that_do_not_count_are_one_only_where_a_known_reason_goes_on() -> None:
    trace = program(100, 100, 180, 180, 100, 100, 100, 100)
    assert [row[:3] for row in rows(recorded(trace))] == [("left-out-step", 200, 180), ("left-out-step", 380, 180)]
    trace.launch("cudaMalloc", 210, 150)
    trace.launch("cudaMalloc", 390, 150)
    assert [(*row[:3], row[-1]) for row in rows(recorded(trace))] == [("left-out-step", 200, 360, "allocation")]


def test_the_reason_is_that_of_the_step_or_what_takes_half_of_the_time() -> None:
    trace = program(400, 100, 100, 100, first=100)
    trace.launch("cudaMalloc", 110, 300)
    trace.launch("cuModuleLoadData", 40, 50)
    assert [(row[0], row[-1]) for row in rows(recorded(trace))] == [
        ("before", "loading"),
        ("left-out-step", "allocation"),
    ]


def test_what_is_shorter_than_a_hundredth_of_a_step_is_not_listed() -> None:
    found = recorded(program(1000, 1000, 1000, pause=9))
    assert (rows(found), found.outside_ns) == ([], 18 * US)
    assert len(rows(recorded(program(1000, 1000, 1000, pause=10)))) == 2


def test_the_longest_fifty_are_listed_in_the_order_of_time() -> None:
    trace, start = TraceBuilder(), 0
    for number in range(60):
        trace.step(number, start, 100)
        trace.op("aten::mm", start + 5, 20)
        start += 101 + number
    found = recorded(trace)
    assert len(found.outside) == outside.MOST
    assert found.outside_omitted == 59 - outside.MOST
    starts = [part.start_ns for part in found.outside]
    assert starts == sorted(starts)
    assert min(part.duration_ns for part in found.outside) == 10 * US


def test_without_a_device_its_time_is_unknown() -> None:
    trace = TraceBuilder(devices=())
    for number in range(3):
        trace.step(number, 110 * number, 100)
        trace.op("aten::mm", 110 * number + 5, 80)
    assert {part.device_busy_ns for part in recorded(trace).outside} == {None}


def test_where_everything_is_typical_nothing_is_outside() -> None:
    found = recorded(program(100, 100, 100))
    assert (found.outside, found.outside_ns) == ((), 0)


def test_the_time_between_epochs_is_the_loaders_if_workers_start_in_it() -> None:
    """The call that ends an epoch takes 20 ms of the 80 ms until the next one; workers start in the rest."""
    found = recorded(in_epochs(epochs=4, batches=5, restart=60_000)).outside
    between = [part for part in found if part.kind == "between"]
    assert [part.reason for part in between] == ["loader"] * 3
    assert {part.duration_ns // 1_000_000 for part in between} == {80}
