"""What earlier versions wrote, kept as it was written: each later version must still read and show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "saved"


@dataclass(frozen=True)
class SavedFile:
    """A file that a version of the program wrote."""

    name: str
    shows: str
    expect: str
    version: str = "0.1.0"

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return FOLDER / self.version / self.name


_REPORT = "renders in every format and language; an input of `diff`"
_DIFFERENCE = "renders in every format and language"
_SCHEMA = "nothing was removed from it or narrowed since"

REPORTS = (
    SavedFile("gpu_training.report.json.gz", "Report of `synthetic/gpu_training.json.gz`.", _REPORT),
    SavedFile("planted_faults.report.json.gz", "Report of `synthetic/planted_faults.json.gz`.", _REPORT),
    SavedFile("serving_graphs.report.json.gz", "Report of `synthetic/serving_graphs.json.gz`.", _REPORT),
    SavedFile("training_workers.report.json.gz", "Report of `captured/training_workers.json.gz`.", _REPORT),
    SavedFile("table.report.json.gz", "Report of `key_averages/torch213_shapes_flops.txt`.", _REPORT),
    SavedFile(
        "ranks.report.json.gz",
        "Report of the ranks in `captured/command_rank0.json.gz` and `command_rank1`.",
        "renders in every format and language",
    ),
    SavedFile(
        "command_rank0.report.json.gz", "Report of `captured/command_rank0.json.gz`.", f"{_REPORT} and of `ranks`"
    ),
    SavedFile(
        "command_rank1.report.json.gz", "Report of `captured/command_rank1.json.gz`.", f"{_REPORT} and of `ranks`"
    ),
)
DIFFERENCES = (
    SavedFile("traces.difference.json.gz", "From `gpu_training` to `gpu_training_fed`.", _DIFFERENCE),
    SavedFile(
        "tables.difference.json.gz", "From `torch213_shapes_flops.txt` to `torch213_shapes_memory.txt`.", _DIFFERENCE
    ),
)
SCHEMAS = (
    SavedFile("report.schema.json.gz", "Schema of reports.", _SCHEMA),
    SavedFile("difference.schema.json.gz", "Schema of differences.", _SCHEMA),
    SavedFile("capture.schema.json.gz", "Schema of what a capture records.", _SCHEMA),
)
TEXTS = SavedFile(
    "texts.json.gz", "English texts by id.", "no text has other quantities under the same id: saved messages hold these"
)


def saved_files() -> Iterator[SavedFile]:
    """All of them, in the order of the table of fixtures."""
    yield from REPORTS
    yield from DIFFERENCES
    yield from SCHEMAS
    yield TEXTS
