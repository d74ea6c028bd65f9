"""More devices and streams than any machine has.

Analyses look at devices and streams one by one, so a file that names one on every event would cost the square of its
size. Those with most events keep their numbers; the others count as unknown, and a warning has the number of their
events.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceanalyzer.trace.model import Loss
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import DeviceEvents

DEVICES = 64
"""A process sees those of its machine, of which there are 16 at most."""

STREAMS = 512
"""Most streams of all devices together; a device has queues for 128 at a time."""


def bounded(events: DeviceEvents) -> tuple[DeviceEvents, tuple[Loss, ...]]:
    """The same events, without the numbers of devices and streams beyond the bounds; and what that changed."""
    losses = []
    crowd = _crowd(events.device.astype(np.int64), DEVICES)
    if crowd.any():
        losses.append(Loss("read-many-devices", int(crowd.sum()), {"kept": DEVICES}))
        events = replace(events, device=_forgotten(events.device, crowd))
    crowd = _crowd(_places(events), STREAMS)
    if crowd.any():
        losses.append(Loss("read-many-streams", int(crowd.sum()), {"kept": STREAMS}))
        events = replace(events, stream=np.where(crowd, UNKNOWN, events.stream))
    return events, tuple(losses)


def _places(events: DeviceEvents) -> I64:
    """A number for each stream of each device; unknown where the stream is."""
    stream, device = (np.unique(column, return_inverse=True)[1] for column in (events.stream, events.device))
    return np.where(events.stream == UNKNOWN, UNKNOWN, stream * (int(device.max(initial=0)) + 1) + device)


def _crowd(places: I64, most: int) -> Bool:
    """Which events lie at none of the places that have most events; of equal ones the lower numbers stay."""
    known = places != UNKNOWN
    numbers, counts = np.unique(places[known], return_counts=True)
    kept = numbers[np.lexsort((numbers, -counts))[:most]]
    crowd: Bool = known & ~np.isin(places, kept) if len(numbers) > most else np.zeros(len(places), np.bool_)
    return crowd


def _forgotten(numbers: I32, crowd: Bool) -> I32:
    return np.where(crowd, UNKNOWN, numbers).astype(np.int32)
