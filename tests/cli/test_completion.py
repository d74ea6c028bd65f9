"""Shells complete commands, options and values; each is asked as its script asks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import ROOT, call, environment, spawn
from traceanalyzer.cli import COMMANDS
from traceanalyzer.cli.program import SHELLS
from traceanalyzer.rules.engine.selection import builtin

VARIABLE = "_TRACEANALYZER_COMPLETE"


def completed(*words: str, shell: str = "bash") -> list[str]:
    """The completions that a shell gets for the last word."""
    place = words[-1] if shell == "fish" else str(len(words))
    variables = {"COMP_WORDS": " ".join(["traceanalyzer", *words]), "COMP_CWORD": place}
    run = spawn(env={VARIABLE: f"{shell}_complete", **variables})
    assert (run.code, run.err) == (0, "")
    return run.out.splitlines()


def answered(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The completions of bash for the last word, computed in this process."""
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["traceanalyzer", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    run = call()
    assert (run.code, run.err) == (0, "")
    return run.out.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_its_script(shell: str) -> None:
    run = spawn(env={VARIABLE: f"{shell}_source"})
    assert (run.code, run.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in run.out
    assert "Usage:" not in run.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=run.stdout, check=True, timeout=60)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_completes_commands(shell: str) -> None:
    answer = "\n".join(completed("ra", shell=shell))
    assert "ranks" in answer
    assert "report" not in answer


def test_all_commands() -> None:
    assert completed("") == [f"plain,{name}" for name in COMMANDS]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--v",), ["plain,--version"]),
        (("report", "--fo"), ["plain,--format", "plain,--force"]),
        (("report", "x.json", "--format", "ht"), ["plain,html"]),
        (("report", "x.json", "--format", "s"), ["plain,sarif"]),
        (("report", "x.json", "--we"), []),
        (("export", "x.json", "--format", "s"), ["plain,speedscope"]),
        (("export", "x.json", "--we"), ["plain,--weight"]),
        (("report", "x.json", "--lang", ""), ["plain,en", "plain,ru", "plain,zh", "plain,auto"]),
        (("report", "tra"), ["file,tra"]),
        (("report", "x.json", "-o", "out/re"), ["file,out/re"]),
        (("report", "x.json", "--assets", "ch"), ["dir,ch"]),
        (("render", "rep"), ["file,rep"]),
        (("diff", "a.json", "b"), ["file,b"]),
        (("ranks", "a.json", "b"), ["file,b"]),
        (("batch", "tra"), ["file,tra"]),
        (("batch", "traces", "-o", "re"), ["dir,re"]),
        (("trim", "tra"), ["file,tra"]),
        (("anonymize", "tra"), ["file,tra"]),
        (("rules", "dataloader-b"), ["plain,dataloader-bound"]),
        (("report", "x.json", "--select", "dataloader-b"), ["plain,dataloader-bound"]),
        (("reprot", "x"), []),
    ],
    ids=" ".join,
)
def test_what_is_completed(words: tuple[str, ...], expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line for line in answered(monkeypatch, *words) if line] == expected


def test_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, "rules", "") == [f"plain,{rule.id}" for rule in builtin()]


def test_bash_completes(tmp_path: Path) -> None:
    """The script in a real shell, with the program on its path."""
    program = tmp_path / "traceanalyzer"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m traceanalyzer "$@"\n')
    program.chmod(0o755)
    script = f"""
        PATH="{tmp_path}:$PATH"
        eval "$({VARIABLE}=bash_source traceanalyzer)"
        complete -p traceanalyzer
        COMP_WORDS=(traceanalyzer re) COMP_CWORD=1
        _traceanalyzer_completion traceanalyzer
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    registered, completions = done.stdout.splitlines()
    assert "-F _traceanalyzer_completion traceanalyzer" in registered
    assert completions == "report render reproduce"


def test_a_shell_that_is_not_known() -> None:
    run = spawn(env={VARIABLE: "tcsh_source"})
    assert run.code == 2
    assert run.err.startswith(
        f"traceanalyzer: {VARIABLE}=tcsh_source: no such shell; use one of bash_source, zsh_source"
    )


def test_completions_without_a_shell() -> None:
    run = spawn(env={VARIABLE: "bash_complete"})
    assert run.code == 2
    assert len(run.err.splitlines()) == 1


def test_commands_are_completed_without_their_libraries() -> None:
    code = "import sys; from traceanalyzer.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    variables = {VARIABLE: "bash_complete", "COMP_WORDS": "traceanalyzer r", "COMP_CWORD": "1"}
    run = spawn(program=(sys.executable, "-c", code), env=variables)
    assert "plain,report" in run.out
    assert not {"numpy", "msgspec", "rich"} & set(run.err.split())
