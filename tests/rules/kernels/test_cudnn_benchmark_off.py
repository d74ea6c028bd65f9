"""Tests of the rule `cudnn-benchmark-off`: numbers worked out by hand, and edges of thresholds.

The programs: convolutions that run in one way or in several.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import Call, addition, kernel, training
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

FAST = "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"
SLOW = "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>"
X, WEIGHT = [32, 64, 56, 56], [64, 64, 3, 3]


def convolution(name: str, dur: int, *, stride: int = 1, x: Sequence[int] = X, values: bool = True) -> Call:
    """One call, whose stride and padding are recorded or not."""
    shapes = [x, WEIGHT, [], [], [], [], [], [], []]
    concrete = ["", "", "[1, 1]", f"[{stride}, {stride}]", "[1, 1]", "1", "False", "True", "True"]
    types = ["float", "float", *["ScalarList"] * 3, "Scalar", "Scalar", "Scalar", "Scalar"]
    return Call("aten::cudnn_convolution", [kernel(name, dur)], shapes, types, concrete if values else None)


def fires() -> TraceBuilder:
    """The same convolution takes 1 ms in one way and 3 ms in another, in each step."""
    return training([convolution(FAST, 1000), convolution(SLOW, 3000), addition(2000)])


def quiet() -> TraceBuilder:
    """Always the same way."""
    return training([convolution(SLOW, 3000), convolution(SLOW, 3000)])


def trap_other_sizes() -> TraceBuilder:
    """Different inputs may need different ways."""
    return training([convolution(FAST, 1000), convolution(SLOW, 3000, x=[32, 64, 28, 28])])


def trap_other_strides() -> TraceBuilder:
    """Different strides at equal shapes may also lead to different algorithms."""
    return training([convolution(FAST, 1000), convolution(SLOW, 3000, stride=2)])


def trap_unknown_strides() -> TraceBuilder:
    """Older traces do not contain the stride."""
    return training([convolution(FAST, 1000, values=False), convolution(SLOW, 3000, values=False)])


def trap_slow_names() -> TraceBuilder:
    """A kernel with a name of ill repute may be what the benchmark chose."""
    return training([convolution(SLOW, 3000), addition(1000)])


def trap_the_benchmark_itself() -> TraceBuilder:
    """The first call tries several ways; all others run in the best one."""
    return training([convolution(SLOW, 3000), *[convolution(FAST, 1000)] * 9], steps=1)


RULE = "cudnn-benchmark-off"


def test_the_best_way_seen_is_the_bound() -> None:
    # in each step one call takes 3 ms where 1 ms would do; the step has 6 ms
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(2e6))
    assert finding.evidence[0].observed == pytest.approx(1 / 3)
    assert finding.summary.params["slow"] == pytest.approx(3e6)
    assert finding.summary.params["best"] == pytest.approx(1e6)
    assert finding.severity == "low"


def test_without_stride_and_padding_it_is_skipped() -> None:
    assert "stride and padding" in (skipped(trap_unknown_strides(), RULE) or "")
    assert "which call launched" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 1 / 3}) == []
    assert findings(fires(), RULE, {"gpu_share": 1 / 3 - 1e-9})


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 3})
    assert findings(fires(), RULE, {"calls": 4}) == []


def searching(*, waits: int = 8, kinds: int = 4, steps: int = 5, searched: int = 5) -> TraceBuilder:
    """Steps with a forward convolution that runs eight kernels of 2 ms and waits for each, where it searches."""
    trace, at = TraceBuilder(), 0
    for number in range(steps):
        trace.step(number, at, 20_000)
        trace.op("aten::cudnn_convolution", at + 10, 17_000, shapes=[[32, 1, 32, 300 + number], [64, 1, 3, 3]])
        for tried in range(8 if number < searched else 1):
            begin = at + 20 + 2050 * tried
            trace.launch_kernel(f"algorithm_{tried % kinds}", begin + 10, 2000, at=begin, call_dur=5)
            if tried < waits:
                trace.launch("cudaEventSynchronize", begin + 6, 2010)
        trace.op("aten::relu", at + 18_000, 50)
        trace.launch_kernel("relu", at + 18_010, 500, at=at + 18_005, call_dur=3)
        at += 20_000
    return trace


def test_edge_search_share() -> None:
    # algorithms run for eight times 2 ms in each step, and something else for half a millisecond
    share = 16 / 16.5
    assert findings(searching(), RULE, {"search_share": share}) == []
    assert findings(searching(), RULE, {"search_share": share - 1e-9})


def test_a_search_in_each_step_is_said_first() -> None:
    found = report(searching())
    (headline,) = found.headlines
    assert headline.message.text == "Choosing convolution algorithms for new sizes: 17 of the 20 ms of each step."
    first = found.findings[0]
    assert first.rule == "cudnn-benchmark-off"
    assert first.code == "torch.backends.cudnn.benchmark = False"
    assert first.saving is not None
    assert [round(ns) for ns in first.saving.direct_ns_per_step] == [14e6, 14e6], "seven of eight kernels of 2 ms"
    others = {"sync-between-launches", "mixed-precision-unused", "allocator-malloc-in-step"}
    assert not others & {finding.rule for finding in found.findings}


@pytest.mark.parametrize(
    "trace",
    [searching(waits=2), searching(kinds=2), searching(searched=2)],
    ids=["no-waits", "one-algorithm", "warm-up"],
)
def test_what_is_no_search(trace: TraceBuilder) -> None:
    found = report(trace)
    assert not any("Choosing convolution algorithms" in headline.text for headline in found.headlines)
    assert "cudnn-benchmark-off" not in {finding.rule for finding in found.findings}
