"""Folders of small traces, good and bad, and what a batch left in a folder."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders import TraceBuilder, distributed_info
from traceanalyzer.batching import Progress, ReportOptions, Request
from traceanalyzer.batching.catalog import Counts
from traceanalyzer.batching.run import run
from traceanalyzer.inputs.storage import STATE

BAD = {
    "empty.json": b"",
    "cut_in_header.json": b'{"schemaVersion": 1, "deviceProp',
    "words.json": b"Lorem ipsum, no JSON at all",
    "trace_without_events.json": b'{"hello": 1}',
    "damaged.json.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + b"\xa5" * 40,
}
"""Files that may have been traces, by their content or name."""

TABLE = """\
---------------  ------------  ------------  ------------  ------------  ------------  ------------
           Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
---------------  ------------  ------------  ------------  ------------  ------------  ------------
       aten::mm        75.00%       3.000ms        75.00%       3.000ms       3.000ms             1
      aten::add        25.00%       1.000ms        25.00%       1.000ms       1.000ms             1
---------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 4.000ms
"""


def trace(busy: int = 40, *, rank: int | None = None, world: int = 1, base_ns: int | None = None) -> bytes:
    """A step of 100 us, of which a kernel takes some; its rank, if it has one."""
    built = TraceBuilder(
        distributed=None if rank is None else distributed_info(rank, world),
        **({} if base_ns is None else {"base_ns": base_ns}),
    )
    built.step(1, 0, 100)
    built.op("aten::mm", 5, 10)
    built.launch_kernel("ampere_sgemm_128x64_nn", 20, busy, at=8)
    return built.to_bytes()


def write(path: Path, data: bytes) -> Path:
    """Write a file and the folders above it; `.gz` is compressed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_plain = path.suffix == ".gz" and not data.startswith(b"\x1f\x8b")
    path.write_bytes(gzip.compress(data, mtime=0) if is_plain else data)
    return path


def population(folder: Path, good: int, bad: int) -> Path:
    """A tree of traces, some compressed, with bad ones between them."""
    for number in range(good):
        suffix = ".json.gz" if number % 3 == 0 else ".json"
        write(folder / f"part_{number % 7}" / f"step_{number:05}{suffix}", trace(10 + number % 60))
    damages = list(BAD.items())
    for number in range(bad):
        name, data = damages[number % len(damages)]
        write(folder / f"part_{number % 7}" / f"{number:03}_{name}", data)
    return folder


@dataclass
class Counted(Progress):
    """Remembers its messages."""

    total: tuple[int, int] = (0, 0)
    bytes: int = 0
    ended: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def begin(self, files: int, size_bytes: int) -> None:
        self.total = files, size_bytes

    def read(self, size_bytes: int) -> None:
        self.bytes += size_bytes

    def end(self, name: str, failure: str | None) -> None:
        self.ended.append(name)
        if failure is not None:
            self.failures[name] = failure

    def note(self, text: str) -> None:
        self.notes.append(text)


def batch(source: Path, target: Path, **request: object) -> tuple[Counts, Counted]:
    """Run a batch in this process; JSON only, unless options say otherwise."""
    told = Counted()
    options = request.pop("options", ReportOptions(formats=("json",)))
    asked = Request(inputs=(str(source),), output=str(target), options=options, **request)  # type: ignore[arg-type]
    return run(asked, told).counts, told


def tree(folder: Path, *, state: bool = True) -> dict[str, bytes]:
    """Every file below a folder and its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (state or STATE not in path.parts)
    }


def reports(folder: Path) -> list[str]:
    """The reports as JSON below a folder; those that wait for a count ask often."""
    return sorted(
        os.path.relpath(f"{place}/{name}", folder)
        for place, _, names in os.walk(folder)
        for name in names
        if name.endswith(".report.json")
    )
