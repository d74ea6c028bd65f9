"""What the wrapper costs, worked out by hand."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.communication.test_dataparallel import fires, fires_on_frames, fires_on_two_gpus, trap_distributed
from traceanalyzer.analyzers.communication import data_parallel
from traceanalyzer.analyzers.communication.data_parallel import DataParallel
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> DataParallel:
    return data_parallel.analyze(Context(read_built(trace)))


def test_own_time_is_outside_of_the_model() -> None:
    found = analyzed(fires())
    assert (found.calls, found.devices, found.is_marked) == (3, (0,), True)
    assert found.own_host_ns == 3 * (300 + 10 + 5 + 1 + 1) * US
    assert [(row.name, row.calls) for row in found.distribution] == [("Scatter", 3)]


def test_frames_serve_where_there_is_no_range() -> None:
    found = analyzed(fires_on_frames())
    assert (found.calls, found.is_marked) == (3, False)


def test_devices_of_all_threads() -> None:
    found = analyzed(fires_on_two_gpus())
    assert found.devices == (0, 1)
    by_name = {row.name: row.device_ns for row in found.distribution}
    assert by_name == {"Broadcast": 3 * 900 * US, "Gather": 3 * 40 * US, "Scatter": 3 * 40 * US}


def test_another_wrapper_is_none() -> None:
    found = analyzed(trap_distributed())
    assert (found.calls, found.start_ns) == (0, None)


def test_missing_without_host_events() -> None:
    trace = TraceBuilder()
    trace.kernel("gemm", 0, 5)
    assert data_parallel.ANALYSES[0].missing(Context(read_built(trace))) is not None
