"""Which processor's time rules about operators count, and of which threads."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.builders.timeline import Host, finish
from tests.rules.cpu_work import AROUND, Call, make, program
from tests.rules.judging import findings, report

RULE = "fp64-on-gpu"
SIDES, DOUBLES = [[512, 512], [512, 512]], ["double", "double"]
PRODUCT = Call("aten::mm", 4000, SIDES, DOUBLES)
OTHER = Call("aten::mm", 6000, SIDES, ["float", "float"])


def threads(*, marked: bool = True, autograd: bool = False) -> TraceBuilder:
    """A product of doubles on a thread beside the one that makes the steps, as long as half of its work."""
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    host, beside = Host(trace, at=10), Host(trace, tid=99)
    for number in range(3):
        beside.now = host.now
        evaluation = Call("aten::mm", 3000, SIDES, DOUBLES, ("autograd::engine::evaluate_function: MmBackward0",), 7)
        make(beside, evaluation if autograd else Call("aten::mm", 3000, SIDES, DOUBLES))
        if marked:
            with host.annotation(f"ProfilerStep#{number}"):
                make(host, OTHER)
        else:
            make(host, OTHER)
    return finish(trace)


def test_a_sign_of_a_gpu_leaves_the_judgement_to_those_who_have_its_events() -> None:
    assert findings(program([PRODUCT, OTHER]), RULE)
    launching = program([PRODUCT, OTHER])
    launching.launch("cudaLaunchKernel", 20, 5)
    assert findings(launching, RULE) == []


def test_a_device_in_the_header_is_no_sign_where_products_take_as_long_as_on_a_cpu() -> None:
    """Six products of 2 * 512 ** 3 operations, which take 4000 and 6000 us each."""
    assert findings(program([PRODUCT, OTHER], devices=(A100,)), RULE)


@pytest.mark.parametrize("marked", [True, False])
def test_threads_beside_the_one_that_makes_the_steps_do_not_count(marked: bool) -> None:
    assert findings(threads(marked=marked), RULE) == []


def test_the_thread_of_autograd_counts() -> None:
    (finding,) = findings(threads(autograd=True), RULE)
    assert finding.evidence[0].observed == pytest.approx(3_000_000 / 9_000_000), "of what both do at once"


def test_a_step_that_is_left_out_does_not_change_the_share() -> None:
    """One of six steps is twice as long, with the same share of doubles."""
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    host = Host(trace, at=10)
    for number in range(6):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(2 if number == 3 else 1):
                make(host, PRODUCT)
                make(host, OTHER)
    found = report(finish(trace), RULE)
    (finding,) = found.findings
    assert finding.evidence[0].observed == pytest.approx(0.4, rel=1e-3)
    assert finding.summary.params["time"] == pytest.approx(0.4 * found.headlines[0].resources.step_ns, rel=1e-3)


def test_time_of_operators_is_that_of_the_recording_by_step() -> None:
    (finding,) = findings(program([PRODUCT, OTHER]), RULE)
    assert finding.evidence[0].observed == pytest.approx(4_000_000 / (10_000_000 + AROUND))
