"""`traceanalyzer report`: one trace, or the ranks of one run, one report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from traceanalyzer import config, formats
from traceanalyzer.cli import card, delivery, flame, one_line, parameters, perfetto, suggestions
from traceanalyzer.cli.progress import reading, reading_each
from traceanalyzer.cli.suggestions import typed
from traceanalyzer.config import Config
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.graph_captures import GraphCaptures
from traceanalyzer.inputs import capture_files, opening, rank_groups, sniffing
from traceanalyzer.inputs.opening import read_compile_logs as read_logs
from traceanalyzer.inputs.sniffing import FileKind, SniffedFile
from traceanalyzer.pipeline import SideRecordings, StepChoice, report_on
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace


@dataclass(frozen=True)
class FolderInput:
    """What to report on, and the recordings of captures beside it."""

    inputs: tuple[str, ...]
    """One file; or what leads to the ranks of one run."""
    is_run: bool = False
    """Whether it is the ranks of one run."""
    captures: tuple[str, ...] = ()
    """Recordings that may contain the capture of the graphs that the only trace launches."""


def input_of(given: str) -> FolderInput:
    """The only trace that an input leads to; without any trace its only text with tables or its only saved report.

    The first bytes of the files decide. Recordings of the capture of graphs do not count beside other traces.

    Args:
        given: A folder, a pattern, or the URL of a folder.

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
            f"{given}: contains {len(runs)} runs ({named(run.name for run in runs)}), and report takes one: "
            f"{typed('batch', given, '-o', 'reports/')} reports on each; "
            f"{typed('ranks')} and the files of one compares its ranks"
        )
    if files:
        return FolderInput(tuple(file.found.location for file in files) if captures else (given,), is_run=True)
    if len(seen) == 1 and seen[0].failure is not None:
        raise UnusableInputError(f"{seen[0].found.location}: {seen[0].failure}")
    raise opening.nothing_in([given])


def _runs(files: list[SniffedFile]) -> tuple[rank_groups.RankGroup, ...]:
    """The runs that the files are ranks of; only the whole of a saved report says which rank it is of."""
    if len(files) < 2 or files[0].is_a(FileKind.REPORT):
        return ()
    if files[0].is_a(FileKind.COMPILE_LOG):  # each is of one process, and reported on by itself
        return tuple(rank_groups.group([rank_groups.RankFile(file.found.name)])[0] for file in files)
    return rank_groups.group(map(_as_file, files))


def _as_file(file: SniffedFile) -> rank_groups.RankFile:
    """Facts about the file that grouping needs."""
    peek = file.peek
    return rank_groups.RankFile(file.found.name, peek.rank if peek else None, peek.world_size if peek else None)


_NEXT = Text("report-next", "Next: {command}", note="command is what the user may type next")

TABLE = "table"
"""Format of .txt files: not a rendering of the report, but the table that torch would print of the trace."""

_ROWS = 100
"""Rows of a table where nobody says how many, as in torch."""

FORMATS = {**formats.EVERY, TABLE: (".txt",), **formats.FLAME_GRAPHS}


