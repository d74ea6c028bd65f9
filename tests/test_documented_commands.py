"""Every command that the READMEs and docs/ show works, or is listed here with the reason why it is not run."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.capture.capturing import PATIENCE_S, needs_torch
from tests.cli.running import PROGRAM, ROOT, call, spawn
from tests.documented_commands import (
    COMMANDS,
    NOT_RUN,
    READMES,
    RUN,
    SKIPPED,
    WITH_TORCH,
    answers,
    words_of,
    write_files,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the commands name."""
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.fixture
def scratch(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, in which a command works."""
    folder = tmp_path / "scratch"
    shutil.copytree(files, folder)
    for name in ("fixtures", "scripts", "examples"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("command", RUN)
def test_a_command_works(command: str, scratch: Path) -> None:
    program, *arguments = words_of(command, scratch)
    if program == "traceanalyzer" and "--open" not in arguments:
        done = call(*arguments)
    else:
        starts = PROGRAM if program == "traceanalyzer" else (sys.executable,)
        env = {"PYTHONPATH": str(ROOT), "BROWSER": "true %s"}  # no window is opened
        done = spawn(*arguments, program=starts, cwd=scratch, env=env)
    assert done.code in answers(arguments), f"{COMMANDS[command]}: {done.err}"
    for name in re.findall(r"-o (\S+)", command):
        assert name == "-" or (scratch / name).exists(), name


@pytest.mark.torch
@pytest.mark.parametrize("command", WITH_TORCH)
def test_a_command_that_records_works(command: str, scratch: Path) -> None:
    needs_torch()
    shell = command.replace("-- python", f"-- {shlex.quote(sys.executable)}", 1)
    shell = shell.replace("traceanalyzer", shlex.join(PROGRAM), 1)
    env = {"PYTHONPATH": str(ROOT)}
    done = spawn(program=("sh", "-c", shell), cwd=scratch, env=env, patience_s=PATIENCE_S)
    assert done.code == 0, done.err
    recorded = list(scratch.rglob("trace_rank0_*.json.gz"))
    assert bool(recorded) is ("--light" not in command), "no device to be recorded alone is here"


@pytest.mark.torch
def test_the_lines_that_record_a_trace_work(scratch: Path) -> None:
    needs_torch()
    blocks = {
        code for page in READMES for code in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    }
    (code,) = blocks
    assert len([line for line in code.splitlines() if line.strip()]) <= 10, "short enough to copy"
    loop = "import torch\nloader = [torch.ones(4)] * 20\ntrain = lambda batch: (batch * batch).sum()\n"
    (scratch / "trace.json.gz").unlink()
    done = spawn(program=(sys.executable, "-c", loop + code), cwd=scratch, patience_s=PATIENCE_S)
    assert done.code == 0, done.err
    said = call("report", "trace.json.gz", "--format", "json", "-q").out
    assert '"aten::mul"' in said


def test_commands_are_found() -> None:
    """A pattern without matches would test nothing."""
    assert {"pip install .", "traceanalyzer whatif trace.json.gz --loader 0", "traceanalyzer rules --help"} <= set(
        COMMANDS
    )
    assert "docs/diff.md" in COMMANDS.values()
    assert len(RUN) > 4 * len(SKIPPED)


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_what_is_not_run_is_there(pattern: str) -> None:
    assert [command for command in COMMANDS if re.fullmatch(pattern, command)]
