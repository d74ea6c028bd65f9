"""What findings and headlines are about: events of a device or a thread, idle time, time outside of the steps."""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr


class CallingLine(msgspec.Struct, frozen=True):
    """A line of the program that causes some events of a finding, or what the program calls them."""

    name: str
    """The line as recorded, `file.py(123): function`; of a label its parts, joined with dots: `layers.0.attention`."""
    ns: int
    """Time in ns in the recording of the events that it causes: of idle time, of what runs on the host meanwhile."""
    count: int
    """Number of these events."""


class Selection(msgspec.Struct, frozen=True):
    """What a finding is about on one device or one thread: events, or idle time."""

    kind: str
    """`device` (kernels, copies, fills), `host` (work of a thread), `call` (runtime calls) or `idle` (of a device)."""
    name: str
    """What it is called: an operator, a kernel, an owner, a cause of idle time; of several the one with most time."""
    rank: int | None
    """Rank of the trace; null in the report on one trace."""
    device: int | None
    """Number of the device; null for threads, and where the trace has none."""
    thread: str | None
    """Thread as in the timeline, `pid/tid`; null for devices."""
    ns_per_step: float | None
    """Time in ns per typical step in which some of it runs; null outside of the steps."""
    count: int
    """Number of events in the recording, or of gaps."""
    spans: tuple[tuple[int, int], ...]
    """Times as start since the first event and duration, in ns, merged and within the typical steps; the longest, in
    the order of time."""
    omitted: int
    """Number of times that are left out."""
    omitted_ns: int
    """Duration in ns of the times that are left out."""
    outside_steps: bool = False
    """Whether it lies outside of the typical steps."""
    ns: int | None = None
    """Time in ns, once, of what lies outside of the steps; else null."""
    shared: bool = False
    """Whether another finding claims some of this idle time as well."""
    lines: tuple[CallingLine, ...] = ()
    """Innermost lines outside of torch and the standard library that cause it, at most three, the longest time first;
    of kernels of graphs those that captured them, where they are known; empty where no stack was recorded, and for what
    autograd does."""
    labels: tuple[CallingLine, ...] = ()
    """What the program calls these kernels of graphs, at most three labels, the longest time first."""


class Once(msgspec.Struct, frozen=True):
    """What a fix saves once, because all that it changes lies outside of the typical steps."""

    wall_ns: tuple[float, float]
    """Time in ns by which the recorded program gets shorter, at least and at most."""
    point_ns: float
    """Most likely time in ns, within the interval."""
    share_of_recording: float
    """Share of the recording (0 to 1) that the most likely time is."""
    comes_back: bool = False
    """Whether it is of what comes now and then between steps, as new epochs do: a longer run has more of it."""

    def __post_init__(self) -> None:
        force_setattr(self, "wall_ns", (float(self.wall_ns[0]), float(self.wall_ns[1])))
        force_setattr(self, "point_ns", float(self.point_ns))


class PeakSaving(msgspec.Struct, frozen=True):
    """By how much a fix lowers the peak of a device's memory, at least and at most."""

    device: str
    """Device such as `GPU0`."""
    requested_bytes: tuple[int, int]
    """Bytes less that the program asks for and holds at the peak."""
    requested_share: tuple[float, float]
    """The same as shares (0 to 1) of that peak."""
    reserved_bytes: tuple[int, int] | None
    """Bytes less that the allocator holds from the driver at its peak; null where no segments are recorded."""


class Shares(msgspec.Struct, frozen=True):
    """What the busiest device does in a typical step, as shares of the step (0 to 1) that add up to 1."""

    computes: float
    """A kernel runs that is not of a collective."""
    copies: float
    """A copy or fill runs, and nothing computes."""
    communicates: float
    """Only collectives run; with waiting for other ranks, unless that is known by itself."""
    waits_for_ranks: float | None
    """Only collectives run, and they wait for other ranks; null where the other ranks are not known."""
    idle: float
    """Nothing runs on the device."""
