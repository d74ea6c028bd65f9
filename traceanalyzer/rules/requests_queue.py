"""Detects requests-queue: see pages/requests-queue.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.recording import Recording

_PAGE = page("requests-queue")
_IN_FLIGHT = "requests-in-flight"
"""Evidence in the analysis `recording` that several threads serve requests at the same time."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    waits = facts.need("synchronizations", Synchronizations)
    recording = facts.find("recording", Recording)
    if recording is None or all(sign.kind != _IN_FLIGHT for sign in recording.evidence):
        raise Missing(_PAGE.text("no-server")())
    busy, span = _device(facts)
    rows = sorted(waits.rows, key=lambda row: (-row.waiting_ns, row.call))
    # runtime calls are nested, so only calls of one name are summed
    call = rows[0].call if rows else ""
    time, calls = sum(r.waiting_ns for r in rows if r.call == call), sum(r.calls for r in rows if r.call == call)
    waiting = time / span
    if calls < 2 or busy < limits["busy_share"] * span or waiting <= limits["waiting"]:
        return
    where = tuple(CodePlace("call", row.call, value=row.waiting_ns, unit="ns") for row in rows[:5])
    params = {"waiting": waiting, "calls": calls, "call": call, "time": time, "span": span, "busy": busy / span}
    yield Draft(
        (Evidence(_PAGE.text("subject")(), waiting, limits["waiting"], "number", where),),
        params=params,
        severity="info",
    )


def _device(facts: Facts) -> tuple[float, float]:
    """Time in which the device works and time in which it was recorded, in ns.

    Raises:
        Missing: It is not known.
    """
    found = facts.find("accelerators", Accelerators)
    if found is not None and found.devices and found.devices[0].span_ns:
        return found.devices[0].busy_ns, found.devices[0].span_ns
    if facts.resources.gpu_ns is None or not facts.step_ns:
        raise Missing(_PAGE.text("no-device")())
    return facts.resources.gpu_ns * facts.steps, facts.step_ns * facts.steps


RULE = _PAGE.rule(trace=_trace)
