"""What made the difference: parts, operators, kernels, findings; and whether the sides can be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from sides import QUIET, bare, report, training

from tests.builders import MI300X, TraceBuilder
from traceanalyzer.comparison import comparability, diff, explanation
from traceanalyzer.comparison.measurement import EARLIER, Key, Measurement, Ranked
from traceanalyzer.formats.difference import answer
from traceanalyzer.report.difference import Change, ChangedPart, Cost, Difference, Verdict
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Report
from traceanalyzer.structure.recording import Recording

SYNTHETIC = Path(__file__).parents[2] / "fixtures" / "synthetic"
SLOW_LOADER = [us + 40_000 for us in QUIET]


def loader_fixed() -> Difference:
    return diff(report(training(SLOW_LOADER, loader_us=41_000)), report(training()))


def rows(found: Difference, key: str) -> dict[str, Change]:
    ranking = next(ranking for ranking in found.rankings if ranking.key == key)
    return {row.name: row for row in ranking.rows}


def checks(found: Difference) -> dict[str, float | None]:
    return {check.id: check.similarity for check in found.comparability.checks}


def test_sizes_are_called_the_same_only_where_they_are() -> None:
    base, head = training(operators={"aten::relu": 200, "aten::add": 200}), training()
    other = training(operators={"aten::relu": 200, "aten::add": 200})
    for event in other.events:
        if event.get("name") == "aten::mm":
            event["args"]["Input Dims"] = [[7, 11], [11, 13]]
    assert checks(diff(report(base), report(head)))["sizes"] == 1
    found = diff(report(base), report(other))
    assert not any(check.message.id == "diff-sizes-same" for check in found.comparability.checks)


def test_parts_sum_to_the_change_of_the_mean_step() -> None:
    found = loader_fixed()
    assert found.step_time is not None
    assert sum(part.change_ns or 0 for part in found.parts) == pytest.approx(found.step_time.mean.change_ns)
    assert sum(part.change_share or 0 for part in found.parts) == pytest.approx(1)


def test_the_part_that_changed_is_named() -> None:
    found = loader_fixed()
    parts = {part.id: part for part in found.parts}
    assert found.verdict.outcome == "faster"
    assert parts["dataloader"].change_ns == pytest.approx(-40e6, rel=0.01)
    assert parts["dataloader"].clear is True
    assert parts["kernel"].clear is False
    assert found.attribution is not None
    assert "DataLoader" in found.attribution.text


def test_a_drift_within_a_side_does_not_hide_what_is_far_apart() -> None:
    """Its waits become shorter from step to step, which alone would count as noise."""
    found = diff(SYNTHETIC / "gpu_training.json.gz", SYNTHETIC / "gpu_training_fed.json.gz")
    parts = {part.id: part for part in found.parts}
    assert parts["dataloader"].clear is True
    assert parts["kernel"].clear is False


def test_a_fixed_finding_is_compared_with_what_it_promised() -> None:
    found = loader_fixed()
    fixed = {finding.rule: finding for finding in found.findings if finding.status == "fixed"}
    assert "dataloader-bound" in fixed
    assert fixed["dataloader-bound"].measured_direct_ns == pytest.approx(40e6, rel=0.01)
    assert found.prediction is not None
    assert found.prediction.measured_ns == pytest.approx(40e6, rel=0.01)
    assert found.prediction.agreement == "as-predicted"


def test_fixed_findings_about_one_wait_promise_it_once() -> None:
    both = ("dataloader-bound", "dataloader-single-process")
    found = diff(report(training(SLOW_LOADER, loader_us=41_000), both), report(training(), both))
    loader = [f for f in found.findings if f.status == "fixed" and f.resource == "loader"]
    assert len(loader) > 1
    assert found.prediction is not None
    assert found.prediction.predicted_ns[1] == pytest.approx(40e6, rel=0.05)


def test_the_other_way_round_the_finding_is_new() -> None:
    found = diff(report(training()), report(training(SLOW_LOADER, loader_us=41_000)))
    new = {finding.rule: finding for finding in found.findings if finding.status == "new"}
    assert "dataloader-bound" in new
    assert new["dataloader-bound"].measured_direct_ns is None


def test_operators_and_kernels_that_came_went_and_changed() -> None:
    base = training(operators={"aten::relu": 200, "aten::gone": 300}, kernels={"k_slow": 1000, "k_gone": 500})
    head = training(operators={"aten::relu": 400, "aten::new": 300}, kernels={"k_slow": 3000, "k_new": 500})
    found = diff(report(base), report(head))
    operators, kernels = rows(found, "operators"), rows(found, "kernels")
    assert {name: row.status for name, row in kernels.items()} == {
        "k_slow": "slower",
        "k_gone": "vanished",
        "k_new": "appeared",
    }
    assert kernels["k_slow"].device_change_ns == pytest.approx(2_000_000)
    assert kernels["k_gone"].device_change_ns == pytest.approx(-500_000)
    assert operators["aten::relu"].host_change_ns == pytest.approx(200_000)
    assert (operators["aten::gone"].status, operators["aten::new"].status) == ("vanished", "appeared")
    by_operator = rows(found, "kernels_by_operator")
    assert by_operator["k_slow"].owner == "aten::mm"


def test_figures_are_per_step_so_that_other_numbers_of_steps_compare() -> None:
    found = diff(report(training()), report(training(QUIET * 2)))
    assert checks(found)["step-count"] == 0.5
    assert not any(ranking.rows for ranking in found.rankings)
    assert found.verdict.outcome == "no-change"


def test_another_gpu_cannot_be_compared() -> None:
    found = diff(report(training()), report(training([2 * us for us in QUIET], device=MI300X)))
    assert checks(found)["gpu"] == 0
    assert (found.verdict.outcome, found.verdict.reason.id) == ("inconclusive", "diff-incomparable")


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
@pytest.mark.parametrize("steps", [1, len(QUIET)])
def test_that_sides_cannot_be_compared_is_said_first_and_no_change_in_percent(form: str, steps: int) -> None:
    slower = training([23 * us for us in QUIET[:steps]], device=MI300X)
    found = diff(report(training(QUIET[:steps])), report(slower), limit=0.05)
    assert found.gate is not None
    assert found.gate.outcome == "inconclusive"
    told = answer(found).render(form, 5)
    said = " ".join(re.sub(r"<[^>]*>", " ", told.partition("<main")[2] or told).split())
    assert said.index("cannot be compared") < said.index("before and")
    before_parts = said.partition("Parts of the step")[0]
    assert not re.search(r"[+\u2212]\s?[\d,.]+\s?%", before_parts)


def test_another_batch_size_cannot_be_compared() -> None:
    found = diff(report(training(batch=32)), report(training([2 * us for us in QUIET], batch=64)))
    assert checks(found)["sizes"] == 0
    assert found.verdict.outcome == "inconclusive"
    assert "2 times" in found.verdict.reason.text
    assert found.attribution is None


def test_the_throughput_of_a_larger_batch_is_told() -> None:
    """Twice the data in a step that takes 1.25 times as long: 62.5 ms for as much as before, 1.6 times as fast."""
    found = diff(report(training(batch=32)), report(training([us * 5 // 4 for us in QUIET], batch=64)))
    assert "100 ms became 63 ms: 1.6x the throughput" in found.verdict.reason.text


def test_a_wider_model_is_not_more_data() -> None:
    def wide(size: int) -> TraceBuilder:
        trace = TraceBuilder(options=("record_shapes",))
        for number in range(6):
            trace.step(number, 1000 * number, 1000)
            trace.op("aten::mm", 1000 * number + 10, 40, shapes=[[size, size], [size, size]], types=["float", "float"])
            trace.launch_kernel("gemm", 1000 * number + 60, 500, at=1000 * number + 20)
        return trace

    found = diff(report(wide(64)), report(wide(128)))
    assert found.verdict.reason.id == "diff-incomparable"
    assert "throughput" not in found.verdict.reason.text


def test_a_model_that_was_changed_can_be_compared() -> None:
    """Operators were replaced; the shapes of the remaining ones are equal."""
    found = diff(
        report(training(operators={"aten::relu": 200, "aten::mul": 300})),
        report(training([round(0.8 * us) for us in QUIET], operators={"aten::addcmul": 300})),
    )
    assert checks(found)["sizes"] == 1
    assert (checks(found)["calls"] or 0) < 1
    assert found.verdict.outcome == "faster"


def test_other_options_and_missing_shapes_are_told() -> None:
    found = diff(report(training()), report(training(options=("record_shapes", "with_stack"))))
    assert checks(found)["options"] == pytest.approx(0.8)
    assert found.verdict.outcome == "no-change"
    assert "with_stack" in next(c.message.text for c in found.comparability.checks if c.id == "options")


def test_another_number_of_ranks_cannot_be_compared() -> None:
    found = diff(report(training(rank=0)), report(training([2 * us for us in QUIET], rank=0, world_size=8)))
    assert checks(found)["world-size"] == 0
    assert found.verdict.outcome == "inconclusive"


def test_ranks_that_have_nothing_in_common_are_compared_all_the_same() -> None:
    found = diff(report(training(rank=0)), report(training(rank=1)))
    assert checks(found)["ranks"] == 0
    assert found.verdict.outcome == "no-change"


def test_outliers_and_single_recordings_are_noted() -> None:
    notes = {note.id for note in diff(report(training()), report(training([QUIET[0], 400_000]))).notes}
    assert {"diff-outliers", "diff-one-capture"} <= notes


def test_the_sides_are_the_typical_steps_of_their_reports() -> None:
    head = report(training([*QUIET[:5], 400_000]))
    found = diff(report(training()), head)
    assert found.head.steps == 5
    recording = head.result("recording", Recording)
    assert recording is not None
    assert found.step_time is not None
    assert found.step_time.head.mean_ns == recording.typical_step_ns
    assert "diff-outliers" not in {note.id for note in found.notes}


def test_findings_without_a_saving_promise_nothing() -> None:
    base = without_savings(report(training(SLOW_LOADER, loader_us=41_000)))
    found = diff(base, report(training()))
    assert "fixed" in {finding.status for finding in found.findings}
    assert found.prediction is None


def without_savings(given: Report) -> Report:
    findings = tuple(msgspec.structs.replace(finding, saving=None) for finding in given.findings)
    return msgspec.structs.replace(given, findings=findings)


def marked(name: str | None, calls: Mapping[str, float]) -> Measurement:
    """Steps that were found by some name, and the operators that they call."""
    rows = {Key(operator): Cost(count, None, 1e6) for operator, count in calls.items()}
    given = bare([1e8, 1.01e8, 0.99e8] * 3)
    rankings = {**given.rankings, "operators": Ranked(rows)}
    return replace(given, side=structs.replace(given.side, steps_from=name), rankings=rankings)


@pytest.mark.parametrize(
    ("calls", "similarity"),
    [
        ({"a": 2, "b": 1, "c": 4, "moved": 1}, 0.5),  # compiled code took one away
        ({"a": 4, "b": 2, "c": 8, "moved": 80}, 0.0),  # a step is two of the other side
        ({"a": 2, "b": 1}, 0.0),  # too few to say
    ],
)
def test_steps_that_were_found_otherwise_are_the_same_if_they_call_the_same(
    calls: dict[str, float], similarity: float
) -> None:
    found = comparability.check(marked("a mark", {"a": 2, "b": 1, "c": 4, "moved": 40}), marked("graph launch", calls))
    (check,) = [check for check in found.checks if check.id == "steps-from"]
    assert check.similarity == similarity
    assert (found.obstacle is None) == (similarity > 0)


def test_time_that_moves_from_marked_to_unmarked_code_is_no_reason() -> None:
    """Without its marks, 30 ms of code are in "Other"; the kernels made the change of 10 ms."""
    parts = {"kernel": (50e6, 40e6), "cpu_exec": (40e6, 10e6), "other": (10e6, 40e6)}
    changes = tuple(
        ChangedPart(name, one, two, two - one, (two - one) / -10e6, None) for name, (one, two) in parts.items()
    )
    found = explanation.attribute(changes, Verdict("faster", "mean", -10e6, -0.1, Message("x", {}, "x")))
    assert found is not None
    assert found.params["part"]["id"] == "diff-part-kernel"
    assert found.params["share"] == 1


def test_a_row_shows_the_resource_that_decides() -> None:
    """The host of an operator without device work; never "0 ns, 0 ns, 0 ns"."""
    found = diff(report(training(operators={"delta_r2": 200})), report(training(operators={"delta_r2": 30_000})))
    (line,) = [line for line in answer(found).render("terminal").splitlines() if "delta_r2" in line]
    assert line.split()[2:] == ["CPU", "200.0", "us", "30.00", "ms", "+29.80", "ms"]


def test_tables_are_of_the_typical_steps() -> None:
    """The first step is left out, in which an operator takes 50 ms once."""
    trace = training([160_000, *QUIET])
    trace.op("aten::once", 50_000, 50_000)
    trace.launch_kernel("once", 60_000, 40_000, at=55_000)
    found = diff(report(training()), report(trace))
    assert found.head.steps == 6
    for key in ("operators", "kernels", "kernels_by_operator"):
        assert not any("once" in row.name for row in rows(found, key).values())


def test_a_single_step_whose_start_was_left_out_is_not_compared() -> None:
    cut = EARLIER(name="head", time=4e6)
    one = marked("whole-trace", {"a": 1})
    base, head = (replace(one, runs=(one.runs[0][:1],), once=once) for once in ((), (cut,)))
    found = comparability.check(base, head)
    assert found.obstacle is not None
    assert found.obstacle.message == cut
    assert comparability.check(head, head).obstacle is None


def test_modules_are_means_over_all_steps() -> None:
    """One of six steps is left out, but not its modules: each is called once in a step of both sides."""
    found = diff(SYNTHETIC / "gpu_training.json.gz", SYNTHETIC / "gpu_training_fed.json.gz")
    assert found.base.steps == 5
    assert "modules" in {ranking.key for ranking in found.rankings}
    assert rows(found, "modules") == {}
