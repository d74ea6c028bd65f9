"""Peak figures of GPUs and bandwidth of the links between them, from their vendors' data sheets.

Rates are dense (without structured sparsity), in TFLOP/s, for products that accumulate in fp32, at boost clock;
bandwidth is that of device memory, in GB/s (10^9 bytes per second). Figures missing in a data sheet are unknown. They
are for one device as the runtime shows it: one of the two dies of an MI250X, one of the two GPUs of a GB200.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import msgspec
from msgspec.structs import replace

from traceanalyzer.trace.model import Device

_SOURCES = {
    "volta": "NVIDIA V100 data sheet (WP-1165301, 2020)",
    "t4": "NVIDIA T4 data sheet (2019)",
    "tu": "NVIDIA Turing GPU architecture white paper (WP-09183-001), appendix A",
    "ga102": "NVIDIA Ampere GA102 GPU architecture white paper, appendix A",
    "a10": "NVIDIA A10 data sheet (2021)",
    "a30": "NVIDIA A30 data sheet (2021)",
    "a40": "NVIDIA A40 data sheet (2021)",
    "a100": "NVIDIA A100 data sheet (2021)",
    "ada": "NVIDIA Ada GPU architecture white paper, appendix A",
    "l4": "NVIDIA L4 data sheet (2023)",
    "l40": "NVIDIA L40 data sheet (2022)",
    "l40s": "NVIDIA L40S data sheet (2023)",
    "h100": "NVIDIA H100 data sheet (2023) and H100 Tensor Core GPU architecture white paper",
    "h200": "NVIDIA H200 data sheet (2024)",
    "b200": "NVIDIA Blackwell data sheet (2025), HGX B200 and GB200 NVL72, per GPU",
    "rtx50": "NVIDIA RTX Blackwell GPU architecture white paper, appendix A",
    "cdna2": "AMD Instinct MI200 series data sheets (2022)",
    "cdna3": "AMD Instinct MI300A, MI300X and MI325X data sheets (2023 to 2024)",
    "cdna4": "AMD Instinct MI350X and MI355X data sheets (2025)",
}

_WITHOUT_BF16 = ("volta", "t4", "tu")

# Columns are separated by two blanks. The first line whose pattern matches the device name, and whose range contains
# the memory in GiB, is used. fp64m, fp32m, and fp16 (and bf16, at the same rate) to int8 are rates of matrix units.
_TABLE = r"""
model           pattern             GiB    SMs  GB/s    fp64   fp64m  fp32   fp32m  tf32   fp16    fp8     int8    from
V100S           V100S               -      80   1134    8.2    -      16.4   -      -      130     -       -       volta
V100 PCIe       V100.PCIE           -      80   900     7      -      14     -      -      112     -       -       volta
V100 SXM2       V100.(SXM|DGXS)     -      80   900     7.8    -      15.7   -      -      125     -       -       volta
T4              \bT4$               -      40   320     -      -      8.1    -      -      65      -       130     t4
A10             \bA10$              -      72   600     -      -      31.2   -      62.5   125     -       250     a10
A30             \bA30$              -      56   933     5.2    10.3   10.3   -      82     165     -       330     a30
A40             \bA40$              -      84   696     -      -      37.4   -      74.8   149.7   -       299.3   a40
A100 80GB PCIe  \bA100.*PCIe        70-90  108  1935    9.7    19.5   19.5   -      156    312     -       624     a100
A100 80GB SXM   \bA100\b            70-90  108  2039    9.7    19.5   19.5   -      156    312     -       624     a100
A100 40GB PCIe  \bA100.*PCIe        30-45  108  1555    9.7    19.5   19.5   -      156    312     -       624     a100
A100 40GB       \bA100\b            30-45  108  1555    9.7    19.5   19.5   -      156    312     -       624     a100
L4              \bL4$               -      58   300     -      -      30.3   -      60     121     242.5   242.5   l4
L40             \bL40$              -      142  864     -      -      90.5   -      90.5   181.05  362     362     l40
L40S            \bL40S$             -      142  864     -      -      91.6   -      183    362.05  733     733     l40s
RTX 2080 Ti     RTX 2080 Ti$        -      68   616     -      -      13.4   -      -      53.8    -       215.2   tu
RTX 3070        RTX 3070$           -      46   448     -      -      20.3   -      20.3   40.6    -       162.6   ga102
RTX 3080        RTX 3080$           8-11   68   760     -      -      29.8   -      29.8   59.5    -       238     ga102
RTX 3090        RTX 3090$           -      82   936     -      -      35.6   -      35.6   71      -       284     ga102
RTX 3090 Ti     RTX 3090 Ti$        -      84   1008    -      -      40     -      40     80      -       320     ada
RTX 4080        RTX 4080$           14-17  76   716.8   -      -      48.7   -      48.7   97.5    194.9   389.9   ada
RTX 4090        RTX 4090$           -      128  1008    -      -      82.6   -      82.6   165.2   330.3   660.6   ada
RTX 5080        RTX 5080$           -      84   960     -      -      56.3   -      56.3   112.6   225.1   450.2   rtx50
RTX 5090        RTX 5090$           -      170  1792    -      -      104.8  -      104.8  209.5   419     838     rtx50
H100 NVL        \bH100 NVL$         -      132  3900    30     60     60     -      417.5  835     1670    1670    h100
H100 PCIe       \bH100 PCIe$        -      114  2039    25.6   51.2   51.2   -      378    756     1513    1513    h100
H100 SXM        \bH100.*(HBM3|SXM)  70-90  132  3350    33.5   66.9   66.9   -      494.7  989.4   1978.9  1978.9  h100
H200 NVL        \bH200 NVL$         -      132  4800    30     60     60     -      417.5  835.5   1670.5  1670.5  h200
H200 SXM        \bH200$             -      132  4800    33.5   66.9   66.9   -      494.7  989.4   1978.9  1978.9  h200
GB200           \bGB200$            -      148  8000    40     40     80     -      1250   2500    5000    5000    b200
B200            \bB200$             -      148  7700    37     37     75     -      1100   2250    4500    4500    b200
MI210           \bMI210             -      104  1638.4  22.6   45.3   22.6   45.3   -      181     -       181     cdna2
MI250X          \bMI250X            -      110  1638.4  23.95  47.85  23.95  47.85  -      191.5   -       191.5   cdna2
MI300X          \bMI300X            -      304  5300    81.7   163.4  163.4  163.4  653.7  1307.4  2614.9  2614.9  cdna3
MI300A          \bMI300A            -      228  5300    61.3   122.6  122.6  122.6  490.3  980.6   1961.2  1961.2  cdna3
MI325X          \bMI325X            -      304  6000    81.7   163.4  163.4  163.4  653.7  1307.4  2614.9  2614.9  cdna3
MI350X          \bMI350X            -      256  8000    72.1   72.1   144.2  144.2  -      2306.9  4613.7  4613.7  cdna4
MI355X          \bMI355X            -      256  8000    78.6   78.6   157.3  157.3  -      2516.6  5033.2  5033.2  cdna4
"""

_FP4 = {"RTX 5080": 900.4, "RTX 5090": 1676.0, "GB200": 10_000.0, "B200": 9000.0, "MI350X": 9227.5, "MI355X": 10_066.3}
"""Rates in FP4 of the few models that have it, from the same documents."""


class Gpu(msgspec.Struct, frozen=True):
    """One model of a GPU. Rates are in TFLOP/s and named after types; None is unknown."""

    name: str
    source: str
    """Vendor document with the figures."""
    sm_count: int | None = None
    """Number of streaming multiprocessors or compute units."""
    bandwidth: float | None = None
    """Bandwidth of the device's memory in GB/s."""
    fp64: float | None = None
    """Rate of the vector units; that of the matrix units is `fp64_matrix`."""
    fp64_matrix: float | None = None
    fp32: float | None = None
    """Rate of the vector units."""
    fp32_matrix: float | None = None
    tf32: float | None = None
    fp16: float | None = None
    """Rate of the matrix units, as for all types below."""
    bf16: float | None = None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None
    """With a scale for each block of 16 or 32 numbers (NVFP4, MXFP4)."""

    def peak(self, dtype: str | None, *, matrix: bool, tensor_cores: bool) -> float | None:
        """Peak rate in TFLOP/s for work on a type; None if unknown.

        Args:
            dtype: Type as the profiler writes it: `float`, `c10::Half`, ...
            matrix: Whether the work is matrix products, which matrix units can do. Other work runs on vector units,
                where 16-bit types are computed in fp32.
            tensor_cores: Whether the kernels are known to run on matrix units. It decides for fp32 (TF32 or not)
                and fp64, where both are common.
        """
        if not matrix:
            return {"double": self.fp64, "float": self.fp32, "c10::Half": self.fp32, "c10::BFloat16": self.fp32}.get(
                dtype or ""
            )
        rates = {
            "double": (self.fp64_matrix or self.fp64) if tensor_cores else self.fp64,
            "float": (self.tf32 or self.fp32_matrix or self.fp32) if tensor_cores else self.fp32,
            "c10::Half": self.fp16,
            "c10::BFloat16": self.bf16,
            "signed char": self.int8,
        }
        return self.fp8 if "Float8" in (dtype or "") else rates.get(dtype or "")


