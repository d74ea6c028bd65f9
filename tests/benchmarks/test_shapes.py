"""Every extreme shape is a trace that can be reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import traceanalyzer
from benchmarks import shape_traces
from benchmarks.shape_events import Events
from traceanalyzer.errors import UnusableInputError

EMPTY = frozenset({"counters"})
"""A trace in which nothing can be analyzed."""


@pytest.mark.parametrize("shape", shape_traces.SHAPES, ids=lambda shape: shape.__name__)
def test_a_report_of_each_shape(shape: Callable[[int], Events], tmp_path: Path) -> None:
    path = tmp_path / "shape.json"
    events = shape_traces.write(shape, path, 0.02)
    assert len(json.loads(path.read_text(encoding="utf-8"))["traceEvents"]) == events
    if shape.__name__ in EMPTY:
        with pytest.raises(UnusableInputError):
            traceanalyzer.load(path)
        return
    assert traceanalyzer.analyze(traceanalyzer.load(path)).analyses
