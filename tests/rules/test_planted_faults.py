"""`examples/planted_faults.py`: each fault is found on a GPU; on a CPU those that exist there."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests import corpus_files
from tests.builders.fixture_set import FOLDER
from tests.builders.situations import planted_faults
from tests.capture.capturing import PATIENCE_S, needs_torch
from tests.cli.running import ROOT, spawn
from tests.rules.judging import report
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.structure.recording import Recording

RULES = {
    "sync-item-frequent": 3.0,  # values read per step
    "host-python-gap": None,  # the pauses after them
    "tensor-created-on-cpu": None,
    "copies-materialized": 10,  # clones in a row
    "redundant-passes": 6,  # two of three passes in each of three steps
    "dataparallel": 3.0,  # calls per step
    "tensor-cores-unused": None,
}
"""The rule of each planted fault, and what it must have counted where it counts."""
ON_A_CPU = {"copies-materialized", "redundant-passes"}
SKIPPED_ON_A_CPU = {
    "sync-item-frequent": "the trace has no runtime calls, so waits of the CPU are unknown",
    "host-python-gap": "the trace has no kernels with a device number, so idle time is unknown",
    "tensor-created-on-cpu": "the trace has no copy from the CPU to a device",
    "tensor-cores-unused": "the trace has no kernels: nothing ran on a GPU, or it was not recorded",
}
"""Reading a value on the CPU waits for nothing, the pause delays no kernel, nothing is moved, and no kernel has a name.

`dataparallel` judges and says nothing: the script wraps the network on a GPU only."""


@cache
def faulty() -> Report:
    return report(planted_faults())


def found(rule: str) -> Finding:
    (finding,) = [finding for finding in faulty().findings if finding.rule == rule]
    return finding


@pytest.mark.parametrize("rule", RULES)
def test_a_planted_fault_is_found(rule: str) -> None:
    observed = [evidence.observed for evidence in found(rule).evidence]
    assert RULES[rule] is None or RULES[rule] in observed


def test_the_clean_variant_has_none_of_them() -> None:
    assert not RULES.keys() & {finding.rule for finding in report(planted_faults(faults=False)).findings}


def test_the_pauses_are_most_of_the_gaps_and_named() -> None:
    """Three times a millisecond per step, which no wait explains: each read takes some microseconds."""
    finding = found("host-python-gap")
    assert finding.saving is not None
    assert finding.summary.params["time"] > 3e6
    assert finding.evidence[0].where[0].name == "examples/planted_faults.py(37): read_on_the_host"
    reading = found("sync-item-frequent").saving
    assert reading is not None
    assert reading.direct_ns_per_step[1] < 1e5


def test_the_places_are_those_of_the_faults() -> None:
    origin = found("tensor-created-on-cpu").evidence[0].where[0]
    assert (origin.name, origin.shapes) == ("examples/planted_faults.py(44): made_on_the_cpu", "[1000, 1000]")
    assert found("dataparallel").summary.params["devices"] == 1
    convolution = found("tensor-cores-unused").evidence[0].where[0]
    assert convolution.name == "aten::convolution_backward"


def test_together_they_save_less_than_the_step() -> None:
    (headline,) = faulty().headlines
    assert headline.bound == "host"
    assert headline.combined is not None
    assert {"redundant-passes", "host-python-gap"} <= {fix.rule for fix in headline.combined.fixes}
    assert headline.combined.wall_ns_per_step[1] < headline.resources.step_ns


def test_the_fixture_says_the_same() -> None:
    stored = corpus_files.report_of(FOLDER / "synthetic" / "planted_faults.json.gz")
    assert [finding.rule for finding in stored.findings] == [finding.rule for finding in faulty().findings]


@pytest.mark.torch
def test_on_a_cpu_the_faults_without_a_device_are_found_and_the_others_skipped(tmp_path: Path) -> None:
    needs_torch()
    trace = tmp_path / "trace.json.gz"
    script = str(ROOT / "examples" / "planted_faults.py")
    run = spawn("--batch", "8", str(trace), program=(sys.executable, script), patience_s=PATIENCE_S)
    assert run.code == 0, run.err
    result = ta.analyze(ta.load(trace))
    assert RULES.keys() & {finding.rule for finding in result.findings} == ON_A_CPU
    reasons = {entry.id: entry.reason.text for entry in result.skipped}
    assert {rule: reasons.get(rule) for rule in SKIPPED_ON_A_CPU} == SKIPPED_ON_A_CPU
    discarded = next(finding for finding in result.findings if finding.rule == "redundant-passes")
    recording = result.result("recording", Recording)
    assert recording is not None
    typical = sum(step.is_typical for step in recording.steps)
    assert discarded.evidence[0].observed == 2 * typical, "two passes in each of the steps that are alike"
