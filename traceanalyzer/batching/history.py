"""The history of runs: a table to which each batch adds one row a run, as Parquet or CSV.

A row says what a step took and what bounded it. The same run is the same row: what a later batch says replaces it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer import output
from traceanalyzer._version import __version__
from traceanalyzer.batching import summary
from traceanalyzer.batching.overview import RunRow
from traceanalyzer.errors import UnusableInputError, UsageError

SUFFIXES = (".parquet", ".csv")
_OWN_NUMBER = re.compile(r"(?<![A-Za-z\d])\d+(?![A-Za-z])")
"""A number that is no part of a word: of a date, a counter or a process, not of `resnet50` or `8B`."""


class HistoryRow(msgspec.Struct, frozen=True):
    """One run; null is unknown. The fields are the columns of the file."""

    name: str
    """Name of the run in its batch."""
    recorded_ns: int | None
    """When the recording began, in ns since 1970, by the clock of its host."""
    step_ns: float | None
    """Duration of the typical step."""
    step_durations_ns: tuple[int, ...]
    """Durations of the first typical steps; of several ranks means over them."""
    bound: str | None
    """What bounds the step, as in `report.model.Headline`."""
    busy_share: float | None
    """Share of the typical step in which something runs on a GPU."""
    saving_low_ns: float | None
    """What all fixes save together per step, at least."""
    saving_high_ns: float | None
    """The same, at most."""
    framework: str | None
    """Id of the framework."""
    device: str | None
    """Name of the first accelerator."""
    devices: int | None
    """GPUs that ran a kernel."""
    ranks: int
    """Number of files of the run."""
    version: str
    """Version of the program that analyzed it."""

    @property
    def series(self) -> tuple[str, str, int]:
        """What runs of one program have in common: the name but for dates and counters, the GPU, the ranks."""
        return _OWN_NUMBER.sub("*", self.name), self.device or "", self.ranks


_COLUMNS = HistoryRow.__struct_fields__


def row_of(run: RunRow, recorded_ns: int | None) -> HistoryRow:
    """The row of a run; `recorded_ns` is used where its traces do not say when they were recorded."""
    combined = run.row.combined
    saving = combined.wall_ns_per_step if combined else (None, None)
    return HistoryRow(
        name=run.name,
        recorded_ns=recorded_ns if run.recorded_ns is None else run.recorded_ns,
        step_ns=run.mean_step_ns,
        step_durations_ns=run.row.step_durations_ns if run.mean_step_ns is not None else (),
        bound=run.row.bound,
        busy_share=run.busy_share,
        saving_low_ns=saving[0],
        saving_high_ns=saving[1],
        framework=run.row.framework,
        device=run.row.device_name,
        devices=run.devices,
        ranks=run.files,
        version=__version__,
    )


def read(path: Path) -> list[HistoryRow]:
    """The rows of a file; none if there is no file yet.

    Raises:
        UsageError: The suffix is of neither format.
        MissingDependencyError: The file is Parquet and pyarrow is not installed.
        UnusableInputError: The file cannot be read, or is no history.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: a history is a file that ends in {' or '.join(SUFFIXES)}")
    decode = _from_csv if path.suffix.lower() == ".csv" else _from_parquet()
    if not path.exists():
        return []
    try:
        return msgspec.convert(decode(path.read_bytes()), list[HistoryRow], strict=False)  # CSV has texts
    except OSError as error:
        raise UnusableInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        reason = " ".join(str(error).split())
        raise UnusableInputError(f"{path}: is no history of this program: {reason}; choose another file") from None


def append(path: Path, runs: Iterable[HistoryRow]) -> list[HistoryRow]:
    """Add runs to a file, which is replaced as a whole or not at all. Returns all rows in the order of time.

    Raises:
        OutputError: The file cannot be written.
        The errors of `read`.
    """
    rows = {(row.name, row.recorded_ns): row for row in (*read(path), *runs)}
    ordered = sorted(rows.values(), key=lambda row: (row.recorded_ns or 0, row.name))
    encode = _to_csv if path.suffix.lower() == ".csv" else _to_parquet
    data = encode(ordered)
    with output.writing(path, force=True) as file:  # `read` has refused what is no history
        file.write(data)
    return ordered


def _to_csv(rows: list[HistoryRow]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        cells = {**msgspec.structs.asdict(row), "step_durations_ns": " ".join(map(str, row.step_durations_ns))}
        writer.writerow(summary.inert(cells[name]) for name in _COLUMNS)
    return text.getvalue().encode("utf-8", "replace")


def _from_csv(data: bytes) -> list[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(data.decode(), newline=""))
    found = [{name: row[name] or None for name in _COLUMNS} for row in rows]
    return [
        {
            **row,
            "name": (row["name"] or "").removeprefix("'"),
            "step_durations_ns": (row["step_durations_ns"] or "").split(),
        }
        for row in found
    ]


def _schema(pyarrow: Any) -> Any:
    whole, number, text = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
    kinds = {"step_durations_ns": pyarrow.list_(whole)}
    kinds |= dict.fromkeys(("recorded_ns", "devices", "ranks"), whole)
    kinds |= dict.fromkeys(("step_ns", "busy_share", "saving_low_ns", "saving_high_ns"), number)
    return pyarrow.schema([(name, kinds.get(name, text)) for name in _COLUMNS])


def _to_parquet(rows: list[HistoryRow]) -> bytes:
    arrow = summary.arrow("history")
    data = io.BytesIO()
    schema = _schema(arrow.core)
    with arrow.parquet.ParquetWriter(data, schema) as writer:
        if rows:
            writer.write_table(arrow.table(schema, map(msgspec.structs.asdict, rows)))
    return data.getvalue()


def _from_parquet() -> Callable[[bytes], list[dict[str, Any]]]:
    arrow = summary.arrow("history")

    def decode(data: bytes) -> list[dict[str, Any]]:
        table = arrow.parquet.read_table(io.BytesIO(data), columns=list(_COLUMNS))
        columns = {name: table.column(name).to_pylist() for name in _COLUMNS}
        return [dict(zip(_COLUMNS, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]

    return decode
