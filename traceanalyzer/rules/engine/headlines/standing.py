"""The headline of a run whose ranks wrote dumps of the flight recorder: who holds it up."""

from __future__ import annotations

from typing import Any

from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import in_ranges

_MISSING = Text(
    "headline-hang-missing",
    "{count:count} ranks never came to {operation} of {group}: {ranks}; ranks that wait: {waiting:number}.",
    "ranks is a list of numbers such as 9, 14",
    one="{count:count} rank never came to {operation} of {group}: {ranks}; ranks that wait: {waiting:number}.",
)
_MISSING_HIDDEN = Text(
    "headline-hang-missing-hidden",
    "{count:count} ranks have not called {operation} of {group}: {ranks}; gloo records no sends and receives.",
    "ranks is a list of numbers such as 9, 14; gloo is a name",
    one="{count:count} rank has not called {operation} of {group}: {ranks}; gloo records no sends and receives.",
)
_MISSING_PEER = Text(
    "headline-hang-missing-peer",
    "{waiting:count} ranks wait, most clearly in {operation} of {group}; the other side never came: {ranks}.",
    "operation is a name such as recv 7<-0; ranks is a list of numbers",
    one="{waiting:count} rank waits in {operation} of {group}; the other side never came: {ranks}.",
)
_STOPPED = Text(
    "headline-hang-stopped",
    "The devices of {count:count} ranks stopped: {ranks}; {waiting:number} other ranks wait.",
    "ranks is a list of numbers such as 9, 14",
    one="The device of {count:count} rank stopped: {ranks}; {waiting:number} other ranks wait.",
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
    "headline-hang-no-dump-2",
    "{count:count} ranks wait; only ranks without a dump can be missing: {ranks}.",
    "ranks is a list of numbers such as 9, 14",
    one="{count:count} rank waits; only ranks without a dump can be missing: {ranks}.",
)
_ALONE = Text(
    "headline-hang-alone",
    "Rank {rank} waits in {operation} of {group}; only the dumps of the other ranks show for whom.",
    "rank is a number",
)
_ALL_WAITING = Text(
    "headline-hang-all-waiting", "{waiting:number} ranks came to {operation} of {group}, and none finished."
)
_UNKNOWN = Text(
    "headline-hang-unknown",
    "{waiting:number} ranks wait, {ranks} of them in {operation} of {group}; the dumps name no others.",
    "ranks is a list of numbers such as 9, 14",
)
_SLOW = Text(
    "headline-hang-slow",
    "Nothing waits; rank {rank} comes last to {last:number} of {collectives:number} collectives, by {late:ns}.",
    "rank is a number",
)
_NONE = Text(
    "headline-hang-none",
    "Nothing waits: all {operations:count} recorded operations of {dumps:number} ranks are finished.",
    one="Nothing waits: the only recorded operation of {dumps:number} ranks is finished.",
)
_NONE_HIDDEN = Text(
    "headline-hang-none-hidden",
    "Nothing that was recorded waits ({operations:count} operations of {dumps:number} ranks); gloo records no sends "
    "and receives.",
    "gloo is a name",
    one="Nothing that was recorded waits ({operations:count} operation of {dumps:number} ranks); gloo records no sends "
    "and receives.",
)
_UNFINISHED = Text(
    "headline-hang-unfinished",
    "Nobody waits for others; {count:count} ranks have not finished {operation} of {group} yet: {ranks}.",
    "ranks is a list of numbers such as 9, 14",
    one="Nobody waits for others; {count:count} rank has not finished {operation} of {group} yet: {ranks}.",
)
_NOT_BEGUN = Text(
    "headline-hang-not-begun",
    "The devices of {count:count} ranks have not begun {operation} of {group}, unlike the others: {ranks}.",
    "ranks is a list of numbers such as 9, 14",
    one="The device of {count:count} rank has not begun {operation} of {group}, unlike the others: {ranks}.",
)
_TIMEOUT = Text(
    "headline-hang-timeout",
    "All came to {operation} of {group}, the last ({ranks}) {taken:ns} after the first; the limit is {limit:ns}.",
    "ranks is a list of numbers such as 9, 14",
)
_LOGGED_STOPPED = Text(
    "headline-hang-logged-stopped",
    "{count:count} ranks did not finish {operation} of {group}, which others finished: {ranks}; {waiting:number} wait.",
    "ranks is a list of numbers such as 9, 14",
    one="{count:count} rank did not finish {operation} of {group}, which others finished: {ranks}; {waiting:number} "
    "wait.",
)
_LOGGED_NO_LINE = Text(
    "headline-hang-logged-no-line",
    "{waiting:number} ranks wait in {operation} of {group}; only ranks without a line can be missing: {ranks}.",
    "a line of a log; ranks is a list of numbers such as 9, 14",
)
_LOGGED_ALL = Text(
    "headline-hang-logged-all",
    "{waiting:number} ranks wait in {operation} of {group}: all that have a line in the log.",
)
_LOGGED_ALONE = Text(
    "headline-hang-logged-alone",
    "Rank {rank} waits in {operation} of {group}; the log has no line of other ranks.",
    "rank is a number",
)
_COUNTED = {"stopped": _STOPPED, "mismatch": _MISMATCH, "circle": _CIRCLE, "missing": _MISSING}
_COUNTED |= {"unfinished": _UNFINISHED, "not-begun": _NOT_BEGUN}
_WAITING = {"no-dump": _NO_DUMP, "all-waiting": _ALL_WAITING, "unknown": _UNKNOWN}
_LOGGED = {"stopped": _LOGGED_STOPPED, "no-dump": _LOGGED_NO_LINE, "all-waiting": _LOGGED_ALL}
"""Sentences of what a log says."""


def of_dumps(found: Hangs) -> Message:
    """Who holds up the run, in one sentence."""
    told = _parameters(found)
    if found.dumps == 1 and found.waits:
        alone = _LOGGED_ALONE if found.is_logged else _ALONE
        return alone(rank=str(found.waits[0].waiting[0]), operation=told["operation"], group=told["group"])
    if found.late is not None:
        late = found.late
        return _SLOW(rank=str(late.rank), last=late.last, collectives=late.collectives, late=late.late_ns)
    if found.verdict == "timeout" and (near := found.near_limit) is not None:
        return _TIMEOUT(**told, taken=near.taken_ns, limit=near.limit_ns)
    texts = _COUNTED | _WAITING | (_LOGGED if found.is_logged else {})
    if found.verdict == "missing" and found.hides_p2p:
        texts["missing"] = _MISSING_HIDDEN
    elif found.decisive is not None and found.decisive.is_of_peers:
        texts["missing"] = _MISSING_PEER
    if found.verdict in texts:
        return texts[found.verdict](**told)
    return (_NONE_HIDDEN if found.hides_p2p else _NONE)(operations=found.operations, dumps=found.dumps)


def _parameters(found: Hangs) -> dict[str, Any]:
    """What the sentences tell: which ranks, how many wait, and for which operation of which group."""
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
    if found.verdict == "no-dump":
        told["count"] = found.waiting
    if found.verdict == "unknown" and wait is not None:
        told["ranks"] = in_ranges(wait.waiting)
    if found.disagreements:
        told["group"] = found.disagreements[0].called.title
    return told
