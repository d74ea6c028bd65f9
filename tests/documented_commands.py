"""The commands that the READMEs and docs/ show, and a folder with the files that they name."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from tests.builders import compile_log
from tests.builders.flight_recorder import FlightRun
from tests.builders.graph_capture import captured, model, replayed
from tests.builders.memory_snapshot import MemoryRecorder
from tests.builders.ranks import Meeting, run
from tests.builders.watchdog import caught
from tests.cli.running import FIXTURES, ROOT, call
from traceanalyzer.cli.verify import CODES

READMES = sorted(ROOT.glob("README*.md"))
PAGES = [*READMES, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "skills").rglob("*.md"))]
SHELLS = {"", "sh", "console", "text"}
"""What blocks with commands are marked with; blocks that are indented have no mark."""
_COMMAND = re.compile(r"(?:\$ )?((?:traceanalyzer|python3?|pip|make|git|torchrun|[A-Z_]+=\S+) .*)")

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


def answers(arguments: Sequence[str]) -> set[int]:
    """Exit codes of a command that works: `verify` answers with one for each outcome."""
    return {0, *CODES.values()} if arguments[:1] == ["verify"] else {0}


def write_files(folder: Path) -> None:
    """Write all files that the commands name."""
    before, after = (FIXTURES / "synthetic" / f"gpu_training{suffix}.json.gz" for suffix in ("", "_fed"))
    for name in (
        "traces",
        "nightly",
        "reports",
        "folder",
        "compile_logs",
        "runs/main",
        "runs/branch",
        "runs/unchanged",
    ):
        (folder / name).mkdir(parents=True)
    for name in ("trace", "before", "base", "runs/main/rank0", "runs/unchanged/first", "runs/unchanged/second"):
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
    hung = FlightRun(4)
    hung.collective()
    hung.collective(absent=(3,))
    hung.write(folder / "dumps")
    memory = MemoryRecorder()
    memory.free(memory.alloc(20 << 20))
    for name in ("snapshot", "before", "after"):
        memory.write(folder / f"{name}.pickle")
    (folder / "logs").mkdir()
    for rank in (0, 1, 3):
        (folder / "logs" / f"rank{rank}.log").write_text(caught(rank, 77))
    (folder / "job.log").write_text("".join(caught(rank, 77) for rank in (0, 1, 3)))
    assert call("report", str(before), "-o", str(folder / "report.json"), "-q").code == 0
    assert call("trim", str(before), "-o", str(folder / "steps.json.gz"), "--steps", "5:7", "-q").code == 0
    noise = ("--noise", str(folder / "runs" / "unchanged"))
    assert call("diff", str(before), str(after), *noise, "-o", str(folder / "diff.json"), "-q").code == 0
    (folder / "train.py").write_text(_TRAINING, "utf-8")


def words_of(command: str, folder: Path) -> list[str]:
    """The words of a command as a shell would pass them on."""
    words = []
    for word in shlex.split(command, posix=False):
        (bare,) = shlex.split(word)
        is_pattern = "*" in word and word == bare
        words += sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if is_pattern else [bare]
    return words


NOT_RUN = {
    r"pip install .*": "network: tests/test_distribution.py runs it with a package index of its own",
    r".* s3://.*": "store and cluster: tests/batching/ has both on loopback",
    r".* torchrun .*": "two processes with torch: tests/capture/ runs them",
    r"python -m examples\.lab (measure|programs|overhead|keep).*": "minutes with torch: tests/capture/test_lab.py",
    r"traceanalyzer verify .* --finding ID": "ID stands for one of the findings of a report: docs/agents.md has one",
    r"python -m scripts\.named_causes.*": "minutes: tests/test_named_causes.py runs a part",
    r"python -m examples\.lab score": "half a minute: make docs computes the same for docs/lab.md",
    r"python scripts/locales\.py (update|fill.*)": "writes into the checkout: tests/test_locales.py",
    r"python scripts/locales\.py (missing.*|--check)": "make docs and tests/test_locales.py run it",
    r"TORCH_TRACE=.*": "torch and a compiler: the fixture of the log is what it writes",
}
"""Commands as patterns, and why they are not run here."""
_TORCH = re.compile(r"traceanalyzer capture .*-- ")

COMMANDS = commands()
SKIPPED = {command for command in COMMANDS for pattern in NOT_RUN if re.fullmatch(pattern, command)}
WITH_TORCH = sorted(command for command in COMMANDS if _TORCH.match(command) and command not in SKIPPED)
RUN = sorted(COMMANDS.keys() - SKIPPED - {*WITH_TORCH})
