"""Help is fast and complete: it imports no library, and shows how every command is called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.running import FIXTURES, assert_one_line, call, spawn
from traceanalyzer.cli import COMMANDS

HEAVY = ("numpy", "rich", "jinja2", "babel", "matplotlib", "msgspec", "pandas", "torch", "asyncio", "multiprocessing")
IMPORTS = """
import sys
sys.argv = ["traceanalyzer", *sys.argv[1:]]
try:
    from traceanalyzer.cli import main
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def imported(*arguments: str | Path) -> set[str]:
    """Top-level modules that a run has imported."""
    run = spawn(*arguments, program=(sys.executable, "-c", IMPORTS))
    assert run.code == 0
    return set(run.err.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("--version",)], ids=" ".join)
def test_starting_imports_no_library(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments).intersection((*HEAVY, "click"))


def test_the_help_of_a_command_imports_only_click() -> None:
    modules = imported("report", "--help")
    assert "click" in modules
    assert not modules.intersection({"pandas", "torch", "jinja2"})


def test_a_report_imports_only_what_it_needs() -> None:
    modules = imported("report", "--quiet", "--format", "json", str(FIXTURES / "synthetic" / "cpu_only.json"))
    assert {"numpy", "msgspec"} <= modules
    assert not modules.intersection({"rich", "jinja2", "pandas", "torch"})


def test_no_report_in_text_html_or_json_imports_matplotlib(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    outputs = [str(part) for name in ("report.html", "x.md", "x.json", "x.sarif") for part in ("-o", tmp_path / name)]
    trace = str(FIXTURES / "synthetic" / "gpu_training.json.gz")
    assert not imported("report", trace, "--quiet", *outputs).intersection({"matplotlib", "PIL"})
    assert "chart-memory" in page.read_text("utf-8"), "the page has a curve"
    assert "matplotlib" not in imported("report", trace, "--quiet")


def test_only_png_needs_matplotlib(tmp_path: Path) -> None:
    trace = str(FIXTURES / "synthetic" / "gpu_training.json.gz")

    def modules(form: str) -> set[str]:
        charts = tmp_path / form
        return imported(
            *("report", trace, "--quiet", "-o", tmp_path / f"{form}.md", "--card", tmp_path / f"card.{form}"),
            *("--assets", charts, "--assets-format", form),
        )

    assert not modules("svg").intersection({"matplotlib", "PIL"})
    assert list((tmp_path / "svg").glob("*.svg"))
    assert "matplotlib" in modules("png")
    assert list((tmp_path / "png").glob("*.png"))


THREADS = """
import os, sys
sys.argv = ["traceanalyzer", *sys.argv[1:]]
from traceanalyzer.cli import ONE_THREAD, main
del os.environ[ONE_THREAD[0]]  # which the tests have set
try:
    main()
finally:
    print(os.environ.get(ONE_THREAD[0]), "numpy" in sys.modules and len(os.listdir("/proc/self/task")), file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the threads of a process")
def test_numpy_starts_no_threads_for_a_report() -> None:
    run = spawn(
        *("report", "--quiet", "--format", "json", str(FIXTURES / "synthetic" / "cpu_only.json")),
        program=(sys.executable, "-c", THREADS),
    )
    assert run.err.splitlines()[-1] == "1 1"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the threads of a process")
def test_a_program_that_is_recorded_keeps_its_environment() -> None:
    run = spawn("capture", "--help", program=(sys.executable, "-c", THREADS))
    assert run.err.splitlines()[-1].split()[0] == "None"


def test_no_memory_for_an_import_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "traceanalyzer.cli.rules":
                raise MemoryError

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "traceanalyzer.cli.rules", raising=False)
    assert "memory" in assert_one_line(call("rules"))


def test_the_package_alone_imports_nothing() -> None:
    code = "import sys, traceanalyzer; dir(traceanalyzer); print(*sys.modules)"
    run = spawn(program=(sys.executable, "-c", code))
    assert run.code == 0
    assert not set(run.out.split()).intersection((*HEAVY, "click"))


# What the help says


def help_of(*command: str) -> list[str]:
    run = call(*command, "--help")
    assert (run.code, run.err) == (0, "")
    return run.out.splitlines()


def examples(lines: list[str]) -> list[str]:
    """Lines that show a call: indented, and the program's name in them."""
    return [line.strip() for line in lines if line.startswith("    ") and "traceanalyzer " in line]


def test_help_lists_every_command() -> None:
    lines = help_of()
    for name, summary in COMMANDS.items():
        assert any(line.split(maxsplit=1) == [name, summary] for line in lines)


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)], ids=" ".join)
def test_help_shows_examples_on_lines_of_their_own(command: tuple[str, ...]) -> None:
    lines = help_of(*command)
    found = examples(lines)
    assert found
    assert not [line for line in lines if "\\b" in line], "click's mark for a paragraph that is not wrapped"
    assert any(f"traceanalyzer {' '.join(command)}" in example for example in found)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    text = "\n".join(help_of(command)).partition("Options:\n")[2]
    options = [part for part in text.split("\n  -") if part.strip()]
    assert options
    for option in options:
        assert len(option.split()) >= 4, option


def test_the_summary_in_the_list_is_the_first_sentence_of_the_command() -> None:
    for name, summary in COMMANDS.items():
        assert summary.rstrip(".") in " ".join(help_of(name))


def test_help_needs_no_more_than_80_columns() -> None:
    for command in ((), *((name,) for name in COMMANDS)):
        assert max(map(len, help_of(*command))) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_exit_codes(command: str) -> None:
    text = "\n".join(help_of(command))
    codes = text.partition("Exit codes:\n")[2].partition("\n\n")[0]
    assert "2    " in codes
    assert len(codes.splitlines()) >= 2


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where a library cannot be imported for it."""

    def fail(_: list[str]) -> None:
        raise MemoryError

    monkeypatch.setattr("traceanalyzer.cli.program.run", fail)
    assert assert_one_line(call("rules")) == (
        "traceanalyzer: there is not enough memory; close other programs, cut the trace (traceanalyzer trim), "
        "or use --jobs 1\n"
    )
