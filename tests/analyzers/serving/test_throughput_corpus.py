"""Throughput of real traces, beside what follows from their models by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.analyzers.serving import ThroughputFigures
from traceanalyzer.analyzers.tables.throughput import PrintedThroughput
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze

pytestmark = pytest.mark.corpus


def of(corpus: Path, name: str) -> ThroughputFigures:
    found = corpus_files.report_of(corpus / "corpus" / f"{name}.json.gz").result("throughput", ThroughputFigures)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["resnet50_v100_workers0_memory", "resnet50_v100_workers4_golden"])
def test_a_resnet_with_batches_of_32(corpus: Path, name: str) -> None:
    found = of(corpus, name)
    assert found.typical_step_ns is not None
    assert (found.samples.batch_size, found.samples.batches_per_step, found.samples.source) == (32, 1, "shapes")
    assert found.samples.per_s == pytest.approx(32e9 / found.typical_step_ns)
    # its convolutions do not tell strides and padding, so their operations are not known
    assert (found.utilization.mfu, found.utilization.unknown) == (None, "coverage")


def test_a_qwen_that_reads_16_prompts_of_559_tokens(corpus: Path) -> None:
    found = of(corpus, "qwen_0_5b_h100_inference")
    (rate,) = found.tokens.rates
    assert (rate.requests_per_step, rate.tokens_per_step, rate.source) == (16, 16 * 559, "shapes")
    # 24 layers of width 1024: four projections (three with a bias), three of the gated network, causal attention
    tokens, width, inner = 16 * 559, 1024, 2816
    linear = 2 * tokens * (4 * width**2 + 3 * width * inner) + 3 * tokens * width
    attention = 4 * 16 * (559 * 560 // 2) * width
    rotation = 2 * 32 * 559
    assert found.utilization.model_flops_per_step == 24 * (linear + attention) + rotation
    assert found.typical_step_ns is not None
    expected = 24 * (linear + attention) / 989.4e12 / (found.typical_step_ns / 1e9)
    assert found.utilization.mfu == found.utilization.hfu == pytest.approx(expected, rel=1e-4)
    assert found.utilization.coverage == 1


@pytest.mark.parametrize("name", ["bert_small_h100_inference", "bert_small_mi300_inference"])
def test_a_bert_that_reads_141_tokens(corpus: Path, name: str) -> None:
    found = of(corpus, name)
    (rate,) = found.tokens.rates
    assert (rate.requests_per_step, rate.tokens_per_step) == (1, 141)
    # 4 layers of width 512, attention without a mask, and a head for 30,522 words
    linear = 4 * 12 * 512**2 + 512**2 + 512 * 30522
    products = 2 * 141 * linear + 4 * 4 * 141**2 * 512
    biases = 141 * (4 * (4 * 512 + 2048 + 512) + 512 + 30522)
    assert found.utilization.model_flops_per_step == products + biases


def test_a_text_that_prints_its_throughput(corpus: Path) -> None:
    (path,) = (corpus / "documents").glob("002_*.txt")
    report = analyze(load(path))
    rates = report.result("printed_throughput", tuple[PrintedThroughput, ...]) or ()
    assert [(rate.run, rate.per_s, rate.times) for rate in rates] == [
        ("run-1", 4.9, 2),
        ("run-2", 7.8, 2),
        (None, 964.4, 1),
        (None, 1326.6, 1),
    ]
    doubts = {w.message.params["run"]: w.message.params for w in report.warnings if w.id == "q-rate-of-samples"}
    assert doubts["run-2"]["batch"] == 8
    assert doubts["run-2"]["step"] == pytest.approx(8e9 / 7.8)
    assert doubts["run-2"]["profiled"] == pytest.approx(50.8e6, rel=1e-3)
