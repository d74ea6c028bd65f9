"""Hostile names through every command that prints, in every format, to a terminal and to files."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.builders import TraceBuilder, distributed_info
from tests.cli import running
from tests.cli.running import Run
from tests.formats import readback
from traceanalyzer import formats
from traceanalyzer.cli import main
from traceanalyzer.cli.report import FORMATS
from traceanalyzer.formats import difference, what_if

NAMES = (
    "\x1b[2Jclear",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x9b31mred",
    "\u202etxt.exe\u2066",
    "two\nlines\r\n# heading",
    "nul\x00 back\x08 vertical\x0b next\x85",
    "<img src=x onerror=alert(1)>",
    '=HYPERLINK("http://evil.example","x")',
    "@SUM(1+1)",
    "[x](javascript:alert(1)) **bold** `code`",
    "[bold red]rich[/]",
)
FILE = "\x1b]52;c;eA==\x07\u202e\x9b31m\n<b>=1+1.json"
"""A file name that an archive may bring."""
KINDS = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
BAR = re.compile(r"\x1b\[(?:\?25[lh]|[12]?[AK]|[0-9;]*m)|\r")
"""What a progress bar writes: it hides the cursor and clears its own line."""
HARMLESS = {"\n", "\u200b"}  # Markdown breaks up links with the second one


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def hostile(path: Path, *, rank: int | None = None, slower: int = 0) -> Path:
    """A trace in which steps, operators, kernels, modules, lines, threads and devices have hostile names."""
    info = None if rank is None else distributed_info(rank, 2, NAMES[1])
    trace = TraceBuilder(options=("record_shapes",), distributed=info, trace_name=NAMES[2], process=NAMES[0])
    for number in range(1, 7):
        start = number * 10_000
        trace.step(number, start, 9_000)
        for place, name in enumerate(NAMES):
            at = start + 10 + 700 * place
            trace.annotation(name, at, 650)
            trace.python_function(f"{name}.py(12): {name}", at + 1, 640)
            trace.module(name, at + 2, 630)
            trace.op(name, at + 10, 200, shapes=[[8, 8], [name]], types=[name, name])
            trace.launch_kernel(name, at + 100, 300 + slower, at=at + 20)
            trace.op("aten::mm", at + 420, 50, shapes=[[8, 8], [8, 8]])
            trace.launch_kernel("ampere_sgemm_64x64_nn", at + 500, 100, at=at + 430)
    path.parent.mkdir(parents=True, exist_ok=True)
    return trace.write(path)


def controls(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) in KINDS} - HARMLESS


def on_a_terminal(*arguments: str | Path) -> Run:
    """Run in this process; standard output and error are terminals."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {
        "argv": ["traceanalyzer", *map(str, arguments)],
        "stdout": Terminal(out, encoding="utf-8", write_through=True),
        "stderr": Terminal(err, encoding="utf-8", write_through=True),
    }
    code = 0
    with mock.patch.multiple(sys, **streams):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Run(code, out.getvalue(), err.getvalue())


def check(run: Run, code: int = 0) -> Run:
    """Neither stream of a run says anything to a terminal but colours, and what a bar does to its own line."""
    found = controls(COLOURS.sub("", run.out)), controls(BAR.sub("", run.err))
    assert (run.code, *found) == (code, set(), set()), run.err[-300:]
    return run


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    return hostile(tmp_path / "given" / FILE)


TEXTS = tuple(form for form in FORMATS if form not in formats.BINARY)


@pytest.mark.parametrize("form", TEXTS)
def test_reports(form: str, trace: Path, tmp_path: Path) -> None:
    shown = check(on_a_terminal("report", trace, "--format", form))
    assert "evil.example" in shown.out or form in ("terminal", "html", "sarif")
    file = tmp_path / "written"
    assert running.call("report", trace, "--format", form, "-o", file).code == 0
    check_file(form, file.read_text("utf-8"))


def check_file(form: str, text: str) -> None:
    if form in ("json", "speedscope", "sarif"):
        assert controls(text) == set() or form == "json"  # a report's JSON holds names as they are
        text = json.dumps(json.loads(text))
    assert controls(text) == set()
    if form == "html":
        assert "<img src=x" not in text
    if form == "markdown":
        tokens = readback.inline(text)
        assert not [token.content for token in tokens if token.type == "html_inline" and "<img" in token.content]
        assert not [link for token in tokens if re.search("evil|javascript", link := str(token.attrs.get("href", "")))]


@pytest.mark.parametrize("form", difference.FORMATS)
def test_differences(form: str, trace: Path, tmp_path: Path) -> None:
    other = hostile(tmp_path / "other" / FILE, slower=200)
    check(on_a_terminal("diff", trace, other, "--format", form))
    assert running.call("diff", trace, other, "--format", form, "-o", tmp_path / "written").code == 0
    check_file(form, (tmp_path / "written").read_text("utf-8"))


@pytest.mark.parametrize("form", what_if.FORMATS)
def test_predictions(form: str, trace: Path, tmp_path: Path) -> None:
    for edits in ((), ("--free", "gpu"), ("--speedup", f"kernel:{NAMES[1]}=2"), ("--gone", f"operator:{NAMES[3]}")):
        check(on_a_terminal("whatif", trace, *edits, "--format", form))
        file = tmp_path / "written"
        assert running.call("whatif", trace, *edits, "--format", form, "-o", file, "--force").code == 0
        check_file(form, file.read_text("utf-8"))


