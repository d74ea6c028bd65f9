"""Which data sheet belongs to a device, and which of its figures to a type."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge import gpus
from traceanalyzer.trace.model import Device


def device(name: str | None, gib: float = 0) -> Device:
    return Device(0, name, memory_bytes=int(gib * 2**30) if gib else None)


@pytest.mark.parametrize(
    ("name", "gib", "model"),
    [
        ("Tesla V100-SXM2-32GB", 31.7, "V100 SXM2"),
        ("Tesla V100-DGXS-32GB", 31.7, "V100 SXM2"),
        ("Tesla V100-PCIE-16GB", 15.8, "V100 PCIe"),
        ("Tesla V100S-PCIE-32GB", 31.7, "V100S"),
        ("Tesla T4", 14.6, "T4"),
        ("NVIDIA A10", 22.1, "A10"),
        ("NVIDIA A30", 23.6, "A30"),
        ("NVIDIA A40", 44.4, "A40"),
        ("NVIDIA A100-SXM4-40GB", 39.4, "A100 40GB"),
        ("A100-PCIE-40GB", 39.4, "A100 40GB PCIe"),
        ("NVIDIA A100-PG509-200", 39.4, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 79.2, "A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", 79.2, "A100 80GB PCIe"),
        ("NVIDIA L4", 22, "L4"),
        ("NVIDIA L40", 44.5, "L40"),
        ("NVIDIA L40S", 44.5, "L40S"),
        ("NVIDIA GeForce RTX 2080 Ti", 11, "RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 3080", 9.8, "RTX 3080"),
        ("NVIDIA GeForce RTX 3090", 23.7, "RTX 3090"),
        ("NVIDIA GeForce RTX 3090 Ti", 23.7, "RTX 3090 Ti"),
        ("NVIDIA GeForce RTX 4090", 23.6, "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", 31.4, "RTX 5090"),
        ("Tesla P100-PCIE-16GB", 15.9, "P100 PCIe"),
        ("Tesla P100-PCIE-12GB", 11.9, "P100 PCIe 12GB"),
        ("Tesla P40", 22.4, "P40"),
        ("Quadro GV100", 31.7, "Quadro GV100"),
        ("NVIDIA A10G", 22.2, "A10G"),
        ("GeForce GTX 1080 Ti", 10.9, "GTX 1080 Ti"),
        ("NVIDIA GeForce GTX 1650", 3.8, "GTX 1650"),
        ("NVIDIA GeForce GTX 1060 6GB", 5.9, "GTX 1060 6GB"),
        ("NVIDIA GeForce GTX 1060", 5.9, "GTX 1060 6GB"),
        ("NVIDIA GeForce MX250", 2, "MX250"),
        ("NVIDIA GeForce RTX 2060", 5.8, "RTX 2060"),
        ("NVIDIA GeForce RTX 2060", 12, "RTX 2060 12GB"),
        ("NVIDIA GeForce RTX 2060 SUPER", 7.8, "RTX 2060 SUPER"),
        ("NVIDIA GeForce RTX 3050", 7.8, "RTX 3050"),
        ("NVIDIA GeForce RTX 3060", 11.8, "RTX 3060"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 6, "RTX 3060 Laptop"),
        ("NVIDIA GeForce RTX 3080", 11.8, "RTX 3080 12GB"),
        ("NVIDIA GeForce RTX 3080 Ti", 12, "RTX 3080 Ti"),
        ("NVIDIA GeForce RTX 4060", 8, "RTX 4060"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 16, "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, "RTX 4090 Laptop"),
        ("NVIDIA GeForce RTX 5060 Ti", 16, "RTX 5060 Ti"),
        ("NVIDIA RTX A2000 12GB", 12, "RTX A2000"),
        ("NVIDIA RTX A6000", 47.5, "RTX A6000"),
        ("Quadro RTX 6000", 23.7, "Quadro RTX 6000"),
        ("NVIDIA RTX 6000 Ada Generation", 47.4, "RTX 6000 Ada"),
        ("NVIDIA RTX 4000 SFF Ada Generation", 20, "RTX 4000 SFF Ada"),
        ("Orin", 61.4, "AGX Orin 64GB"),
        ("NVIDIA GB10", 119.7, "GB10"),
        ("AMD Radeon RX 7900 XTX", 24, "RX 7900 XTX"),
        ("AMD Radeon RX 6700 XT", 12, "RX 6700 XT"),
        ("NVIDIA H100 80GB HBM3", 79.1, "H100 SXM"),
        ("NVIDIA H100 PCIe", 79.1, "H100 PCIe"),
        ("NVIDIA H100 NVL", 93.1, "H100 NVL"),
        ("NVIDIA H200", 139.8, "H200 SXM"),
        ("NVIDIA H200 NVL", 139.8, "H200 NVL"),
        ("NVIDIA B200", 178.4, "B200"),
        ("NVIDIA GB200", 184, "GB200"),
        ("AMD Instinct MI210", 64, "MI210"),
        ("AMD Instinct MI250X", 64, "MI250X"),
        ("AMD Instinct MI300X", 192, "MI300X"),
        ("AMD Instinct MI300X VF", 192, "MI300X"),
        ("AMD Instinct MI300A", 128, "MI300A"),
        ("AMD Instinct MI325X", 256, "MI325X"),
        ("AMD Instinct MI350X", 288, "MI350X"),
        ("AMD Instinct MI355X", 288, "MI355X"),
    ],
)
def test_names_as_drivers_write_them(name: str, gib: float, model: str) -> None:
    found = gpus.find(device(name, gib))
    assert found is not None
    assert found.name == model


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        (None, 0),
        ("", 0),
        ("AMD Radeon Graphics", 64),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4.75),
        ("NVIDIA A100-SXM4-80GB MIG 7g.80gb", 79),
        ("NVIDIA A100-SXM4-40GB", 0),  # 40 or 80 GB have different bandwidths
        ("NVIDIA A100-SXM-64GB", 63.4),
        ("NVIDIA GeForce RTX 2070 with Max-Q Design", 8),  # other clocks than the card
        ("NVIDIA GeForce RTX 3050 Laptop GPU", 6),  # more multiprocessors than the 4 GB model, on a narrower bus
        ("NVIDIA GeForce RTX 5090 D", 31),
        ("NVIDIA RTX A4000 Laptop GPU", 8),
        ("Orin", 7.4),  # Orin NX and Orin Nano have different bandwidths
        ("NVIDIA T400", 4),
        ("Intel(R) Data Center GPU Max 1550", 64),
    ],
)
def test_what_is_not_in_the_table_has_no_limit(name: str | None, gib: float) -> None:
    assert gpus.find(device(name, gib)) is None


def test_one_model_of_several_devices() -> None:
    a100, h100 = device("NVIDIA A100-SXM4-40GB", 39.4), device("NVIDIA H100 80GB HBM3", 79.1)
    assert (found := gpus.only([a100, a100])) is not None
    assert found.name == "A100 40GB"
    assert gpus.only([a100, device(None)]) == found  # an entry without a name is nobody's
    assert gpus.only([a100, h100]) is None
    assert gpus.only([a100, device("My GPU")]) is None
    assert gpus.only([device(None)]) is None
    assert gpus.only([]) is None


def gpu(name: str) -> gpus.Gpu:
    return next(found for found in gpus.known() if found.name == name)


@pytest.mark.parametrize(
    ("model", "dtype", "matrix", "tensor_cores", "peak"),
    [
        ("A100 40GB", "c10::Half", True, True, 312),
        ("A100 40GB", "c10::BFloat16", True, False, 312),
        ("A100 40GB", "float", True, True, 156),  # TF32
        ("A100 40GB", "float", True, False, 19.5),
        ("A100 40GB", "float", False, True, 19.5),
        ("A100 40GB", "c10::Half", False, False, 19.5),
        ("A100 40GB", "double", True, True, 19.5),
        ("A100 40GB", "double", True, False, 9.7),
        ("A100 40GB", "double", False, False, 9.7),
        ("A100 40GB", "c10::Float8_e4m3fn", True, True, None),
        ("A100 40GB", "long int", True, True, None),
        ("A100 40GB", None, True, True, None),
        ("V100 SXM2", "c10::Half", True, True, 125),
        ("V100 SXM2", "c10::BFloat16", True, True, None),  # not on its tensor cores
        ("V100 SXM2", "float", True, True, 15.7),  # no TF32
        ("H100 SXM", "c10::Float8_e4m3fn", True, True, 1978.9),
        ("MI250X", "float", True, True, 47.85),  # fp32 on matrix units
        ("MI300X", "float", True, True, 653.7),
        ("MI355X", "float", True, True, 157.3),  # CDNA 4 has no TF32
        ("RTX 4090", "double", False, False, None),
    ],
)
def test_peak(model: str, dtype: str | None, matrix: bool, tensor_cores: bool, peak: float | None) -> None:
    assert gpu(model).peak(dtype, matrix=matrix, tensor_cores=tensor_cores) == peak


def test_every_line_of_the_table_is_possible() -> None:
    names = [found.name for found in gpus.known()]
    assert len(set(names)) == len(names) == 144
    for found in gpus.known():
        assert found.source
        assert found.sm_count is None or 3 <= found.sm_count < 400
        assert found.bandwidth is None or 100 <= found.bandwidth <= 8000
        assert found.bus in (None, 4, 8, 16, 32, 64)
        # narrower types are never slower, matrix units never slower than vectors
        rates = [found.fp32, found.tf32, found.fp16, found.fp8, found.fp4]
        known = [rate for rate in rates if rate is not None]
        assert known == sorted(known)
        assert found.fp64_matrix is None or found.fp64 is None or found.fp64_matrix >= found.fp64
        assert found.bf16 in (None, found.fp16)


def test_rates_of_a_laptop_are_unknown_because_they_depend_on_its_power() -> None:
    laptops = [found for found in gpus.known() if found.name.endswith("Laptop")]
    assert len(laptops) == 17
    assert {found.fp32 for found in laptops} == {None}
    assert gpu("RTX 3060 Laptop").bandwidth == 336


@pytest.mark.parametrize(
    ("model", "bus"), [("T4", 16), ("MX150", 4), ("RTX 4060", 16), ("A100 40GB", 32), ("H200 SXM", 64), ("GB10", None)]
)
def test_bandwidth_of_the_slot(model: str, bus: float | None) -> None:
    assert gpu(model).bus == bus


# Links between GPUs.


GIB = 2**30


def gpu_device(name: str, memory: int = 80 * GIB) -> Device:
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
    found = gpus.link_between([gpu_device(name, memory * GIB)])
    assert found is not None
    assert (found.name, found.bandwidth) == (link, rate)


def test_every_line_is_about_a_gpu_of_the_other_table() -> None:
    assert set(gpus._LINKS) <= {gpu.name for gpu in gpus.known()}


def test_a_link_over_pcie_is_as_fast_as_the_slot() -> None:
    over_pcie = {name: link.bandwidth for name, link in gpus._LINKS.items() if link.name == "PCIe"}
    assert over_pcie == {name: gpu(name).bus for name in over_pcie}


def test_different_or_unknown_gpus_have_no_link() -> None:
    h100 = gpu_device("NVIDIA H100 80GB HBM3")
    assert gpus.link_between([h100, gpu_device("NVIDIA H100 PCIe")]) is None
    assert gpus.link_between([gpu_device("Some Other GPU")]) is None
    assert gpus.link_between([]) is None
