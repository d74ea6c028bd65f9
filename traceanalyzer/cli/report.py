"""`traceanalyzer report`: one trace, or the ranks of one run, one report."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from traceanalyzer import config, formats, output
from traceanalyzer.cli import card, commits, delivery, export, one_line, parameters, suggestions
from traceanalyzer.cli.export import ExportOptions
from traceanalyzer.cli.one_input import input_of
from traceanalyzer.cli.progress import analyzing, reading, reading_each
from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.graph_captures import GraphCaptures
from traceanalyzer.inputs import opening
from traceanalyzer.inputs.opening import read_compile_logs as read_logs
from traceanalyzer.pipeline import SideRecordings, StepChoice, report_on
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.graph_stacks import GraphStacks
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Trace, all_tables

_NEXT = Text("report-next", "Next: {command}", note="command is what the user may type next")

_EXPORTS = {form: of_one for form, of_one in formats.EXPORTS.items() if form != export.PERFETTO}
"""Formats of `export` that `-o` and `--format` take here, too: `report` wrote them before there was `export`."""

FORMATS = {**formats.EVERY, **_EXPORTS}


@click.command("report")
@click.argument("inputs", metavar="INPUT", nargs=-1, required=True, shell_complete=parameters.files)
@parameters.output("the report", formats.suffixes())
@parameters.form(formats.EVERY, _EXPORTS)
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
    "--graph-stacks",
    "stacks",
    metavar="FILE",
    shell_complete=parameters.files,
    help="The lines that made the kernels of the graphs that the trace launches, as dump_kernel_py_stacks of torch "
    "writes them. Without it, x.stacks.json.gz is taken beside x.json.gz.",
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
@export.options(hidden=True)
@delivery.assets_options
@commits.page_url_option
@commits.option("--commit", "the trace")
@card.option
@click.option("--perfetto", "perfetto_folder", metavar="DIR", shell_complete=parameters.folders, hidden=True)
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
    stacks: str | None,
    compile_logs: tuple[str, ...],
    exports: ExportOptions,
    assets: str | None,
    assets_format: str | None,
    assets_url: str | None,
    page_url: str | None,
    commit: str | None,
    card_file: str | None,
    perfetto_folder: str | None,
    jobs: int,
    show: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Report on one trace, the tables of a text, a compile log, dumps of a hang or a memory snapshot; - is stdin.

    An INPUT is a file, a folder (searched at any depth), a quoted pattern, a URL such as
    s3://bucket/run7/, or a saved report (report -o x.json).

    A trace is what torch.profiler exports (.json, .json.gz); a text is anything that holds tables of
    key_averages().table(); a compile log is what TORCH_TRACE=FOLDER makes torch write; dumps of a hang are what
    torch's flight recorder writes (nccl_trace_rank_0); a memory snapshot is what
    torch.cuda.memory._dump_snapshot writes. The content decides. For a folder, the report covers its only trace, or
    all ranks of its only run. A saved report is shown as it is, like render does.

    Where graphs launch the kernels of a trace, --graph-capture names a recording of their capture: it shows which
    operators, modules and lines they belong to. In a folder it is found by itself.

    Without -o it prints the first screen: what bounds the step, what to change and what that is worth, where the
    step goes, how busy the GPU is. Flame graphs and other files of a trace are what export writes.

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
      traceanalyzer report profiling.md
      traceanalyzer report decode.json.gz --graph-capture capture.json.gz
      traceanalyzer report trace.json.gz --compile-log compile_logs/
      traceanalyzer report compile_logs/torch.log
      traceanalyzer report dumps/
      traceanalyzer report snapshot.pickle

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
    if perfetto_folder is not None:
        output.require_local(perfetto_folder, "--perfetto")
    spoken = delivery.chosen_language(lang, settings)
    chosen = StepChoice(*(steps or (None, None)), skip_warmup)
    exports.check({target.form for target in targets}, chosen)
    lines = None if stacks is None else opening.read_graph_stacks(stacks)
    for_screen = (targets, card_file, perfetto_folder) == ([delivery.FIRST_SCREEN], None, None)
    asked = ReportRequest(chosen, settings, read_logs(compile_logs), captures, lines, jobs, for_screen)
    made = make(given, asked, quiet=quiet)
    way = delivery.Delivery(
        spoken, top or settings.top, force=force, quiet=quiet, assets=charts, page_url=page_url, commit=commit
    )
    way.deliver(made.report, targets, export.texts(exports, made.measured, given, chosen, spoken))
    card.draw(made.report, card_file, way)
    if perfetto_folder is not None:
        trace = export.traced(made.measured, given, "a trace for Perfetto")
        export.write_tracks(made.report, trace, made.file, Path(perfetto_folder), way)
    for note in made.notes:
        click.echo(one_line(note), err=True)
    if show:
        delivery.open_page_of(targets)
    elif not outputs and form is None and not quiet:
        command = suggestions.with_more("-o", "report.html")
        click.echo("\n" + spoken.text(_NEXT, command=command), err=True)
    delivery.exit_if_found(made.report, fail_on or settings.fail_on)


class ReportRequest(msgspec.Struct, frozen=True):
    """How a report is to be made."""

    steps: StepChoice
    settings: Config
    compile_logs: tuple[CompileLog, ...]
    captures: tuple[str, ...]
    """Files that may contain the capture of graphs."""
    stacks: GraphStacks | None
    """Lines that made the kernels of graphs, if the user named a file."""
    jobs: int
    for_screen: bool = False
    """Whether it is for the first screen alone."""


class MadeReport(msgspec.Struct, frozen=True):
    """A report, and the input from which it was made."""

    report: Report
    measured: Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot | Report | None = None
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


def make(given: str, asked: ReportRequest, *, quiet: bool) -> MadeReport:
    """The report on a file, on the only one of a folder, a pattern or a URL, or on the ranks of its only run."""
    if opening.is_one_file(given):
        return _of_one_file(given, (), asked, quiet=quiet)
    chosen = input_of(given, "report")
    if chosen.is_run:
        _require_nothing_of_one_rank(given, asked)
        from traceanalyzer import multirank  # noqa: PLC0415

        with reading_each(quiet=quiet) as each:
            run = multirank.find(chosen.inputs, asked.steps, each, asked.jobs)
        return MadeReport(run.report(asked.settings), notes=tuple(run.summary))
    return _of_one_file(chosen.inputs[0], chosen.captures, asked, quiet=quiet)


def _require_nothing_of_one_rank(given: str, asked: ReportRequest) -> None:
    """Raise an error if a recording of one process was given with those of several ranks."""
    if asked.compile_logs:
        raise UsageError(f"{given}: contains several ranks, but a compile log is of one; name the file of that rank")
    if asked.captures:
        raise UsageError(f"{given}: contains several ranks, but a capture is of one; name the file of that rank")
    if asked.stacks is not None:
        raise UsageError(f"{given}: contains several ranks, but stacks are of one; name the file of that rank")


def _of_merged(trace: Trace, file: str, asked: ReportRequest) -> MadeReport:
    """The report on the ranks that a script merged into one file."""
    _require_nothing_of_one_rank(file, asked)
    from traceanalyzer import multirank  # noqa: PLC0415

    return MadeReport(multirank.of_merged(trace, asked.steps).report(asked.settings))


def _of_one_file(file: str, captures: tuple[str, ...], asked: ReportRequest, *, quiet: bool) -> MadeReport:
    """The report on one file, beside which there may be captures of its graphs."""
    side = SideRecordings(
        asked.compile_logs,
        GraphCaptures(asked.captures, () if asked.captures else captures),
        asked.stacks or opening.graph_stacks_beside(file),
        asked.stacks is not None,
    )
    started = time.monotonic()
    with reading(file, quiet=quiet) as progress:
        content = opening.read(file, progress, asked.jobs)
        if isinstance(content, Difference):
            raise UsageError(f"{file}: is a saved difference. Did you mean {suggestions.typed('render', file)}?")
        if isinstance(content, Trace) and content.ranks:
            return _of_merged(content, file, asked)
        if isinstance(content, Report) and asked.settings.options:
            raise UsageError(f"{file}: is a saved report, whose rules were chosen when it was made; name the trace")
    events = sum(map(len, all_tables(content).values())) if isinstance(content, Trace) else 0
    analyzing(file, started, events, quiet=quiet)
    # When the analyses share their work with other processes, no thread draws a bar any more.
    report = report_on(content, file, asked.steps, asked.settings, side, asked.jobs, for_screen=asked.for_screen)
    return MadeReport(report, content, file)
