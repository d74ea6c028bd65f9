"""Which kernels start late although their GPU is free: does something else keep it busy?

`structure.late_starts` says which kernels are judged and when one is late. Counts are of the whole recording, because
what keeps the GPU busy comes and goes; time is that in the typical steps, and in all.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import KERNELS, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.late_starts import late_starts
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.intervals import Intervals

_SHOWN = 5


class LateStart(msgspec.Struct, frozen=True):
    """One kernel that started late."""

    kernel: str
    """Name of the kernel."""
    start_ns: int
    """When its launch returned, in ns since the first event."""
    delay_ns: int
    """Time in ns from there to its start."""


class LateStarts(msgspec.Struct, frozen=True):
    """Kernels that started late although their device was free when they were launched."""

    device: int
    """Number of the device with most of them."""
    judged: int
    """Number of kernels in the recording whose device was free when they were launched."""
    median_ns: float
    """Median of their delays in ns: from the return of the launch to the start."""
    late: int
    """Number of those that started late."""
    late_ns: int
    """Sum of the delays of the late ones in ns."""
    is_spread: bool
    """Whether there are late ones in at least five of ten equal parts of the judged kernels."""
    typical_ns: int
    """Part of the typical steps in ns in which the device did nothing although a late one was launched."""
    all_ns: int
    """The same of all recorded steps in ns: longer ones may not be typical because of it."""
    steps_ns: int
    """Time of all recorded steps in ns."""
    longest: tuple[LateStart, ...]
    """The latest of them, at most five."""


def analyze(context: Context) -> LateStarts:
    """Sum up the late starts of the device that has most of them."""
    device, late = max(late_starts(context).items(), key=lambda item: (len(item[1].row), -item[0]))
    longest = np.lexsort((late.begin_ns, -late.late_ns))[:_SHOWN]
    names, codes = context.trace.names, context.trace.device.name[late.row[longest]]
    columns = (late.begin_ns[longest].tolist(), late.late_ns[longest].tolist())
    every = program_steps(context).every
    recorded = Intervals.union(every.start_ns, every.end_ns)
    return LateStarts(
        device=device,
        judged=late.judged,
        median_ns=late.median_ns,
        late=len(late.row),
        late_ns=int(late.late_ns.sum()),
        is_spread=late.is_spread,
        typical_ns=(late.times & typical.times(context)).length,
        all_ns=(late.times & recorded).length,
        steps_ns=recorded.length,
        longest=tuple(LateStart(names[code], *each) for code, *each in zip(codes.tolist(), *columns, strict=True)),
    )


@event_set
def late_starts_at(context: Context) -> Iterator[Occurrences]:
    """When devices do nothing although a kernel was launched that starts late."""
    for device, late in late_starts(context).items():
        yield Occurrences.idle("late starts", device, late.begin_ns, late.start_ns)


_LATE = Need(
    Text("skip-no-late-starts", "no kernel started late while its GPU was free"),
    lambda context: len(late_starts(context)) > 0,
)
ANALYSES = (Analysis(152, "late_starts", LateStarts, analyze, needs=(KERNELS, _LATE)),)
