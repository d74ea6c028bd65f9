"""The commands that are run on a damaged file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.mutation.bases import FIXTURES, Kind

FILE = "{file}"
"""Placeholder for the damaged file; its folder is the working directory."""

REPORT = "report.json"
"""Written beside what is asked for, so that the campaign sees whether a rule failed."""

_SOUND = {
    "trace": FIXTURES / "synthetic" / "gpu_training.json.gz",
    "rank": FIXTURES / "synthetic" / "ddp_nccl.json.gz",
    "table": FIXTURES / "key_averages" / "torch213_shapes_flops.txt",
}


@dataclass(frozen=True)
class Command:
    """Arguments of the tool, and the exit codes that are allowed."""

    arguments: tuple[str, ...]
    codes: frozenset[int] = frozenset({0, 2})


def _plain(*arguments: str) -> Command:
    return Command(arguments)


_REPORTS = (
    _plain("report", FILE, "-o", REPORT),
    _plain("report", FILE),
    _plain("report", FILE, "-o", "r.html", "-o", REPORT),
    _plain("report", FILE, "-o", "r.md", "-o", REPORT, "--lang", "ru"),
    _plain("report", FILE, "-o", "r.xlsx", "-o", REPORT),
    _plain("report", FILE, "-o", "tables", "--format", "csv"),
    _plain("report", FILE, "--format", "sarif", "-o", "-", "--lang", "zh"),
    _plain("report", FILE, "-o", "r.md", "--assets", "charts", "-o", REPORT),
)
_TRACE = (
    *_REPORTS,
    *_REPORTS,
    _plain("report", FILE, "-o", "t.txt", "--group-by-input-shape"),
    _plain("export", FILE, "-o", "t.txt", "--sort-by", "cpu_time_total"),
    _plain("export", FILE, "-o", "t.speedscope.json", "-o", "t.collapsed", "-o", "tracks/"),
    _plain("report", FILE, "--skip-warmup", "1", "-o", REPORT),
    _plain("diff", FILE, str(_SOUND["trace"])),
    _plain("diff", str(_SOUND["trace"]), FILE, "-o", "d.md", "-o", "d.json"),
    Command(("diff", FILE, str(_SOUND["rank"]), "--fail-on-regression", "3%"), frozenset(range(4))),
    _plain("ranks", FILE, str(_SOUND["rank"]), "-o", REPORT),
    _plain("ranks", FILE, FILE),
    _plain("trim", FILE, "-o", "trimmed.json", "--time", "0:5"),
    _plain("trim", FILE, "-o", "trimmed.json.gz", "--steps", "1:2"),
    _plain("anonymize", FILE, "-o", "anonymous.json"),
    _plain("anonymize", FILE, "-o", "anonymous.json.gz", "--hash-kernels"),
)
_BATCH = Command(
    ("batch", FILE, str(_SOUND["rank"]), "-o", "out", "--jobs", "1", "--format", "json"), frozenset({0, 1, 2})
)

COMMANDS: Mapping[Kind, Sequence[Command]] = {
    "trace": _TRACE,
    "table": (
        *_REPORTS,
        _plain("diff", f"{FILE}#run-1", str(_SOUND["table"])),
        _plain("diff", str(_SOUND["table"]), FILE, "-o", "d.json"),
        _plain("ranks", FILE),
        _plain("trim", FILE, "-o", "trimmed.json", "--time", "0:5"),
    ),
    "report": (
        _plain("render", FILE),
        _plain("render", FILE, "-o", "r.html"),
        _plain("render", FILE, "-o", "r.md", "--lang", "ru"),
        _plain("render", FILE, "-o", "r.xlsx"),
        _plain("render", FILE, "-o", "r.json"),
        _plain("render", FILE, "--format", "sarif", "-o", "-"),
        _plain("diff", FILE, str(_SOUND["trace"]), "-o", "d.json", "-o", "d.md"),
        Command(("diff", str(_SOUND["rank"]), FILE, "--fail-on-regression", "3%"), frozenset(range(4))),
        _plain("ranks", FILE, str(_SOUND["rank"])),
        _plain("report", FILE),
    ),
    "difference": (
        _plain("render", FILE, "-o", "-", "--format", "markdown"),
        _plain("diff", FILE, FILE),
        _plain("report", FILE),
    ),
    "settings": (
        Command(("report", str(_SOUND["trace"]), "-o", REPORT), frozenset({0, 1, 2})),
        Command(("report", str(_SOUND["trace"])), frozenset({0, 1, 2})),
        Command(("ranks", str(_SOUND["rank"])), frozenset({0, 1, 2})),
        _plain("rules"),
        _plain("rules", "dataloader-bound"),
        _plain("diff", str(_SOUND["trace"]), str(_SOUND["trace"])),
    ),
    "log": (
        _plain("report", FILE),
        _plain("report", FILE, "-o", "r.html", "-o", REPORT),
        _plain("report", str(_SOUND["trace"]), "--compile-log", FILE, "-o", REPORT),
        _plain("diff", FILE, str(_SOUND["trace"])),
    ),
}

_BATCHES = 0.03
"""Share of batches, which is small because each starts processes."""


def choose(rng: random.Random, kind: Kind) -> Command:
    """A command for a file."""
    if kind in ("trace", "table", "log") and rng.random() < _BATCHES:
        return _BATCH
    return rng.choice(COMMANDS[kind])


def named(command: Command, name: str) -> list[str]:
    """The arguments with the file's name in place."""
    fill: Callable[[str], str] = lambda argument: argument.replace(FILE, name)  # noqa: E731
    return [fill(argument) for argument in command.arguments]
