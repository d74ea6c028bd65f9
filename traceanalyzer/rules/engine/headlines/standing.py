"""The headline of a run whose ranks wrote dumps of the flight recorder: who holds it up."""

from __future__ import annotations

from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import in_ranges

_MISSING = Text(
    "headline-hang-missing",
    "{count:count} ranks never came to {operation} of {group}: {ranks}. {waiting:number} others wait.",
    "ranks is a list of numbers such as 9, 14",
    one="{count:count} rank never came to {operation} of {group}: {ranks}. {waiting:number} others wait.",
)
_STOPPED = Text(
    "headline-hang-stopped",
    "The devices of {count:count} ranks stopped: {ranks}. {waiting:number} other ranks wait.",
    "ranks is a list of numbers such as 9, 14",
    one="The device of {count:count} rank stopped: {ranks}. {waiting:number} other ranks wait.",
)
_MISMATCH = Text(
    "headline-hang-mismatch",
    "{count:count} ranks differ in what they called in {group}: {ranks}.",
    "ranks is a list of numbers such as 9, 14",
    one="{count:count} rank called something else than the others in {group}: {ranks}.",
)
_CIRCLE = Text(
    "headline-hang-circle",
    "{count:count} ranks wait for each other in a circle: {ranks}.",
    "ranks is a list of numbers such as 9, 14",
    one="{count:count} rank waits for itself: {ranks}.",
)
_NO_DUMP = Text(
    "headline-hang-no-dump",
    "{waiting:number} ranks wait; only ranks without a dump can be missing: {ranks}.",
    "ranks is a list of numbers such as 9, 14",
)
_ALONE = Text(
    "headline-hang-alone",
    "Rank {rank} waits in {operation} of {group}; only the dumps of the other ranks show for whom.",
    "rank is a number",
)
_ALL_WAITING = Text(
    "headline-hang-all-waiting", "{waiting:number} ranks came to {operation} of {group}, and none finished."
)
_SLOW = Text(
    "headline-hang-slow",
    "Nothing waits. Rank {rank} comes last to {last:number} of {collectives:number} collectives, by {late:ns}.",
    "rank is a number",
)
_NONE = Text(
    "headline-hang-none",
    "Nothing waits: all {operations:count} recorded operations of {dumps:number} ranks are finished.",
    one="Nothing waits: the only recorded operation of {dumps:number} ranks is finished.",
)
_COUNTED = {"stopped": _STOPPED, "mismatch": _MISMATCH, "circle": _CIRCLE, "missing": _MISSING}


def of_dumps(found: Hangs) -> Message:
    """Who holds up the run, in one sentence."""
    wait = found.decisive
    called = wait.called if wait is not None else None
    named = found.stopped if found.verdict == "stopped" else found.ranks
    told = {
        "count": len(named),
        "ranks": in_ranges(named),
        "waiting": found.waiting,
        "operation": called.operation or "?" if called else "?",
        "group": called.title if called else "?",
    }
    if found.disagreements:
        told["group"] = found.disagreements[0].called.title
    if found.dumps == 1 and found.waits:
        return _ALONE(rank=str(found.waits[0].waiting[0]), operation=told["operation"], group=told["group"])
    if found.late is not None:
        late = found.late
        return _SLOW(rank=str(late.rank), last=late.last, collectives=late.collectives, late=late.late_ns)
    if found.verdict in _COUNTED:
        return _COUNTED[found.verdict](**told)
    if found.verdict == "no-dump":
        return _NO_DUMP(**told)
    if found.verdict == "all-waiting":
        return _ALL_WAITING(**told)
    return _NONE(operations=found.operations, dumps=found.dumps)
