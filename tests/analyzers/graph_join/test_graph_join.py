"""What graphs ran, joined with recordings of their captures, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.builders.graph_capture import ADD, CUDA, HIP, Node, Vendor, captured, model, replayed
from tests.reading import read_built
from traceanalyzer.analyzers import graph_join, roofline
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.graph_join import CaptureFile, Join, tables
from traceanalyzer.analyzers.graph_join.tables import JoinedModule, JoinedOperator, JoinedPlace

US = 1000
BOTH = pytest.mark.parametrize("vendor", [HIP, CUDA], ids=["names", "order"])
DECODE = "step[DECODE bs=8]"


def join(replay: TraceBuilder, *captures: TraceBuilder) -> Join:
    files = [CaptureFile(f"capture{number}", read_built(capture)) for number, capture in enumerate(captures)]
    return graph_join.join(Context(read_built(replay)), files)


def operators(found: Join) -> dict[str, JoinedOperator]:
    assert found.context is not None
    return {row.name: row for row in tables.by_name(found.context).rows}


def reason(found: Join, capture: int = 0) -> str:
    told = found.result.captures[capture]
    assert not told.accepted
    assert told.reason is not None
    return told.reason.text


def self_times(found: Join) -> dict[str, int]:
    return {name: row.device_self_ns for name, row in operators(found).items()}


def expected(nodes: Sequence[Node]) -> dict[str, int]:
    """Times of operators where the events of a single launch are 1, 2, 3, ... us long."""
    times: dict[str, int] = {}
    for length, node in enumerate(nodes, 1):
        times[node.operator] = times.get(node.operator, 0) + length * US
    return times


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
    modules = tables.by_module(found.context)
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
    lines = tables.by_line(found.context)
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
def test_a_capture_of_another_model_is_refused(vendor: Vendor) -> None:
    nodes = model(20)
    other = model(20)
    other[1:-1] = [
        Node(operator, 8, kernel)
        for _ in range(12)
        for operator, kernel in (
            ("aten::mm", "Cijk_MT64x64"),
            ("aten::mm", "Cijk_MT64x64"),
            ("aten::gelu", "gelu_kernel"),
            ("aten::layer_norm", "norm_kernel"),
            ("aten::add", ADD),
        )
    ]
    assert len(other) == len(nodes)
    found = join(replayed([nodes], vendor), captured([("", other)], vendor))
    assert "of what ran, and 95.00 % are required" in reason(found)
    assert found.context is None
    assert (found.result.joined_share, found.result.joined_ns) == (0.0, 0)


def compiled(names: Sequence[str]) -> list[Node]:
    return [Node(name, 8, name, width=8 + number) for number, name in enumerate(names)]


def test_compiled_kernels_bear_the_names_of_their_operators() -> None:
    names = [f"triton_poi_fused_{operator}_{number}" for number, operator in enumerate(("add", "mul", "div", "cat"))]
    ran, other = compiled(names), compiled(names[::-1])
    assert join(replayed([ran], CUDA), captured([("", ran)], CUDA)).result.joined_share == 1.0
    refused = join(replayed([ran], CUDA), captured([("", other)], CUDA))
    assert "its best graph agrees with 0.00 % of what ran" in reason(refused)
    nameless = [replace(node, kernel="k0") for node in ran]
    assert join(replayed([nameless], CUDA), captured([("", ran)], CUDA)).result.joined_share == 1.0


@BOTH
def test_a_capture_of_another_length_is_refused(vendor: Vendor) -> None:
    found = join(replayed([model(20)], vendor), captured([("", model(30))], vendor))
    assert reason(found) == "none of its graphs is as long as what ran: 92 and 62 kernels at the nearest"


def test_a_capture_of_another_batch_is_refused_by_its_kernels() -> None:
    found = join(replayed([model(20, tile="64x64")]), captured([("", model(20, batch=64, tile="256x256"))]))
    assert "its best graph agrees with 66.13 % of what ran" in reason(found)  # 41 of 62: all but 21 products


@BOTH
def test_a_capture_for_a_smaller_batch_is_refused_by_its_mark(vendor: Vendor) -> None:
    found = join(replayed([model(4)], vendor, mark=DECODE), captured([("capture_4_DECODE", model(4, batch=4))], vendor))
    assert reason(found) == ("its graph that agrees was captured for a batch of 4, and the trace has a batch of 8")


@BOTH
def test_a_larger_graph_ran_only_if_its_output_is_as_large(vendor: Vendor) -> None:
    capture = captured([("capture_16_DECODE", model(4, batch=16))], vendor)
    padded = join(replayed([model(4)], vendor, mark=DECODE, output=[[16, 512], []]), capture)
    assert padded.result.joined_share == 1.0
    unpadded = join(replayed([model(4)], vendor, mark=DECODE, output=[[8, 512], []]), capture)
    assert reason(unpadded) == "its graph that agrees was captured for a batch of 16, and the trace has a batch of 8"


@BOTH
def test_of_several_sizes_the_smallest_that_holds_the_batch_is_joined(vendor: Vendor) -> None:
    sizes = (32, 16, 8, 4)
    capture = captured([(f"capture_{size}_DECODE", model(4, batch=size)) for size in sizes], vendor)
    found = join(replayed([model(4)], vendor, mark="step[DECODE bs=7]", output=[[8, 512], []]), capture)
    assert found.context is not None
    assert {row.input_shapes for row in tables.by_shape(found.context).rows} == {
        "[[8,64],[64,64]]",
        "[[8,512],[512,512]]",
    }


def test_of_several_sizes_the_one_whose_kernels_agree_is_joined() -> None:
    sizes = {16: "64x64", 8: "32x32"}
    capture = captured([(f"capture_{size}_DECODE", model(4, batch=size, tile=tile)) for size, tile in sizes.items()])
    found = join(replayed([model(4, tile="64x64")], mark=DECODE), capture)
    assert found.context is not None
    assert {row.input_shapes for row in tables.by_shape(found.context).rows} == {
        "[[16,64],[64,64]]",
        "[[16,512],[512,512]]",
    }


@BOTH
def test_nothing_is_joined_where_nothing_tells_which_size_ran(vendor: Vendor) -> None:
    capture = captured([("", model(4, batch=16)), ("", model(4, batch=8))], vendor)
    found = join(replayed([model(4)] * 4, vendor), capture)
    assert reason(found) == "several of its graphs agree, and nothing tells which of them ran"


def test_a_capture_of_another_rank_is_refused() -> None:
    nodes = model(4)
    found = join(replayed([nodes], rank=0), captured([("", nodes)], rank=3))
    assert reason(found) == "it was recorded on rank 3 of 8, and the trace on rank 0 of 8"
    assert join(replayed([nodes], rank=3), captured([("", nodes)], rank=3)).result.joined_share == 1.0


def test_a_recording_without_a_whole_capture_is_refused() -> None:
    nodes = model(4)
    found = join(replayed([nodes]), captured([("", nodes)], ends=False))
    assert reason(found) == "it holds no capture of a graph from begin to end"


def test_a_trace_without_graphs_is_joined_with_nothing() -> None:
    eager = TraceBuilder()
    eager.launch_kernel("a", 10, 5, at=0)
    found = join(eager, captured([("", model(4))]))
    assert reason(found) == "the trace launches no graphs"
    assert found.result.joined_share is None


@BOTH
def test_of_two_captures_the_one_that_agrees_is_joined(vendor: Vendor) -> None:
    nodes = model(20)
    found = join(replayed([nodes], vendor), captured([("", model(12))], vendor), captured([("", nodes)], vendor))
    assert [capture.accepted for capture in found.result.captures] == [False, True]
    assert self_times(found) == expected(nodes)


def test_of_two_captures_the_one_for_the_batch_is_joined() -> None:
    captures = [captured([(f"capture_{size}_DECODE", model(4, batch=size))]) for size in (16, 8)]
    found = join(replayed([model(4)], mark=DECODE), *captures)
    assert [capture.accepted for capture in found.result.captures] == [False, True]
    assert reason(found) == "another capture agrees better, or is of a batch that fits better"


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
    times = {row.name: (row.calls, row.device_self_ns // US) for row in tables.by_module(found.context).rows}
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
    assert [row.name for row in tables.by_module(found.context).rows] == ["Layer_2", "Layer_1", "Layer_0"]


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
