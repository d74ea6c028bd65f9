"""`traceanalyzer rules`, and the choice of rules for a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import TRAINING, call
from traceanalyzer.rules.engine.selection import builtin


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
        ('[rules."dataloader-bound"]\nexposed_share = "x"\n', "a number from 0 to 1e+18 is needed"),
        ("rules = 3\n", "rules is not a table of tables"),
        ('select = "dataloader-bound"\n', "select is not a list of rules"),
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
    assert run.err.startswith("traceanalyzer: traceanalyzer.toml: ")
    assert len(run.err.splitlines()) == 1


def test_an_option_is_blamed_for_its_own_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traceanalyzer.toml").write_text('ignore = ["occupancy-low"]\n')
    for option in ("--select", "--ignore"):
        run = call("report", TRAINING, "-q", option, "nope")
        assert run.code == 2
        assert run.err.startswith(f"traceanalyzer: {option}: unknown rule nope; ")


def test_the_list_in_other_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    english = call("rules").out
    russian = call("rules", "--lang", "ru")
    assert (russian.code, russian.err) == (0, "")
    assert [line.split()[0] for line in russian.out.splitlines()] == [rule.id for rule in builtin()]
    assert "Шаги ждут DataLoader" in russian.out
    assert "Steps wait for the DataLoader" in english
    Path("traceanalyzer.toml").write_text('language = "ru"\nignore = ["occupancy-low"]\n')
    settled = call("rules").out
    assert settled.count("(отключено)") == 1
    assert settled.replace("  (отключено)", "") == russian.out


def test_the_page_of_a_rule_has_its_head_in_other_languages() -> None:
    shown = call("rules", "dataloader-bound", "--lang", "zh").out
    assert shown.startswith("dataloader-bound: 训练 step 在等 DataLoader\n")
    assert "阈值" in shown
    assert "The program waits for its DataLoader while the GPU does nothing." in shown


def test_severities_are_words_of_the_language() -> None:
    listed = call("rules", "--lang", "zh").out
    assert "dataloader-bound              低到严重    训练 step 在等 DataLoader\n" in listed
    assert "memory-headroom               提示" in listed
    assert "严重程度：低到严重。" in call("rules", "dataloader-bound", "--lang", "zh").out
    assert "dataloader-bound              low to critical     Steps wait" in call("rules").out
