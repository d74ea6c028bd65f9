"""Tests of the rule `graph-breaks`: numbers worked out by hand, and edges of thresholds.

The programs: compiled code in one piece and in several.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders import compile_log as build
from tests.builders.timeline import Host, Stream
from tests.rules.host.test_host_waits_or_logs import on_cpu
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped, table


def broken(steps: int = 4, between: int = 100, every: int = 1) -> TraceBuilder:
    """Steps of a compiled function that breaks twice, with so many microseconds of Python at each break.

    The region behind a break runs within the one before it, as torch writes them.
    """

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("Torch-Compiled Region: 0/0", 5, 5):
            part(host, stream)
            if number % every == 0:
                host.work(between)
                with host.op("Torch-Compiled Region: 1/0", 5, 5):
                    part(host, stream)
                    host.work(between)
                    with host.op("Torch-Compiled Region: 2/0", 5, 5):
                        part(host, stream)
        host.wait(stream)

    return looping(step, steps=steps)


def part(host: Host, stream: Stream) -> None:
    """Run one compiled graph."""
    with host.op("CompiledFunction", 5, 5):
        compute(host, stream, 1000)


def fires() -> TraceBuilder:
    """A print and a branch on the value of a tensor."""
    return broken()


def quiet() -> TraceBuilder:
    """Everything is one graph."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("Torch-Compiled Region: 0/0", 5, 5):
            part(host, stream)
        host.wait(stream)

    return looping(step)


def trap_functions_one_after_another() -> TraceBuilder:
    """Three functions are compiled, each in one piece."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for function in range(3):
            with host.op(f"Torch-Compiled Region: {function}/0", 5, 5):
                part(host, stream)
            host.work(100)
        host.wait(stream)

    return looping(step)


def trap_operator_with_compiled_code() -> TraceBuilder:
    """A custom operator within the graph calls a function that is compiled, too."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("Torch-Compiled Region: 0/0", 5, 5), host.op("CompiledFunction", 5, 5):
            compute(host, stream, 1000)
            with host.op("library::mm", 100, 5), host.op("Torch-Compiled Region: 1/0", 5, 5):
                part(host, stream)
        host.wait(stream)

    return looping(step)


def trap_logging_now_and_then() -> TraceBuilder:
    """Every fourth step writes a line."""
    return broken(steps=8, every=4)


def trap_regions_in_a_table() -> str:
    """A table counts regions, and does not show which run within which."""
    rows = [
        {"Name": "Torch-Compiled Region: 0/0", "Self CPU": "50.000ms", "CPU total": "90.000ms", "# of Calls": 20},
        {"Name": "Torch-Compiled Region: 1/0", "Self CPU": "40.000ms", "CPU total": "40.000ms", "# of Calls": 20},
    ]
    return table(rows, cpu="90.000ms")


RULE = "graph-breaks"


def test_the_host_time_between_the_parts_is_at_stake() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    # Two breaks of 100 us, and 5 us at either end of three regions, of which one remains; twice that at most. At least
    # both ends of the two regions behind breaks.
    assert finding.saving.direct_ns_per_step == pytest.approx((20_000, 2 * (2 * 100_000 + 2 / 3 * 30_000)))
    assert finding.evidence[0].observed == 2


def test_what_a_gpu_hides_of_it_is_not_saved() -> None:
    """Three kernels of 1 ms run nearly without a pause, unless the host takes 3 ms at each break."""
    for between, most in ((100, 440_000), (3000, 4_090_000)):
        whole = report(broken(between=between))
        (saving,) = [finding.saving for finding in whole.findings if finding.rule == RULE]
        assert saving is not None
        idle = (whole.headlines[0].resources.step_ns or 0.0) - 3_000_000
        low, high = saving.wall_ns_per_step
        assert 0 < low < high <= idle < most, "at least what the regions behind the breaks take at their ends"


def test_on_a_cpu_starting_the_regions_behind_breaks_goes_away() -> None:
    def body(host: Host, number: int) -> None:
        with host.op("Torch-Compiled Region: 0/0", 5, 5):
            host.leaf("aten::mm", 200)
            host.work(100)
            with host.op("Torch-Compiled Region: 1/0", 7, 5):
                host.leaf("aten::mm", 200)

    (finding,) = findings(on_cpu(body), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((12_000, 2 * (100_000 + 22_000 / 2)))


def test_without_log_and_stacks_regions_are_named() -> None:
    (finding,) = findings(fires(), RULE)
    assert [place.name for place in finding.evidence[0].where] == ["0/0 > 1/0", "1/0 > 2/0"]


def test_a_table_does_not_show_breaks() -> None:
    assert "does not show" in (skipped(trap_regions_in_a_table(), RULE) or "")


def test_edge_breaks() -> None:
    assert findings(fires(), RULE, {"breaks": 2.0})
    assert findings(fires(), RULE, {"breaks": 2.001}) == []


def test_edge_share() -> None:
    step = report(fires(), RULE).headlines[0].resources.step_ns
    share = 200_000 / step
    assert findings(broken(), RULE, {"share": share * (1 + 1e-9)}) == []
    assert findings(broken(), RULE, {"share": share * (1 - 1e-9)})


def fires_in_a_compile_log() -> str:
    """A log without a trace: two functions break."""
    return build.broke("0/0", "/work/train.py", 7, "Data-dependent branching.") + build.broke("1/0", "b.py", 9, "print")


def quiet_in_a_compile_log() -> str:
    """A function that is one graph."""
    return build.started("0/0") + build.measured("0/0", "f", "f.py", 1, 1)


def test_breaks_of_a_log_are_counted_with_the_place_of_the_first() -> None:
    (found,) = findings(fires_in_a_compile_log(), RULE)
    assert found.summary.text == "Graph breaks: 2. The first is at work/train.py:7: Data-dependent branching."
    assert (found.severity, found.confidence, found.saving) == ("low", "A", None)
    assert [place.name for place in found.evidence[0].where] == ["work/train.py:7", "b.py:9"]
    assert not findings(fires_in_a_compile_log(), RULE, {"breaks": 3})
