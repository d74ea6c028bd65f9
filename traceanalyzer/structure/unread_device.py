"""Did an accelerator take part of which no event was understood?"""

from __future__ import annotations

import numpy as np

from traceanalyzer.knowledge.marks import is_of_accelerator
from traceanalyzer.structure.context import Context


def sign(context: Context) -> str | None:
    """A sign of a device that left no event: an unknown kind of events, a runtime call, a name, or the header.

    None if device events were read, or there is no such sign.
    """
    trace = context.trace
    if len(trace.device) or len(trace.accelerator):
        return None
    unknown = [str(loss.params["category"]) for loss in trace.losses if loss.id == "read-unsupported"]
    calls = [trace.names[name] for name in trace.launches.name[:1].tolist()]
    named = np.flatnonzero(trace.names.where(is_of_accelerator)[trace.host.name])[:1]
    names = [trace.names[name] for name in trace.host.name[named].tolist()]
    devices = [device.name or str(device.id) for device in trace.info.devices]
    return next(iter([*filter(is_of_accelerator, unknown), *calls, *names, *devices]), None)
