"""Tests of the rule `cache-emptied-in-step`: numbers worked out by hand, and edges of thresholds.

The programs: steps that empty the cache of the allocator, named by Python frames or not, and others that free memory.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import EVALUATION
from tests.builders.timeline import Host, Stream
from tests.builders.training import Training
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped

RULE = "cache-emptied-in-step"
_FUNCTION = "torch/cuda/memory.py(170): empty_cache"
_BUILT_IN = "<built-in function _cuda_emptyCache>"


def empty_cache(host: Host, *names: str, frees: int = 3) -> None:
    """Gives blocks back to the driver, 0.1 ms each, within frames of these names."""
    if names:
        with host.frame(names[0], before=0, after=0):
            empty_cache(host, *names[1:], frees=frees)
        return
    for _ in range(frees):
        host.call("cudaFree", 100)


def emptying(when: Callable[[int], bool], *names: str, takes: int = 2, frees: int = 3, steps: int = 6) -> TraceBuilder:
    """Steps that take blocks for 0.2 ms each, compute 4 ms, and empty the cache at their end or not."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.frame("train.py(12): step"):
            for _ in range(takes if number == 0 or when(number - 1) else 0):
                with host.op("aten::empty"):
                    host.call("cudaMalloc", 200)
            for _ in range(8):
                host.leaf("aten::empty")
            compute(host, stream, 4000)
            host.wait(stream)
            if when(number):
                empty_cache(host, *names, frees=frees)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """Each step empties the cache, and takes two blocks again."""
    return emptying(lambda _: True, _FUNCTION, _BUILT_IN)


def fires_with_the_built_in_only() -> TraceBuilder:
    """Only the built-in function was recorded."""
    return emptying(lambda _: True, _BUILT_IN)


def fires_without_frames() -> TraceBuilder:
    """No frame names it: three calls in a row free memory outside of operators."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for tensor in range(10):
            with host.op("aten::empty"):
                if tensor < 2:
                    host.call("cudaMalloc", 200)
        compute(host, stream, 4000)
        host.wait(stream, call="cudaDeviceSynchronize")
        empty_cache(host)

    return looping(step, steps=6)


def fires_in_the_backward_pass() -> TraceBuilder:
    """Little memory is free: the allocator gives three blocks back to get two others while gradients are computed."""
    loop = Training()
    for _ in range(4):
        with loop.iteration():
            made = loop.forward()
            loop.engine.now = loop.host.now
            with loop.engine.op(EVALUATION + "ViewBackward0", sequence=made[-1], fwd_thread=1):
                pass
            empty_cache(loop.engine)
            with loop.engine.op(EVALUATION + "AddBackward0", sequence=made[-1], fwd_thread=1):
                for tensor in range(10):
                    with loop.engine.op("aten::empty"):
                        if tensor < 2:
                            loop.engine.call("cudaMalloc", 200)
            loop.host.now = loop.engine.now
            loop.backward(made[:-1])
    return loop.finish()


def quiet() -> TraceBuilder:
    """The cache is kept."""
    return emptying(lambda _: False)


def trap_once_per_epoch() -> TraceBuilder:
    """One of six steps is the last of an epoch and empties the cache."""
    return emptying(lambda number: number == 2, _FUNCTION)


def trap_first_step() -> TraceBuilder:
    """The first step takes what the others reuse, after it emptied the cache of what set-up left."""
    return emptying(lambda number: number == 0, _FUNCTION)


def fires_where_each_tensor_is_taken_again() -> TraceBuilder:
    """A burst gives all blocks back at the end of a step, and each tensor of the next one is taken from the driver."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(5):
            with host.op("aten::empty"):
                host.call("cudaMalloc", 100)
        compute(host, stream, 4000)
        host.wait(stream)
        empty_cache(host, frees=5)

    return looping(step, steps=4)


