"""What becomes of a finding is decided by its events and by the step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from sides import QUIET, bare, report, training, written

import traceanalyzer as ta
from scripts import verified
from tests.cli.running import FIXTURES, call
from traceanalyzer.cli.verify import CODES
from traceanalyzer.comparison import verification
from traceanalyzer.comparison.measurement import Measurement, StepRow
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.verification import answer
from traceanalyzer.report.difference import PART_LABELS
from traceanalyzer.report.model import Finding
from traceanalyzer.report.selection import Selection
from traceanalyzer.report.verification import OUTCOMES, Verification

MM = ("device", "aten::mm")


def some_finding(low_ns: float, high_ns: float, events_ns: float) -> Finding:
    slow = report(training([us + 40_000 for us in QUIET], loader_us=41_000))
    (found,) = (finding for finding in slow.findings if finding.rule == "dataloader-bound")
    assert found.saving is not None
    saving = msgspec.structs.replace(found.saving, wall_ns_per_step=(low_ns, high_ns), step_ns=None, resource="host")
    where = (Selection("device", "aten::mm", None, 0, None, events_ns, 1, (), 0, 0),)
    return msgspec.structs.replace(found, saving=saving, where=where)


def side(steps_ms: tuple[float, ...], events_ns: float, *findings: Finding) -> Measurement:
    steps = tuple(StepRow(ms * 1e6, dict.fromkeys(PART_LABELS, 0.0)) for ms in steps_ms)
    return replace(bare([1.0]), runs=(steps,), findings=findings, subjects={MM: events_ns})


def checked(after_ms: float, events_after: float, predicted: tuple[float, float] = (8e6, 12e6)) -> Verification:
    """A step of 100 ms with a finding about 20 ms of events, and what is left of both."""
    noise = (-0.1, 0.0, 0.1, 0.05, -0.05, 0.02)
    base = side(tuple(100 + x for x in noise), 20e6, some_finding(*predicted, 20e6))
    return verification.of(base, side(tuple(after_ms + x for x in noise), events_after))


@pytest.mark.parametrize(
    ("after_ms", "events_after", "outcome"),
    [
        (90.0, 2e6, "confirmed"),
        (80.0, 2e6, "better"),
        (96.0, 2e6, "worse"),
        (100.0, 2e6, "refuted"),
        (103.0, 2e6, "refuted"),
        (90.0, 20e6, "not-done"),
    ],
)
def test_events_say_whether_it_was_done_and_the_step_whether_it_helped(
    after_ms: float, events_after: float, outcome: str
) -> None:
    found = checked(after_ms, events_after)
    assert [finding.outcome for finding in found.findings] == [outcome] == [found.outcome]
    (finding,) = found.findings
    assert (finding.base_ns, finding.head_ns, finding.predicted_ns) == (20e6, events_after, (8e6, 12e6))
    assert found.measured_ns == pytest.approx((100 - after_ms) * 1e6, abs=1)


def test_a_prediction_that_allows_for_nothing_is_not_refuted_by_nothing() -> None:
    assert checked(100.0, 2e6, (0.0, 12e6)).outcome == "cannot-tell"
    assert checked(96.0, 2e6, (0.0, 12e6)).outcome == "confirmed"


def test_noise_decides_nothing() -> None:
    base = side((100, 60, 150, 80, 130, 95), 20e6, some_finding(8e6, 12e6, 20e6))
    found = verification.of(base, side((92, 140, 55, 75, 120, 90), 2e6))
    assert found.verdict.outcome == "inconclusive"
    assert found.outcome == "cannot-tell"


def test_a_finding_that_is_still_there_counts_as_done_from_a_fifth_on() -> None:
    base = side((100,) * 6, 20e6, some_finding(8e6, 12e6, 20e6))
    for left, outcome in ((17e6, "not-done"), (15e6, "confirmed")):
        head = side((90,) * 6, left, some_finding(4e6, 6e6, left))
        assert [found.outcome for found in verification.of(base, head).findings] == [outcome]


def test_the_worst_outcome_is_that_of_all() -> None:
    other = msgspec.structs.replace(
        some_finding(1e6, 2e6, 5e6), where=(Selection("device", "aten::relu", None, 0, None, 5e6, 1, (), 0, 0),)
    )
    base = side((100,) * 6, 20e6, some_finding(8e6, 12e6, 20e6), other)
    base = replace(base, subjects={MM: 20e6, ("device", "aten::relu"): 5e6})
    head = replace(side((90,) * 6, 2e6), subjects={MM: 2e6, ("device", "aten::relu"): 5e6})
    found = verification.of(base, head)
    assert {finding.id: finding.outcome for finding in found.findings} == {
        "dataloader-bound": "confirmed",
        "dataloader-bound#2": "not-done",
    }
    assert found.outcome == "not-done"
    assert [each.id for each in verification.of(base, head, ("dataloader-bound#2",)).findings] == ["dataloader-bound#2"]
    assert len(verification.of(base, head, ("dataloader-bound",)).findings) == 2
    with pytest.raises(UsageError, match="has no finding other; it has: dataloader-bound, dataloader-bound#2"):
        verification.of(base, head, ("other",))
    assert [CODES[outcome] for outcome in OUTCOMES] == [4, 1, 5, 3, 0, 0]


def test_it_is_called_end_to_end(tmp_path: Path) -> None:
    before = written(training([us + 40_000 for us in QUIET], loader_us=41_000), tmp_path / "before.json")
    after = written(training(QUIET), tmp_path / "after.json")
    run = call("verify", before, after, "--finding", "dataloader-bound")
    assert (run.code, "Confirmed: Steps wait for the DataLoader (dataloader-bound)." in run.out) == (0, True)
    assert "Подтвердилось" in call("verify", before, after, "--finding", "dataloader-bound", "--lang", "ru").out
    again = call("verify", before, before, "--finding", "dataloader-bound", "--format", "json", "-q")
    assert again.code == CODES["not-done"]
    assert msgspec.json.decode(again.out)["findings"][0]["outcome"] == "not-done"
    assert call("verify", before, after, "--finding", "none-such").code == 2


def test_saved_reports_and_documents_are_verified_like_traces(tmp_path: Path) -> None:
    before = written(training([us + 40_000 for us in QUIET], loader_us=41_000), tmp_path / "before.json")
    after = written(training(QUIET), tmp_path / "after.json")
    direct = ta.verify(before, after)
    for file in (before, after):
        assert call("report", file, "-o", file.with_suffix(".report.json"), "-q").code == 0
    saved = ta.verify(before.with_suffix(".report.json"), after.with_suffix(".report.json"))
    assert [(f.id, f.outcome) for f in saved.findings] == [(f.id, f.outcome) for f in direct.findings]


def test_markdown_names_every_finding_and_nothing_twice() -> None:
    text = answer(checked(90.0, 2e6)).render("markdown")
    assert text.count("Confirmed: ") == 1
    assert "Its events went from 20 to 2.0 ms per step. The step became 10 ms shorter, as predicted" in text


@pytest.mark.parametrize("name", ["optimizer-single-tensor", "broadcast-blow-up", "checkpointing"])
def test_outcomes_of_the_lab_are_not_reversed(name: str) -> None:
    each, before, after = next(
        pair for pair in verified.pairs("second") if (pair[0].fault.name, pair[0].row.size) == (name, "large")
    )
    truth, outcome = verified.measured(each), verified.said(each, before, after)
    assert truth in verified.GAINED
    assert not verified.is_reversed(truth, outcome)
    assert outcome != "none"
    assert FIXTURES in before.parents
