"""Owners of the time of a backward pass and of DistributedDataParallel's broadcast; times are microseconds."""

from __future__ import annotations

import pytest

from tests.analyzers.host.reading_owners import assert_adds_up, by_name, owners_of, self_us
from tests.builders import TraceBuilder

ENGINE = 4297
EVALUATE = "autograd::engine::evaluate_function: "


def training() -> TraceBuilder:
    """Backward from 40 to 90 on autograd's thread, which pauses from 60 to 65."""
    trace = TraceBuilder()
    trace.step(0, 0, 120)
    trace.annotation("## forward ##", 0, 35)
    trace.op("aten::mm", 5, 20, sequence=1)
    trace.op("aten::relu", 26, 4, sequence=2)
    trace.launch_kernel("forward", 10, 20, at=8)
    trace.annotation("## backward ##", 40, 50)
    for number, name, start in ((2, "ReluBackward0", 45), (1, "MmBackward0", 65)):
        trace.op(EVALUATE + name, start, 15, sequence=number, fwd_thread=1, tid=ENGINE)
        trace.launch_kernel("backward", start + 5, 10, at=start + 2, tid=ENGINE)
    return trace


def test_while_the_program_waits_time_is_that_of_what_autograd_evaluates() -> None:
    found = owners_of(training())
    assert self_us(found) == {
        "## forward ##": 35,
        "ReluBackward0": 15,
        "autograd": 5,
        "MmBackward0": 15,
        "## backward ##": 15,  # 40 to 45 and 80 to 90, when autograd does nothing
    }
    rows = by_name(found)
    assert (rows["## backward ##"].host_ns, rows["## backward ##"].device_ns) == (50_000, 20_000)
    assert (rows["autograd"].host_ns, rows["ReluBackward0"].device_self_ns) == (35_000, 10_000)
    assert found.autograd_thread == str(ENGINE)
    assert_adds_up(found)


def test_while_the_program_works_itself_autograd_is_not_waited_for() -> None:
    trace = training()
    trace.op("aten::add", 50, 4)  # on the thread of the program, during the backward pass
    found = owners_of(trace)
    own = self_us(found)
    assert (own["## backward ##"], own["ReluBackward0"]) == (15 + 4, 15 - 4)
    assert_adds_up(found)


def test_evaluations_belong_to_the_module_of_their_forward_pass() -> None:
    trace = training()
    trace.module("Linear_0", 4, 22)
    told = {(row.name, row.kind): row.host_self_ns // 1000 for row in owners_of(trace).rows}
    assert (told["Linear", "module"], told["Linear", "backward"]) == (22, 15)
    assert ("MmBackward0", "operator") not in told
    assert ("ReluBackward0", "operator") in told  # its forward operator lies in no module


def test_a_pause_in_which_the_program_begins_something_is_the_programs() -> None:
    trace = training()
    trace.annotation("between", 61, 2)
    own = self_us(owners_of(trace))
    assert (own["between"], own["## backward ##"]) == (2, 15 + 3)
    assert "autograd" not in own


def parallel(*, broadcasts: bool) -> TraceBuilder:
    """A forward pass from 10 to 110, with a broadcast of buffers up to 50."""
    trace = TraceBuilder()
    trace.step(0, 0, 120)
    trace.annotation("DistributedDataParallel.forward", 10, 100)
    if broadcasts:
        trace.op("aten::flatten_dense_tensors", 12, 8)
        trace.op("c10d::broadcast_", 22, 4)
        trace.annotation("nccl:broadcast", 23, 2)
        trace.op("aten::unflatten_dense_tensors", 28, 9)
        trace.op("aten::copy_", 40, 10)
    trace.op("aten::conv2d", 55, 20)
    trace.op("aten::copy_", 80, 10)
    trace.launch_kernel("conv", 60, 30, at=58)
    return trace


def test_the_broadcast_of_buffers_is_told_by_the_operators_with_which_the_forward_pass_begins() -> None:
    found = owners_of(parallel(broadcasts=True))
    assert [(row.name, row.role, row.host_self_ns) for row in found.rows] == [
        ("DistributedDataParallel.forward", None, 60_000),
        ("DistributedDataParallel.forward", "buffer-broadcast", 40_000),
    ]
    (role,) = found.roles
    assert (role.role, role.host_ns, role.idle_ns, role.calls) == ("buffer-broadcast", 40_000, 40_000, 1)
    assert found.rows[1].parts[0].name == "aten::copy_"
    assert_adds_up(found)


@pytest.mark.parametrize("name", ["aten::linear", "aten::copy_"])
def test_a_forward_pass_without_a_broadcast_has_none(name: str) -> None:
    trace = parallel(broadcasts=False)
    trace.op(name, 20, 10)
    assert not owners_of(trace).roles


def test_with_stacks_the_function_tells_the_broadcast() -> None:
    trace = parallel(broadcasts=True)
    trace.python_function("torch/nn/parallel/distributed.py(1900): _sync_buffers", 11, 40)
    found = owners_of(trace)
    (role,) = found.roles
    assert (role.role, role.host_ns) == ("buffer-broadcast", 40_000)
    assert found.rows[role.owner].name == "_sync_buffers"
