"""The files of a batch and their states, in a scratch database, so that memory does not grow with their number.

The database vanishes with the process. Permanent results are stored as records beside the reports.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from traceanalyzer.batching import record
from traceanalyzer.inputs import rank_groups
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.inputs.rank_groups import RankFile

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -4096;
CREATE TABLE files (
  id INTEGER PRIMARY KEY, identity BLOB UNIQUE, location BLOB, name TEXT UNIQUE, size INTEGER, fingerprint TEXT,
  state TEXT, estimate INTEGER, may_be_nothing INTEGER DEFAULT 0, crashes INTEGER DEFAULT 0,
  recalled INTEGER DEFAULT 0, reason TEXT, record BLOB,
  rank INTEGER, world_size INTEGER, base_ns INTEGER, folder TEXT, run TEXT,
  wasted INTEGER, hollow INTEGER, bound TEXT, gain REAL
);
CREATE INDEX by_state ON files (state, estimate DESC, id);
CREATE INDEX by_folder ON files (folder);
CREATE INDEX by_run ON files (run);
CREATE TABLE runs (
  name TEXT PRIMARY KEY, world_size INTEGER, missing TEXT, wasted INTEGER, hollow INTEGER, outputs BLOB, row BLOB,
  gain REAL
);
CREATE TABLE advice (rule TEXT, file INTEGER, severity TEXT, title BLOB, low REAL, high REAL);
CREATE INDEX by_rule ON advice (rule);
"""

_EVERYTHING = 1 << 62
_LARGEST = (1 << 63) - 1
"""Largest integer of sqlite, which only absurd reports exceed."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A file that waits for a worker."""

    id: int
    location: str
    name: str
    size: int
    fingerprint: str
    estimate: int
    """Upper bound of the memory of its analysis in bytes."""
    may_be_nothing: bool
    """True for a text found in a folder, which counts only if it contains a table."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of files by outcome."""

    done: int
    recalled: int
    """Number of finished files that an earlier run analyzed."""
    failed: int
    left_out: int


