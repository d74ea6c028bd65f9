"""Turns a recording into files: exports, cleans and compresses it, and names complete files."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import cleaning, tracefile
from .recording import ProfilerRun

SUFFIX = ".json.gz"
TABLES_SUFFIX = ".key_averages.txt"


def save(
    recording: ProfilerRun,
    folder: Path,
    rank: int,
    facts: Mapping[str, Any],
    project: str,
    *,
    scratch: Path | None = None,
    with_tables: bool = True,
) -> Path | None:
    """Save what was recorded as a trace with its tables.

    Args:
        recording: A recording that has stopped.
        folder: Folder for the trace; created if it does not exist.
        rank: Rank of this process, for the file name.
        facts: Facts about the program that the trace lacks.
        project: Folder of the project; paths become relative to it.
        scratch: Folder for incomplete files; by default a hidden folder inside `folder`.
        with_tables: Whether to write the tables of `key_averages()` too, beside the trace and under its name.

    Returns:
        The trace; None if nothing was recorded, in which case no file is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = (scratch or folder) / f".{secrets.token_hex(8)}"
    own.mkdir()
    try:
        clean = cleaning.of_this_process(project).clean
        raw, packed = own / "raw.json", own / "packed"
        recording.export(raw)
        if not tracefile.write_trace(raw, packed, facts, clean):
            return None
        raw.unlink()
        trace = tracefile.publish(packed, folder, tracefile.stem(rank), SUFFIX)
        if with_tables:
            tables = own / "tables"
            tables.write_bytes(clean(recording.tables().encode()))
            tracefile.publish(tables, folder, trace.name.removesuffix(SUFFIX), TABLES_SUFFIX)
        return trace
    finally:
        shutil.rmtree(own, ignore_errors=True)
