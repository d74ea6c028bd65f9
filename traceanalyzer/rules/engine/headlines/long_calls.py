"""Adds to a headline the single call that takes much of a step while the device does nothing."""

from __future__ import annotations

from traceanalyzer.analyzers.host import HostOwners
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners
from traceanalyzer.rules.engine.headlines.step_bound import StepBound

_LONG = 0.3
"""Share of a step from which on a single call is named."""
_CALL = Text(
    "detail-long-call",
    "A single call of `{call}` in {owner} takes {time:ns}.",
    note="call is an operator or runtime call; owner a function, mark or module",
)
_CALL_WAITS = Text(
    "detail-long-call-waits",
    "A single call of `{call}` in {owner} takes {time:ns}: {wait} waits until {event} has ended.",
    note="call is an operator, wait a runtime call, event a kernel or copy; owner a function, mark or module",
)
_CALL_EARLIER = Text(
    "detail-long-call-earlier",
    "A single call of `{call}` in {owner} takes {time:ns}: {wait} waits for work from before the trace.",
    note="call is an operator, wait a runtime call; owner a function, mark or module",
)


def with_long_call(owners: HostOwners, found: StepBound, step_ns: float) -> StepBound:
    """Add the longest call that takes much of a step while the device does nothing for at least half of that."""
    calls = [
        (call, row)
        for row in owners.rows
        if (call := row.longest_call) is not None and call.duration_ns >= _LONG * step_ns
        if 2 * (row.idle_self_ns or 0) >= call.duration_ns and call.name != row.name
    ]
    if not calls:
        return found
    call, row = max(calls, key=lambda entry: entry[0].duration_ns)
    said = {"call": call.name, "owner": host_owners.name(row), "time": call.duration_ns}
    if call.wait is None or 2 * call.waiting_ns < call.duration_ns:
        return found.and_says(_CALL, **said)
    if call.waits_for == "unrecorded-work":
        return found.and_says(_CALL_EARLIER, **said, wait=call.wait)
    if call.event is None:
        return found.and_says(_CALL, **said)
    return found.and_says(_CALL_WAITS, **said, wait=call.wait, event=call.event)
