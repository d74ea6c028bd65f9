"""Every command that the READMEs and docs/ show works, or is listed here with the reason why it is not run."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.builders import compile_log
from tests.builders.graph_capture import captured, model, replayed
from tests.builders.ranks import Meeting, run
from tests.capture.capturing import PATIENCE_S, needs_torch
from tests.cli.running import FIXTURES, PROGRAM, ROOT, call, spawn

READMES = sorted(ROOT.glob("README*.md"))
PAGES = [*READMES, *sorted((ROOT / "docs").rglob("*.md"))]
SHELLS = {"", "sh", "console", "text"}
"""What blocks with commands are marked with; blocks that are indented have no mark."""
_COMMAND = re.compile(r"(?:\$ )?((?:traceanalyzer|python3?|pip|make|git|torchrun|[A-Z_]+=\S+) .*)")

NOT_RUN = {
    r"pip install .*": "network: tests/test_distribution.py runs it with a package index of its own",
    r".* s3://.*": "store and cluster: tests/batching/ has both on loopback",
    r".* torchrun .*": "two processes with torch: tests/capture/ runs them",
    r"python -m examples\.lab (measure|programs|overhead|keep).*": "minutes with torch: tests/capture/test_lab.py",
    r"python -m examples\.lab score": "half a minute: make docs computes the same for docs/lab.md",
    r"python scripts/locales\.py (update|fill.*)": "writes into the checkout: tests/test_locales.py",
    r"python scripts/locales\.py (missing.*|--check)": "make docs and tests/test_locales.py run it",
    r"TORCH_TRACE=.*": "torch and a compiler: the fixture of the log is what it writes",
}
"""Commands as patterns, and why they are not run here."""
_TRAINING = """
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
"""The train.py of the commands; it ignores its arguments."""
_TORCH = re.compile(r"traceanalyzer capture .*-- ")


def commands() -> dict[str, str]:
    """Each command without its comment, and the first page that shows it."""
    found: dict[str, str] = {}
    for page in PAGES:
        for block in MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8")):
            if block.type == "code_block" or (block.type == "fence" and block.info.strip() in SHELLS):
                for line in block.content.splitlines():
                    if shown := _COMMAND.fullmatch(line.strip()):
                        command = re.sub(r"\s+#.*", "", shown[1]).strip()
                        found.setdefault(command, page.relative_to(ROOT).as_posix())
    return found


COMMANDS = commands()
SKIPPED = {command for command in COMMANDS for pattern in NOT_RUN if re.fullmatch(pattern, command)}
WITH_TORCH = sorted(command for command in COMMANDS if _TORCH.match(command) and command not in SKIPPED)
RUN = sorted(COMMANDS.keys() - SKIPPED - {*WITH_TORCH})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the commands name."""
    folder = tmp_path_factory.mktemp("files")
    before, after = (FIXTURES / "synthetic" / f"gpu_training{suffix}.json.gz" for suffix in ("", "_fed"))
    for name in ("traces", "nightly", "reports", "folder", "compile_logs", "runs/main", "runs/branch"):
        (folder / name).mkdir(parents=True)
    for name in ("trace", "before", "base", "runs/main/rank0"):
        shutil.copyfile(before, folder / f"{name}.json.gz")
    for name in ("after", "head", "runs/branch/rank0"):
        shutil.copyfile(after, folder / f"{name}.json.gz")
    for name, source in {"trace": before, "base": before, "r0": before, "head": after}.items():
        (folder / f"{name}.json").write_bytes(gzip.decompress(source.read_bytes()))
    shutil.copyfile(before, folder / "nightly" / "monday.json.gz")
    for number, rank in enumerate(run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == 2))])):
        rank.write(folder / "traces" / f"rank{number}.json.gz")
        shutil.copyfile(folder / "traces" / f"rank{number}.json.gz", folder / f"rank{number}.json.gz")
        saved = ("-o", str(folder / "reports" / f"rank{number}.json"))
        assert call("report", str(folder / f"rank{number}.json.gz"), *saved, "-q").code == 0
    shutil.copyfile(FIXTURES / "key_averages" / "article.md", folder / "profiling.md")
    for place in (folder, folder / "folder"):
        captured([("", model(2))]).write(place / "capture.json.gz")
        replayed([model(2)]).write(place / "decode.json.gz")
    for name in ("torch", "dedicated_log_torch_trace_123"):
        log = folder / "compile_logs" / f"{name}.log"
        compiled = compile_log.measured("0/0", "forward", "train.py", 17, 0.5)
        log.write_text(compiled + compile_log.broke("0/0", "train.py", 17, "why"), "utf-8")
    assert call("report", str(before), "-o", str(folder / "report.json"), "-q").code == 0
    assert call("trim", str(before), "-o", str(folder / "steps.json.gz"), "--steps", "5:7", "-q").code == 0
    assert call("diff", str(before), str(after), "-o", str(folder / "diff.json"), "-q").code == 0
    (folder / "train.py").write_text(_TRAINING, "utf-8")
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


def _words(command: str, folder: Path) -> list[str]:
    """The words of a command as a shell would pass them on."""
    words = []
    for word in shlex.split(command, posix=False):
        (bare,) = shlex.split(word)
        is_pattern = "*" in word and word == bare
        words += sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if is_pattern else [bare]
    return words


@pytest.mark.parametrize("command", RUN)
def test_a_command_works(command: str, scratch: Path) -> None:
    program, *arguments = _words(command, scratch)
    if program == "traceanalyzer" and "--open" not in arguments:
        done = call(*arguments)
    else:
        starts = PROGRAM if program == "traceanalyzer" else (sys.executable,)
        env = {"PYTHONPATH": str(ROOT), "BROWSER": "true %s"}  # no window is opened
        done = spawn(*arguments, program=starts, cwd=scratch, env=env)
    assert done.code == 0, f"{COMMANDS[command]}: {done.err}"
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
    assert list(scratch.rglob("trace_rank0_*.json.gz"))


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