def trap_allocator_is_off() -> TraceBuilder:
    """Each tensor is taken from the driver, and given back in twos between the others."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(5):
            for _ in range(2):
                with host.op("aten::empty"):
                    host.call("cudaMalloc", 100)
            compute(host, stream, 1000)
            empty_cache(host, frees=2)
        host.wait(stream)

    return looping(step, steps=4)


def trap_memory_is_full() -> TraceBuilder:
    """The allocator empties its cache by itself, in the operator that needs memory."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(8):
            host.leaf("aten::empty")
        with host.op("aten::empty"):
            host.call("cudaMalloc", 50)
            empty_cache(host)
            host.call("cudaMalloc", 200)
        compute(host, stream, 4000)
        host.wait(stream)

    return looping(step, steps=4)


def trap_nothing_to_give_back() -> TraceBuilder:
    """The call is there, but the cache holds no whole block: nothing is freed, and nothing is taken again."""
    return emptying(lambda _: True, _FUNCTION, takes=0, frees=0)


def test_figures_and_saving() -> None:
    """A clearing frees three blocks in 0.1 ms each; five of six steps take two again, 0.2 ms each."""
    (finding,) = findings(fires(), RULE)
    params = finding.summary.params
    assert (params["clears"], params["clearing"]) == (1, 300_000)
    assert params["taking"] == pytest.approx(5 * 400_000 / 6)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((300_000, 300_000 + 5 * 400_000 / 6), rel=0.01)
    assert finding.saving.wall_ns_per_step == pytest.approx((300_000, 633_333), rel=0.05)
    assert finding.evidence[0].where[0].name == "train.py(12): step"


def test_without_frames_it_is_a_guess() -> None:
    (finding,) = findings(fires_without_frames(), RULE)
    assert finding.confidence == "C"
    assert finding.summary.params["frees"] == 3
    assert "Calls in a row" in finding.summary.text


def test_no_line_of_the_program_frees_in_a_backward_pass() -> None:
    (finding,) = findings(fires_in_the_backward_pass(), RULE)
    assert "allocator" in finding.title.text
    assert "expandable_segments" in (finding.code or "")
    assert "empty_cache" not in finding.advice.text
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0


def test_it_is_told_instead_of_calls_that_allocate() -> None:
    for situation in (fires(), fires_without_frames(), fires_where_each_tensor_is_taken_again()):
        rules = [finding.rule for finding in report(situation).findings]
        assert RULE in rules
        assert "allocator-malloc-in-step" not in rules


def test_an_allocator_that_is_off_is_told_apart_by_single_frees() -> None:
    (finding,) = findings(trap_allocator_is_off(), "allocator-malloc-in-step")
    assert "caching allocator seems to be off" in finding.summary.text


def test_one_step_may_be_the_end_of_an_epoch() -> None:
    assert "fewer than two" in (skipped(emptying(lambda _: True, _FUNCTION, steps=1), RULE) or "")


def test_edge_steps_share() -> None:
    trace = emptying(lambda number: number in (1, 2, 4), _FUNCTION)  # three of six
    assert findings(trace, RULE, {"steps_share": 0.5})
    assert findings(trace, RULE, {"steps_share": 0.51}) == []


@pytest.mark.parametrize(("empties", "rules"), [(True, [RULE]), (False, ["sync-item-frequent"])])
def test_waits_for_values_that_only_move_to_the_driver_are_not_told(empties: bool, rules: list[str]) -> None:
    """The loss is read when 4 ms of work are queued; after it the GPU idles for 0.1 ms, and blocks are given back."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(8):
            host.leaf("aten::empty")
        with host.op("aten::empty"):
            if empties:
                host.call("cudaMalloc", 200)
        compute(host, stream, 4000)
        for _ in range(2):
            with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
                host.copy("DtoH", 4, stream, dur=1, wait=True)
        host.work(100)
        if empties:
            empty_cache(host, frees=12)

    found = report(looping(step, steps=6)).findings
    assert [each.rule for each in found if each.rule in (RULE, "sync-item-frequent")] == rules
