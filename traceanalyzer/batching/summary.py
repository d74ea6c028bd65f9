"""The summary of a batch as a table for other programs: CSV, and Parquet if pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec

from traceanalyzer.batching import overview
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.overview import File
from traceanalyzer.errors import MissingDependencyError
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.report import names

CSV, PARQUET = "summary.csv", "summary.parquet"
PAGES = (CSV, PARQUET)

_ROW_GROUP = 512

COLUMNS: tuple[tuple[str, str, Callable[[File], Any]], ...] = (
    ("format", "string", lambda file: file.row.format),
    ("size_bytes", "int64", lambda file: file.row.size_bytes),
    ("rank", "int64", lambda file: file.row.rank),
    ("world_size", "int64", lambda file: file.row.world_size),
    ("device", "string", lambda file: file.row.device_name),
    ("devices", "int64", lambda file: file.row.devices),
    ("steps", "int64", lambda file: file.row.steps),
    ("mean_step_ns", "float64", lambda file: file.row.mean_step_ns),
    ("median_step_ns", "float64", lambda file: file.row.median_step_ns),
    ("window_ns", "int64", lambda file: file.row.window_ns),
    ("busy_share", "float64", lambda file: file.row.busy_share),
    ("idle_ns", "int64", lambda file: file.row.idle_ns),
    ("exposed_communication_ns", "int64", lambda file: file.row.exposed_communication_ns),
    ("wasted_ns", "int64", lambda file: file.row.wasted_ns),
    ("bound", "string", lambda file: file.row.bound),
    ("findings", "int64", lambda file: len(file.row.advice)),
    ("first_rule", "string", lambda file: file.row.advice[0].rule if file.row.advice else None),
    ("first_saving_low_ns", "float64", lambda file: _saving(file, 0)),
    ("first_saving_high_ns", "float64", lambda file: _saving(file, 1)),
    ("warnings", "int64", lambda file: file.row.warnings),
    ("peak_bytes", "int64", lambda file: file.row.peak_bytes),
    ("report", "string", lambda file: file.outputs[0].name if file.outputs else None),
)
"""Name, type and value of the columns after `file`, `run`, `status` and `error`; docs/batch.md explains them."""

_LEADING = ("file", "run", "status", "error")


def write_csv(catalog: Catalog, folder: Folder) -> str:
    """Write one row per file, in the order of names; unknown values are empty.

    Returns:
        The name of the page.
    """
    with folder.creating(CSV) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*_LEADING, *(name for name, _, _ in COLUMNS)])
        writer.writerows([inert(value) for value in row] for row in _rows(catalog))
        text.flush()
        text.detach()
    return CSV


def write_parquet(catalog: Catalog, folder: Folder) -> str:
    """Write the rows of the CSV file as Parquet; unknown values are null.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    found = arrow("parquet")
    kinds = {"string": found.core.string(), "int64": found.core.int64(), "float64": found.core.float64()}
    fields = [(name, kinds["string"]) for name in _LEADING] + [(name, kinds[kind]) for name, kind, _ in COLUMNS]
    schema = found.core.schema(fields)
    rows = _rows(catalog)
    with folder.creating(PARQUET) as file, found.parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, _ROW_GROUP)):
            writer.write_table(found.table(schema, (dict(zip(schema.names, row, strict=True)) for row in group)))
    return PARQUET


@dataclass(frozen=True)
class Arrow:
    """The modules of pyarrow."""

    core: Any
    parquet: Any
    json: Any

    def table(self, schema: Any, rows: Iterable[Mapping[str, Any]]) -> Any:
        """A table of at least one row.

        Through JSON, because building arrays from Python lists makes pyarrow import pandas.
        """
        lines = b"\n".join(map(msgspec.json.encode, rows))
        return self.json.read_json(
            self.core.BufferReader(lines),
            self.json.ReadOptions(use_threads=False, block_size=len(lines)),
            self.json.ParseOptions(explicit_schema=schema),
        )


def arrow(extra: str) -> Arrow:
    """Import pyarrow, which an extra of this package installs.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return Arrow(*map(import_module, ("pyarrow", "pyarrow.parquet", "pyarrow.json")))
    except ImportError:
        raise MissingDependencyError("pyarrow", extra=extra) from None


def _rows(catalog: Catalog) -> Iterator[tuple[Any, ...]]:
    empty = (None,) * len(COLUMNS)
    for name, run, error, file in overview.everything(catalog):
        if file is None:
            yield (name, run, "failed", error, *empty)
        else:
            yield (name, run, "done", None, *(value(file) for _, _, value in COLUMNS))


def _saving(file: File, end: int) -> float | None:
    wall = file.row.advice[0].wall_ns if file.row.advice else None
    return wall[end] if wall else None


def inert(value: Any) -> Any:
    """Make a name harmless in spreadsheets (owasp.org, CSV Injection) and terminals; numbers stay as they are."""
    if not isinstance(value, str):
        return value
    return names.inert(names.visible(value)).replace("\r", " ")  # readers split at "\r", which is not quoted
