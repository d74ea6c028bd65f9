"""The server for programs that read: what the package's own client gets over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.builders.memory_snapshot import MemoryRecorder
from tests.cli.running import FIXTURES, ROOT, TRAINING, assert_one_line, call, environment
from tests.formats.samples import report_of
from traceanalyzer.cli.folder_tools import LONGEST, FolderTools
from traceanalyzer.config import Config
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.formats import brief

pytest.importorskip("mcp", reason="mcp is not installed")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

T = TypeVar("T")
Call = tuple[str, dict[str, Any]]
AFTER = FIXTURES / "synthetic" / "gpu_training_fed.json.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two recordings, the ranks of a run, and links; what must not be read lies beside it."""
    made = tmp_path / "open"
    (made / "sub").mkdir(parents=True)
    shutil.copyfile(TRAINING, made / "before.json.gz")
    shutil.copyfile(AFTER, made / "sub" / "after.json.gz")
    closed = tmp_path / "closed"
    closed.mkdir()
    shutil.copyfile(TRAINING, closed / "secret.json.gz")
    return made


def asked(folder: Path, calls: Sequence[Call]) -> list[tuple[bool, str]]:
    """For each call over standard input and output: whether it failed, and the text of its answer."""

    async def ask() -> list[tuple[bool, str]]:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "traceanalyzer", "mcp", str(folder)], env=environment(), cwd=ROOT
        )
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                results = [await client.call_tool(name, arguments) for name, arguments in calls]
        return [(bool(result.is_error), result.content[0].text) for result in results]  # type: ignore[union-attr]

    return ran(ask())


def ran(question: Coroutine[Any, Any, T]) -> T:
    """What a question gives, in a thread of its own: a test with a browser leaves its loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, question).result()


def tools(folder: Path) -> FolderTools:
    return FolderTools(folder, Config())


def test_each_tool_answers_over_standard_input_and_output(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    sides = {"before": "before.json.gz", "after": "sub/after.json.gz"}
    answers = asked(
        folder,
        [
            ("report", {"path": "before.json.gz"}),
            ("finding", {"path": str(folder / "before.json.gz"), "id": "dataloader-bound"}),
            ("verify", {**sides, "findings": ["dataloader-bound"]}),
            ("diff", sides),
            ("whatif", {"path": "before.json.gz", "loader": 0, "speedup": {"class:gemm": 2}}),
            ("finding", {"path": "before.json.gz", "id": "nothing"}),
            ("report", {"path": "../closed/secret.json.gz"}),
            ("report", {"path": "before.json.gz", "top": 1}),
            ("query", {"path": "before.json.gz", "sql": "select count(*) as n from kernels"}),
            ("query", {"path": "before.json.gz"}),
            ("query", {"path": "before.json.gz", "sql": "select * from read_csv('/etc/passwd')"}),
        ],
    )
    assert [failed for failed, _ in answers] == [False] * 5 + [True, True, False, False, False, True]
    texts = [text.replace("\u202f", " ") for _, text in answers]
    assert answers[0][1] == brief.render(report_of(TRAINING)).replace("gpu_training.json.gz", "before.json.gz")
    assert texts[1].startswith("<!-- traceanalyzer finding")
    assert texts[2].startswith("Outcome: confirmed\n")
    assert "Faster" in texts[3]
    assert "The step would take" in texts[4]
    assert "has no finding nothing; it has: h2d-pageable" in texts[5]
    assert "leads out of" in texts[6]
    assert len(texts[5].splitlines()) == len(texts[6].splitlines()) == 1
    assert len(json.loads(texts[7])["findings"]) == 1
    assert texts[8].split() == ["n", "---", "174", "(1", "row)"]
    assert "kernels: " in texts[9]
    assert len(texts[10].splitlines()) == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "nothing is written"


async def told_tools() -> Any:
    """The tools that a client sees."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "traceanalyzer", "mcp", "fixtures"], env=environment(), cwd=ROOT
    )
    async with Client(stdio_client(server)) as client:
        return (await client.list_tools()).tools


def test_a_client_sees_what_each_tool_is_for() -> None:
    found = {tool.name: tool for tool in ran(told_tools())}
    page = (ROOT / "docs" / "agents.md").read_text("utf-8")
    assert set(found) == set(re.findall(r"^\| `(\w+)` \| `(?:path|before)`", page, re.MULTILINE))
    for name, tool in found.items():
        assert tool.annotations.read_only_hint
        (row,) = re.findall(rf"^\| `{name}` \| (.*?) \| ", page, re.MULTILINE)
        for argument in tool.input_schema["properties"]:
            assert f"`{argument}`" in row
            assert f"{argument}: " in tool.description, "the client reads what it is"


