"""graph-batch-padded.

The programs: decode steps of a server that replay graphs; their size is in what follows the launch, or in the id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.builders import TraceBuilder
from tests.builders.dialects import ROCM
from tests.builders.hardware import MI300X
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

KERNELS = 10


@dataclass(frozen=True)
class Step:
    """A step of 1000 us whose graph runs ten kernels for 900 us."""

    mark: str
    graph: int = 1
    output: tuple[str, Sequence[object]] | None = None
    """Type and shape of what the first operator after the launch takes."""
    before: tuple[str, Sequence[object]] | None = None
    """The same of an operator before the launch."""
    grid: int = 1


def decode(requests: int, rows: int | None = None, graph: int = 1, grid: int = 1) -> Step:
    """A step in which requests decode; the graph puts out so many rows of scores."""
    output = None if rows is None else ("float", (rows, 32000))
    return Step(f"step[DECODE bs={requests}]", graph, output, grid=grid)


def served(*steps: Step, is_rocm: bool = False) -> TraceBuilder:
    """Steps one after another."""
    trace = TraceBuilder(ROCM, devices=(MI300X,)) if is_rocm else TraceBuilder()
    for number, step in enumerate(steps):
        start = 1000 * number
        trace.annotation(step.mark, start, 950)
        if step.before is not None:
            trace.op("aten::slice", start + 5, 1, shapes=[step.before[1]], types=[step.before[0]])
        runs = [(MATRIX_UNITS, start + 40 + 90 * node, 90, {"grid": (step.grid, 1, 1)}) for node in range(KERNELS)]
        trace.graph_launch(start + 10, 10, runs, graph=step.graph)
        if step.output is not None:
            trace.op("aten::copy_", start + 25, 1, shapes=[[step.output[1][0]]], types=["long int"])
            trace.op("aten::slice", start + 30, 1, shapes=[step.output[1]], types=[step.output[0]])
    return trace


def fires() -> TraceBuilder:
    """The scores of 17 requests are taken from 24 rows."""
    return served(*5 * [decode(17, 24)])


def fires_for_a_graph_of_several_batches() -> TraceBuilder:
    """No shapes: six steps of five requests replay the graph that two of eight do, by its id."""
    return served(*6 * [decode(5)], *2 * [decode(8)])


def fires_without_ids() -> TraceBuilder:
    """No ids either: the grids of all kernels are the same."""
    return served(*6 * [decode(5, grid=8)], *2 * [decode(8, grid=8)], is_rocm=True)


def quiet() -> TraceBuilder:
    """Twenty-two of twenty-four rows are used."""
    return served(*5 * [decode(22, 24)])


def trap_captured_size() -> TraceBuilder:
    """The graph was captured for this batch."""
    return served(*5 * [decode(17, 17)])


def trap_other_graphs() -> TraceBuilder:
    """Each batch has a graph of its own."""
    return served(*6 * [decode(5, graph=5)], *2 * [decode(8, graph=8)])


def trap_other_grids() -> TraceBuilder:
    """The same kernels with other grids are another graph."""
    return served(*6 * [decode(5, grid=5)], *2 * [decode(8, grid=8)], is_rocm=True)


def trap_a_buffer_of_all_requests() -> TraceBuilder:
    """A table for the most requests is cut before the launch, and one of integers after it."""
    step = "step[DECODE bs=17]"
    before = Step(step, output=("c10::Half", (17, 4096)), before=("float", (256, 72)))
    return served(*5 * [before], *5 * [Step(step, output=("int", (256, 72)))])


def trap_drafts() -> TraceBuilder:
    """Each of eight requests computes four tokens, three of which are drafts: that is no padding."""
    return served(*5 * [Step("execute_context_0(0)_generation_8(32)", output=("c10::BFloat16", (32, 4096)))])


RULE = "graph-batch-padded"


def test_rows_of_the_output() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params == {
        "padded": 5,
        "steps": 5,
        "requests": 17,
        "size": 24,
        "share": pytest.approx(7 / 24),
    }
    assert (finding.confidence, finding.stage) == ("B", "preview")
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert (low, high) == (0, pytest.approx(900_000 * 7 / 24))


@pytest.mark.parametrize("build", [fires_for_a_graph_of_several_batches, fires_without_ids])
def test_graph_of_several_batches(build) -> None:  # type: ignore[no-untyped-def]
    """Six of eight steps compute at least three of eight requests for nothing."""
    (finding,) = findings(build(), RULE)
    assert finding.summary.params == {"padded": 6, "steps": 8, "requests": 5, "size": 8, "share": 6 / 8 * 3 / 8}
    assert "or more" in finding.summary.text


def test_the_batch_with_most_padding_is_named() -> None:
    (finding,) = findings(served(*2 * [decode(20, 24)], *3 * [decode(9, 16)]), RULE)
    assert (finding.summary.params["requests"], finding.summary.params["size"]) == (9, 16)
    assert [place.name for place in finding.evidence[0].where] == ["step[DECODE bs=9]", "step[DECODE bs=20]"]


def test_says_what_is_missing() -> None:
    assert "size of the graphs" in (skipped(trap_other_graphs(), RULE) or "")
    assert "one token per request" in (skipped(trap_drafts(), RULE) or "")
    assert skipped(fires_in_a_table(), RULE)


def test_edge_share() -> None:
    assert findings(served(*5 * [decode(12, 16)]), RULE, {"share": 0.25})
    assert findings(served(*5 * [decode(12, 16)]), RULE, {"share": 0.2501}) == []
