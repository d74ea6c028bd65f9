"""Where findings are: laws that hold for the programs of all rules, and numbers worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.judging import functions, report, situations
from tests.rules.kinds_of_change import KINDS
from tests.simulation.replaying import model_of
from traceanalyzer.formats import render
from traceanalyzer.formats.cards import card
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.selection import Once, Selection
from traceanalyzer.rules.engine import where
from traceanalyzer.rules.engine.change import DeviceWork
from traceanalyzer.rules.engine.claim_edits import Resolver
from traceanalyzer.rules.engine.selection import builtin
from traceanalyzer.structure import gaps, typical
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.resources import busiest
from traceanalyzer.trace.intervals import Intervals

OF_EVERYTHING = {
    "autograd-in-inference": "a part of what the CPU does for each operator",
    "graph-batch-padded": "a part of all work of decode steps",
}
"""Rules whose place is all that a processor does, and why."""


def programs() -> list[object]:
    return [
        pytest.param(rule.id, name, id=f"{rule.id}-{name}")
        for rule in builtin()
        for name in functions(situations(rule.id), "fires")
    ]


@pytest.mark.parametrize(("rule", "name"), programs())
def test_times_are_there_and_add_up(rule: str, name: str) -> None:
    built = functions(situations(rule), "fires")[name]()
    assert list(broken(built, report(built, rule))) == []


def broken(built: object, found: Report) -> Iterator[str]:
    """What does not hold of the places of the findings of a report."""
    context = Context(read_built(built)) if isinstance(built, TraceBuilder) else None
    for finding in found.findings:
        saves = finding.saving is not None and finding.saving.wall_ns_per_step[1] > 0
        if (context is not None and saves) != bool(finding.where) and (saves or context is None):
            yield f"{finding.rule}: a saving in a trace is somewhere, nothing else is"
        for entry in finding.where if context is not None else ():
            yield from wrong(entry, context)
        everything = any((entry.kind, entry.name) in (("host", "host"), ("device", "gpu")) for entry in finding.where)
        if everything and finding.rule not in OF_EVERYTHING:
            yield f"{finding.rule}: the place is all that a processor does"
        if saves and finding.where and not says(finding):
            yield f"{finding.rule}: the sentence has another figure than the place: {finding.summary.params}"


def says(finding: Finding) -> bool:
    """Whether a quantity of the sentence is the time of its events."""
    times = [entry.ns if entry.ns_per_step is None else entry.ns_per_step for entry in finding.where]
    held = [float(time) for time in times if time is not None]
    figures = {key: value for key, value in finding.summary.params.items() if key != "step"}
    said = [value for value in figures.values() if isinstance(value, int | float)]
    return any(value == pytest.approx(time) for value in said for time in (*held, sum(held)))


def wrong(entry: Selection, context: Context) -> Iterator[str]:
    start, length = np.array(entry.spans, np.int64).reshape(-1, 2).T
    total, times = int(length.sum()) + entry.omitted_ns, Intervals.union(start, start + length)
    if times.length != int(length.sum()):
        yield "a time is there twice"
    if entry.outside_steps:
        if (entry.ns_per_step, entry.ns) != (None, total):
            yield "what lies outside of the steps has another time"
        return
    if entry.ns_per_step != pytest.approx(total / typical.count(context)):
        yield "times do not add up"
    if (times - typical.times(context)).length:
        yield "a time lies in no typical step"
    if entry.kind == "device" and (times - gaps.any_busy(context)).length:
        yield "nothing runs in a time"
    device, busy = busiest(context, typical.times(context))
    if entry.kind == "idle" and (device != entry.device or times & busy):
        yield "the device works in idle time"


def test_the_longest_times_are_kept() -> None:
    """Each of 50 steps runs ten kernels with pauses, five of 10 and five of 20: 200 times of 20 are shown."""
    trace = TraceBuilder(options=("record_shapes",))
    for number in range(50):
        start = 1000 * number
        trace.step(number, start, 1000)
        for call in range(10):
            at = start + 20 + 90 * call
            trace.op("aten::mm", at, 30)
            trace.launch_kernel("kernel", at + 25, 10 + 10 * (call % 2), at=at + 5, call_dur=5)
    basis = Message("basis", {}, "because")
    change = DeviceWork((1.0, 1.0), basis, None, {EventSet.operator("aten::mm"): 1.0})
    (entry,) = where.selections(Resolver(model_of(trace)), change)
    assert len(entry.spans) == where.SPANS
    assert {length for _, length in entry.spans} == {20_000}
    assert (entry.omitted, entry.omitted_ns) == (300, 50 * 20_000 + 250 * 10_000)
    assert list(entry.spans) == sorted(entry.spans)


def with_a_tail() -> TraceBuilder:
    """Four steps of 100, the device at work for 50 of each; after them 200, of which the device works for 60."""
    trace = TraceBuilder()
    for number in range(4):
        start = 100 * number
        trace.step(number, start, 100)
        trace.op("aten::mm", start + 1, 30)
        trace.launch_kernel("gemm", start + 20, 50, at=start + 5, call_dur=5)
    trace.op("aten::nonzero", 400, 100)
    trace.launch_kernel("copy", 420, 60, at=405, call_dur=5)
    trace.annotation("end", 590, 10)
    return trace


@pytest.mark.parametrize(
    ("resource", "claim", "direct", "wall", "point"),
    [
        (
            "host",
            EventSet.operator("aten::nonzero"),
            (10.0, 25.0),
            (40, 100),
            40,
        ),  # 100 long, the device idles for 40 of it
        ("host", EventSet.operator("aten::nonzero"), (5.0, 5.0), (20, 20), 20),
        ("gpu", EventSet.kernel("copy"), (5.0, 100.0), (20, 60), 60),  # the kernel takes 60
    ],
    ids=["host work", "less host work", "device work"],
)
def test_what_lies_outside_of_the_steps_is_saved_once(
    resource: str, claim: EventSet, direct: tuple[float, float], wall: tuple[int, int], point: int
) -> None:
    model = model_of(with_a_tail())
    low, high = (1000 * ns for ns in direct)
    change = KINDS[resource]((low, high), Message("basis", {}, "because"), None, {claim: high})
    found = where.once(model.context, change, where.selections(Resolver(model), change))
    assert found == Once((1000 * wall[0], 1000 * wall[1]), 1000 * point, point / 600)


def test_what_is_saved_once_is_no_saving_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all of a finding lay outside of the steps: no part of all fixes together, not severe, and it is said."""
    program, rule = situations("host-python-gap").fires(), "host-python-gap"
    before = report(program, rule)
    monkeypatch.setattr(where, "once", lambda *_: Once((1e6, 3e6), 2e6, 0.25))
    after = report(program, rule)
    assert before.headlines[0].combined is not None
    assert after.headlines[0].combined is None
    (finding,) = after.findings
    assert (finding.saving, finding.once, finding.severity) == (None, Once((1e6, 3e6), 2e6, 0.25), "medium")
    shown = card(finding, ENGLISH)
    assert (shown.time, shown.saves) == (
        None,
        "Saves 2.0 ms (1.0-3.0) once (25 % of the trace), outside of the typical steps.",
    )
    page = re.sub("</?data[^>]*>", "", render(after, "html"))
    assert str(shown.saves) in page.replace("\u00a0", " ")
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding


def test_what_lies_in_a_step_is_not_saved_once() -> None:
    model = model_of(with_a_tail())
    change = DeviceWork((1.0, 1.0), Message("basis", {}, "because"), None, {EventSet.kernel("gemm"): 1.0})
    assert where.once(model.context, change, where.selections(Resolver(model), change)) is None
    assert where.once(model.context, change, ()) is None, "a setting is nowhere"


def about_idle_time(*spans: tuple[int, int]) -> Finding:
    (finding, *_) = report(situations("host-python-gap").fires(), "host-python-gap").findings
    entry = Selection("idle", "host_code", None, 0, None, 1.0, len(spans), spans, 0, 0)
    return replace(finding, where=(entry,))


def test_idle_time_that_two_findings_claim_is_shared() -> None:
    found = [about_idle_time((0, 10), (40, 10)), about_idle_time((45, 1)), about_idle_time((10, 30))]
    shared = [finding.where[0].shared for finding in where.with_shared(found)]
    assert shared == [True, True, False]