@pytest.mark.parametrize("form", [form for form in formats.FORMATS if form != "sarif"])
def test_ranks_and_saved_reports(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for rank in (0, 1):
        hostile(tmp_path / "run" / f"rank{rank}.json", rank=rank)
    check(on_a_terminal("ranks", "run", "--format", form))
    assert running.call("ranks", "run", "-o", "saved.json", "-o", "ranks.md", "-o", "ranks.html").code == 0
    check(on_a_terminal("render", "saved.json", "--format", form))
    check_file("markdown", Path("ranks.md").read_text("utf-8"))
    check_file("html", Path("ranks.html").read_text("utf-8"))


def cells(folder: Path) -> Iterator[str]:
    """The cells of all CSV files of a folder that are no numbers."""
    for file in folder.glob("*.csv"):
        for row in csv.reader(io.StringIO(file.read_text("utf-8"))):
            yield from (cell for cell in row if not re.fullmatch(r"-?[0-9.]+(?:e[-+][0-9]+)?", cell))


def test_spreadsheets(trace: Path, tmp_path: Path) -> None:
    assert running.call("report", trace, "-o", "tables", "--format", "csv").code == 0
    found = set(cells(tmp_path / "tables"))
    assert "'@SUM(1+1)" in found
    assert {cell for cell in found if cell.startswith(("=", "+", "-", "@")) and len(cell) > 1} == set()
    assert {character for cell in found for character in controls(cell)} == set()
    assert running.call("report", trace, "-o", "tables.xlsx").code == 0
    with zipfile.ZipFile("tables.xlsx") as book:
        sheets = {name: book.read(name).decode() for name in book.namelist() if name.startswith("xl/work")}
    assert sheets
    assert not [name for name, sheet in sheets.items() if "<f>" in sheet]  # formulas


def test_batches(trace: Path, tmp_path: Path) -> None:
    broken = trace.with_name(f"broken {FILE}")
    broken.write_text('{"traceEvents": [{"ph": "X", "name": "\\u001b]52;c;eA==\\u0007', "utf-8")
    trace.with_name(f"else {FILE}").write_text("\x1b]52;c;eA==\x07 [", "utf-8")
    run = check(on_a_terminal("batch", trace.parent, "-o", "out", "--jobs", "1", "--format", "markdown"), 1)
    assert "1 analyzed, 2 failed" in run.err
    check(running.call("batch", trace.parent, "-o", "other", "--jobs", "1", "--format", "json", "-q"), 1)
    pages = {path.suffix: path for path in (tmp_path / "out").iterdir() if path.is_file() and path.stem == "index"}
    assert pages.keys() >= {".html", ".md"}
    assert "<b>" not in pages[".html"].read_text("utf-8").partition("<body")[2].replace("<b></b>", "")
    assert controls(pages[".html"].read_text("utf-8")) == set()
    assert controls(pages[".md"].read_text("utf-8")) == set()
    found = set(cells(tmp_path / "out"))
    assert {cell for cell in found if cell.startswith(("=", "+", "-", "@")) and len(cell) > 1} == set()
    assert {character for cell in found for character in controls(cell)} - {"\t"} == set()


def test_rewritten_traces(trace: Path, tmp_path: Path) -> None:
    check(on_a_terminal("trim", trace, "-o", f"trimmed {FILE}", "--steps", "2:3"))
    check(on_a_terminal("anonymize", trace, "-o", f"hashed {FILE}"))
    assert "evil" not in (tmp_path / f"hashed {FILE}").read_text("utf-8")


@pytest.mark.parametrize("command", ["report", "render", "ranks", "diff", "whatif", "trim", "anonymize", "batch"])
def test_errors(command: str, trace: Path) -> None:
    rest = {"diff": [trace], "trim": ["-o", "x.json", "--steps", "1:2"], "anonymize": ["-o", "x.json"]}
    for given in (f"missing {FILE}", f"{FILE}/*", f"s3:\x1b]52;c;eA==\x07{FILE}"):
        check(on_a_terminal(command, given, *rest.get(command, ["-o", f"{FILE}.md"])), 2)


@pytest.mark.parametrize(
    "arguments",
    [
        (FILE,),
        ("report", "given", f"--{FILE}"),
        ("report", "given", "--format", FILE),
        ("report", "given", "--select", FILE),
        ("report", "given", "--steps", FILE),
        ("report", "given", "--lang", FILE),
        ("report", "given", "--format", "table", "--sort-by", FILE),
        ("report", "given", "-o", f"out.{FILE}x"),
        ("whatif", "given", "--free", FILE),
        ("whatif", "given", "--free", f"operator:{FILE}"),
        ("whatif", "given", "--speedup", f"{FILE}=x"),
        ("rules", FILE),
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "replace").decode().replace("\x1b", "?")[:30],
)
@pytest.mark.usefixtures("trace")
def test_usage_errors(arguments: tuple[str, ...]) -> None:
    check(on_a_terminal(*arguments), 2)


@pytest.mark.usefixtures("trace")
def test_settings() -> None:
    Path("traceanalyzer.toml").write_text('ignore = ["\\u001b]52;c;eA==\\u0007"]\n"\\u009b31m" = 1\n', "utf-8")
    check(on_a_terminal("rules"), 2)
    check(on_a_terminal("report", "given"), 2)


def test_rules() -> None:
    assert controls(on_a_terminal("rules").out) == set()
    assert controls(on_a_terminal("rules", "dataloader-bound").out) == set()
