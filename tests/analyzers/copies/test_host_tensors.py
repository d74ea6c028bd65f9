"""Tensors made on the CPU and moved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.reading import read_built
from traceanalyzer.analyzers.copies import host_tensors
from traceanalyzer.analyzers.copies.host_tensors import HostOrigin
from traceanalyzer.structure.context import Context

FLOATS: dict[str, Any] = {"shapes": [[4, 8]], "types": ["float"]}


def analyzed(trace: TraceBuilder) -> tuple[HostOrigin, ...]:
    return host_tensors.analyze(Context(read_built(trace))).rows


def move(host: Host, shapes: list[list[int]] | None = None, types: list[str] | None = None) -> None:
    """`.to("cuda")`: 5 us of calls and a copy of 3 us that is waited for."""
    details: dict[str, Any] = {} if shapes is None else {"shapes": shapes * 2, "types": (types or ["float"]) * 2}
    with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_", **details):
        host.copy("HtoD", 128, Stream(), dur=3, wait=True)


def test_a_tensor_is_found_behind_other_operators() -> None:
    trace = TraceBuilder()
    host = Host(trace)
    with host.annotation("ProfilerStep#4"):
        with host.op("aten::randn"):
            host.leaf("aten::normal_", 20, **FLOATS)
        with host.op("aten::ones"):
            host.leaf("aten::fill_", 5, shapes=[[3]], types=["float"])
        move(host, [[4, 8]])
    (row,) = analyzed(trace)
    assert (row.operator, row.shapes, row.calls, row.steps, row.bytes) == ("aten::randn", "[4, 8]", 1, 1, 128)
    assert (row.making_ns, row.copy_ns) == (23_000, 3_000)
    assert row.moving_ns > row.copy_ns


@pytest.mark.parametrize(("shapes", "types"), [([[8, 4]], ["float"]), ([[4, 8]], ["double"])])
def test_another_shape_or_type_is_another_tensor(shapes: list[list[int]], types: list[str]) -> None:
    trace = TraceBuilder()
    host = Host(trace)
    with host.op("aten::randn"):
        host.leaf("aten::normal_", 20, **FLOATS)
    move(host, shapes, types)
    assert analyzed(trace) == ()


def test_without_shapes_only_the_operator_before_can_be_meant() -> None:
    for between, wanted in ((False, 1), (True, 0)):
        trace = TraceBuilder()
        host = Host(trace)
        host.leaf("aten::randn", 20)
        if between:
            host.leaf("aten::add", 2)
        move(host)
        assert len(analyzed(trace)) == wanted


def test_what_launches_makes_its_tensor_on_the_device() -> None:
    trace = TraceBuilder()
    host = Host(trace)
    with host.op("aten::randn"), host.op("aten::normal_", **FLOATS):
        host.launch(Work("distribution_kernel", 3), Stream(9))
    move(host, [[4, 8]])
    assert analyzed(trace) == ()


def test_siblings_must_have_one_parent() -> None:
    trace = TraceBuilder()
    host = Host(trace)
    with host.annotation("ProfilerStep#0"), host.op("aten::randn"):
        host.leaf("aten::normal_", 20, **FLOATS)
    with host.annotation("ProfilerStep#1"):
        move(host, [[4, 8]])
    assert analyzed(trace) == ()


def test_without_copies_there_is_a_reason() -> None:
    trace = TraceBuilder()
    trace.op("aten::randn", 0, 10)
    reason = host_tensors.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert "no copy from the CPU" in reason.text
