"""Fixed is what shrank; saved is by how much, per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from sides import QUIET, bare, report, training

from traceanalyzer.comparison import diff, findings
from traceanalyzer.comparison.measurement import LaunchedWork, Measurement
from traceanalyzer.formats.difference import answer
from traceanalyzer.report.difference import Comparability, FindingChange
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.selection import Selection

SLOW_LOADER = [us + 40_000 for us in QUIET]
COMPARABLE = Comparability(1.0, ())


def selection(ns: float, name: str = "aten::mm", kind: str = "device") -> Selection:
    return Selection(kind, name, None, 0, None, ns, 1, (), 0, 0)


def side(times: Mapping[tuple[str, str], float], *where: Selection, regions: float = 0.0) -> Measurement:
    """One finding about some events, or none; times of what it may be about."""
    (some,) = (f for f in report(training(SLOW_LOADER, loader_us=41_000)).findings if f.rule == "dataloader-bound")
    found = (msgspec.structs.replace(some, where=where),) if where else ()
    work = {("Torch-Compiled Region",): LaunchedWork(regions, 1, 1)}
    return replace(bare([1e8] * 6), findings=found, subjects=times, work=work, classes={"aten::mm": "gemm"})


def change(base: Measurement, head: Measurement, step_ns: float = -1.0) -> FindingChange:
    (found,) = findings.compare(base, head, COMPARABLE, step_ns)
    return found


MM = ("device", "aten::mm")


@pytest.mark.parametrize(
    ("after", "step_ns", "status", "saved"),
    [
        (2e6, -1.0, "fixed", 8e6),  # a fifth is left of the operator, and of what the finding is about
        (10e6, -1.0, "base-only", None),  # only a threshold moved
        (12e6, -1.0, "base-only", None),
        (2e6, 1.0, "base-only", None),  # the step got slower
    ],
)
def test_fixed_is_what_shrank_in_a_step_that_got_no_slower(
    after: float, step_ns: float, status: str, saved: float | None
) -> None:
    found = change(side({MM: 10e6}, selection(10e6)), side({MM: after}), step_ns)
    assert (found.status, found.saved_ns, found.base_ns) == (status, saved, 10e6)
    assert found.priced_in == "base"


@pytest.mark.parametrize(("before", "status"), [(2e6, "new"), (10e6, "head-only")])
def test_new_is_what_grew(before: float, status: str) -> None:
    found = change(side({MM: before}), side({MM: 10e6}, selection(10e6)))
    assert (found.status, found.base_ns, found.head_ns) == (status, before, 10e6)
    assert (found.saved_ns, found.priced_in) == (None, "head")


def test_what_is_still_there_has_the_times_of_both_sides() -> None:
    found = change(side({}, selection(10e6), selection(2e6)), side({}, selection(5e6)))
    assert (found.status, found.base_ns, found.head_ns, found.saved_ns) == ("kept", 12e6, 5e6, None)


def test_what_moved_into_compiled_code_is_estimated_by_its_class() -> None:
    """The operator is gone, but most of its products are in the region: 4 of 10 ms, and not 0."""
    base = side({MM: 10e6, ("class", "gemm"): 20e6}, selection(10e6))
    found = change(base, side({("class", "gemm"): 8e6}, regions=1.0))
    assert (found.status, found.head_ns, found.saved_ns) == ("fixed", 4e6, 6e6)
    assert change(base, side({("class", "gemm"): 8e6})).head_ns == 0.0, "not compiled, so it is gone"


def test_a_finding_about_no_events_is_not_called_fixed() -> None:
    base, head = side({}, selection(1.0)), side({}, selection(1.0))
    setting = tuple(msgspec.structs.replace(f, rule="a-setting", where=(), saving=None) for f in base.findings)
    found = findings.compare(replace(base, findings=(*base.findings, *setting)), head, COMPARABLE, -1.0)
    assert {each.rule: each.status for each in found} == {"a-setting": "base-only", "dataloader-bound": "kept"}


def without_where(given: Report) -> Report:
    """As of a version that did not say where findings are."""

    def old(finding: Finding) -> Finding:
        return msgspec.structs.replace(finding, where=())

    return msgspec.structs.replace(given, findings=tuple(map(old, given.findings)))


@pytest.mark.parametrize("old", ["base", "head"])
def test_old_reports_are_compared_by_name_and_say_nothing_of_times(old: str) -> None:
    base, head = report(training(SLOW_LOADER, loader_us=41_000)), report(training())
    found = diff(without_where(base) if old == "base" else base, without_where(head) if old == "head" else head)
    fixed = {each.rule: each for each in found.findings if each.status == "fixed"}
    assert "dataloader-bound" in fixed
    assert all(each.saved_ns is None for each in found.findings)


def test_the_time_and_the_price_are_shown() -> None:
    found = diff(report(training(SLOW_LOADER, loader_us=41_000)), report(training()))
    (loader,) = [each for each in found.findings if each.rule == "dataloader-bound"]
    assert loader.saved_ns == pytest.approx(40e6, rel=0.01)
    (line,) = [row for row in answer(found).render("terminal").splitlines() if "Steps wait for" in row]
    assert "\u221240.00 ms" in line
    assert line.endswith("  27-41 ms")
