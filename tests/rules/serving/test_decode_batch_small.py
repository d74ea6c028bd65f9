"""Tests of the rule `decode-batch-small`: numbers worked out by hand, and edges of thresholds.

The programs: steps of a language model's server, by its marks.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def served(*marks: str, busy: int = 950) -> TraceBuilder:
    """A step of 1000 us for each mark, in which the device works for `busy` us."""
    trace = TraceBuilder()
    for number, mark in enumerate(marks):
        start = 1000 * number
        trace.annotation(mark, start, 990)
        trace.launch_kernel(MATRIX_UNITS, start + 30, busy, at=start + 10)
    return trace


def fires() -> TraceBuilder:
    """Eight requests decode together."""
    return served(*4 * ["step[DECODE bs=8]"])


def quiet() -> TraceBuilder:
    """Two hundred and fifty-six do."""
    return served(*4 * ["step[DECODE bs=256]"])


def trap_prefill() -> TraceBuilder:
    """Prompts are computed: arithmetic bounds that."""
    return served(*4 * ["step[EXTEND bs=2 toks=3000]"])


def trap_a_waiting_device() -> TraceBuilder:
    """The device waits for the host: more requests are not what to look at first."""
    return served(*4 * ["step[DECODE bs=8]"], busy=300)


GEMV = (
    "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false>(Params)"
)
INT4 = "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::BLayout_TC_int4<2, 32>>(void const*, void*, int)"


def decoding(name: str, *, steps: int = 4, vectors: int = 800) -> TraceBuilder:
    """A pass takes 1000 us, of which kernels that read a matrix once have most."""
    trace = TraceBuilder()
    for number in range(steps):
        start = 1000 * number
        trace.step(number, start, 990)
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel(name, start + 30, vectors, at=start + 10)
        trace.launch_kernel("elementwise_kernel", start + 30 + vectors, 950 - vectors, at=start + 15)
    return trace


def fires_for_one_sequence() -> TraceBuilder:
    """One sequence is decoded with weights of 16 bits."""
    return decoding(GEMV)


def trap_few_vectors() -> TraceBuilder:
    """The last layer alone multiplies by a vector."""
    return decoding(GEMV, vectors=100)


RULE = "decode-batch-small"


def test_weights_of_sixteen_bits_could_be_narrower() -> None:
    (finding,) = findings(fires_for_one_sequence(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 400_000), rel=0.01)
    assert finding.action is not None
    assert "quantize" in finding.action.text


def test_narrow_weights_are_not_quantized_again() -> None:
    (finding,) = findings(decoding(INT4), RULE)
    assert (finding.saving, finding.severity) == (None, "info")
    assert finding.action is not None
    assert finding.action.text == "Decode more tokens at once"


def test_edge_vector_share() -> None:
    assert findings(fires_for_one_sequence(), RULE, {"vector_share": 0.83})
    assert findings(fires_for_one_sequence(), RULE, {"vector_share": 0.85}) == []


def test_tokens_per_second() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 8
    assert finding.summary.params["rate"] == pytest.approx(8000, rel=0.05)
    assert (finding.severity, finding.saving) == ("info", None)


def test_says_why_it_cannot_judge() -> None:
    assert "no mark" in (skipped(trap_prefill(), RULE) or "")
    assert "marks" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_tokens() -> None:
    assert findings(fires(), RULE, {"tokens": 8}) == []
    assert findings(fires(), RULE, {"tokens": 8.1})


def test_edge_busy_share() -> None:
    assert findings(fires(), RULE, {"busy_share": 0.9})
    assert findings(fires(), RULE, {"busy_share": 0.99}) == []
