"""`traceanalyzer ranks`: all ranks of one run in one report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from traceanalyzer import config, readers, renderers
from traceanalyzer.analyzers.ranks.member import Member, of_report
from traceanalyzer.batch import discovery, runs
from traceanalyzer.batch.discovery import Found
from traceanalyzer.cli import delivery, one_line
from traceanalyzer.cli.parameters import Steps
from traceanalyzer.cli.progress import reading
from traceanalyzer.config import SEVERITIES
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.pipeline import StepChoice, join, measure_rank
from traceanalyzer.readers.source import Source, open_source
from traceanalyzer.renderers import language
from traceanalyzer.report import stored
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace

_HEAD = 4096
_LARGEST_REPORT = 1 << 30
_NAMED = 5
"""Runs that are named in an error."""


@click.command("ranks")
@click.argument("inputs", metavar="FILE_OR_FOLDER...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write the report to FILE; its suffix (.html, .md, .json, .xlsx) is the format. Repeat for several; - is "
    "standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice((*renderers.FORMATS, *renderers.BINARY)),
    help="Format of everything written; without it, the suffix says it.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Rows of each ranking.")
@click.option("--lang", metavar="CODE", help="Language of what people read: en, ru, zh or auto  [default: en].")
@click.option("--steps", type=Steps(), help="Only the steps A to B of traces, both included.")
@click.option(
    "--skip-warmup", type=click.IntRange(min=0), default=0, metavar="N", help="Leave the first N steps of traces out."
)
@click.option("--select", multiple=True, metavar="RULE", help="Only this rule. Repeat for several.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Not this rule. Repeat for several.")
@click.option("--fail-on", type=click.Choice(SEVERITIES[::-1]), help="Exit with 1 if a finding is that severe or more.")
@click.option("--force", is_flag=True, help="Overwrite files that traceanalyzer did not write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no hints.")
def command(
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    lang: str | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Compare the ranks of one distributed run: who is late, who waits, how far apart the clocks are.

    Give the traces of the ranks, their saved reports (report -o x.json), or a folder that holds them. A rank is known
    from the trace (distributedInfo), else from the name of the file (rank3, rank_3/).

    \b
    Examples:
      traceanalyzer ranks traces/
      traceanalyzer ranks rank0.json.gz rank1.json.gz -o ranks.html
      traceanalyzer ranks reports/*.json -o ranks.md --lang ru

    \b
    Exit codes:
      0    done
      1    a finding as severe as --fail-on or more
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load().choosing(select, ignore)
    targets = delivery.targets(outputs, form, settings.formats)
    spoken = language.of(lang or settings.language)
    first, last = steps or (None, None)
    measured = _measure(inputs, StepChoice(first, last, skip_warmup), quiet=quiet)
    members = _run_of(measured, ", ".join(inputs), is_one=all(Path(path).is_file() for path in inputs))
    report = join(members, _name(inputs, members), settings)
    delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet).deliver(report, targets, {})
    delivery.exit_if_found(report, fail_on or settings.fail_on)


@dataclass(frozen=True)
class _Measured:
    """A file and what is in it."""

    name: str
    member: Member


def _measure(inputs: tuple[str, ...], steps: StepChoice, *, quiet: bool) -> list[_Measured]:
    """Every file that can be used; of the others it is told why not, and their ranks will be missing.

    A saved report counts only where there are no traces, or if it was named.

    Raises:
        UnusableInputError: None can be used.
    """
    found = list({file.identity: file for file in discovery.find(inputs)}.values())
    saved = [file for file in found if file.failure is None and _is_report(file)]
    beside = [file for file in saved if not file.is_named]
    measured, reasons = _all_of([file for file in found if file not in beside], saved, steps, quiet=quiet)
    if not measured:
        measured, others = _all_of(beside, saved, steps, quiet=quiet)
        reasons += others
    if not measured:
        raise UnusableInputError(reasons[0] if reasons else f"{', '.join(inputs)}: holds no trace and no report")
    for reason in reasons:
        click.echo(f"Left out: {one_line(reason)}", err=True)
    return measured


def _all_of(
    files: list[Found], saved: list[Found], steps: StepChoice, *, quiet: bool
) -> tuple[list[_Measured], list[str]]:
    """What is in some files, and why some cannot be used."""
    measured, reasons = [], []
    for file in files:
        try:
            measured.append(_measured(file, steps, is_report=file in saved, quiet=quiet))
        except UnusableInputError as error:
            reasons.append(str(error))
    return measured, reasons


def _is_report(file: Found) -> bool:
    try:
        with open_source(file.location, lambda _: None) as source:
            return _begins_like_a_report(source)
    except UnusableInputError:
        return False


def _begins_like_a_report(source: Source) -> bool:
    head = source.peek(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"{") and b'"schema_version"' in head and b'"generator"' in head


def _measured(file: Found, steps: StepChoice, *, is_report: bool, quiet: bool) -> _Measured:
    if file.failure is not None:
        raise UnusableInputError(f"{file.location}: {file.failure}")
    with reading(file.location, quiet=quiet) as progress, open_source(file.location, progress) as source:
        if is_report:
            member = _saved(stored.decode(source.peek(_LARGEST_REPORT), file.name), file, steps)
        else:
            trace = readers.read(source)
            if not isinstance(trace, Trace):
                raise UnusableInputError(f"{file.location}: holds printed tables, which tell nothing of other ranks")
            member = measure_rank(trace, steps)
    if member is None:
        raise UnusableInputError(f"{file.location}: names no rank and has no collectives")
    return _Measured(file.name, member)


def _saved(report: Report, file: Found, steps: StepChoice) -> Member | None:
    if not steps.is_everything:
        raise UsageError(f"{file.location}: is a saved report; steps can only be chosen of a trace")
    with stored.as_written(file.location):
        return of_report(report)


def _name(inputs: tuple[str, ...], members: dict[int, Member]) -> str:
    """Of the folder, or of the first and the last file."""
    if len(inputs) == 1 and Path(inputs[0]).is_dir():
        return Path(inputs[0]).resolve().name
    files = [members[rank].source.name for rank in sorted(members)]
    return files[0] if len(files) == 1 else f"{files[0]} ... {files[-1]}"


def _run_of(measured: list[_Measured], given: str, *, is_one: bool) -> dict[int, Member]:
    """The members of the run by rank.

    Args:
        measured: All files that can be used.
        given: What the user wrote.
        is_one: Files were named one by one: then they are one run, wherever they lie.

    Raises:
        UnusableInputError: No file is a rank.
        UsageError: They are several runs.
    """
    found = [run for run in runs.group(map(_as_file, measured)) if run.ranks[0][0] is not None]
    if not found:
        raise UnusableInputError(
            f"{given}: no rank is known, neither from distributedInfo nor from names such as rank3.json"
        )
    by_name = {entry.name: entry.member for entry in measured}
    ranks = [(rank, name) for run in found for rank, name in run.ranks if rank is not None]
    if len(found) > 1 and not (is_one and len({rank for rank, _ in ranks}) == len(ranks)):
        shown = ", ".join(run.name for run in found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        raise UsageError(f"{given}: holds {len(found)} runs ({shown}); name the files of one")
    for name in sorted(by_name.keys() - {name for _, name in ranks}):
        click.echo(f"Left out: {one_line(name)}: its rank is not known", err=True)
    return {rank: by_name[name] for rank, name in ranks}


def _as_file(entry: _Measured) -> runs.Member:
    """What grouping needs."""
    summary = entry.member.summary
    return runs.Member(entry.name, summary.rank, summary.world_size, summary.base_ns)
