"""What `report` makes of a folder: its only trace, or the ranks of its only run."""

from __future__ import annotations

from traceanalyzer.cli.rank_files import named
from traceanalyzer.cli.suggestions import typed
from traceanalyzer.errors import TraceAnalyzerError, UnusableInputError, UsageError
from traceanalyzer.inputs import discovery, rank_groups
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.inputs.sniffing import HEAD, FileKind, Peek, peek
from traceanalyzer.inputs.storage import open_input


def only_file(folder: str) -> str | None:
    """The only trace of a folder, or without any trace its only text with tables; None if it holds ranks of one run.

    The first bytes of the files decide.

    Raises:
        UnusableInputError: There is no trace in it.
        UsageError: There are several runs in it.
    """
    peeks = [(file, seen) for file in _files(folder) if (seen := _peek(file)) is not None]
    for kind in (FileKind.TRACE, FileKind.DOCUMENT):
        if of_kind := [(file, seen) for file, seen in peeks if seen.kind is kind]:
            return _only(folder, of_kind)
    raise UnusableInputError(
        f"{folder}: holds no trace and no text with profiler tables; for saved reports there are render and ranks"
    )


def _files(folder: str) -> list[FoundFile]:
    """Each once, however many ways lead to it."""
    return list({file.identity: file for file in discovery.find([folder])}.values())


def _peek(file: FoundFile) -> Peek | None:
    """What a file is; None if it cannot be read or is empty."""
    if file.failure is not None or not file.size:
        return None
    try:
        with open_input(file.location, HEAD) as opened:
            return peek(opened, file.name, file.size)  # folders above say nothing of a file
    except (OSError, TraceAnalyzerError):
        return None


def _only(folder: str, files: list[tuple[FoundFile, Peek]]) -> str | None:
    if len(files) == 1:
        return files[0][0].location
    found = rank_groups.group(rank_groups.RankFile(file.name, seen.rank, seen.world_size) for file, seen in files)
    if len(found) > 1:
        raise UsageError(
            f"{folder}: holds {len(found)} runs ({named(run.name for run in found)}), and report takes one: "
            f"{typed('batch', folder, '-o', 'reports/')} reports on each; "
            f"{typed('ranks')} and the files of one compares its ranks"
        )
    return None
