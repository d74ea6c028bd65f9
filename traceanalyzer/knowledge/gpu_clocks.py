"""Counters that writers of traces give GPUs, and the highest clock and the power of GPUs by their data sheets."""

from __future__ import annotations

import re

SM_CLOCK, MEMORY_CLOCK, POWER, TEMPERATURE = "SM Clock (MHz)", "Memory Clock (MHz)", "Power (W)", "Temperature (C)"
SM_ACTIVE, PCIE = "SM Active (%)", "PCIe (%)"
NVLINK_RECEIVED, NVLINK_SENT = "NVLink RX (%)", "NVLink TX (%)"
BANDWIDTH = ("DRAM BW (%)", "HBM BW (%)")
"""Bandwidth of the device's memory, under the names of two metrics; a recording has one of them."""

NAMES = frozenset(
    (SM_CLOCK, MEMORY_CLOCK, POWER, TEMPERATURE, SM_ACTIVE, PCIE, NVLINK_RECEIVED, NVLINK_SENT, *BANDWIDTH)
)
"""All counters that figures are made of."""

_PROCESS = re.compile(r"GPU (\d{1,4}) Counters")

_SHEETS: dict[str, tuple[int | None, int]] = {
    "V100 SXM2": (1530, 300),
    "V100 PCIe": (1380, 250),
    "T4": (1590, 70),
    "A10": (1695, 150),
    "A30": (1440, 165),
    "A40": (1740, 300),
    "A100 40GB": (1410, 400),
    "A100 80GB SXM": (1410, 400),
    "A100 40GB PCIe": (1410, 250),
    "A100 80GB PCIe": (1410, 300),
    "L4": (2040, 72),
    "L40": (2490, 300),
    "L40S": (2520, 350),
    "H100 PCIe": (1755, 350),
    "H100 SXM": (1980, 700),
    "H200 SXM": (1980, 700),
    "B200": (None, 1000),
}
"""By model: the highest SM clock in MHz and the power of the board in W.

The power is that of the data sheets in `knowledge.gpus`. The clock is the one at which the rate in fp32 that they state
is reached: two operations for each core and cycle, rounded to the 15 MHz in which these clocks are set. Where other
documents name the boost clock (white papers of V100, A100 and H100, product briefs of the others), it is the same; for
B200 none does, so that its clock is unknown.
"""


def device_of(process: str) -> int | None:
    """The number of the device whose counters are in a process of a trace; None for other processes."""
    match = _PROCESS.fullmatch(process)
    return int(match[1]) if match else None


def highest_clock(model: str | None) -> int | None:
    """The highest SM clock in MHz of a model of `knowledge.gpus`; None: unknown."""
    return None if model is None else _SHEETS.get(model, (None, 0))[0]


def board_power(model: str | None) -> int | None:
    """The power in W that the board of a model may draw; None: unknown."""
    return _SHEETS[model][1] if model in _SHEETS else None
