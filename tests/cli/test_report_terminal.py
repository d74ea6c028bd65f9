"""Terminals and consoles: colours where they are wanted, 80 columns, poor encodings, Ctrl-C, progress."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.builders import TraceBuilder
from tests.cli.running import FIXTURES, PATIENCE_S, PROGRAM, TRAINING, call, environment, spawn
from traceanalyzer.cli import progress

STYLE = re.compile(r"\x1b\[([\d;]*)m")
FOREIGN_NAME = "ядро_核心<é>"
IMPATIENT = """
import sys
from traceanalyzer.cli import main, progress
progress.PATIENCE_S = -1
main()
"""
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from traceanalyzer.cli import main
main()
"""


@cache
def on_terminal(*arguments: str | Path, columns: int = 80, **env: str) -> str:
    """Standard output of a run whose standard output is a terminal; several tests look at the same one."""
    return _on_terminal((*PROGRAM, *map(str, arguments)), columns, "stdout", env)


def _on_terminal(command: tuple[str, ...], columns: int, stream: str, env: dict[str, str]) -> str:
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    taste = environment(**{"TERM": "xterm-256color", **env})
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: terminal}
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=taste, **streams)
    os.close(terminal)
    shown = bytearray()
    with suppress(OSError):  # the terminal goes away with the child
        while chunk := os.read(master, 65_536):
            shown += chunk
    os.close(master)
    assert child.wait(PATIENCE_S) == 0
    return shown.decode("utf-8").replace("\r\n", "\n")


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


# Colours and columns


def test_a_terminal_gets_colours_and_the_same_text() -> None:
    shown = on_terminal("report", TRAINING)
    assert STYLE.search(shown)
    bare = STYLE.sub("", shown)
    assert "\x1b" not in bare
    assert stripped(bare) == stripped(call("report", TRAINING).out)
    assert max(map(cell_len, bare.splitlines())) <= 80


def test_no_color_is_respected() -> None:
    shown = on_terminal("report", TRAINING, NO_COLOR="1")
    codes = {int(code) for style in STYLE.findall(shown) for code in style.split(";") if code}
    assert not [code for code in codes if code >= 30], "bold and dim are no colours"
    assert "Step time" in shown


def test_a_dumb_terminal_gets_no_codes() -> None:
    assert "\x1b" not in on_terminal("report", TRAINING, TERM="dumb")


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_other_widths_are_kept(columns: int) -> None:
    bare = STYLE.sub("", on_terminal("report", TRAINING, columns=columns))
    assert max(map(cell_len, bare.splitlines())) <= columns
    assert "7.1 ms" in bare, "numbers are never cut"


def test_a_wide_terminal_shows_whole_names() -> None:
    name = "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc"
    assert name in on_terminal("report", TRAINING, "--top", "5", columns=200)
    assert name not in on_terminal("report", TRAINING, "--top", "5", columns=80)


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_no_codes_without_a_terminal(form: str) -> None:
    run = spawn("report", TRAINING, "--format", form, env={"TERM": "xterm-256color", "COLORTERM": "truecolor"})
    assert run.code == 0
    assert "\x1b" not in run.out + run.err
    assert max(map(cell_len, run.out.splitlines())) <= 80 or form != "terminal"


# Encodings


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    trace = TraceBuilder(devices=())
    trace.op(FOREIGN_NAME, 0, 50)
    return trace.write(tmp_path / "foreign.json")


POOR = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.mark.parametrize("env", POOR.values(), ids=POOR.keys())
def test_a_poor_console_gets_what_it_can_show(env: dict[str, str], foreign: Path) -> None:
    run = spawn("report", TRAINING, "--top", "5", env=env)
    assert (run.code, b"Traceback" in run.stderr) == (0, False)
    assert b"##########" in run.stdout
    assert run.stdout.isascii()
    run = spawn("report", foreign, env=env)
    assert (run.code, b"Traceback" in run.stderr) == (0, False)
    assert b"????_??<" in run.stdout


@pytest.mark.parametrize("env", POOR.values(), ids=POOR.keys())
@pytest.mark.parametrize("form", ["markdown", "json"])
def test_a_document_is_utf8_on_every_console(form: str, env: dict[str, str], foreign: Path) -> None:
    """The output goes to a file or a program, where question marks would be lost names."""
    run = spawn("report", foreign, "--format", form, env=env)
    assert run.code == 0
    assert FOREIGN_NAME in run.stdout.decode("utf-8")


def test_files_are_utf8_whatever_the_locale(foreign: Path) -> None:
    target = foreign.with_name("out.json")
    assert spawn("report", foreign, "-o", target, env=POOR["C locale"]).code == 0
    assert json.loads(target.read_bytes())["analyses"]["operators"]["rows"][0]["name"] == FOREIGN_NAME


def test_errors_are_shown_on_a_poor_console(tmp_path: Path) -> None:
    run = spawn("report", tmp_path / "нет.json", env=POOR["ascii"])
    assert (run.code, run.out) == (2, "")
    assert run.err.endswith("/???.json: no such file\n")


# Ctrl-C and progress


def test_ctrl_c_ends_quietly_with_130() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "report", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stdin is not None
    # More than a pipe holds: when the write returns, the child is reading.
    child.stdin.write(b'{"traceEvents": [' + b" " * (1 << 20))
    child.stdin.flush()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert (out, err.strip()) == (b"", b"")


def progress_of(*arguments: str) -> str:
    """Standard error of a run that shows progress at once, where standard error is a terminal."""
    command = (sys.executable, "-c", IMPATIENT, "report", str(TRAINING), *arguments)
    return _on_terminal(command, 80, "stderr", {})


def test_progress_is_shown_on_a_terminal_and_cleared() -> None:
    shown = progress_of()
    assert "reading" in shown
    after = shown.rsplit("reading", 1)[1]
    assert "\x1b[2K" in after, "the line is erased"
    assert "Next: traceanalyzer report" in STYLE.sub("", after)


def test_quiet_shows_no_progress() -> None:
    assert progress_of("--quiet") == ""


def test_a_log_file_gets_no_progress() -> None:
    run = spawn("report", str(TRAINING), program=(sys.executable, "-c", IMPATIENT))
    assert run.code == 0
    assert "reading" not in run.err


def test_a_short_wait_shows_no_progress() -> None:
    shown = _on_terminal((*PROGRAM, "report", str(FIXTURES / "synthetic" / "cpu_only.json")), 80, "stderr", {})
    assert "reading" not in shown


@pytest.mark.parametrize(
    ("seconds", "events", "is_quiet", "said"),
    [
        (2.0, 10, False, "Analyzing x.json ...\n"),
        (0.0, 50_000, False, "Analyzing x.json ...\n"),
        (2.0, 50_000, True, ""),
        (0.0, 10, False, ""),
    ],
)
def test_a_file_that_takes_long_is_said_to_be_analyzed(
    seconds: float,
    events: int,
    is_quiet: bool,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress.analyzing("a/x.json", time.monotonic() - seconds, events, quiet=is_quiet)
    assert capsys.readouterr().err == said
