"""A small sample of the campaign, and that the campaign sees what it looks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.bases import ROOT, fixtures
from tests.mutation.campaign import Campaign
from tests.mutation.child import Outcome
from tests.mutation.commands import REPORT, Command
from tests.mutation.verdicts import SPARE_BYTES, SPARE_S, TIMES, costs, problems

CASES = 3000 if os.environ.get("TRACEANALYZER_FULL") == "1" else 40
REPORTED = Command(("report", "x.json"))
REFUSED = "traceanalyzer: x.json: contains no event\n"


def outcome(code: int = 0, err: str = "", out: bytes = b"", cpu_s: float = 0, memory: int = 0) -> Outcome:
    return Outcome(code, out, err, cpu_s, memory)


def test_damaged_fixtures_are_reported_or_refused(tmp_path: Path) -> None:
    """In a process of its own, because a test runner has threads, which do not survive a fork."""
    command = (sys.executable, "-m", "tests.mutation", "--cases", str(CASES), "--jobs", "1", "--without-costs")
    environment = {key: value for key, value in os.environ.items() if key != "TRACEANALYZER_CORPUS"}
    run = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr
    assert run.stdout.strip().splitlines()[0].startswith(f"{CASES} cases of seed 0 ")
    assert not (tmp_path / "failures").exists()


def test_a_case_is_always_the_same(tmp_path: Path) -> None:
    def cases(name: str, seed: int) -> list[tuple[str, bytes]]:
        campaign = Campaign(seed, fixtures(), tmp_path / name)
        return [(case.base.name, case.data) for case in map(campaign.case, range(30))]

    first = cases("a", 0)
    assert cases("b", 0) == first
    assert cases("c", 1) != first


@pytest.mark.parametrize(
    ("ended", "problem"),
    [
        (outcome(1), "exit code 1"),
        (outcome(-9), "was killed by signal 9: too much time or memory"),
        (outcome(0, "Traceback (most recent call last):\n  ...\nKeyError: 1\n"), "traceback: KeyError: 1"),
        (outcome(0, "x.py:1: RuntimeWarning: overflow\n"), "warning of Python: x.py:1: RuntimeWarning: overflow"),
        (outcome(2, ""), "is refused in 0 lines"),
        (outcome(2, REFUSED + "And more.\n"), "is refused in 2 lines"),
        (outcome(2, "x.json: contains no event\n"), "is refused in 1 lines"),
        (outcome(2, f"traceanalyzer: {'x' * 600}\n"), "is refused in a line of 615 characters"),
        (outcome(2, REFUSED, b"report"), "is refused after something was printed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_must_not_be_is_seen(ended: Outcome, problem: str, tmp_path: Path) -> None:
    assert list(problems(REPORTED, ended, tmp_path)) == [problem]


@pytest.mark.parametrize("ended", [outcome(0, "Next: ...\n"), outcome(2, REFUSED)], ids=["reported", "refused"])
def test_what_may_be_is_no_problem(ended: Outcome, tmp_path: Path) -> None:
    assert list(problems(REPORTED, ended, tmp_path)) == []


def test_broken_reports_and_failed_rules_are_seen(tmp_path: Path) -> None:
    def found(report: str) -> list[str]:
        (tmp_path / REPORT).write_text(report, "utf-8")
        return list(problems(REPORTED, outcome(), tmp_path))

    failed = {"id": "occupancy-low", "reason": {"id": "rule-failed", "text": "the rule failed"}}
    assert found('{"skipped": []}') == []
    assert found('{"skipped": [], "share": NaN}') == ["report.json: NaN in a report"]
    assert found(json.dumps({"skipped": [failed]})) == ["occupancy-low: the rule failed"]
    assert len(found('{"skipped"')) == 1


def test_costs_are_compared_with_the_undamaged_file() -> None:
    base = outcome(cpu_s=1, memory=100 << 20)
    assert list(costs(outcome(cpu_s=TIMES + SPARE_S, memory=TIMES * base.memory + SPARE_BYTES), base)) == []
    assert list(costs(outcome(cpu_s=5.6), base)) == ["takes 5.60 s, undamaged 1.00 s"]
    assert list(costs(outcome(memory=TIMES * base.memory + SPARE_BYTES + 1), base)) == [
        "takes 577 MB, undamaged 105 MB"
    ]
    larger = outcome(memory=TIMES * base.memory + SPARE_BYTES + 1)
    assert list(costs(larger, base, grown=1)) == [], "a file that the damage made larger may take more"