@click.command("report")
@click.argument("inputs", metavar="INPUT", nargs=-1, required=True, shell_complete=parameters.files)
@parameters.output("the report", formats.suffixes(FORMATS))
@parameters.form(FORMATS)
@parameters.top("5, in Markdown 20")
@parameters.lang
@parameters.steps()
@parameters.choice_of_rules
@parameters.fail_on
@click.option(
    "--graph-capture",
    "captures",
    multiple=True,
    metavar="FILE",
    help="A recording of the capture of the graphs that the trace launches. Repeatable.",
    shell_complete=parameters.files,
)
@click.option(
    "--compile-log",
    "compile_logs",
    metavar="PATH",
    multiple=True,
    shell_complete=parameters.files,
    help="A compile log of torch (TORCH_TRACE) of the same program, or a folder of them: names the cause of each graph "
    "break and recompilation. Repeatable.",
)
@click.option("--sort-by", metavar="KEY", help="In a table (.txt): the column to sort by, as in torch.")
@click.option(
    "--row-limit", type=click.IntRange(min=-1), metavar="N", help="In a table: rows, -1 for all  [default: 100]."
)
@click.option("--group-by-input-shape", is_flag=True, help="In a table: one row per operator and input shapes.")
@flame.options
@delivery.assets_options
@card.option
@perfetto.option
@parameters.jobs
@parameters.show
@parameters.force
@parameters.quiet
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
    captures: tuple[str, ...],
    compile_logs: tuple[str, ...],
    sort_by: str | None,
    row_limit: int | None,
    group_by_input_shape: bool,
    over: str | None,
    weight: str | None,
    assets: str | None,
    assets_format: str | None,
    assets_url: str | None,
    card_file: str | None,
    perfetto_folder: str | None,
    jobs: int,
    show: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Report on one trace, on the tables of a text, or on a compile log; - is standard input.

    An INPUT is a file, a folder (searched at any depth), a quoted pattern, a URL such as s3://bucket/run7/, or a
    saved report (report -o x.json).

    A trace is what torch.profiler exports (.json, .json.gz); a text is anything that holds tables of
    key_averages().table(); a compile log is what TORCH_TRACE=FOLDER makes torch write. The content decides. For a
    folder, the report covers its only trace, or all ranks of its only run. A saved report is shown as it is, like
    render does.

    Where graphs launch the kernels of a trace, --graph-capture names a recording of their capture: it shows which
    operators, modules and lines they belong to. In a folder it is found by itself.

    Without -o it prints the first screen: what bounds the step, what to change and what that is worth, where the
    step goes, how busy the GPU is. A .txt is the table that key_averages().table() would print.

    \b
    Examples:
      traceanalyzer report trace.json.gz
      traceanalyzer report trace.json -o report.html
      traceanalyzer report trace.json --open
      traceanalyzer report trace.json -o report.md -o report.json --lang ru
      traceanalyzer report trace.json -o report.md --assets charts
      traceanalyzer report trace.json -o report.html --card report.png
      cat trace.json | traceanalyzer report - --format markdown -o -
      traceanalyzer report trace.json -o tables/ --format csv
      traceanalyzer report trace.json -o table.txt --sort-by cpu_time_total
      traceanalyzer report trace.json -o trace.speedscope.json
      traceanalyzer report trace.json --perfetto tracks/
      traceanalyzer report trace.json -o trace.collapsed --weight host
      traceanalyzer report profiling.md
      traceanalyzer report decode.json.gz --graph-capture capture.json.gz
      traceanalyzer report trace.json.gz --compile-log compile_logs/
      traceanalyzer report compile_logs/torch.log

    \b
    Exit codes:
      0    done, repaired input included
      1    a finding as severe as --fail-on or more
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    given = _only(inputs)
    settings = config.load().choosing(select, ignore)
    targets = delivery.targets(outputs, form, settings.formats, FORMATS)
    if show:
        targets = delivery.with_page(targets, given, is_chosen=bool(outputs))
    charts = delivery.assets(assets, assets_format, assets_url, targets)
    card.check(card_file)
    perfetto.check(perfetto_folder)
    spoken = delivery.chosen_language(lang, settings)
    first, last = steps or (None, None)
    forms = {target.form for target in targets}
    if TABLE in forms and (steps or skip_warmup):
        raise UsageError("a table (.txt) always covers the whole trace; leave out --steps and --skip-warmup")
    if TABLE not in forms and (sort_by is not None or row_limit is not None or group_by_input_shape):
        raise UsageError("--sort-by, --row-limit and --group-by-input-shape are about a table; add -o table.txt")
    flame.check(forms, over, weight, StepChoice(first, last, skip_warmup))
    asked = _Asked(StepChoice(first, last, skip_warmup), settings, read_logs(compile_logs), captures, jobs)
    made = _make(given, asked, quiet=quiet)

    def table() -> str:
        trace = _traced(made.measured, given, "a table (.txt)")
        rows = _ROWS if row_limit is None else row_limit
        return _table(trace, sort_by, rows, by_shape=group_by_input_shape)

    def speedscope() -> str:
        return flame.speedscope(_traced(made.measured, given, "a flame graph"), asked.steps, over, spoken)

    def collapsed() -> str:
        return flame.collapsed(_traced(made.measured, given, "a flame graph"), asked.steps, over, weight)

    way = delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet, assets=charts)
    way.deliver(made.report, targets, {TABLE: table, flame.SPEEDSCOPE: speedscope, flame.COLLAPSED: collapsed})
    card.draw(made.report, card_file, way)
    if perfetto_folder is not None:
        trace = _traced(made.measured, given, "a trace for Perfetto")
        perfetto.write(made.report, trace, made.file, Path(perfetto_folder), spoken, force=force, quiet=quiet)
    for note in made.notes:
        click.echo(one_line(note), err=True)
    if show:
        delivery.open_page_of(targets)
    elif not outputs and form is None and not quiet:
        command = suggestions.with_more("-o", "report.html")
        click.echo("\n" + spoken.text(_NEXT, command=command), err=True)
    delivery.exit_if_found(made.report, fail_on or settings.fail_on)


