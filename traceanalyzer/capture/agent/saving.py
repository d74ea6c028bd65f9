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
        recording: It has stopped.
        folder: Where the trace goes; it is made if it is not there.
        rank: Of this process, for the name.
        facts: What the trace cannot know.
        project: The folder of the project, to which paths become relative.
        scratch: Where files lie until they are whole; a hidden folder beside them by default.
        with_tables: Also the tables of `key_averages()`, beside it under the same name.

    Returns:
        The trace; None if nothing was recorded, and nothing is written then.
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
