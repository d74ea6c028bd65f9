"""What a folder, a pattern or the URL of a folder leads to, for commands that take one trace."""

from __future__ import annotations

import msgspec

from traceanalyzer.cli.suggestions import typed
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import capture_files, opening, rank_groups, sniffing
from traceanalyzer.inputs.sniffing import FileKind, SniffedFile


class FolderInput(msgspec.Struct, frozen=True):
    """What to report on, and the recordings of captures beside it."""

    inputs: tuple[str, ...]
    """One file; or what leads to the ranks of one run."""
    is_run: bool = False
    """Whether it is the ranks of one run."""
    captures: tuple[str, ...] = ()
    """Recordings that may contain the capture of the graphs that the only trace launches."""


def input_of(given: str, command: str) -> FolderInput:
    """The only trace that an input leads to; without any trace its only text with tables or its only saved report.

    The first bytes of the files decide. Recordings of the capture of graphs do not count beside other traces.

    Args:
        given: A folder, a pattern, or the URL of a folder.
        command: The command that takes one trace, for messages.

    Raises:
        UnusableInputError: There is no trace in it.
        UsageError: There are several runs in it.
    """
    seen = [sniffing.sniff(file) for file in opening.files([given])]
    files, captures = capture_files.set_apart(sniffing.that_count(seen))
    runs = _runs(files)
    if len(runs) > 1:
        files, others = capture_files.set_apart_by_content(files)
        captures += others
        runs = _runs(files)
    if len(files) == 1:
        return FolderInput((files[0].found.location,), captures=tuple(file.found.location for file in captures))
    if len(runs) > 1:
        from traceanalyzer.multirank import named  # noqa: PLC0415 - what joins ranks is for folders

        raise UsageError(
            f"{given}: contains {len(runs)} runs ({named(run.name for run in runs)}), and {command} takes one: "
            f"{typed('batch', given, '-o', 'reports/')} reports on each; "
            f"{typed('ranks')} and the files of one compares its ranks"
        )
    if files:
        return FolderInput(tuple(file.found.location for file in files) if captures else (given,), is_run=True)
    if len(seen) == 1 and seen[0].failure is not None:
        raise UnusableInputError(f"{seen[0].found.location}: {seen[0].failure}")
    raise opening.nothing_in([given])


def _runs(files: list[SniffedFile]) -> tuple[rank_groups.RankGroup, ...]:
    """The runs that the files are ranks of; a saved report and a log say later which they are of."""
    if len(files) < 2 or files[0].is_a(FileKind.REPORT) or files[0].is_a(FileKind.HANG_LOG):
        return ()
    if files[0].is_a(FileKind.COMPILE_LOG):  # each is of one process, and reported on by itself
        return tuple(rank_groups.group([rank_groups.RankFile(file.found.name)])[0] for file in files)
    return rank_groups.group(map(_as_file, files))


def _as_file(file: SniffedFile) -> rank_groups.RankFile:
    """Facts about the file that grouping needs."""
    peek = file.peek
    return rank_groups.RankFile(file.found.name, peek.rank if peek else None, peek.world_size if peek else None)
