"""Links between GPUs."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge import gpus, links
from traceanalyzer.trace.model import Device

GIB = 2**30


def device(name: str, memory: int = 80 * GIB) -> Device:
    return Device(0, name, memory_bytes=memory)


@pytest.mark.parametrize(
    ("name", "memory", "link", "rate"),
    [
        ("NVIDIA H100 80GB HBM3", 80, "NVLink", 450),
        ("NVIDIA A100-SXM4-40GB", 40, "NVLink", 300),
        ("NVIDIA A100-PCIE-40GB", 40, "PCIe", 32),
        ("NVIDIA A100 80GB PCIe", 80, "PCIe", 32),
        ("Tesla V100-SXM2-16GB", 16, "NVLink", 150),
        ("AMD Instinct MI300X", 192, "Infinity Fabric", 448),
    ],
)
def test_links_of_well_known_gpus(name: str, memory: int, link: str, rate: float) -> None:
    found = links.between([device(name, memory * GIB)])
    assert found is not None
    assert (found.name, found.bandwidth) == (link, rate)


def test_every_line_is_about_a_gpu_of_the_other_table() -> None:
    assert set(links._LINKS) <= {gpu.name for gpu in gpus.known()}


def test_different_or_unknown_gpus_have_no_link() -> None:
    h100 = device("NVIDIA H100 80GB HBM3")
    assert links.between([h100, device("NVIDIA H100 PCIe")]) is None
    assert links.between([device("Some Other GPU")]) is None
    assert links.between([]) is None
