"""Runs the functions of rules; those of other packages in a process that they may end or hang.

A rule of another package is code of strangers: it must not end the report, nor make it wait forever. Rules of this
package cost nothing more than a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from traceanalyzer import processes
from traceanalyzer.analyzers.hangs import Hangs
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.analyzers.tables.printed_memory import PrintedMemory
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Skipped
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.rules.engine.selection import Chosen

_NO_TIMELINE = Text("rule-no-timeline", "a printed table has no timeline: report on the trace itself")
_CAPTURE = Text(
    "rule-graph-capture", "the trace contains the capture of graphs, and kernels do not run while they are captured"
)
_FAILED = Text(
    "rule-failed", "the rule failed ({error}); please report this to its author", note="error is a Python exception"
)
_TOO_LONG = Text(
    "rule-too-long",
    "the rule took longer than {limit:ns}, the limit of rules of other packages (rule-seconds in the settings); please "
    "report this to its author",
    note="rule-seconds is the name of a setting",
)
_LONGEST_ERROR = 200
MOST_FINDINGS = 1000
"""Most findings of a rule in one run (own choice): longer lists are not read, and a rule must not run forever."""


def drafts(entry: Chosen, facts: Facts) -> Sequence[Draft]:
    """What a rule finds.

    Raises:
        Missing: It cannot judge, it failed, or it took too long; one broken rule must not prevent the report.
    """
    compute = partial(_outcome, entry, facts)
    if entry.seconds is None:
        found = compute()
    else:
        try:
            found = processes.contained(compute, entry.seconds)
        except TimeoutError:
            found = _TOO_LONG(limit=round(entry.seconds * 1e9))
        except ChildProcessError as error:
            found = _FAILED(error=str(error))
    if isinstance(found, Message):
        raise Missing(found)
    return found


def failed(error: BaseException) -> Message:
    """Describe an error in one short line, however long its own message is."""
    try:
        told = " ".join(str(error).split())
    except Exception:
        told = ""
    name = type(error).__name__
    return _FAILED(error=(f"{name}: {told}" if told else name)[:_LONGEST_ERROR])


def is_failure(reason: Message) -> bool:
    """Whether a rule was skipped by its own fault."""
    return reason.id in (_FAILED.id, _TOO_LONG.id)


def is_too_long(reason: Message) -> bool:
    """Whether a rule was skipped because it took too long."""
    return reason.id == _TOO_LONG.id


def _outcome(entry: Chosen, facts: Facts) -> Sequence[Draft] | Message:
    """The drafts of a rule, or why there are none; of a rule of this package, Ctrl-C is that of the user."""
    try:
        found = list(islice(_detected(entry, facts), MOST_FINDINGS + 1))
        if len(found) > MOST_FINDINGS:
            raise ValueError(f"more than {MOST_FINDINGS} findings in one run")
    except Missing as missing:
        is_message = isinstance(missing.reason, Message)
        return missing.reason if is_message else failed(TypeError("a reason that is no message"))
    except BaseException as error:
        if entry.seconds is None and isinstance(error, KeyboardInterrupt):
            raise
        return failed(error)
    return found


def _is_of_memory(facts: Facts) -> bool:
    """Whether they are of a snapshot of memory, or of what a text says of it."""
    return bool(facts.find("memory_snapshot", MemorySnapshotUse) or facts.find("printed_memory", PrintedMemory))


def _detected(entry: Chosen, facts: Facts) -> Iterable[Draft]:
    rule = entry.rule
    if facts.is_graph_capture:
        raise Missing(_CAPTURE())
    if facts.find("hangs", Hangs) is not None:
        return rule.dumps(facts, entry.limits) if rule.dumps is not None else ()
    if _is_of_memory(facts):
        return rule.snapshot(facts, entry.limits) if rule.snapshot is not None else ()
    if facts.log is not None:
        return rule.log(facts, entry.limits) if rule.log is not None else ()
    detector = rule.trace if facts.table is None else rule.table
    if detector is None and (rule.dumps is not None or rule.snapshot is not None):
        return ()
    if detector is None:
        reason = rule.no_trace if facts.table is None else rule.no_table
        raise Missing(reason or _NO_TIMELINE())
    return detector(facts, entry.limits)


def skipped(reasons: Mapping[str, Sequence[Message]], runs: int) -> tuple[Skipped, ...]:
    """The rules that could not judge any run, or failed in one."""
    decisive = ((rule, _reason(found, runs)) for rule, found in reasons.items())
    return tuple(Skipped(rule, reason) for rule, reason in decisive if reason is not None)


def _reason(found: Sequence[Message], runs: int) -> Message | None:
    """Why a rule was skipped: it failed, or it could not judge any run."""
    failed = next((reason for reason in found if is_failure(reason)), None)
    return failed or (found[0] if len(found) == runs else None)
