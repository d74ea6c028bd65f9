"""Waits of real traces, against what reading the traces gives; no peer measures the gaps after waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.analyzers import idle, waits

pytestmark = pytest.mark.corpus


def test_waits_after_copies_from_pageable_memory_are_found(corpus: Path) -> None:
    """Two per step, for input and target, each within `copy_`, and the profiler's own at the end."""
    found = waits.analyze(corpus_files.context_of(corpus / "corpus" / "resnet50_v100_workers0_memory.json.gz"))
    rows = {row.call: row for row in found.rows}
    assert set(rows) == {"cudaStreamSynchronize", "cudaDeviceSynchronize"}
    assert rows["cudaStreamSynchronize"].operators == ("aten::to", "aten::copy_")
    assert (rows["cudaStreamSynchronize"].calls, rows["cudaStreamSynchronize"].calls_per_step) == (12, 2.0)
    assert rows["cudaStreamSynchronize"].waiting_ns == 551_000


def test_item_names_the_line_of_the_model(corpus: Path) -> None:
    found = waits.analyze(corpus_files.context_of(corpus / "corpus" / "bert_small_h100_inference.json.gz"))
    row = found.rows[0]
    assert row.operators == ("aten::is_nonzero", "aten::item", "aten::_local_scalar_dense")
    assert (row.python_line or "").startswith("transformers/modeling_attn_mask_utils.py(429)")
    assert (row.calls, row.drains, row.drained_ns) == (1, 1, 149_892)


def test_a_loader_takes_most_of_the_gaps_after_waits(corpus: Path) -> None:
    found = waits.analyze(corpus_files.context_of(corpus / "corpus" / "owlv2_h100_inference.json.gz"))
    assert found.drained_ns is not None
    assert found.drained_unexplained_ns is not None
    assert found.drained_unexplained_ns < 0.05 * found.drained_ns


def test_gaps_after_waits_are_idle_time(corpus: Path, corpus_name: str) -> None:
    context = corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    if idle.ANALYSES[0].missing(context) is not None:
        pytest.skip("nothing to compare: no kernels")
    device = context.trace.device
    whole = int((device.start_ns + device.dur_ns).max() - device.start_ns.min())
    drained = waits.analyze(context).drained_ns
    assert drained is not None
    busy = max(row.busy_ns for row in idle.analyze(context).devices)
    assert 0 <= drained <= whole - min(busy, whole)
