"""Bandwidth of the links between GPUs, from their vendors' data sheets.

Figures are in GB/s (10^9 bytes per second), in one direction, for all links of one GPU together. Data sheets of NVLink
and Infinity Fabric give the sum of both directions; the table has half of it. A GPU whose data sheet names no link for
groups of more than two has its PCIe slot.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from traceanalyzer.knowledge import gpus
from traceanalyzer.trace.model import Device

# Columns are separated by two blanks; models are those of `gpus`.
_TABLE = """
model           link             GB/s  from
V100S           PCIe             16    PCIe 3.0 x16, NVIDIA V100S data sheet (2020)
V100 PCIe       PCIe             16    PCIe 3.0 x16, NVIDIA V100 data sheet (2020)
V100 SXM2       NVLink           150   NVIDIA V100 data sheet (2020)
T4              PCIe             16    PCIe 3.0 x16, NVIDIA T4 data sheet (2019)
A10             PCIe             32    PCIe 4.0 x16, NVIDIA A10 data sheet (2021)
A40             PCIe             32    PCIe 4.0 x16, NVIDIA A40 data sheet (2021)
A100 80GB PCIe  PCIe             32    PCIe 4.0 x16, NVIDIA A100 data sheet (2021)
A100 40GB PCIe  PCIe             32    PCIe 4.0 x16, NVIDIA A100 data sheet (2021)
A100 80GB SXM   NVLink           300   NVIDIA A100 data sheet (2021)
A100 40GB       NVLink           300   NVIDIA A100 data sheet (2021)
L4              PCIe             32    PCIe 4.0 x16, NVIDIA L4 data sheet (2023)
L40             PCIe             32    PCIe 4.0 x16, NVIDIA L40 data sheet (2022)
L40S            PCIe             32    PCIe 4.0 x16, NVIDIA L40S data sheet (2023)
H100 PCIe       PCIe             64    PCIe 5.0 x16, NVIDIA H100 data sheet (2023)
H100 SXM        NVLink           450   NVIDIA H100 data sheet (2023)
H200 SXM        NVLink           450   NVIDIA H200 data sheet (2024)
B200            NVLink           900   NVIDIA Blackwell data sheet (2025)
GB200           NVLink           900   NVIDIA Blackwell data sheet (2025)
MI300X          Infinity Fabric  448   AMD Instinct MI300X data sheet (2023)
MI325X          Infinity Fabric  448   AMD Instinct MI325X data sheet (2024)
MI350X          Infinity Fabric  537   AMD Instinct MI350X data sheet (2025)
MI355X          Infinity Fabric  537   AMD Instinct MI355X data sheet (2025)
"""


class Interconnect(msgspec.Struct, frozen=True):
    """The link between the GPUs of a machine."""

    name: str
    """`NVLink`, `PCIe` or `Infinity Fabric`."""
    bandwidth: float
    """Bandwidth in GB/s in one direction, for all links of a GPU together."""
    source: str
    """Vendor document with the figure."""


def between(devices: Iterable[Device]) -> Interconnect | None:
    """The link of all devices of a trace; None if the devices differ or the link is unknown."""
    gpu = gpus.only(devices)
    return None if gpu is None else _LINKS.get(gpu.name)


def _links() -> dict[str, Interconnect]:
    rows = [line.split("  ") for line in _TABLE.strip().splitlines()[1:]]
    fields = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {model: Interconnect(link, float(rate), source) for model, link, rate, source in fields}


_LINKS = _links()
