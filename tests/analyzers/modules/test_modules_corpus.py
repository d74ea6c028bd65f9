"""Modules of real traces against the reference numbers."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import corpus_files
from traceanalyzer.analyzers import modules
from traceanalyzer.analyzers.modules import Modules
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace

NAMES = (
    "bert_small_h100_inference",
    "bert_small_mi300_inference",
    "normalization_layers_mi300",
    "owlv2_h100_inference",
    "owlv2_mi300_inference",
    "qwen_0_5b_h100_inference",
    "sglang_decode_graph_mi300",
)
Path_ = tuple[tuple[str, int], ...]


def nodes(forest: list[dict[str, Any]], above: Path_ = ()) -> Iterator[tuple[Path_, dict[str, Any]]]:
    for node in forest:
        path = (*above, (node["name"], node["id"]))
        yield path, node
        yield from nodes(node["children"], path)


def places(found: Modules) -> list[Path_]:
    paths: list[Path_] = []
    for place in found.tree:
        above = () if place.parent is None else paths[place.parent]
        paths.append((*above, (place.name, place.module_id)))
    return paths


@pytest.mark.corpus
@pytest.mark.parametrize("name", NAMES)
def test_modules_of_real_traces(corpus: Path, name: str) -> None:
    """Counts are exact, and so is the tree, but that the reference lists a module once per set of children.

    Times of the reference are sums of float64 microseconds, each off by up to the spacing of floats at the time of
    the event (at most 2**-10 us in these traces); a sum over n events is off by about its root.
    """
    trace = corpus_files.trace_of(corpus / "corpus" / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    found = modules.analyze(Context(trace))
    with gzip.open(corpus / "expected" / f"{name}.json.gz") as file:
        expected = list(nodes(json.load(file)["modules"]))
    assert set(places(found)) == {path for path, _ in expected}
    assert len(places(found)) == len(set(places(found)))
    tolerance = 2**-10 * (math.sqrt(len(trace.device)) + 1)
    rows = {(row.name, row.module_id): row for row in found.rows}
    assert set(rows) == {path[-1] for path, _ in expected}
    for path, wanted in expected:
        row = rows[path[-1]]
        assert (row.calls, row.operators) == (wanted["occurences"], wanted["operators"])
        times = {
            "host_duration": row.host_total_ns,
            "self_host_duration": row.host_self_ns,
            "device_duration": row.device_total_ns,
            "self_device_duration": row.device_self_ns,
            "avg_duration": (row.device_total_ns or row.host_total_ns) / row.calls,
        }
        for field, value in times.items():
            assert value / 1000 == pytest.approx(wanted[field], abs=tolerance, rel=1e-9), (path[-1], field)
    parts = sum(row.device_self_ns + row.backward_device_self_ns for row in found.rows)
    rest = found.outside_device_ns + found.backward_outside.device_ns + found.backward_unlinked.device_ns
    assert parts + rest == found.device_ns == int(trace.device.dur_ns.sum())