def test_the_example_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "agents.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (printed,) = re.findall(r"it prints\n\n```\n(.*?)```", page, re.DOTALL)
    started = code.replace(
        'command="traceanalyzer", args=[', f'command={sys.executable!r}, args=["-m", "traceanalyzer", '
    )
    assert started != code
    shutil.copyfile(TRAINING, tmp_path / "before.json.gz")
    shutil.copyfile(AFTER, tmp_path / "after.json.gz")
    run = subprocess.run(
        [sys.executable, "-c", started],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert run.stdout == printed


# What a path may be


@pytest.mark.parametrize(
    "given",
    [
        "../closed/secret.json.gz",
        "sub/../../closed/secret.json.gz",
        "../open2",
        "..",
        "/etc/passwd",
        "-",
        "s3://bucket/trace.json",
        "https://example.com/trace.json",
        "file:///etc/passwd",
        "a\0b",
        "x" * 5000,
        "nothing.json",
        "*.json.gz",
        "",
        "before.json.gz#run-1/../../closed",
    ],
    ids=ascii,
)
def test_nothing_outside_is_read(folder: Path, given: str) -> None:
    open_tools = tools(folder)
    if given == "":
        assert open_tools._inside(given) == str(folder), "the folder itself"
        return
    with pytest.raises(TraceAnalyzerError):
        open_tools._inside(given)
    with pytest.raises(TraceAnalyzerError):
        open_tools.verify("before.json.gz", given)


def test_links_are_resolved_before_the_folder_is_checked(folder: Path) -> None:
    closed = folder.parent / "closed"
    (folder / "file.json.gz").symlink_to(closed / "secret.json.gz")
    (folder / "way").symlink_to(closed)
    (folder / "good.json.gz").symlink_to(folder / "before.json.gz")
    (folder / "loop").symlink_to(folder / "loop")
    for given in ("file.json.gz", "way", "way/secret.json.gz", "loop"):
        with pytest.raises(TraceAnalyzerError):
            tools(folder).report(given)
    assert json.loads(tools(folder).report("good.json.gz"))["verdicts"]


def test_links_within_a_folder_are_resolved_too(folder: Path) -> None:
    """Also those in folders to which links lead."""
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    (folder / "a" / "more").symlink_to(folder / "b")
    assert tools(folder)._inside("a") == str(folder / "a")
    (folder / "b" / "rank0.json.gz").symlink_to(folder.parent / "closed" / "secret.json.gz")
    for ask in (tools(folder).ranks, tools(folder).report):
        with pytest.raises(TraceAnalyzerError, match="leads out of"):
            ask("a")


def test_links_beside_a_trace_that_are_read_with_it_are_resolved(folder: Path) -> None:
    (folder / "before.stacks.json.gz").symlink_to(folder.parent / "closed" / "secret.json.gz")
    with pytest.raises(TraceAnalyzerError, match="leads out of"):
        tools(folder).report("before.json.gz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="only POSIX has pipes with names")
def test_a_pipe_is_no_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(TraceAnalyzerError, match="no such file"):
        tools(folder).report("pipe")


def test_no_connection_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket, "socket", refuse)
    assert tools(folder).report("before.json.gz")
    for address in ("http://127.0.0.1:1/trace.json", "s3://bucket/trace.json"):
        with pytest.raises(TraceAnalyzerError, match="only files below"):
            tools(folder).report(address)


# What it answers


def test_a_report_is_made_once_for_several_questions_and_anew_if_the_file_changes(folder: Path) -> None:
    one = tools(folder)
    first = one._report("before.json.gz")
    assert one._report("sub/../before.json.gz") is first
    shutil.copyfile(AFTER, folder / "before.json.gz")
    assert one._report("before.json.gz") is not first


def test_answers_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (tools(folder).diff("before.json.gz", "sub/after.json.gz"), tools(folder).whatif("before.json.gz")):
        assert len(text) <= LONGEST
    monkeypatch.setattr("traceanalyzer.cli.folder_tools.LONGEST", 800)
    text = tools(folder).diff("before.json.gz", "sub/after.json.gz")
    kept, left, _ = text.rsplit("\n", 2)
    assert len(kept) <= 800
    assert re.fullmatch(r"\d+ more characters are left out\.", left)


def test_ranks_snapshots_and_runs_of_documents(folder: Path) -> None:
    shutil.copytree(FIXTURES / "synthetic", folder / "all")
    assert json.loads(tools(folder).ranks("all"))["source"]["format"] == "kineto-ranks"
    shutil.copyfile(FIXTURES / "key_averages" / "article.md", folder / "notes.md")
    assert tools(folder).verify("notes.md#run-1", "notes.md#run-1").startswith("Outcome: ")
    memory = MemoryRecorder()
    memory.free(memory.alloc(20 << 20))
    memory.write(folder / "snapshot.pickle")
    assert (
        json.loads(tools(folder).diff("snapshot.pickle", "snapshot.pickle"))["source"]["format"] == "memory_snapshots"
    )
    with pytest.raises(TraceAnalyzerError, match="name a trace"):
        tools(folder).whatif("notes.md")


# How it is started


def test_without_the_package_it_says_so_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    line = assert_one_line(call("mcp", folder))
    assert line == "traceanalyzer: mcp is not installed: pip install 'torch-traceanalyzer[mcp]'\n"


def test_no_folder_is_one_line(folder: Path) -> None:
    assert "is no folder" in assert_one_line(call("mcp", folder / "before.json.gz"))


def test_it_ends_with_its_input(folder: Path) -> None:
    command = [sys.executable, "-m", "traceanalyzer", "mcp", str(folder)]
    run = subprocess.run(  # noqa: PLW1510 - its exit code is the answer
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (run.returncode, run.stdout) == (0, b"")
