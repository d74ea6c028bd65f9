"""Every committed fixture: its path, its bytes, and its line in the table of `fixtures/README.md`."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from examples.lab.catalogue import BY_NAME

from .captured import CAPTURED, COMMANDED
from .malformed import MALFORMED, Malformed
from .saved import saved_files
from .situations import SITUATIONS, Situation

FOLDER = Path(__file__).parents[2] / "fixtures"
MAKER = "`scripts/make_fixtures.py`"
CAPTURER = "`scripts/capture_cpu_fixtures.py`"
COMMANDER = "`scripts/capture_command_fixtures.py`"
LAB = "`python -m examples.lab keep`"

_INTRODUCTION = """# Fixtures

Small traces for tests, examples and `make demo`. No file holds anybody's data: `synthetic/` and
`malformed/` are computed by {maker} from `tests/builders`, `captured/` was recorded by
{capturer} and {commander}
with torch 2.13 on a CPU and stripped of host name, paths and process numbers. So was `lab/`, which {lab}
has cut to the last steps; `lab/h200/` is from torch 2.11 on an H200. `saved/` holds what earlier versions of the
tool wrote from these fixtures; it is never written again.
All of them are the project's own work, under its licence, Apache-2.0.

{maker} also writes this page; with `--check` it fails if a file differs from what it would write.
"""


@dataclass(frozen=True)
class Fixture:
    """One file in the folder."""

    path: str
    """Below `fixtures/`, with forward slashes."""
    shows: str
    expect: str
    made_by: str
    build: Callable[[], bytes] | None
    """Computes what the script writes; None: another script recorded the file."""

    @property
    def content(self) -> bytes | None:
        """What the script writes, if it does."""
        return self.build() if self.build is not None else None

    def matches(self, stored: bytes) -> bool:
        """Whether stored bytes are this fixture; two compressions of the same text are the same."""
        content = self.content
        if content is None or stored == content:
            return True
        both_compressed = self.path.startswith("synthetic/") and self.path.endswith(".gz")
        return both_compressed and gzip.decompress(stored) == gzip.decompress(content)


def fixtures() -> Iterator[Fixture]:
    """All fixtures in the order of the table."""
    yield from map(_synthetic, SITUATIONS)
    yield from map(_malformed, MALFORMED)
    for capture in CAPTURED:
        trace, tables = capture.files
        yield Fixture(f"captured/{trace}", capture.shows, capture.expect, CAPTURER, None)
        shows = f"`key_averages()` tables of the profile behind `{trace}`."
        expect = "the same operators and times as in the trace"
        yield Fixture(f"captured/{tables}", shows, expect, CAPTURER, None)
    for command in COMMANDED:
        yield Fixture(f"captured/{command.file}", command.shows, command.expect, COMMANDER, None)
    for folder in (FOLDER / "lab", FOLDER / "lab" / "h200"):
        yield from map(_of_the_lab, sorted(folder.glob("*.json.gz")))
    for saved in saved_files():
        path = f"saved/{saved.version}/{saved.name}"
        yield Fixture(path, saved.shows, saved.expect, f"version {saved.version}", None)


def _synthetic(situation: Situation) -> Fixture:
    def build() -> bytes:
        data = situation.build().to_bytes(situation.layout)
        return gzip.compress(data, 9, mtime=0) if situation.suffix.endswith(".gz") else data

    shows = " ".join((situation.build.__doc__ or "").split())
    return Fixture(f"synthetic/{situation.name}{situation.suffix}", shows, situation.expect, MAKER, build)


def _of_the_lab(path: Path) -> Fixture:
    """A trace of the lab: KeyError if no fault has its name."""
    source, size, side = path.name.removesuffix(".json.gz").rsplit(".", 2)
    name, _, rank = source.partition(".rank")
    fault = BY_NAME[name]
    shows = f"{fault.fault[0].upper()}{fault.fault[1:]}." if side == "before" else f"The fix: {fault.fix}."
    where = " on a GPU" if path.parent.name != "lab" else ""
    shows += f" At the {size} size{where}{f', rank {rank}' if rank else ''}."
    return Fixture(path.relative_to(FOLDER).as_posix(), shows, "see docs/lab.md", LAB, None)


def _malformed(file: Malformed) -> Fixture:
    expect = f"{file.readable} events read" if file.usable else "no report; one line says why"
    if file.usable and file.lost:
        expect += f", {file.lost} lost"
    shows = f"{file.wrong[0].upper()}{file.wrong[1:]}."
    return Fixture(f"malformed/{file.name}", shows, expect, MAKER, lambda: file.data)


def readme(entries: Iterable[Fixture], folder: Path = FOLDER) -> bytes:
    """The page about the fixtures, with the sizes of the files in the folder."""
    lines = [_INTRODUCTION.format(maker=MAKER, capturer=CAPTURER, commander=COMMANDER, lab=LAB)]
    lines += ["| file | what it shows | what the tool must say | size | made by |", "|---|---|---|---|---|"]
    for entry in entries:
        size = _size((folder / entry.path).stat().st_size)
        lines.append(f"| {entry.path} | {entry.shows} | {entry.expect} | {size} | {entry.made_by} |")
    return ("\n".join(lines) + "\n").encode()


def _size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} kB"
