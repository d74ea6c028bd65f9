"""What `report` makes of a folder, a pattern or a URL: the only file that counts, or the ranks of the only run."""

from __future__ import annotations

from traceanalyzer.cli.suggestions import typed
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import opening, rank_groups, sniffing
from traceanalyzer.inputs.sniffing import FileKind, SniffedFile
from traceanalyzer.multirank import named


def only_file(given: str) -> str | None:
    """The only trace that an input leads to; without any trace its only text with tables or its only saved report.

    The first bytes of the files decide.

    Args:
        given: A folder, a pattern, or the URL of a folder.

    Returns:
        Where the file is; None if there are several, which are the ranks of one run.

    Raises:
        UnusableInputError: There is no trace in it.
        UsageError: There are several runs in it.
    """
    seen = [sniffing.sniff(file) for file in opening.files([given])]
    files = sniffing.that_count(seen)
    if len(files) == 1:
        return files[0].found.location
    if files:
        _require_one_run(given, files)
        return None
    if len(seen) == 1 and seen[0].failure is not None:
        raise UnusableInputError(f"{seen[0].found.location}: {seen[0].failure}")
    raise opening.nothing_in([given])


def _require_one_run(given: str, files: list[SniffedFile]) -> None:
    if files[0].is_a(FileKind.REPORT):
        return  # only the whole report says which rank it is of
    found = rank_groups.group(map(_as_file, files))
    if len(found) > 1:
        raise UsageError(
            f"{given}: holds {len(found)} runs ({named(run.name for run in found)}), and report takes one: "
            f"{typed('batch', given, '-o', 'reports/')} reports on each; "
            f"{typed('ranks')} and the files of one compares its ranks"
        )


def _as_file(file: SniffedFile) -> rank_groups.RankFile:
    """What grouping needs to know of the file."""
    peek = file.peek
    return rank_groups.RankFile(file.found.name, peek.rank if peek else None, peek.world_size if peek else None)
