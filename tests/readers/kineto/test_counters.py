"""Counters of a GPU: clocks, power, temperature and utilization, which the monitor of CUPTI writes beside events."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.readers.kineto.test_writers import example
from tests.reading import content, read_built


def counted(*samples: tuple[str, float, float], device: int = 0) -> TraceBuilder:
    """A step beside samples: name, time in us, value."""
    trace = example()
    for name, at, value in samples:
        trace.counter(name, at, value, device=device)
    return trace


def rows(trace: TraceBuilder) -> list[tuple[str, int, float]]:
    found = read_built(trace)
    table = found.counters
    names = [found.names[code] for code in table.name.tolist()]
    return list(zip(names, table.start_ns.tolist(), table.value.tolist(), strict=True))


def test_samples_by_time() -> None:
    found = rows(counted(("Power (W)", 30, 312.5), ("SM Clock (MHz)", 20, 1980), ("Power (W)", 10, 300)))
    assert found == [("Power (W)", 10_000, 300.0), ("SM Clock (MHz)", 20_000, 1980.0), ("Power (W)", 30_000, 312.5)]


def test_device_of_a_counter() -> None:
    trace = read_built(counted(("Power (W)", 30, 312.5), device=3))
    assert trace.threads[int(trace.counters.thread[0])].pid == "GPU 3 Counters"


def test_counters_change_nothing_else() -> None:
    """Nor do samples before the first event and after the last one."""
    samples = [("SM Clock (MHz)", at, 1980) for at in (-50, 20, 900)]
    found, usual = read_built(counted(*samples)), read_built(example())
    others = {name: table for name, table in content(found).items() if name != "counters"}
    assert others == {name: table for name, table in content(usual).items() if name != "counters"}
    assert (found.info.origin_ns, found.info.span_ns) == (usual.info.origin_ns, usual.info.span_ns)
    assert found.losses == usual.losses
    assert found.counters.start_ns.tolist() == [-50_000, 20_000, 900_000]


@pytest.mark.parametrize("args", [{}, {"": "high"}, {"": None}, {"other": 3}])
def test_counters_without_a_number_are_left_out(args: dict[str, Any]) -> None:
    trace = example()
    trace.raw({"ph": "C", "name": "Power (W)", "pid": "GPU 0 Counters", "ts": 30, "args": args})
    found = read_built(trace)
    assert len(found.counters) == 0
    assert found.losses == ()
