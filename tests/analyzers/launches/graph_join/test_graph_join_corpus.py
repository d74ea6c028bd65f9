"""Replays of two servers joined with the recordings of their captures, against an independent walk of both files."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests import corpus_files
from traceanalyzer.analyzers.launches import graph_join
from traceanalyzer.analyzers.launches.graph_join import CaptureFile, Join
from traceanalyzer.analyzers.modules import of_graphs as joined_modules
from traceanalyzer.analyzers.operators import of_graphs as joined_operators
from traceanalyzer.pipeline import analyze
from traceanalyzer.trace.model import Trace

SGLANG = ("sglang_decode_graph_mi300", "sglang_decode_graph_mi300_capture")
VLLM = ("vllm_decode_graph_mi300x_replay", "vllm_decode_graph_mi300x_capture")

LAYER_1 = {
    "aiter::add_rmsnorm": 5_688 + 5_848,
    "aten::mm": 23_835 + 19_067 + 73_629 + 44_386,
    "aten::copy_": 5_847 + 5_608,
    "aiter::rmsnorm": 5_487 + 5_447,
    "sgl_kernel::rotary_embedding": 6_969,
    "sglang::store_cache": 5_728,
    "sglang_profiler::attention_paged_attention_ragged_100": 59_728 + 5_848,
    "sgl_kernel::silu_and_mul": 12_257,
}
"""The 15 kernels of the second decoder layer in ns, read from the replay kernel by kernel."""


def path(corpus: Path, name: str) -> Path:
    return corpus / "corpus" / f"{name}.json.gz"


def without_names(trace: Trace) -> Trace:
    """The recording as CUDA writes it: launch calls do not name their kernels."""
    return replace(trace, launches=trace.launches.changed(kernel=np.full(len(trace.launches), -1, np.int32)))


def join(corpus: Path, replay: str, *captures: Trace) -> Join:
    files = [CaptureFile(capture.info.name, capture) for capture in captures]
    return graph_join.join(corpus_files.context_of(path(corpus, replay)), files)


def events(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        return [event for event in json.load(opened, parse_float=Decimal)["traceEvents"] if event.get("ph") == "X"]


def walked(corpus: Path, pair: tuple[str, str]) -> list[tuple[list[str], str, int]]:
    """For each kernel of the graph: the operators around the call of its place in the capture, the last module, ns."""
    replay, capture = (events(path(corpus, name)) for name in pair)
    (graph,) = (e["args"]["correlation"] for e in replay if e["name"] == "hipGraphLaunch")
    ran = [e for e in replay if e["cat"] == "kernel" and e["args"]["correlation"] == graph]
    begin, end = (next(e["ts"] for e in capture if e["name"] == f"hipStream{x}Capture") for x in ("Begin", "End"))
    calls = [e for e in capture if e["cat"] == "cuda_runtime" and "kernel" in e["args"] and begin < e["ts"] < end]
    ran.sort(key=lambda e: e["ts"])
    calls.sort(key=lambda e: e["ts"])
    operators = [e for e in capture if e["cat"] == "cpu_op"]
    modules = [e for e in capture if e["cat"] == "python_function" and e["name"].startswith("nn.Module: Qwen3Decoder")]
    found = []
    for call, kernel in zip(calls, ran, strict=True):
        around = [e["name"] for e in operators if e["ts"] <= call["ts"] < e["ts"] + e["dur"]]
        layer = [e["name"] for e in modules if e["ts"] <= call["ts"] < e["ts"] + e["dur"]]
        found.append((around, layer[-1] if layer else "", int(kernel["dur"] * 1000)))
    return found


@pytest.mark.parametrize("pair", [SGLANG, VLLM], ids=["sglang", "vllm"])
@pytest.mark.parametrize("is_named", [True, False], ids=["names", "order"])
def test_all_time_of_graphs_is_joined(corpus: Path, pair: tuple[str, str], is_named: bool) -> None:
    capture = corpus_files.trace_of(path(corpus, pair[1]))
    found = join(corpus, pair[0], capture if is_named else without_names(capture))
    assert found.result.joined_share == 1.0
    assert found.context is not None
    walk = walked(corpus, pair)
    times: Counter[str] = Counter()
    for around, _, dur in walk:
        times[around[-1]] += dur
    rows = joined_operators.by_name(found.context).rows
    assert {row.name: row.device_self_ns for row in rows if row.device_self_ns} == times
    assert found.result.joined_ns == found.result.graph_ns == sum(dur for _, _, dur in walk)


def test_one_decoder_layer_read_by_hand(corpus: Path) -> None:
    by_hand: Counter[str] = Counter()
    for around, layer, dur in walked(corpus, SGLANG):
        if layer == "nn.Module: Qwen3DecoderLayer_1":
            by_hand[around[-1]] += dur
    assert by_hand == LAYER_1
    found = join(corpus, SGLANG[0], corpus_files.trace_of(path(corpus, SGLANG[1])))
    assert found.context is not None
    modules = {row.name: row for row in joined_modules.by_module(found.context).rows}
    layer = modules["Qwen3DecoderLayer_1"]
    assert (layer.calls, layer.device_total_ns) == (1, sum(LAYER_1.values()))
    assert modules["QKVParallelLinear_1"].device_self_ns == 23_835
    assert modules["RadixAttention_1"].device_self_ns == 5_728 + 59_728 + 5_848


@pytest.mark.parametrize("is_named", [True, False], ids=["names", "order"])
def test_a_call_more_or_less_shifts_nothing(corpus: Path, is_named: bool) -> None:
    capture = corpus_files.trace_of(path(corpus, SGLANG[1]))
    capture = capture if is_named else without_names(capture)
    whole = join(corpus, SGLANG[0], capture)
    assert whole.context is not None
    nodes = np.flatnonzero(capture.names.where(lambda name: "LaunchKernel" in name)[capture.launches.name])
    gone = int(nodes[300])
    kept = np.delete(np.arange(len(capture.launches)), gone)
    found = join(corpus, SGLANG[0], replace(capture, launches=capture.launches.take(kept)))
    assert found.context is not None
    assert found.result.joined_kernels == whole.result.joined_kernels - 1
    before = {row.name: row.device_self_ns for row in joined_operators.by_name(whole.context).rows}
    after = {row.name: row.device_self_ns for row in joined_operators.by_name(found.context).rows}
    changed = {name: before[name] - after[name] for name in before if before[name] != after[name]}
    assert len(changed) == 1
    assert sum(changed.values()) == whole.result.joined_ns - found.result.joined_ns


@pytest.mark.parametrize("is_named", [True, False], ids=["names", "order"])
def test_the_capture_of_the_other_server_is_refused(corpus: Path, is_named: bool) -> None:
    captures = [corpus_files.trace_of(path(corpus, name)) for name in (VLLM[1], SGLANG[1])]
    found = join(corpus, SGLANG[0], *(capture if is_named else without_names(capture) for capture in captures))
    assert [capture.accepted for capture in found.result.captures] == [False, True]


def test_without_a_capture_all_numbers_stay(corpus: Path) -> None:
    replay = path(corpus, SGLANG[0])
    alone = corpus_files.report_of(replay)
    joined = analyze(corpus_files.content_of(replay), graph_captures=[path(corpus, SGLANG[1])])
    new = {key for key in joined.analyses if key == "graph_join" or key.startswith("joined_")}
    assert not new & alone.analyses.keys()
    assert {key: value for key, value in joined.analyses.items() if key not in new} == alone.analyses
    assert joined.headlines == alone.headlines
