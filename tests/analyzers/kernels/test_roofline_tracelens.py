"""Operations, bytes and rates against TraceLens' `unified_perf_summary` of the same traces.

Compared are its rows with a model, input shapes and bytes. They agree within 1 %, except for the reasons below.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import corpus_files
from traceanalyzer.analyzers.kernels import roofline
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.inputs import Inputs

pytestmark = pytest.mark.corpus
Row = dict[str, Any]

OTHER_OPERATIONS = {
    "aten::copy_": "a copy computes nothing; TraceLens counts an operation per element",
    "aten::layer_norm": "TraceLens adds 6 per element of the normalized shape, as if it had running statistics",
    "aten::miopen_batch_norm_backward": "TraceLens counts 4 per element where the call does not say 'training'",
    "aten::_fused_rms_norm_backward": "6 per element here, 8 or 10 there",
}
OTHER_BYTES = {
    "aten::layer_norm": "as above: six tensors of the normalized shape there, two here",
    "aten::native_layer_norm_backward": "without weights there are no gradients of weights",
    "aten::miopen_batch_norm_backward": "input, gradient and result here; TraceLens counts two of them",
    "aten::sum": "TraceLens takes every reduction to leave one element",
    "aten::mean": "as sum",
    "aten::mul": "an expanded operand (stride 0) is read once here, per element there",
    "aten::copy_": "an expanded source (stride 0) is read once here, per element there",
    "aten::add_": "a result in place keeps its type here; there it has the wider one",
}
NOT_MODELLED = {
    "aten::upsample_nearest1d": "resampling has no model here",
    "vllm::rocm_unquantized_gemm": "an operator of vLLM; models are of torch's own operators",
}
"""Names that begin with `triton_` are no operators: TraceLens guesses from what the compiler fused."""
COMPOSITES = {
    "aten::_scaled_dot_product_flash_attention",
    "aten::layer_norm",
    "aten::batch_norm",
    "aten::instance_norm",
    "aten::group_norm",
    "aten::convolution",
    "aten::linalg_norm",
}
"""TraceLens gives them the kernels of what they call; here the operator that launched them has a row."""
OTHER_TIME = {
    "aten::mean": "a memset beside the kernel counts here",
    "aten::miopen_batch_norm_backward": "a memset beside the kernel counts here",
    "aten::cumsum": "TraceLens adds the copy that it calls, which has a row of its own here",
    "aten::copy_": "one of the two calls reads from the host, which is left out here",
}


def rows(folder: Path, name: str) -> Iterator[Row]:
    """TraceLens' rows that have a model and shapes."""
    with gzip.open(folder / "expected" / f"{name}.json.gz", "rt") as file:
        tracelens = json.load(file).get("tracelens") or {}
    table = tracelens.get("unified_perf_summary") or {"columns": [], "rows": []}
    for values in table["rows"]:
        row = dict(zip(table["columns"], values, strict=True))
        if row.get("GFLOPS") is not None and row.get("Data Moved (MB)") is not None:
            yield row


def text(value: str | None) -> str:
    """A Python tuple of tuples as compact JSON."""
    return json.dumps(ast.literal_eval(value), separators=(",", ":")) if value else ""


def inputs(row: Row) -> tuple[str, str]:
    return text(row["Input Dims"]), text(row["Input type"])


def near(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= 0.01 * theirs


def test_operations_and_bytes(corpus: Path) -> None:
    compared: Counter[str] = Counter()
    differing: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((corpus / "corpus").glob("*.json.gz")):
        for row in rows(corpus, path.name.removesuffix(".json.gz")):
            given = Inputs(*inputs(row), text(row["Input Strides"]), text(row["Concrete Inputs"]))
            call = op_models.call_of(row["name"], given)
            work = op_models.work(call) if call else None
            if work is None:
                assert row["name"].startswith("triton_") or row["name"] in NOT_MODELLED
                continue
            compared["rows"] += 1
            assert work.bytes is not None
            if not near(work.flops, row["GFLOPS"] * 1e9):
                differing["operations"].add(row["name"])
                compared["other operations"] += 1
            if not near(work.bytes, row["Data Moved (MB)"] * 2**20):  # their MB are MiB
                differing["bytes"].add(row["name"])
                compared["other bytes"] += 1
    assert compared == {"rows": 274, "other operations": 86, "other bytes": 21}
    assert differing["operations"] == set(OTHER_OPERATIONS)
    assert differing["bytes"] == set(OTHER_BYTES)


def test_times_and_rates(corpus: Path) -> None:
    """TFLOP/s where both link the same kernels: total operations over total kernel time."""
    compared: Counter[str] = Counter()
    differing: set[str] = set()
    absent: Counter[str] = Counter()
    for path in sorted((corpus / "corpus").glob("*.json.gz")):
        theirs = _joined(rows(corpus, path.name.removesuffix(".json.gz")))
        if not theirs:
            continue
        ours = {
            (r.name, r.input_shapes, r.input_types): r for r in roofline.analyze(corpus_files.context_of(path)).rows
        }
        for key, (calls, time_us, flops) in theirs.items():
            row = ours.get(key)
            if row is None:
                absent[key[0]] += 1
                continue
            compared["rows"] += 1
            if row.calls != calls or not near(row.device_ns, time_us * 1000):
                differing.add(key[0])
                compared["other time"] += 1
            elif key[0] not in OTHER_OPERATIONS:
                assert near(row.tflops_per_s, flops / time_us / 1e6), key
                compared["same rate"] += 1
    assert differing == set(OTHER_TIME)
    fused = {name for name in absent if name.startswith("triton_")}
    assert set(absent) <= COMPOSITES | {"aten::copy_"} | NOT_MODELLED.keys() | fused
    assert absent["aten::copy_"] == 32  # from and to the host
    assert compared == {"rows": 206, "other time": 4, "same rate": 157}


def _joined(found: Iterator[Row]) -> dict[tuple[str, str, str], list[float]]:
    """Calls, kernel time in us and operations by operator, shapes and types."""
    joined: dict[tuple[str, str, str], list[float]] = {}
    for row in found:
        sums = joined.setdefault((row["name"], *inputs(row)), [0, 0, 0])
        calls = row["operation_count"]
        for place, value in enumerate((calls, row["Kernel Time (µs)_sum"], row["GFLOPS"] * 1e9 * calls)):
            sums[place] += value
    return joined
