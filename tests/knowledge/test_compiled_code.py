"""Names of compiled regions and graphs."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.compiled_code import compiled_graph, is_region, region_id


@pytest.mark.parametrize(
    ("name", "region", "graph"),
    [
        ("Torch-Compiled Region: 0/1", "0/1", None),
        ("## Call CompiledFxGraph fx4hd7k2lq ##", None, "fx4hd7k2lq"),
        ("## forward ##", None, None),
        ("aten::mm", None, None),
    ],
)
def test_regions_and_graphs(name: str, region: str | None, graph: str | None) -> None:
    assert region_id(name) == region
    assert is_region(name) is (region is not None)
    assert compiled_graph(name) == graph
