"""What `traceanalyzer capture --report` says first of programs of many kinds, as a table in Markdown."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import traceanalyzer as ta

_PROGRAMS = Path(__file__).parents[2] / "tests" / "capture" / "programs"
_TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
_KINDS: dict[str, tuple[str, ...]] = {
    "plain": ("training.py", "40"),
    "with a trainer and accumulation": ("trainer.py",),
    "two ranks of torchrun": (*_TORCHRUN, "ranks.py"),
    "compiled optimizer": ("unseen_optimizer.py", "compiled", "40"),
    "optimizer that never steps": ("unseen_optimizer.py", "idle", "40"),
    "its own profiler, waiting": ("own_profiler.py", "{scratch}/own.json", "40", "--wait", "35"),
    "its own profiler": ("own_profiler.py", "{scratch}/own.json", "40"),
    "in a thread": ("in_a_thread.py",),
    "inference from a loader": ("inference.py",),
    "generating, compiled": ("generating.py", "60"),
    "never stepping": ("no_steps.py",),
    "Lightning": ("framework.py", "lightning"),
    "Hugging Face Trainer": ("framework.py", "transformers"),
    "Hugging Face Accelerate": ("framework.py", "accelerate"),
    "failed import": ("-c", "import no_such_module"),
    "missing file": ("missing.py",),
    "os._exit": ("-c", "import os, torch; torch.ones(2).add(1); os._exit(3)"),
    "without torch": ("-c", "print(1)"),
}
"""Arguments of Python for each kind of program."""

FAULTS = (
    "slow-dataset-compute",
    "slow-dataset-sleep",
    "no-workers",
    "preprocessing-in-step",
    "optimizer-single-tensor",
    "redundant-passes",
    "clones",
    "loop-over-elements",
    "item-logging",
    "metrics-in-python",
    "sleep-and-logging",
    "anomaly-mode",
    "broadcast-blow-up",
)
"""The faults of docs/lab.md whose predicted and measured savings belong to the table."""


def table() -> str:
    """Run every kind of program, those of frameworks only if these are installed."""
    rows = ["| program | steps | first lines |", "|---|---|---|"]
    for kind, arguments in _KINDS.items():
        if arguments[0] == "framework.py" and find_spec(arguments[1]) is None:
            continue
        sys.stderr.write(f"{kind}\n")
        with tempfile.TemporaryDirectory() as scratch:
            steps, said = _captured(arguments, Path(scratch))
        rows.append(f"| {kind} | {steps} | {said} |")
    return "\n".join(rows)


def _captured(arguments: tuple[str, ...], scratch: Path) -> tuple[str, str]:
    """What marked how many steps, and the warnings and the first paragraph of the report."""
    words = [str(_PROGRAMS / word) if word.endswith(".py") else word.format(scratch=scratch) for word in arguments]
    capture = (sys.executable, "-m", "traceanalyzer", "capture", "--report", "-q", "-o", str(scratch / "out"))
    run = subprocess.run([*capture, "--", sys.executable, *words], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    warnings = re.findall(r"^traceanalyzer: warning: (.*)", run.stderr, re.MULTILINE)
    first = re.search(r"\n\n(.+?)\n\n", run.stdout, re.DOTALL)
    below = first[1].partition("\n")[2].split() if first else []  # without the title of the first section
    said = [*warnings, *([" ".join(below)] if below else [])]
    return ", ".join(sorted(set(_steps(scratch / "out")))) or "none", "<br>".join(said).replace("|", "\\|")


def _steps(folder: Path) -> Iterator[str]:
    for path in folder.glob("*.json.gz"):
        trace = ta.load(path)
        if isinstance(trace, ta.Trace) and trace.info.capture is not None:
            facts = trace.info.capture
            yield f"{facts.steps} by {facts.steps_from}" if facts.steps_from else "the whole run"
