"""Tests of the rule `shape-roofline-gap`: numbers worked out by hand, and edges of thresholds.

The programs: operators that take longer than their size explains.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.builders.timeline import Host, Stream, finish
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training
from tests.rules.judging import findings, skipped
from tests.rules.kernels.test_gemm_degenerate import printed
from tests.rules.loader.test_dataloader_bound import fires_in_a_table as without_shapes

WIDE, NARROW = [8, 128, 984, 128], [8, 128, 984, 1]
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >"


def multiplied(dur: int, first: list[int], second: list[int]) -> Call:
    """A product of elements."""
    return Call("aten::mul", [kernel(ADDITION, dur)], [first, second], ["float", "float"])


def fires() -> TraceBuilder:
    """The same product costs 20 ms with the operands in one order, and 2 ms in the other."""
    return training([multiplied(20_000, NARROW, WIDE), multiplied(2000, WIDE, NARROW)], device=None)


def fires_against_the_memory() -> TraceBuilder:
    """A softmax over 1 GB takes 7 ms; an A100 moves that much, once in and once out, in 1.4 ms."""
    softmax = Call(
        "aten::_softmax",
        [kernel("void softmax_forward<float>", 7000)],
        [[2**14, 2**14], [], []],
        ["float", "Scalar", "Scalar"],
        ["", "-1", "False"],
    )
    return training([softmax, addition(1000)], device=A100)


def fires_in_a_table() -> str:
    """The two orders, printed."""
    return printed(
        [("aten::mul", f"[{NARROW}, {WIDE}]", "60.000ms"), ("aten::mul", f"[{WIDE}, {NARROW}]", "6.000ms")],
        copies=False,
    )


def quiet() -> TraceBuilder:
    """Both orders cost about the same."""
    return training([multiplied(2500, NARROW, WIDE), multiplied(2000, WIDE, NARROW)], device=A100)


def trap_small_calls() -> TraceBuilder:
    """Calls of a few microseconds are bound by their launch."""
    slow, fast = multiplied(9, [64, 1], [64, 64]), multiplied(2, [64, 64], [64, 1])
    return training([slow, fast] * 100, device=A100)


def trap_data_that_stays_in_a_cache() -> TraceBuilder:
    """4 MB move in 3 us: what a call takes beyond that is its start and its end."""
    return training([Call("aten::relu", [kernel(ADDITION, 30)], [[1 << 19]], ["float"])] * 10, device=A100)


def trap_operators_without_a_model() -> TraceBuilder:
    """How many bytes an index reads is in its data."""
    index = Call(
        "aten::index", [kernel("void at::native::index_elementwise_kernel", 5000)], [[2**24, 4], []], ["float", ""]
    )
    return training([index, addition(1000)], device=A100)


def trap_fused_attention() -> TraceBuilder:
    """It is bound by exponentials and products, far from the limits of memory and of the peak."""
    shapes = [[16, 512, 16, 64]] * 3 + [[]] * 3
    call = Call("aten::_flash_attention_forward", [kernel(FLASH, 5000)], shapes, ["c10::Half"] * 3 + ["Scalar"] * 3)
    return training([call, addition(1000)], device=A100)


def trap_copy_over_the_bus(dur: int = 40_000) -> TraceBuilder:
    """One call copies a batch to the device, or a scalar beside a slow kernel; another one copies as much there."""
    trace = TraceBuilder(devices=(A100,), options=("record_shapes",))
    host, stream = Host(trace, at=10), Stream(7)
    slow, fast = ([[32, 3, 512, 512], [32, 3, 512, 512], []], [[64, 3, 256, 512], [64, 3, 256, 512], []])
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.op("aten::copy_", shapes=slow, types=["float", "float", ""]):
                host.copy("HtoD", 100_663_296, stream, dur=dur)
                if dur < 1000:
                    host.launch(kernel(ADDITION, 40_000), stream)
            with host.op("aten::copy_", shapes=fast, types=["float", "float", ""]):
                host.launch(kernel(ADDITION, 300), stream)
            host.wait(stream)
    return finish(trace)


RULE = "shape-roofline-gap"


def test_the_cheaper_order_of_operands_is_the_price() -> None:
    # 20 ms and 2 ms for the same bytes: 18 ms per step
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((18e6, 18e6))
    assert finding.confidence == "A"
    assert finding.evidence[0].observed == pytest.approx(10)
    shapes = [place.shapes for place in finding.evidence[0].where]
    assert [str(s).replace(" ", "") for s in shapes] == [
        str([NARROW, WIDE]).replace(" ", ""),
        str([WIDE, NARROW]).replace(" ", ""),
    ]


def test_the_bandwidth_of_the_memory_is_the_other_bound() -> None:
    # 2^28 floats, in and out, are 2.147 GB: 1.381 ms at 1555 GB/s; at half of that 2.762 ms
    (finding,) = findings(fires_against_the_memory(), RULE)
    assert finding.saving is not None
    floor = 2**31 / 1555
    assert finding.saving.direct_ns_per_step == pytest.approx((7e6 - 2 * floor, 7e6 - floor), rel=1e-4)
    assert finding.evidence[0].observed == pytest.approx(7e6 / floor, rel=1e-4)
    assert finding.confidence == "B"
    assert "multiple of 8" not in finding.advice.text, "it is one"


def test_a_table_has_peers_too_if_it_has_shapes() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((54e6, 54e6))
    assert "group_by_input_shape" in (skipped(without_shapes(), RULE) or "")


def test_worked_number_of_document_002(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("002_*")
    found = [f for f in corpus_files.report_of(document).findings if f.rule == RULE and f.run == "run-1"]
    (finding,) = found
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(295.8e6, abs=0.05e6)
    assert finding.saving.wall_share[1] == pytest.approx(0.506, abs=0.0005)
    assert finding.severity == "critical"


def test_edge_ratio() -> None:
    assert findings(fires(), RULE, {"ratio": 10}) == []
    assert findings(fires(), RULE, {"ratio": 10 - 1e-9})


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 20 / 22}) == []
    assert findings(fires(), RULE, {"gpu_share": 20 / 22 - 1e-9})


def test_edge_call_ns() -> None:
    assert findings(fires(), RULE, {"call_ns": 20_000_000})
    assert findings(fires(), RULE, {"call_ns": 20_000_001}) == []


def test_edge_floor_ns() -> None:
    floor = 2**31 / 1555
    assert findings(fires_against_the_memory(), RULE, {"floor_ns": floor - 1})
    assert findings(fires_against_the_memory(), RULE, {"floor_ns": floor + 1}) == []


def test_the_bus_is_no_memory_of_the_device() -> None:
    """A copy of 100 MB over PCIe takes 40 ms, one on the device 0.3 ms: the operands could not be swapped."""
    assert findings(trap_copy_over_the_bus(), RULE) == []
    assert findings(trap_copy_over_the_bus(1), RULE), "a call that only sends a scalar is judged by its kernel"
