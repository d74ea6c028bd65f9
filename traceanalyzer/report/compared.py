"""What a comparison shows of each side besides the figures that it compares: its headline, and one step as a picture.

It is part of a difference, so that a saved one can be drawn without the traces.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.report.message import Message


class StripBand(msgspec.Struct, frozen=True):
    """All time of one kind in a lane."""

    tone: str
    """Kind of the work: `kernel`, `memcpy`, `communication`, `cpu_exec`, `runtime` or `dataloader`."""
    spans: tuple[tuple[int, int], ...]
    """Start and duration of each piece in ns, since the start of the step; neighbours too close to be drawn apart are
    one piece."""


class StripLane(msgspec.Struct, frozen=True):
    """A thread, or a device."""

    kind: str
    """What the lane shows: `host` (a thread), or `device` (all streams of one)."""
    label: str
    """Process and thread, such as `12/34`, or the number of the device."""
    bands: tuple[StripBand, ...]
    """What happens in it, in the order in which it is drawn."""


class StepStrip(msgspec.Struct, frozen=True):
    """One step as lanes: of the typical steps, the one whose duration is nearest to theirs."""

    step: str
    """Number of the step, or the framework's mark."""
    duration_ns: int
    """Duration of the step in ns."""
    lanes: tuple[StripLane, ...]
    """The threads with most to show, then the devices."""


class ComparedSide(msgspec.Struct, frozen=True):
    """One side of a comparison as people want to see it; null is unknown."""

    headline: Message | None = None
    """What bounds its step, in one sentence, as in its report; of several traces that of the first."""
    host_ns: float | None = None
    """Time per step in ns in which the host works; of a printed table the self CPU time of all threads, waiting
    included."""
    device_ns: float | None = None
    """Time per step in ns in which the busiest device works; of a printed table its self device time."""
    samples_per_s: float | None = None
    """Samples per second: as the text prints them, or of a trace by the size of its batches."""
    strip: StepStrip | None = None
    """One step of the first trace; null for printed tables."""