class Catalog:
    """The database of one batch; only one thread may use it."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        database.executescript(_SCHEMA)

    def add(self, file: FoundFile, fingerprint: str) -> int | None:
        """Add a file that was found. Returns its number, or None if it was added before."""
        added = self.database.execute(
            "INSERT OR IGNORE INTO files (identity, location, name, size, fingerprint, state)"
            " VALUES (?, ?, ?, ?, ?, 'found')",
            (os.fsencode(file.identity), os.fsencode(file.location), file.name, file.size, fingerprint),
        )
        return added.lastrowid if added.rowcount else None

    def wait(self, file: int, estimate: int, *, may_be_nothing: bool) -> None:
        """Mark a file as waiting for analysis; `estimate` bounds its memory in bytes."""
        self._set(file, state="pending", estimate=estimate, may_be_nothing=may_be_nothing)

    def fail(self, file: int, reason: str) -> None:
        """Mark a file as failed; its name may still show its run and rank."""
        (name,) = self.database.execute("SELECT name FROM files WHERE id = ?", (file,)).fetchone()
        self._set(file, state="failed", reason=reason, folder=rank_groups.folder_of(RankFile(name)))

    def leave_out(self, file: int) -> None:
        """Mark a file as not an input of this program."""
        self._set(file, state="left out")

    def set_aside(self, file: int, estimate: int) -> None:
        """Mark a saved report that was found in a folder; it counts only if no other file does."""
        self._set(file, state="aside", estimate=estimate)

    def settle_saved(self) -> None:
        """Queue the saved reports that were set aside if no other file counts, or else leave them out."""
        state = "pending" if self.is_empty else "left out"
        self.database.execute("UPDATE files SET state = ? WHERE state = 'aside'", (state,))

    def finish(self, file: int, data: bytes, *, recalled: bool = False) -> bool:
        """Mark a file as done, and store the row of its record. Returns False if the record cannot be read."""
        done = record.decode(data)
        if done is None:
            return False
        row = done.row
        self._set(
            file, state="done", record=data, recalled=recalled,
            wasted=None if row.wasted_ns is None else min(row.wasted_ns, _LARGEST),
            hollow=row.is_hollow, bound=row.bound, gain=row.gain_ns,
            rank=row.rank, world_size=row.world_size, base_ns=row.base_ns,
            folder=rank_groups.folder_of(RankFile(row.name, row.rank, row.world_size, row.base_ns)),
        )  # fmt: skip
        self.database.executemany(
            "INSERT INTO advice VALUES (?, ?, ?, ?, ?, ?)",
            [
                (a.rule, file, a.severity, msgspec.json.encode(a.title), *(a.wall_ns or (None, None)))
                for a in row.advice
            ],
        )
        return True

    def suspect(self, file: int) -> bool:
        """Queue a file whose worker died, to run alone. Returns False if its worker has died before."""
        self.database.execute("UPDATE files SET state = 'suspect', crashes = crashes + 1 WHERE id = ?", (file,))
        (crashes,) = self.database.execute("SELECT crashes FROM files WHERE id = ?", (file,)).fetchone()
        return bool(crashes == 1)

    def take(self, limit: int = _EVERYTHING, *, state: str = "pending") -> Pending | None:
        """Take the largest waiting file that needs at most `limit` bytes of memory, or None if there is none."""
        row = self.database.execute(
            "SELECT id, location, name, size, fingerprint, estimate, may_be_nothing FROM files"
            " WHERE state = ? AND estimate <= ? ORDER BY estimate DESC, id LIMIT 1",
            (state, limit),
        ).fetchone()
        if row is None:
            return None
        number, location, name, size, fingerprint, estimate, may_be_nothing = row
        self._set(number, state="running")
        return Pending(number, os.fsdecode(location), name, size, fingerprint, estimate, bool(may_be_nothing))

    def waiting(self) -> tuple[int, int]:
        """Number of waiting files, and their total size in bytes."""
        files, size = self.database.execute(
            "SELECT count(*), sum(size) FROM files WHERE state IN ('pending', 'suspect')"
        ).fetchone()
        return int(files), int(size or 0)

    @property
    def is_empty(self) -> bool:
        """Whether the batch has no file that counts."""
        return (
            self.database.execute("SELECT 1 FROM files WHERE state NOT IN ('left out', 'aside') LIMIT 1").fetchone()
            is None
        )

    def counts(self) -> Counts:
        """Number of files by outcome so far."""
        row = self.database.execute(
            "SELECT sum(state = 'done'), sum(state = 'done' AND recalled), sum(state = 'failed'),"
            " sum(state = 'left out') FROM files"
        ).fetchone()
        return Counts(*(int(value or 0) for value in row))

    def failures(self) -> Iterator[tuple[str, str]]:
        """Name and error of each failed file, in the order of names."""
        yield from self.database.execute("SELECT name, reason FROM files WHERE state = 'failed' ORDER BY name")

    def left_out(self, most: int) -> Iterator[str]:
        """Yield the names of the first files that were left out, in the order of names."""
        query = "SELECT name FROM files WHERE state = 'left out' ORDER BY name LIMIT ?"
        yield from (name for (name,) in self.database.execute(query, (most,)))

    def _set(self, file: int, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self.database.execute(f"UPDATE files SET {names} WHERE id = ?", (*values.values(), file))  # noqa: S608


@contextmanager
def opened() -> Iterator[Catalog]:
    """Open a new catalog: in memory, and what does not fit there in a temporary file without a name.

    sqlite opens such a file for an empty name (https://www.sqlite.org/inmemorydb.html#temp_db). The system frees it
    when the process ends, even if it is killed.
    """
    with contextlib.closing(sqlite3.connect("", isolation_level=None)) as database:
        yield Catalog(database)
