"""Requests of a server wait for each other at the device.

What it detects:
    A server in which several threads wait for the device at the same time: their waits add up to more than the recorded
    time of the device, and the device is busy for 80 % of that time.

Why it matters:
    The device is the limit. A request that arrives while others are in flight waits for them first: response time grows
    with the number of requests, throughput does not.

What to do:
    Make the device do more per launch (batch the requests that wait), give it less to do per request, or add devices.
    More requests in flight only lengthen the queue.

How the saving is estimated:
    Not at all: a trace of single requests does not show how long a batch of them takes.

When it is wrong:
    A few requests in flight are useful, because they keep the device busy while the host prepares the next one. Waits
    that poll, or that were not recorded, are not seen.

References:
    https://docs.pytorch.org/docs/stable/profiler.html
    https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/batcher.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.recording import Recording

_IN_FLIGHT = "requests-in-flight"
"""Evidence in the analysis `recording` that several threads serve requests at the same time."""
_SUBJECT = Text("requests-queue-subject", "threads that wait for the device at the same time, on average")
_NO_SERVER = Text("requests-queue-no-server", "the program is no server whose requests share a device")
_NO_DEVICE = Text("requests-queue-no-device", "the trace does not show how busy the device is")
_NO_TABLE = Text("requests-queue-no-table", "a printed table does not show what happens at the same time")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    waits = facts.need("synchronizations", Synchronizations)
    recording = facts.find("recording", Recording)
    if recording is None or all(sign.kind != _IN_FLIGHT for sign in recording.evidence):
        raise Missing(_NO_SERVER())
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
    yield Draft((Evidence(_SUBJECT(), waiting, limits["waiting"], "number", where),), params=params, severity="info")


def _device(facts: Facts) -> tuple[float, float]:
    """Time in which the device works and time in which it was recorded, in ns.

    Raises:
        Missing: It is not known.
    """
    found = facts.find("accelerators", Accelerators)
    if found is not None and found.devices and found.devices[0].span_ns:
        return found.devices[0].busy_ns, found.devices[0].span_ns
    if facts.resources.gpu_ns is None or not facts.step_ns:
        raise Missing(_NO_DEVICE())
    return facts.resources.gpu_ns * facts.steps, facts.step_ns * facts.steps


RULE = Rule(
    id="requests-queue",
    title=Text("requests-queue-title", "Requests wait in a queue for the device"),
    summary=Text(
        "requests-queue-summary",
        "{calls:count} waits for the device ({call}) take {time:ns} in {span:ns}: on average {waiting:number} requests "
        "wait at the same time for a device that is busy for {busy:percent}.",
        note="call is the name of a function such as synchronizeStream",
    ),
    advice=Text(
        "requests-queue-advice",
        "The device is the limit: run requests that wait in one batch, give the device less to do per request, or add "
        "devices. More requests in flight only wait longer.",
    ),
    not_when=Text(
        "requests-queue-not-when",
        "Response times are good enough, and the requests in flight only keep the device busy.",
    ),
    severity="info",
    confidence="B",
    tags=("inference",),
    since="0.2",
    thresholds=(
        Threshold(
            "waiting",
            1.0,
            "number",
            "time of all waits of one kind over the time for which the device was recorded",
            "own choice: above one, a request waits for another one",
        ),
        Threshold(
            "busy_share",
            0.8,
            "share",
            "time in which the device works, over the time for which it was recorded",
            "own choice, as for the headline: with less, it is not the device that requests wait for",
        ),
    ),
    links=(
        "https://docs.pytorch.org/docs/stable/profiler.html",
        "https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/batcher.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
