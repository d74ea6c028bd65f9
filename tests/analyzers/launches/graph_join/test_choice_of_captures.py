"""Which recordings of captures are joined with what graphs ran, and why others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.analyzers.launches.graph_join.joining import BOTH, DECODE, expected, join, reason, self_times
from tests.builders import TraceBuilder
from tests.builders.graph_capture import ADD, CUDA, Node, Vendor, captured, model, replayed
from tests.reading import read, read_built
from traceanalyzer.analyzers.launches import graph_join
from traceanalyzer.analyzers.launches.graph_join import CaptureFile
from traceanalyzer.analyzers.operators import of_graphs as joined_operators
from traceanalyzer.structure.context import Context


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
    assert "of what ran; 95.00 % is required" in reason(found)
    assert found.context is None
    assert (found.result.joined_share, found.result.joined_ns) == (0.0, 0)


def compiled(names: Sequence[str]) -> list[Node]:
    return [Node(name, 8, name, width=8 + number) for number, name in enumerate(names)]


def test_compiled_kernels_bear_the_names_of_their_operators() -> None:
    names = [f"triton_poi_fused_{operator}_{number}" for number, operator in enumerate(("add", "mul", "div", "cat"))]
    ran, other = compiled(names), compiled(names[::-1])
    assert join(replayed([ran], CUDA), captured([("", ran)], CUDA)).result.joined_share == 1.0
    refused = join(replayed([ran], CUDA), captured([("", other)], CUDA))
    assert "its best graph matches 0.00 % of what ran" in reason(refused)
    nameless = [replace(node, kernel="k0") for node in ran]
    assert join(replayed([nameless], CUDA), captured([("", ran)], CUDA)).result.joined_share == 1.0


@BOTH
def test_a_capture_of_another_length_is_refused(vendor: Vendor) -> None:
    found = join(replayed([model(20)], vendor), captured([("", model(30))], vendor))
    assert reason(found) == "none of its graphs has the length of what ran: the closest has 92 kernels, not 62"


def test_a_capture_of_another_batch_is_refused_by_its_kernels() -> None:
    found = join(replayed([model(20, tile="64x64")]), captured([("", model(20, batch=64, tile="256x256"))]))
    assert "its best graph matches 66.13 % of what ran" in reason(found)  # 41 of 62: all but 21 products


@BOTH
def test_a_capture_for_a_smaller_batch_is_refused_by_its_mark(vendor: Vendor) -> None:
    found = join(replayed([model(4)], vendor, mark=DECODE), captured([("capture_4_DECODE", model(4, batch=4))], vendor))
    assert reason(found) == ("its matching graph was captured for a batch of 4, but the trace has a batch of 8")


@BOTH
def test_a_larger_graph_ran_only_if_its_output_is_as_large(vendor: Vendor) -> None:
    capture = captured([("capture_16_DECODE", model(4, batch=16))], vendor)
    padded = join(replayed([model(4)], vendor, mark=DECODE, output=[[16, 512], []]), capture)
    assert padded.result.joined_share == 1.0
    unpadded = join(replayed([model(4)], vendor, mark=DECODE, output=[[8, 512], []]), capture)
    assert reason(unpadded) == "its matching graph was captured for a batch of 16, but the trace has a batch of 8"


@pytest.mark.parametrize(
    "size", [b"1e999", b"9223372036854775808", b"-16", b"16.0", b"true", b"null", 400 * b"[" + 400 * b"]"]
)
def test_an_output_of_no_size_speaks_against_no_graph(size: bytes) -> None:
    written = replayed([model(4)], mark=DECODE, output=[[8, 512], []]).to_bytes()
    damaged = written.replace(b"[[8, 512], []]", b"[[%b, 512], []]" % size)
    assert damaged != written
    capture = CaptureFile("capture", read_built(captured([("capture_16_DECODE", model(4, batch=16))])))
    found = graph_join.join(Context(read(damaged)), [capture])
    assert found.result.joined_share == 1.0


@BOTH
def test_of_several_sizes_the_smallest_that_holds_the_batch_is_joined(vendor: Vendor) -> None:
    sizes = (32, 16, 8, 4)
    capture = captured([(f"capture_{size}_DECODE", model(4, batch=size)) for size in sizes], vendor)
    found = join(replayed([model(4)], vendor, mark="step[DECODE bs=7]", output=[[8, 512], []]), capture)
    assert found.context is not None
    assert {row.input_shapes for row in joined_operators.by_shape(found.context).rows} == {
        "[[8,64],[64,64]]",
        "[[8,512],[512,512]]",
    }


def test_of_several_sizes_the_one_whose_kernels_agree_is_joined() -> None:
    sizes = {16: "64x64", 8: "32x32"}
    capture = captured([(f"capture_{size}_DECODE", model(4, batch=size, tile=tile)) for size, tile in sizes.items()])
    found = join(replayed([model(4, tile="64x64")], mark=DECODE), capture)
    assert found.context is not None
    assert {row.input_shapes for row in joined_operators.by_shape(found.context).rows} == {
        "[[16,64],[64,64]]",
        "[[16,512],[512,512]]",
    }


@BOTH
def test_nothing_is_joined_where_nothing_tells_which_size_ran(vendor: Vendor) -> None:
    capture = captured([("", model(4, batch=16)), ("", model(4, batch=8))], vendor)
    found = join(replayed([model(4)] * 4, vendor), capture)
    assert reason(found) == "several of its graphs match, so it is unclear which of them ran"


def test_a_capture_of_another_rank_is_refused() -> None:
    nodes = model(4)
    found = join(replayed([nodes], rank=0), captured([("", nodes)], rank=3))
    assert reason(found) == "it was recorded on rank 3 of 8, and the trace on rank 0 of 8"
    assert join(replayed([nodes], rank=3), captured([("", nodes)], rank=3)).result.joined_share == 1.0


def test_a_recording_without_a_whole_capture_is_refused() -> None:
    nodes = model(4)
    found = join(replayed([nodes]), captured([("", nodes)], ends=False))
    assert reason(found) == "it contains no complete capture of a graph"


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
    assert reason(found) == "another capture matches better, or was made for a batch that fits better"
