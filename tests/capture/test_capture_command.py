"""`traceanalyzer capture` around programs that have no torch: they run as if nothing were around them."""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.capturing import CAPTURE, PATIENCE_S, needs_torch
from tests.cli.running import FIXTURES, TRAINING, Run, assert_one_line, environment, spawn
from traceanalyzer.capture.launch import BOOTSTRAP

SHOWS = "import sys; print(sys.argv[1:], sys.stdin.read()); print('err', file=sys.stderr); sys.exit(5)"
ARGUMENTS = ("--steps", "9", "-o", "x", "--", "--help", "", "a b")


def shell(script: str, *options: str, cwd: Path, **env: str) -> Run:
    """A shell is not a Python interpreter, so it is not asked for torch."""
    return spawn(*options, "--", "sh", "-c", script, program=CAPTURE, cwd=cwd, env=env)


def test_streams_arguments_and_exit_code_are_the_programs(tmp_path: Path) -> None:
    script = tmp_path / "program.sh"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{SHOWS}" "$@"\n')
    script.chmod(0o755)
    alone = spawn(*ARGUMENTS, program=(str(script),), stdin=b"input")
    run = spawn("-q", "--", str(script), *ARGUMENTS, program=CAPTURE, stdin=b"input", cwd=tmp_path)
    assert (run.code, run.out) == (alone.code, alone.out)
    assert run.code == 5
    first, *ours = run.err.splitlines()
    assert [first] == alone.err.splitlines()
    assert len(ours) == 1
    assert ours[0].startswith("traceanalyzer: warning: nothing was captured")
    assert not (tmp_path / "traces").exists(), "a folder that nothing came into goes again"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_death_by_a_signal_is_128_and_its_number(tmp_path: Path, number: signal.Signals) -> None:
    assert shell(f"kill -{number.value} $$", cwd=tmp_path).code == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_to_us_reach_the_program(tmp_path: Path, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do read line || sleep 0.05; done"
    process = subprocess.Popen(
        [*CAPTURE, "--", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(PYTHONPATH=os.pathsep.join([*sys.path[:1], str(Path(__file__).parents[2])])),
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == (f"got {name}\n".encode(), 9)


def test_a_program_that_is_not_there_never_started(tmp_path: Path) -> None:
    run = spawn("--", "no-such-program", program=CAPTURE, cwd=tmp_path)
    assert "no-such-program: cannot be started" in assert_one_line(run)
    assert not list(tmp_path.iterdir())


def test_a_python_without_torch_is_not_started_and_the_install_command_is_shown(tmp_path: Path) -> None:
    """`-S` leaves site-packages out, where torch would be."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    line = assert_one_line(spawn("--", str(python), "train.py", program=CAPTURE, cwd=tmp_path))
    assert line == "traceanalyzer: torch is not installed: pip install 'torch-traceanalyzer[capture]'\n"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = assert_one_line(spawn("-o", "file/out", "--", "true", program=CAPTURE, cwd=tmp_path))
    assert "file/out: cannot be written" in line


def test_no_program_is_a_usage_error() -> None:
    assert "PROGRAM" in assert_one_line(spawn(program=CAPTURE))


def test_the_hook_gives_way_to_a_sitecustomize_that_it_hides(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    code = "import sys; print(sys.modules['sitecustomize'].__file__)"
    run = shell(f'PYTHONPATH="$PYTHONPATH:{tmp_path}" {sys.executable} -c "{code}"', cwd=tmp_path)
    assert run.out.splitlines() == ["customized", str(tmp_path / "sitecustomize.py")]


def test_without_another_sitecustomize_there_is_none(tmp_path: Path) -> None:
    code = "import sys; print('sitecustomize' in sys.modules, [e for e in sys.path if 'bootstrap' in e])"
    run = shell(f'{sys.executable} -I -c "{code}"; {sys.executable} -c "{code}"', cwd=tmp_path)
    isolated, hooked = run.out.splitlines()
    assert hooked == isolated


def test_a_program_finds_its_own_modules_instead_of_those_that_the_hook_could_use(tmp_path: Path) -> None:
    """Two modules of the standard library that nothing loads before a program begins."""
    for name in ("secrets", "statistics"):
        (tmp_path / f"{name}.py").write_text("OWN = True")
    (tmp_path / "program.py").write_text("import secrets, statistics; print(secrets.OWN, statistics.OWN)")
    assert shell(f"{sys.executable} program.py", cwd=tmp_path).out == "True True\n"


@pytest.mark.torch
@pytest.mark.parametrize("is_first", [True, False])
def test_a_program_with_modules_of_its_own_is_recorded_and_keeps_them(is_first: bool, tmp_path: Path) -> None:
    """The capture needs `secrets`; the program imports its own, before torch or after it."""
    needs_torch()
    (tmp_path / "secrets.py").write_text("OWN = True")
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "if sys.argv[1:]: import secrets\n"
        "import torch\n"
        "model = torch.nn.Linear(4, 4)\n"
        "for _ in range(20):\n"
        "    model(torch.ones(2, 4))\n"
        "import secrets; print(secrets.OWN)\n"
    )
    words = (sys.executable, "program.py", *["first"] * is_first)
    run = spawn("--", *words, program=CAPTURE, cwd=tmp_path, patience_s=PATIENCE_S)
    assert (run.code, run.out) == (0, "True\n")
    assert list(tmp_path.rglob("trace_rank0_*.json.gz")), run.err


def test_the_hook_is_valid_in_old_pythons_that_a_program_may_start() -> None:
    """Python 2 would print that it cannot import it; it has neither annotations nor f-strings."""
    parts = list(ast.walk(ast.parse((BOOTSTRAP / "sitecustomize.py").read_text("utf-8"))))
    assert not [part for part in parts if isinstance(part, ast.AnnAssign | ast.JoinedStr)]
    assert not [part for part in parts if getattr(part, "annotation", None) or getattr(part, "returns", None)]
    assert [part for part in parts if isinstance(part, ast.FunctionDef)]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module", "the program failed before it had imported torch (exit code 1)"),
        ("import os; os._exit(3)", "the program failed before it had imported torch (exit code 3)"),
        ("import os; os.kill(os.getpid(), 9)", "the program failed before it had imported torch (ended by SIGKILL)"),
        ("print(1)", "the program imported no torch"),
    ],
)
def test_programs_that_never_import_torch_are_told_apart(tmp_path: Path, code: str, why: str) -> None:
    run = shell(f'exec {sys.executable} -c "{code}"', cwd=tmp_path)
    assert run.err.splitlines()[-1] == f"traceanalyzer: warning: nothing was captured: {why}"


def test_a_program_that_is_a_python_file_is_called_with_python(tmp_path: Path) -> None:
    (tmp_path / "args.py").write_text("")
    assert "; try python args.py" in assert_one_line(spawn("args.py", program=CAPTURE, cwd=tmp_path))


def test_a_program_that_wants_torch_and_has_none_is_told_so(tmp_path: Path) -> None:
    code = "import sys; sys.path[:] = []; import torch"
    run = shell(f"{sys.executable} -c '{code}'", cwd=tmp_path)
    assert run.code == 1
    assert "pip install 'torch-traceanalyzer[capture]'" in run.err.splitlines()[-1]


def test_a_python_that_ignores_the_environment_is_explained(tmp_path: Path) -> None:
    run = shell(f"{sys.executable} -I -c 'print(1)'", cwd=tmp_path)
    assert (run.code, run.out) == (0, "1\n")
    assert "-I, -E and -S" in run.err


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [("top = 0", "top = 0"), ('language = "xx"', "language: xx"), ('ignore = ["nope"]', "ignore: unknown rule nope")],
)
def test_wrong_settings_are_told_before_the_program_starts(settings: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "traceanalyzer.toml").write_text(settings)
    run = shell("touch started", "--report", cwd=tmp_path)
    assert f"traceanalyzer: traceanalyzer.toml: {wrong}" in assert_one_line(run)
    assert not (tmp_path / "started").exists()


LEAVES = """
import json, os, pathlib, shutil, sys
settings = json.loads(os.environ["TRACEANALYZER_CAPTURE"])
for number, source in enumerate(sys.argv[1:]):
    trace = pathlib.Path(settings["folder"], f"trace_rank{number}.json.gz")
    shutil.copy(source, trace)
    pathlib.Path(settings["scratch"], f"{number}.note").write_text(json.dumps({"rank": number, "trace": str(trace)}))
sys.exit(5)
"""
"""A program that leaves what the agent in it would: traces, and notes that name them."""


def _reporting(folder: Path, *traces: Path, stdout: int = subprocess.PIPE) -> Run:
    (folder / "program.py").write_text(LEAVES)
    words = shlex.join([sys.executable, str(folder / "program.py"), *map(str, traces)])
    return spawn("--report", "--", "sh", "-c", words, program=CAPTURE, cwd=folder, stdout=stdout)


def test_a_trace_that_cannot_be_reported_on_changes_no_exit_code_and_hides_no_other(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(b"")
    run = _reporting(tmp_path, broken, TRAINING)
    assert run.code == 5
    assert "trace_rank1.json.gz: a trace of 52 ms, 1,664 events" in run.out
    assert run.err.splitlines()[-1] == "traceanalyzer: warning: trace_rank0.json.gz: is empty (0 bytes)"


def test_ranks_of_a_run_have_one_report(tmp_path: Path) -> None:
    run = _reporting(tmp_path, *sorted(FIXTURES.glob("*/command_rank*.json.gz")))
    assert run.code == 5
    assert run.out.startswith("Limited by the CPU"), run.out + run.err
    assert run.out.count("Limited by") == run.out.count("What to do next") == 1, run.out
    assert "traceanalyzer diff FOLDER OTHER" in " ".join(run.out.split())


def test_a_reader_of_the_report_that_has_gone_changes_no_exit_code(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    run = _reporting(tmp_path, TRAINING, stdout=writer)
    os.close(writer)
    assert run.code == 5
    assert run.err == "Wrote traces/trace_rank0.json.gz\n"
