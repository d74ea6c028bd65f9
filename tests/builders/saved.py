"""What earlier versions wrote, kept as it was written: each later version must still read and show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "saved"


VERSIONS = ("0.1.0", "0.2.0")
"""Versions with a folder; `scripts/save_version.py` writes that of the last one before it is released."""


@dataclass(frozen=True)
class SavedFile:
    """A file that a version of the program wrote."""

    name: str
    shows: str
    expect: str
    of: tuple[str, ...] = ()
    """The fixtures that it is of."""
    version: str = VERSIONS[-1]

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return FOLDER / self.version / self.name

    @property
    def id(self) -> str:
        """Version and name, for tests of each file."""
        return f"{self.version}-{self.name}"


def _of_each_version(*files: SavedFile) -> tuple[SavedFile, ...]:
    return tuple(replace(file, version=version) for version in VERSIONS for file in files)


def _report(name: str, fixture: str, use: str = "") -> SavedFile:
    """The report of a trace or document."""
    return SavedFile(f"{name}.report.json.gz", f"Report of `{fixture}`.", f"{_REPORT}{use}", (fixture,))


_REPORT = "renders in every format and language; an input of `diff`"
_DIFFERENCE = "renders in every format and language"
_SCHEMA = "nothing was removed from it or narrowed since"

_RANKS = ("captured/command_rank0.json.gz", "captured/command_rank1.json.gz")

REPORTS = _of_each_version(
    _report("gpu_training", "synthetic/gpu_training.json.gz"),
    _report("planted_faults", "synthetic/planted_faults.json.gz"),
    _report("serving_graphs", "synthetic/serving_graphs.json.gz"),
    _report("training_workers", "captured/training_workers.json.gz"),
    _report("table", "key_averages/torch213_shapes_flops.txt"),
    SavedFile(
        "ranks.report.json.gz",
        "Report of the ranks in `captured/command_rank0.json.gz` and `command_rank1`.",
        "renders in every format and language",
        _RANKS,
    ),
    _report("command_rank0", _RANKS[0], " and of `ranks`"),
    _report("command_rank1", _RANKS[1], " and of `ranks`"),
)
DIFFERENCES = _of_each_version(
    SavedFile(
        "traces.difference.json.gz",
        "From `gpu_training` to `gpu_training_fed`.",
        _DIFFERENCE,
        ("synthetic/gpu_training.json.gz", "synthetic/gpu_training_fed.json.gz"),
    ),
    SavedFile(
        "tables.difference.json.gz",
        "From `torch213_shapes_flops.txt` to `torch213_shapes_memory.txt`.",
        _DIFFERENCE,
        ("key_averages/torch213_shapes_flops.txt", "key_averages/torch213_shapes_memory.txt"),
    ),
)
SCHEMAS = _of_each_version(
    SavedFile("report.schema.json.gz", "Schema of reports.", _SCHEMA),
    SavedFile("difference.schema.json.gz", "Schema of differences.", _SCHEMA),
    SavedFile("capture.schema.json.gz", "Schema of what a capture records.", _SCHEMA),
)
TEXTS = _of_each_version(
    SavedFile(
        "texts.json.gz",
        "English texts by id.",
        "no text has other quantities under the same id: saved messages hold these",
    )
)


def saved_files() -> Iterator[SavedFile]:
    """All of them, in the order of the table of fixtures."""
    files = (*REPORTS, *DIFFERENCES, *SCHEMAS, *TEXTS)
    return iter(sorted(files, key=lambda file: VERSIONS.index(file.version)))
