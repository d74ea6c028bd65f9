"""The input of a report: the file, and a few facts about the trace."""

from __future__ import annotations

import msgspec


class ReportSource(msgspec.Struct, frozen=True):
    """The file that was read."""

    name: str
    """Name of the file without its folder."""
    format: str
    """Format of the input: `kineto` for a trace, `key_averages` for printed tables, `kineto-ranks` for all traces of a
    run."""
    size_bytes: int | None
    """Size of the file as stored, compressed or not, in bytes; null for a stream."""


class ReportDevice(msgspec.Struct, frozen=True):
    """An accelerator, as far as the file describes it."""

    id: int
    """Number of the device as in the trace."""
    name: str | None
    """Name of the device; null if the file does not contain it."""
    vendor: str | None
    """`NVIDIA`, `AMD` or `Intel`, by the name and properties of the device; null if unknown."""
    memory_bytes: int | None
    """Memory of the device in bytes; null if the file does not contain it."""
    compute_capability: str | None
    """Compute capability as `major.minor`; null if the file does not contain it."""
    sm_count: int | None
    """Number of multiprocessors; null if the file does not contain it."""


class RecordingOptions(msgspec.Struct, frozen=True):
    """Options of the profiler; null is unknown."""

    record_shapes: bool | None
    """Whether input shapes were recorded."""
    with_stack: bool | None
    """Whether Python stacks were recorded."""
    profile_memory: bool | None
    """Whether allocations of memory were recorded."""
    with_modules: bool | None
    """Whether recording the hierarchy of modules was requested."""
    with_flops: bool | None
    """Whether estimates of floating-point operations were recorded."""


class TraceSummary(msgspec.Struct, frozen=True):
    """A trace in a few facts: its size, devices, rank and options."""

    events: int
    """Number of events that were read: slices with a duration, records of memory, and ends of flows."""
    span_ns: int
    """Time from the start of the first to the end of the last event, in ns."""
    base_ns: int | None
    """Absolute time of the first event in ns since 1970; null where the file gives no origin."""
    devices: tuple[ReportDevice, ...]
    """The accelerators that the file describes."""
    rank: int | None
    """Rank of the process among those that train together; null if the file does not contain it."""
    world_size: int | None
    """Number of ranks that train together; null if the file does not contain it."""
    options: RecordingOptions
    """Options of the profiler."""
    steps_from: str | None
    """How steps were found: `ProfilerStep`, `whole-trace`, `device-events` or `host-annotations`; null where there are
    none."""
    torch_version: str | None = None
    """Version of torch as a capture recorded it; `<1.12` if only the categories of events show it; null if unknown."""
