"""The highest clocks of GPUs agree with the rates of their data sheets."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge import gpu_clocks, gpus

_HALF = ("V100 SXM2", "V100 PCIe", "T4", "A30", "A100 40GB", "A100 80GB SXM", "A100 40GB PCIe", "A100 80GB PCIe")
"""Models with 64 cores for fp32 in each multiprocessor; the others have 128."""
_OTHERS = ("A10", "A40", "L4", "L40", "L40S", "H100 PCIe", "H100 SXM", "H200 SXM")
_GPUS = {gpu.name: gpu for _, _, gpu in gpus._rows()}


@pytest.mark.parametrize("model", [*_HALF, *_OTHERS])
def test_the_clock_is_that_of_the_rate_in_fp32(model: str) -> None:
    gpu, clock = _GPUS[model], gpu_clocks.highest_clock(model)
    assert gpu.fp32 is not None
    assert gpu.sm_count is not None
    assert clock is not None
    assert clock % 15 == 0
    cores = (64 if model in _HALF else 128) * gpu.sm_count
    assert gpu.fp32 * 1e6 / (2 * cores) == pytest.approx(clock, rel=0.01)  # rates have two to three digits


def test_what_no_document_says_is_unknown() -> None:
    assert gpu_clocks.highest_clock("B200") is None
    assert gpu_clocks.board_power("B200") == 1000
    assert gpu_clocks.highest_clock("RTX 4090") is None
    assert gpu_clocks.highest_clock(None) is None