@dataclass(frozen=True)
class _Asked:
    """How a report is to be made."""

    steps: StepChoice
    settings: Config
    compile_logs: tuple[CompileLog, ...]
    captures: tuple[str, ...]
    """Files that may contain the capture of graphs."""
    jobs: int


@dataclass(frozen=True)
class _Made:
    """A report, and the input from which it was made."""

    report: Report
    measured: Trace | TableDocument | CompileLog | Report | None = None
    """None: several traces."""
    file: str = ""
    """Where it was read."""
    notes: tuple[str, ...] = ()
    """Further messages to the user."""


def _only(inputs: tuple[str, ...]) -> str:
    """The one input.

    Raises:
        UsageError: There are several.
    """
    if len(inputs) > 1:
        raise UsageError(f"report takes one trace, and {len(inputs)} are given. {suggestions.for_several(inputs)}")
    return inputs[0]


def _make(given: str, asked: _Asked, *, quiet: bool) -> _Made:
    """The report on a file, on the only one of a folder, a pattern or a URL, or on the ranks of its only run."""
    if opening.is_one_file(given):
        return _of_one_file(given, (), asked, quiet=quiet)
    chosen = input_of(given)
    if chosen.is_run:
        if asked.compile_logs:
            raise UsageError(
                f"{given}: contains several ranks, but a compile log is of one; name the file of that rank"
            )
        if asked.captures:
            raise UsageError(f"{given}: contains several ranks, but a capture is of one; name the file of that rank")
        from traceanalyzer import multirank  # noqa: PLC0415

        with reading_each(quiet=quiet) as each:
            run = multirank.collect(chosen.inputs, asked.steps, each, asked.jobs)
        return _Made(run.report(asked.settings), notes=tuple(run.summary))
    return _of_one_file(chosen.inputs[0], chosen.captures, asked, quiet=quiet)


def _of_one_file(file: str, captures: tuple[str, ...], asked: _Asked, *, quiet: bool) -> _Made:
    """The report on one file, beside which there may be captures of its graphs."""
    side = SideRecordings(asked.compile_logs, GraphCaptures(asked.captures, () if asked.captures else captures))
    with reading(file, quiet=quiet) as progress:
        content = opening.read(file, progress, asked.jobs)
        if isinstance(content, Difference):
            raise UsageError(f"{file}: is a saved difference. Did you mean {suggestions.typed('render', file)}?")
        if isinstance(content, Report) and asked.settings.options:
            raise UsageError(f"{file}: is a saved report, whose rules were chosen when it was made; name the trace")
    # When the analyses share their work with other processes, no thread draws a bar any more.
    return _Made(report_on(content, file, asked.steps, asked.settings, side, asked.jobs), content, file)


def _traced(measured: Trace | TableDocument | CompileLog | Report | None, given: str, what: str) -> Trace:
    """What a table or a flame graph is made of.

    Raises:
        UsageError: It is not one trace.
    """
    if measured is None:
        raise UsageError(f"{given}: contains several ranks, but {what} is made of one trace; name the file of one rank")
    if isinstance(measured, Report):
        raise UsageError(f"{given}: is a saved report, and {what} is made of a trace; name the trace")
    if not isinstance(measured, Trace):
        found = "is a compile log" if isinstance(measured, CompileLog) else "contains printed tables"
        raise UsageError(f"{given}: {found}, but {what} is made of a trace")
    return measured


def _table(trace: Trace, sort_by: str | None, row_limit: int, *, by_shape: bool) -> str:
    """The table that torch would print."""
    from traceanalyzer.analyzers.operators import key_averages  # noqa: PLC0415 - only for this format
    from traceanalyzer.formats import torch_table  # noqa: PLC0415

    return torch_table.render(key_averages.analyze(Context(trace), by_shape), sort_by=sort_by, row_limit=row_limit)
