"""Changes that were recorded: the step after them, predicted from what was measured of their parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.whatif_pairs import PairPrediction, predictions
from tests import corpus_files
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure.context import Context


def pair(corpus: Path, before: str, after: str) -> dict[str, PairPrediction]:
    contexts = (corpus_files.context_of(corpus / "field" / "pairs" / f"{name}.json.gz") for name in (before, after))
    return {found.put_in: found for found in predictions(*contexts)}


def loop(calls: int, kernel: int, python: int) -> Context:
    """Some calls of an operator, each of which launches a kernel and waits for it; times in microseconds.

    A call takes 10 until its kernel starts and 10 after it has ended, and Python runs after it.
    """
    trace = TraceBuilder()
    length = 20 + kernel + python
    trace.step(1, 0, calls * length)
    for number in range(calls):
        start = number * length
        trace.op("aten::item", start, 20 + kernel)
        trace.launch_kernel("gemm", start + 10, kernel, at=start + 2, call_dur=5)
        trace.launch("cudaStreamSynchronize", start + 7, 10 + kernel)
    return Context(read_built(trace))


def test_kernels_that_get_faster_shorten_a_step_that_waits_for_them() -> None:
    found = {each.put_in: each for each in predictions(loop(10, 80, 20), loop(10, 40, 20))}
    assert found["kernels"].before_ns == 10 * 120_000
    assert found["kernels"].point_ns == found["kernels"].measured_ns == 10 * 80_000


def test_calls_that_go_away_take_their_launches_waits_and_python_with_them() -> None:
    found = {each.put_in: each for each in predictions(loop(10, 80, 20), loop(5, 80, 20))}
    # the kernels alone are taken for twice as fast
    assert found["kernels"].point_ns == 10 * 80_000
    assert found["all"].measured_ns == 5 * 120_000
    assert found["all"].point_ns == pytest.approx(found["all"].measured_ns, rel=0.1)


@pytest.mark.corpus
def test_fewer_calls_of_a_mask_encoder(corpus: Path) -> None:
    found = pair(corpus, "sam2_a100_before_rle", "sam2_a100_after_rle")
    assert found["all"].is_inside
    assert found["all"].width_share <= 0.6
    assert found["all"].error_share <= 0.03
    # kernels hardly change, and so does the step that is predicted from them alone
    assert found["kernels"].point_ns >= 0.98 * found["kernels"].before_ns


@pytest.mark.corpus
def test_half_precision_does_not_help_a_host_that_got_more_to_do(corpus: Path) -> None:
    found = pair(corpus, "sam_a100_fp32", "sam_a100_half_compiled")
    assert found["all"].is_inside
    assert found["kernels"].high_ns < found["kernels"].measured_ns


@pytest.mark.corpus
def test_graphs_on_the_gpu_follow_their_kernels(corpus: Path) -> None:
    found = pair(corpus, "vit_a100_bf16_compiled", "vit_a100_int8_compiled")["kernels"]
    assert found.error_share <= 0.01
    assert found.point_ns > found.before_ns