@cache
def known() -> tuple[Gpu, ...]:
    """All GPU models of the table."""
    return tuple(gpu for _, _, gpu in _rows())


def find(device: Device) -> Gpu | None:
    """The GPU model of a device, by name and memory; None if it is not in the table or only a partition of a GPU."""
    name, memory = device.name or "", device.memory_bytes
    if "MIG" in name or "Laptop" in name:
        return None
    for pattern, (least, most), gpu in _rows():
        fits = most == 0 or (memory is not None and least <= memory / 2**30 <= most)
        if fits and pattern.search(name):
            return gpu
    return None


def only(devices: Iterable[Device]) -> Gpu | None:
    """The GPU model of all devices with a name; None if they differ or one is not in the table."""
    named = [find(device) for device in devices if device.name]
    return named[0] if named and all(gpu == named[0] for gpu in named) else None


@cache
def _rows() -> tuple[tuple[re.Pattern[str], tuple[int, int], Gpu], ...]:
    """Lines of the table: name pattern, memory range in GiB (0 to 0 for any), and figures."""
    rows = []
    for line in _TABLE.strip().splitlines()[1:]:
        name, pattern, memory, sms, *rates, source = re.split(r" {2,}", line)
        least, most = (0, 0) if memory == "-" else map(int, memory.split("-"))
        figures = [None if rate == "-" else float(rate) for rate in rates]
        figures.insert(7, None if source in _WITHOUT_BF16 else figures[6])
        gpu = replace(Gpu(name, _SOURCES[source], int(sms), *figures), fp4=_FP4.get(name))
        rows.append((re.compile(pattern, re.IGNORECASE), (least, most), gpu))
    return tuple(rows)


# Bandwidth of the links between GPUs, from their vendors' data sheets.
#
# Figures are in GB/s (10^9 bytes per second), in one direction, for all links of one GPU together. Data sheets of
# NVLink and Infinity Fabric give the sum of both directions; the table has half of it. A GPU whose data sheet names no
# link for groups of more than two has its PCIe slot.

# Columns are separated by two blanks; models are those of `gpus`.
_LINK_TABLE = """
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


def link_between(devices: Iterable[Device]) -> Interconnect | None:
    """The link of all devices of a trace; None if the devices differ or the link is unknown."""
    gpu = only(devices)
    return None if gpu is None else _LINKS.get(gpu.name)


def _links() -> dict[str, Interconnect]:
    rows = [line.split("  ") for line in _LINK_TABLE.strip().splitlines()[1:]]
    fields = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {model: Interconnect(link, float(rate), source) for model, link, rate, source in fields}


_LINKS = _links()
