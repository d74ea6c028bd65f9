"""Joins built traces, and reads the results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.graph_capture import CUDA, HIP, Node
from tests.reading import read_built
from traceanalyzer.analyzers.launches import graph_join
from traceanalyzer.analyzers.launches.graph_join import CaptureFile, Join
from traceanalyzer.analyzers.operators import of_graphs as joined_operators
from traceanalyzer.analyzers.operators.of_graphs import JoinedOperator
from traceanalyzer.structure.context import Context

US = 1000
BOTH = pytest.mark.parametrize("vendor", [HIP, CUDA], ids=["names", "order"])
DECODE = "step[DECODE bs=8]"


def join(replay: TraceBuilder, *captures: TraceBuilder) -> Join:
    files = [CaptureFile(f"capture{number}", read_built(capture)) for number, capture in enumerate(captures)]
    return graph_join.join(Context(read_built(replay)), files)


def operators(found: Join) -> dict[str, JoinedOperator]:
    assert found.context is not None
    return {row.name: row for row in joined_operators.by_name(found.context).rows}


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
