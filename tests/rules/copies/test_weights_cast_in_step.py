"""Tests of the rule `weights-cast-in-step`: numbers worked out by hand.

The programs: an inference under autocast, and casts of other things.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.copies.test_dtype_cast_churn import FULL, HALF, cast
from tests.rules.judging import findings, skipped, table

RULE = "weights-cast-in-step"
WEIGHT, INPUT = [1024, 512], [64, 512]


def linears(
    *shapes: Sequence[int], into: str = HALF, source: str = FULL, caller: str = "aten::linear", trains: bool = False
) -> TraceBuilder:
    """Three steps of four layers that cast tensors of some shapes for 50 us each, and multiply for 900 us."""
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(4):
                with host.op(caller, shapes=[INPUT, WEIGHT, [1024]], types=[FULL, FULL, FULL]):
                    for shape in shapes:
                        cast(host, stream, into, source, dur=50, shape=shape)
                    with host.op("aten::addmm", shapes=[[1024], INPUT, [512, 1024]], types=[HALF, HALF, HALF]):
                        host.launch(Work("ampere_bf16_s16816gemm_bf16_128x128", 900), stream)
            if trains:
                with host.annotation("Optimizer.step#SGD.step"), host.op("aten::_foreach_add_"):
                    host.launch(Work("multi_tensor_apply", 10), stream)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Each layer casts its weight: 50 of 950 us."""
    return linears(WEIGHT)


def on_a_cpu(*, shape: Sequence[int] = WEIGHT) -> TraceBuilder:
    """Three steps of four layers without a device, which cast a tensor for 300 us each, and multiply for 900 us."""
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(4):
                with host.op("aten::linear", shapes=[INPUT, WEIGHT, [1024]], types=[FULL, FULL, FULL]):
                    with host.op("aten::to", shapes=[shape], types=[FULL]):
                        host.leaf("aten::copy_", 300, shapes=[shape, shape, []], types=[HALF, FULL, ""])
                    host.leaf("aten::addmm", 900, shapes=[[1024], INPUT, [512, 1024]], types=[HALF, HALF, HALF])
    return finish(trace)


def fires_on_a_cpu() -> TraceBuilder:
    """Each layer casts its weight: 300 of 1200 us."""
    return on_a_cpu()


def trap_activations_on_a_cpu() -> TraceBuilder:
    """Inputs arrive in fp32."""
    return on_a_cpu(shape=INPUT)


def quiet() -> TraceBuilder:
    """The model was cast once."""
    return linears()


def trap_training() -> TraceBuilder:
    """The weights change in each step."""
    return linears(WEIGHT, trains=True)


def trap_activations() -> TraceBuilder:
    """Inputs arrive in fp32."""
    return linears(INPUT)


def trap_casts_to_float() -> TraceBuilder:
    """Weights that were stored in 16 bits are computed with in fp32."""
    return linears(WEIGHT, into=FULL, source=HALF)


def trap_operators_without_weights() -> TraceBuilder:
    """The second tensor of a product of two activations is no weight."""
    return linears(WEIGHT, caller="aten::bmm")


def test_the_casts_go_away() -> None:
    # four casts of 50 us per step, of 3.8 ms: at least half of 200 us
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(200 / 3800)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((100e3, 200e3))
    assert "4 casts of weights per step from float to BFloat16" in finding.summary.text
    assert "aten::linear" in finding.summary.text


def test_on_a_cpu_the_casts_go_away_as_well() -> None:
    (finding,) = findings(on_a_cpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((600e3, 1200e3), rel=0.02)
    assert "of the step), most of them in aten::linear" in finding.summary.text


def test_only_weights_count() -> None:
    (finding,) = findings(linears(WEIGHT, INPUT), RULE)
    assert finding.evidence[0].observed == pytest.approx(200 / 4000)


def test_says_why_it_cannot_judge() -> None:
    row = {
        "Name": "aten::linear",
        "Self CPU": "1.000ms",
        "CPU total": "1.000ms",
        "Self CUDA": "1.000ms",
        "# of Calls": 3,
    }
    assert "element types" in (skipped(table([row], cpu="1.000ms", device="1.000ms"), RULE) or "")
