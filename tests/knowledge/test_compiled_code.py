"""Names of compiled regions."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.compiled_code import is_region, region_id


@pytest.mark.parametrize(
    ("name", "region"),
    [
        ("Torch-Compiled Region: 0/1", "0/1"),
        ("## Call CompiledFxGraph fx4hd7k2lq ##", None),
        ("## forward ##", None),
        ("aten::mm", None),
    ],
)
def test_regions(name: str, region: str | None) -> None:
    assert region_id(name) == region
    assert is_region(name) is (region is not None)
