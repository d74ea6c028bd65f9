"""What graphs ran, joined with recordings of their captures, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzers.launches.graph_join.joining import BOTH, US, expected, join, operators, self_times
from tests.builders.graph_capture import CUDA, HIP, Node, Vendor, captured, model, replayed
from tests.reading import read_built
from traceanalyzer.analyzers.kernels import roofline
from traceanalyzer.analyzers.launches import graph_join
from traceanalyzer.analyzers.launches.graph_join import CaptureFile
from traceanalyzer.analyzers.modules import of_graphs as joined_modules
from traceanalyzer.analyzers.modules.of_graphs import JoinedModule, JoinedPlace
from traceanalyzer.analyzers.operators.of_graphs import JoinedOperator
from traceanalyzer.structure.context import Context


@BOTH
def test_every_kernel_belongs_to_the_operator_that_was_captured(vendor: Vendor) -> None:
    nodes = model(2)  # embedding 1; mm, silu, add: 2, 3, 4 and 5, 6, 7; mm 8 us
    found = join(replayed([nodes], vendor), captured([("", nodes)], vendor))
    assert found.result.joined_share == 1.0
    assert found.result.joined_ns == found.result.graph_ns == 36 * US
    assert (found.result.launches, found.result.joined_launches) == (1, 1)
    assert (found.result.kernels, found.result.joined_kernels) == (8, 8)
    assert operators(found) == {
        "aten::mm": JoinedOperator("aten::mm", 3, 15 * US, 15 * US),
        "aten::add": JoinedOperator("aten::add", 2, 11 * US, 11 * US),
        "aten::silu": JoinedOperator("aten::silu", 2, 9 * US, 9 * US),
        "aten::embedding": JoinedOperator("aten::embedding", 1, 1 * US, 1 * US),
    }


@BOTH
def test_calls_count_once_for_each_launch(vendor: Vendor) -> None:
    nodes = model(1)  # 5 nodes: 1 to 5, 6 to 10, 11 to 15 us
    found = join(replayed([nodes] * 3, vendor), captured([("", nodes)], vendor))
    assert operators(found)["aten::mm"] == JoinedOperator("aten::mm", 6, (2 + 5 + 7 + 10 + 12 + 15) * US, 51 * US)
    assert (found.result.launches, found.result.joined_launches) == (3, 3)
    assert found.context is not None
    rows = {(row.name, row.input_shapes): row for row in roofline.analyze(found.context).rows}
    # 2 * 8 * 64 * 64 operations in each of three calls, which took 2 + 7 + 12 us
    product = rows["aten::mm", "[[8,64],[64,64]]"]
    assert (product.calls, product.flops, product.device_ns) == (3, 3 * 65536, 21 * US)


def test_modules_and_lines_are_those_of_the_capture() -> None:
    nodes = model(2)
    found = join(replayed([nodes], HIP), captured([("", nodes)], HIP))
    assert found.context is not None
    modules = joined_modules.by_module(found.context)
    assert modules.rows == (
        JoinedModule("Layer_1", 1, 18 * US, 18 * US),
        JoinedModule("Layer_0", 1, 9 * US, 9 * US),
    )
    assert modules.classes == (JoinedModule("Layer", 2, 27 * US, 27 * US),)
    assert modules.tree == (
        JoinedPlace("Layer_0", None, 0, 1, 9 * US, 9 * US),
        JoinedPlace("Layer_1", None, 0, 1, 18 * US, 18 * US),
    )
    assert (modules.device_ns, modules.outside_device_ns) == (36 * US, 9 * US)
    lines = joined_modules.by_line(found.context)
    assert [(row.name, row.calls, row.device_self_ns) for row in lines.rows] == [("model.py(12): forward", 2, 27 * US)]
    assert lines.unattributed_device_ns == 9 * US


def test_calls_outside_of_begin_and_end_are_in_no_graph() -> None:
    nodes = model(2)
    capture = captured([("", nodes)])
    # launched before the first capture and after the last: neither ran anything that was recorded
    capture.launch("hipLaunchKernel", 7, 1, args={"kernel": nodes[0].kernel})
    capture.launch("hipLaunchKernel", 900, 1, args={"kernel": nodes[-1].kernel})
    found = join(replayed([nodes]), capture)
    assert self_times(found) == expected(nodes)


def test_calls_within_a_capture_that_run_at_once_are_in_no_graph() -> None:
    nodes = model(2)
    capture = captured([("", nodes)])
    eager = capture.launch("hipLaunchKernel", 29, 1, tid=77, args={"kernel": "eager"})
    capture.kernel("eager", 31, 1, correlation=eager)
    assert self_times(join(replayed([nodes]), capture)) == expected(nodes)


@BOTH
def test_a_call_too_many_at_the_end_of_a_capture_is_left_out(vendor: Vendor) -> None:
    nodes = model(6)
    extra = Node("aten::copy_", 8, "extra_kernel")
    found = join(replayed([nodes], vendor), captured([("", [*nodes, extra])], vendor))
    assert found.result.joined_share == 1.0
    assert self_times(found) == expected(nodes)


@BOTH
def test_an_event_too_many_at_the_end_of_a_replay_stays_unjoined(vendor: Vendor) -> None:
    nodes = model(6)  # 20 nodes, 210 us
    extra = Node("aten::copy_", 8, "extra_kernel")
    found = join(replayed([[*nodes, extra]], vendor), captured([("", nodes)], vendor))
    assert (found.result.joined_ns, found.result.graph_ns) == (210 * US, 231 * US)
    assert self_times(found) == expected(nodes)


@BOTH
@pytest.mark.parametrize("missing", [6, 17, 31, 43, 61])
def test_a_node_that_the_capture_lacks_moves_no_other(vendor: Vendor, missing: int) -> None:
    nodes = model(20)
    found = join(replayed([nodes], vendor), captured([("", [*nodes[:missing], *nodes[missing + 1 :]])], vendor))
    times = expected(nodes)
    times[nodes[missing].operator] -= (missing + 1) * US
    assert self_times(found) == times
    assert found.result.joined_kernels == len(nodes) - 1


@BOTH
@pytest.mark.parametrize("extra", [2, 18, 31, 60])
def test_a_node_that_the_replay_lacks_moves_no_other(vendor: Vendor, extra: int) -> None:
    nodes = model(20)
    ran = [*nodes[:extra], *nodes[extra + 1 :]]
    assert self_times(join(replayed([ran], vendor), captured([("", nodes)], vendor))) == expected(ran)


@BOTH
@pytest.mark.parametrize("side", ["capture", "replay", "both"])
def test_copies_and_fills_may_be_missing_on_one_side(vendor: Vendor, side: str) -> None:
    nodes = model(3)
    copy = Node("aten::copy_", 8, "", kind="copy")
    fill = Node("aten::zero_", 8, "", kind="fill")
    whole = [fill, *nodes[:4], copy, *nodes[4:7], copy, *nodes[7:]]
    ran, recorded = (nodes if side == "capture" else whole), (nodes if side == "replay" else whole)
    found = join(replayed([ran], vendor), captured([("", recorded)], vendor))
    assert self_times(found) == {
        name: time
        for name, time in expected(ran).items()
        if side == "both" or name not in ("aten::copy_", "aten::zero_")
    }


def test_kernels_by_which_rocm_copies_are_copies() -> None:
    nodes = model(3)
    recorded = [*nodes[:4], Node("aten::copy_", 8, "", kind="copy"), *nodes[4:]]
    ran = [*nodes[:4], Node("aten::copy_", 8, "__amd_rocclr_copyBuffer"), *nodes[4:]]
    found = join(replayed([ran]), captured([("", recorded)]))
    assert found.result.joined_share == 1.0
    assert self_times(found) == expected(ran)


def test_streams_that_run_side_by_side_may_start_in_another_order() -> None:
    nodes = model(3)
    ran = [*nodes[:4], nodes[5], nodes[4], *nodes[6:]]
    found = join(replayed([ran]), captured([("", nodes)]))
    assert found.result.joined_share == 1.0
    assert self_times(found) == expected(ran)


def test_ids_of_nodes_give_the_order_of_the_capture() -> None:
    nodes = model(3)
    replay = CUDA.builder()
    ident = replay.launch("cudaGraphLaunch", 0, 5)
    started = [*range(0, len(nodes), 2), *range(1, len(nodes), 2)]
    for place, number in enumerate(started):
        args = {"graph id": 3, "graph node id": (3 << 32) + number}
        replay.kernel(nodes[number].kernel, 10 + 20 * place, number + 1, correlation=ident, args=args)
    found = join(replay, captured([("", nodes)], CUDA))
    assert self_times(found) == expected(nodes)


@BOTH
def test_pieces_are_joined_in_the_order_of_their_captures(vendor: Vendor) -> None:
    whole = model(4)
    layers = [whole[1 + 3 * number : 4 + 3 * number] for number in range(4)]
    pieces = [whole[:1], *layers, whole[-1:]]
    capture = captured([("capture_8_PIECEWISE", piece) for piece in pieces], vendor)
    # the recording begins in the middle of a step: layers 2 and 3 and the head, then two whole steps
    found = join(replayed([*pieces[3:], *pieces, *pieces], vendor), capture)
    assert found.result.joined_share == 1.0
    assert found.context is not None
    # 7, 14 and 14 events; in the first step layer 2 takes 1 + 2 + 3 us and layer 3 takes 4 + 5 + 6 us
    times = {row.name: (row.calls, row.device_self_ns // US) for row in joined_modules.by_module(found.context).rows}
    assert times == {
        "Layer_0": (2, 9 + 10 + 11 + 23 + 24 + 25),
        "Layer_1": (2, 12 + 13 + 14 + 26 + 27 + 28),
        "Layer_2": (3, 1 + 2 + 3 + 15 + 16 + 17 + 29 + 30 + 31),
        "Layer_3": (3, 4 + 5 + 6 + 18 + 19 + 20 + 32 + 33 + 34),
    }


def test_pieces_that_are_all_alike_are_joined_in_whole_rounds() -> None:
    layer = model(1)[1:4]
    pieces = [[replace(node, layer=number) for node in layer] for number in range(3)]
    capture = captured([("", piece) for piece in pieces])
    found = join(replayed([*pieces, *pieces]), capture)
    assert found.context is not None
    assert [row.name for row in joined_modules.by_module(found.context).rows] == ["Layer_2", "Layer_1", "Layer_0"]


def test_only_launches_in_the_chosen_steps_count() -> None:
    nodes = model(1)
    replay = replayed([nodes, nodes])
    replay.step(1, 0, 9)
    replay.step(2, 24, 12)  # the second launch is at 10 + 15 + 5 = 30 us
    trace = read_built(replay)
    whole = Context(trace)
    context = Context(trace, whole.steps.take(slice(1, 2)))
    found = graph_join.join(context, [CaptureFile("capture", read_built(captured([("", nodes)])))])
    assert (found.result.launches, found.result.graph_ns) == (1, (6 + 7 + 8 + 9 + 10) * US)
    assert operators(found)["aten::mm"].calls == 2
