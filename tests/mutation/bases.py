"""The undamaged files, the big ones cut to a stretch of time so that thousands of cases are affordable."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import traceanalyzer
from tests.builders import compile_log
from traceanalyzer.formats.difference import answer

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"

Kind = Literal["trace", "table", "report", "difference", "settings", "log"]

_EVENTS = 1200
"""Events of a stretch: a report on it takes a fraction of a second, and most rules still have something to say."""

_WHOLE = 60_000
"""Compressed bytes up to which a trace is also damaged as a whole."""

_SETTINGS = """\
# Settings of a project
language = "ru"
format = ["html", "json"]
top = 10
fail-on = "critical"
select = ["dataloader-bound", "gpu-underutilized", "occupancy-low", "h2d-pageable"]
ignore = ["occupancy-low"]

[rules."dataloader-bound"]
exposed_share = 0.05
host_share = 1e-2

[rules.gpu-underutilized]
busy_share = 0.8
events = 20

[gpu]
name = "My accelerator"
bandwidth = 2000
bf16 = 320.5
fp32 = 1e2
"""


@dataclass(frozen=True)
class Base:
    """A file that is in order."""

    name: str
    kind: Kind
    suffix: str
    """Size in bytes of the file that a command gets, without compression."""
    make: Callable[[], bytes]
    """The uncompressed bytes of the file; may take long."""
    packed: bool = False
    """The original is compressed."""


def fixtures() -> list[Base]:
    """The files of the project itself."""
    traces = [
        *sorted((FIXTURES / "synthetic").glob("*.json*")),
        *sorted((FIXTURES / "captured").glob("*.json*")),
        *sorted((FIXTURES / "malformed").glob("*.json*")),
    ]
    tables = [file for file in sorted((FIXTURES / "key_averages").iterdir()) if file.name != "README.md"]
    return [
        *(_trace(file, f"fixtures/{file.name}") for file in traces),
        *(Base(f"fixtures/{f.name}", "table", f.suffix, f.read_bytes) for f in tables),
        *(Base(f"fixtures/report-of-{f.name}", "report", ".json", partial(_report, f)) for f in _REPORTED),
        Base("fixtures/compile.log", "log", ".log", _log),
        Base("fixtures/difference", "difference", ".json", _difference),
        Base("traceanalyzer.toml", "settings", ".toml", _SETTINGS.encode),
        Base("pyproject.toml", "settings", ".toml", _in_pyproject),
    ]


def shared(folder: Path) -> list[Base]:
    """Real traces, tables and logs of the shared corpus."""
    traces = [*sorted((folder / "corpus").glob("*.json.gz")), *sorted((folder / "field").rglob("*.json.gz"))]
    tables = [*sorted((folder / "documents").glob("*.txt")), *sorted((folder / "field" / "serving").glob("*.txt"))]
    logs = sorted((folder / "field" / "compile").glob("*.log*"))
    return [
        *(_trace(file, f"cut/{file.name}") for file in traces),
        *(Base(f"whole/{f.name}", "trace", ".json", partial(_text, f), True) for f in traces if _is_small(f)),
        *(Base(f"documents/{f.name}", "table", ".txt", f.read_bytes) for f in tables),
        *(Base(f"corpus/report-of-{f.name}", "report", ".json", partial(_report, f)) for f in traces if _is_small(f)),
        *(Base(f"compile/{f.name}", "log", ".log", partial(_text, f), f.suffix == ".gz") for f in logs),
    ]


_REPORTED = (
    FIXTURES / "synthetic" / "planted_faults.json.gz",
    FIXTURES / "synthetic" / "ddp_nccl.json.gz",
    FIXTURES / "captured" / "training_workers.json.gz",
    FIXTURES / "synthetic" / "cpu_only.json",
    FIXTURES / "key_averages" / "torch213_shapes_flops.txt",
    FIXTURES / "key_averages" / "article.md",
)


def _trace(file: Path, name: str) -> Base:
    return Base(name, "trace", ".json", partial(_stretch, file), file.suffix == ".gz")


def _is_small(file: Path) -> bool:
    return file.stat().st_size <= _WHOLE


def _text(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def _stretch(file: Path) -> bytes:
    """The trace, with the events of a stretch of time if it has many."""
    try:
        text = _text(file)
        trace = json.loads(text)
    except (ValueError, EOFError, OSError):
        return file.read_bytes()  # one of the damaged fixtures
    events = trace if isinstance(trace, list) else trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or len(events) <= _EVENTS:
        return text
    kept = _within(events, random.Random(file.name))
    return json.dumps(kept if isinstance(trace, list) else trace | {"traceEvents": kept}, indent=1).encode()


def _within(events: list[Any], rng: random.Random) -> list[Any]:
    """Consecutive events of a trace, with the marks around them."""
    timed = sorted(number for number in map(_start, events) if number is not None)
    first = rng.randrange(max(1, len(timed) - _EVENTS))
    begin, end = timed[first], timed[min(first + _EVENTS, len(timed)) - 1]
    return list(_touching(events, begin, end))


def _touching(events: list[Any], begin: float, end: float) -> Iterator[Any]:
    for event in events:
        start = _start(event)
        if start is None or event.get("ph") == "M":
            yield event
            continue
        is_mark = "annotation" in str(event.get("cat")) or str(event.get("name")).startswith("ProfilerStep")
        over = start + (event.get("dur") or 0) if is_mark else start
        if start <= end and over >= begin:
            yield event


def _start(event: Any) -> float | None:
    start = event.get("ts") if isinstance(event, dict) else None
    return start if isinstance(start, int | float) else None


def _report(file: Path) -> bytes:
    return traceanalyzer.render(traceanalyzer.analyze(traceanalyzer.load(file)), "json").encode()


def _log() -> bytes:
    return compile_log.whole().encode()


def _difference() -> bytes:
    first, second = (FIXTURES / "synthetic" / f"gpu_training{name}.json.gz" for name in ("", "_fed"))
    return answer(traceanalyzer.diff(first, second)).render("json").encode()


def _in_pyproject() -> bytes:
    own = _SETTINGS.replace("\n[", "\n[tool.traceanalyzer.")
    return f'[project]\nname = "training"\n\n[tool.traceanalyzer]\n{own}'.encode()
