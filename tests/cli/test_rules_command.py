"""`traceanalyzer rules`, and the choice of rules for a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import TRAINING, call
from traceanalyzer.rules.selection import builtin


def test_lists_every_rule() -> None:
    run = call("rules")
    assert run.code == 0
    assert [line.split()[0] for line in run.out.splitlines()] == [rule.id for rule in builtin()]


def test_explains_one_with_the_thresholds_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traceanalyzer.toml").write_text('[rules."dataloader-bound"]\nexposed_share = 0.25\n')
    run = call("rules", "dataloader-bound")
    assert run.code == 0
    for heading in ("What it detects", "When it is wrong", "Thresholds", "exposed_share = 0.25 (25.00 %)"):
        assert heading in run.out


def test_an_unknown_rule_names_the_nearest() -> None:
    run = call("rules", "dataloder-bound")
    assert run.code == 2
    assert run.err == "traceanalyzer: unknown rule dataloder-bound; did you mean dataloader-bound?\n"


def rules_found(*options: str) -> set[str]:
    run = call("report", TRAINING, "--format", "json", "-o", "-", "-q", *options)
    assert run.code == 0
    return {finding["rule"] for finding in json.loads(run.out)["findings"]}


def test_select_and_ignore() -> None:
    assert "dataloader-bound" in rules_found()
    assert rules_found("--select", "dataloader-bound") == {"dataloader-bound"}
    assert "dataloader-bound" not in rules_found("--ignore", "dataloader-bound")


def test_fail_on() -> None:
    options = ("report", TRAINING, "-q", "--select", "dataloader-bound", "--format", "json")
    assert call(*options, "--fail-on", "critical").code == 1
    assert call(*options[:2], "-q", "--select", "memory-near-limit", "--format", "json", "--fail-on", "info").code == 0


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ('[rules."dataloader-bound"]\nexposed = 1\n', "no threshold exposed; did you mean exposed_share?"),
        ('[rules."dataloader-bond"]\nexposed_share = 1\n', "did you mean dataloader-bound?"),
        ('[rules."dataloader-bound"]\nexposed_share = "x"\n', "a number, 0 or greater, is needed"),
        ("rules = 3\n", "rules is no table of tables"),
        ('select = "dataloader-bound"\n', "select is no list of rules"),
        ('ignore = ["nope"]\n', "unknown rule nope; traceanalyzer rules lists them"),
    ],
)
def test_wrong_settings_are_one_line(
    settings: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traceanalyzer.toml").write_text(settings)
    run = call("report", TRAINING, "-q")
    assert run.code == 2
    assert wrong in run.err
    assert len(run.err.splitlines()) == 1
