"""Devices for `deviceProperties`, with the figures that their vendors publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .values import Event


@dataclass(frozen=True)
class Device:
    """One kind of accelerator. `properties` are the keys that its vendor's runtime adds."""

    name: str
    memory: int
    sms: int = 0
    major: int | None = None
    minor: int = 0
    warp: int = 32
    properties: Mapping[str, object] = field(default_factory=dict)

    def entry(self, index: int) -> Event:
        """The device's object in `deviceProperties`."""
        entry: Event = {"id": index, "name": self.name, "totalGlobalMem": self.memory}
        if self.major is not None:
            entry |= {
                "computeMajor": self.major,
                "computeMinor": self.minor,
                "maxThreadsPerBlock": 1024,
                "maxThreadsPerMultiprocessor": 2048,
                "regsPerBlock": 65536,
                "warpSize": self.warp,
                "sharedMemPerBlock": 49152 if self.warp == 32 else 65536,
                "numSms": self.sms,
            }
        return entry | dict(self.properties)


def _cuda(registers: int, optin: int, shared: int) -> dict[str, object]:
    return {
        "regsPerMultiprocessor": registers,
        "sharedMemPerBlockOptin": optin,
        "sharedMemPerMultiprocessor": shared,
    }


V100 = Device("Tesla V100-SXM2-16GB", 16_935_682_048, 80, 7, 0, properties=_cuda(65536, 98304, 98304))
T4 = Device("Tesla T4", 15_636_430_848, 40, 7, 5, properties=_cuda(65536, 65536, 65536))
A100 = Device("NVIDIA A100-SXM4-40GB", 42_298_834_944, 108, 8, 0, properties=_cuda(65536, 166912, 167936))
H100 = Device("NVIDIA H100 80GB HBM3", 85_029_158_912, 132, 9, 0, properties=_cuda(65536, 232448, 233472))
B200 = Device("NVIDIA B200", 191_503_138_816, 148, 10, 0, properties=_cuda(65536, 232448, 233472))
MI250X = Device("AMD Instinct MI250X", 68_702_699_520, 110, 9, 0, 64, {"maxSharedMemoryPerMultiProcessor": 65536})
MI300X = Device("AMD Instinct MI300X", 206_141_652_992, 304, 9, 4, 64, {"maxSharedMemoryPerMultiProcessor": 65536})
MAX1550 = Device(
    "Intel(R) Data Center GPU Max 1550",
    68_719_476_736,
    properties={
        "maxComputeUnits": 512,
        "maxWorkGroupSize": 1024,
        "maxClockFrequency": 1600,
        "maxMemAllocSize": 68_719_476_736,
        "localMemSize": 131_072,
        "vendor": "Intel(R) Corporation",
        "driverVersion": "1.6.33578",
    },
)
MTIA = Device("MTIA", 137_438_953_472, properties={"runtimeMajorVersion": 1, "maxGridHeight": 8, "maxGridWidth": 8})
