"""Tests of the rule `alloc-churn`: numbers worked out by hand, and edges of thresholds.

The programs: allocations in a host-bound step.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.allocator import Allocator
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import findings, table


def training(empties: int, *, each: int = 5, other: int = 2000, memory: bool = False) -> TraceBuilder:
    """Steps of one product between many `aten::empty`."""
    trace = TraceBuilder(options=("profile_memory",) if memory else ())
    host, stream, allocator = Host(trace, at=10), Stream(), Allocator(0)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(empties):
                with host.op("aten::empty", each, 0):
                    address = allocator.allocate(host, 4096) if memory else None
                if address is not None:
                    allocator.free(host, address)
            with host.op("aten::mm", other, 2):
                host.launch(Work("ampere_sgemm_128x64_nn", 500), stream)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Temporaries everywhere: a third of the host's time is spent on getting memory."""
    return training(200)


def fires_in_a_table() -> str:
    """The same program in a printed table."""
    return _table("300.000ms", "700.000ms")


def fires_by_turnover() -> TraceBuilder:
    """A step allocates hundreds of times as many bytes as are ever in use."""
    return training(150, memory=True)


def quiet() -> TraceBuilder:
    """Few temporaries beside much work."""
    return training(5)


def quiet_in_a_table() -> str:
    """The same program in a printed table."""
    return _table("20.000ms", "980.000ms")


def trap_many_cheap_allocations() -> TraceBuilder:
    """A thousand allocations per step are normal in eager mode, if the step is long."""
    return training(1000, each=1, other=20_000)


def trap_recording_memory_is_slow() -> TraceBuilder:
    """Few allocations, each made slow by the profiler that records memory."""
    return training(20, each=40, memory=True)


def _table(empty: str, others: str) -> str:
    rows = [
        {"Name": "aten::empty", "Self CPU": empty, "CPU total": empty, "# of Calls": 100_000},
        {"Name": "aten::mm", "Self CPU": others, "CPU total": others, "# of Calls": 10},
    ]
    return table(rows, cpu="1.000s")


RULE = "alloc-churn"


def test_is_worth_at_most_the_host_time_of_the_operators() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 1_000_000), rel=0.01)
    assert "at least nothing" in finding.saving.basis.text
    assert finding.severity == "low", "a loose bound is never more"


def test_turnover_counts_bytes_per_step_against_the_peak() -> None:
    (finding,) = findings(fires_by_turnover(), RULE)
    assert [(e.unit, e.observed) for e in finding.evidence] == [("number", pytest.approx(150))]


def test_edge_host_share() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.3}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.299})


def test_edge_turnover() -> None:
    assert findings(fires_by_turnover(), RULE, {"turnover": 150}) == []
    assert findings(fires_by_turnover(), RULE, {"turnover": 149})
