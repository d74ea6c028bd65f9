"""`traceanalyzer export`: one trace as a file for another program: flame graphs, torch's table, tracks for Perfetto."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from traceanalyzer import config, formats
from traceanalyzer.analyzers.host import flame_graphs
from traceanalyzer.cli import delivery, one_line, parameters
from traceanalyzer.cli.one_input import FolderInput, input_of
from traceanalyzer.cli.progress import reading
from traceanalyzer.cli.suggestions import typed
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.language import Language
from traceanalyzer.graph_captures import GraphCaptures
from traceanalyzer.inputs import opening
from traceanalyzer.pipeline import SideRecordings, StepChoice, context_of, report_on
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Trace

TABLE, COLLAPSED, SPEEDSCOPE, PERFETTO = "table", "collapsed", "speedscope", "perfetto"
_WHAT = {
    TABLE: "a table (.txt)",
    COLLAPSED: "a flame graph",
    SPEEDSCOPE: "a flame graph",
    PERFETTO: "a trace for Perfetto",
}
"""What a file of each format is called in messages."""
_ROWS = 100
"""Rows of a table where nobody says how many, as in torch."""
_WITH_PYTHON, _WITHOUT_PYTHON = "2.13", "2.14"
"""Releases of torch whose tables differ: from the second on, Python functions have no rows."""
_STEPS, _RECORDING = "steps", "recording"
_NAMES = {"host": "host time", "device": "GPU time", "idle": "idle time of a GPU"}


class ExportOptions(msgspec.Struct, frozen=True):
    """The options that concern one format each; None and False where they are not given."""

    sort_by: str | None
    row_limit: int | None
    group_by_input_shape: bool
    torch_table: str | None
    over: str | None
    weight: str | None

    def check(self, forms: Collection[str], steps: StepChoice) -> None:
        """Refuse options whose format is not written, or that do not fit each other.

        Raises:
            UsageError: There is such an option.
        """
        if TABLE in forms and not steps.is_everything:
            raise UsageError("a table (.txt) always covers the whole trace; leave out --steps and --skip-warmup")
        of_table = (self.sort_by, self.row_limit, self.group_by_input_shape or None, self.torch_table)
        if TABLE not in forms and any(option is not None for option in of_table):
            raise UsageError(
                "--sort-by, --row-limit, --group-by-input-shape and --torch-table are about a table; add -o table.txt"
            )
        if self.over is not None and not formats.FLAME_GRAPHS.keys() & forms:
            raise UsageError("--over is about flame graphs; add -o x.speedscope.json or -o x.collapsed")
        if self.weight is not None and COLLAPSED not in forms:
            raise UsageError(
                "--weight is about collapsed stacks; add -o x.collapsed (speedscope's file has all quantities)"
            )
        if self.over == _RECORDING and not steps.is_everything:
            raise UsageError("--over recording covers the whole recording; leave out --steps and --skip-warmup")

    def text(self, form: str, trace: Trace, steps: StepChoice, language: Language) -> str:
        """The text of a file in a format other than Perfetto's.

        Raises:
            UsageError: The trace has nothing of what the file shows, or no such column.
        """
        if form == TABLE:
            return self._table(trace)
        return self._speedscope(trace, steps, language) if form == SPEEDSCOPE else self._collapsed(trace, steps)

    def _table(self, trace: Trace) -> str:
        from traceanalyzer.analyzers.operators import key_averages  # noqa: PLC0415 - only for this format
        from traceanalyzer.formats import torch_table  # noqa: PLC0415

        rows = _ROWS if self.row_limit is None else self.row_limit
        table = key_averages.analyze(
            Context(trace), self.group_by_input_shape, python_functions=self.torch_table != _WITHOUT_PYTHON
        )
        return torch_table.render(table, sort_by=self.sort_by, row_limit=rows)

    def _speedscope(self, trace: Trace, steps: StepChoice, language: Language) -> str:
        from traceanalyzer.formats import flame_files  # noqa: PLC0415 - only for this format

        graphs = self._graphs(trace, steps)
        if not graphs.graphs:
            raise _nothing(trace, "host")
        return flame_files.speedscope(graphs, trace.info.name, language=language)

    def _collapsed(self, trace: Trace, steps: StepChoice) -> str:
        from traceanalyzer.formats import flame_files  # noqa: PLC0415 - only for this format

        quantity = self.weight or flame_graphs.HOST
        graph = self._graphs(trace, steps).of(quantity)
        if graph is None:
            raise _nothing(trace, quantity)
        return flame_files.collapsed(graph)

    def _graphs(self, trace: Trace, steps: StepChoice) -> flame_graphs.FlameGraphs:
        context = context_of(trace, steps, None)
        return flame_graphs.of_recording(context) if self.over == _RECORDING else flame_graphs.of_steps(context)


def _nothing(trace: Trace, quantity: str) -> UsageError:
    return UsageError(
        f"{trace.info.name}: has no {_NAMES[quantity]} that host threads explain; there is no flame graph"
    )


def options(*, hidden: bool = False) -> Callable[[Callable[..., None]], Any]:
    """The options that concern one format each; the command gets them as one argument, `exports`.

    Args:
        hidden: Whether `--help` leaves them out.
    """
    made = (
        click.option("--sort-by", metavar="KEY", hidden=hidden, help="In a table: the column to sort by, as in torch."),
        click.option(
            "--row-limit",
            type=click.IntRange(min=-1),
            metavar="N",
            hidden=hidden,
            help="In a table: rows, -1 for all  [default: 100].",
        ),
        click.option(
            "--group-by-input-shape",
            is_flag=True,
            hidden=hidden,
            help="In a table: one row per operator and input shapes.",
        ),
        click.option(
            "--torch-table",
            type=click.Choice((_WITH_PYTHON, _WITHOUT_PYTHON)),
            hidden=hidden,
            help="In a table: the release of torch that prints so; 2.14 has no Python functions  [default: 2.13].",
        ),
        click.option(
            "--over",
            type=click.Choice((_STEPS, _RECORDING)),
            hidden=hidden,
            help="In speedscope and collapsed: the typical steps or the whole recording  [default: steps].",
        ),
        click.option(
            "--weight",
            type=click.Choice(flame_graphs.QUANTITIES),
            hidden=hidden,
            help="In collapsed: time of the host, the GPU time that it launches, or GPU idle time  [default: host].",
        ),
    )

    def decorated(command: Callable[..., None]) -> Any:
        @wraps(command)
        def bundled(**given: Any) -> None:
            own = {name: given.pop(name) for name in ExportOptions.__struct_fields__}
            command(exports=ExportOptions(**own), **given)

        result: Any = bundled
        for option in reversed(made):
            result = option(result)
        return result

    return decorated


@click.command("export")
@click.argument("given", metavar="TRACE", shell_complete=parameters.files)
@parameters.output("the trace", formats.suffixes(formats.EXPORTS))
@parameters.form(formats.EXPORTS)
@parameters.lang
@parameters.steps()
@options()
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    given: str,
    outputs: tuple[str, ...],
    form: str | None,
    lang: str | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    exports: ExportOptions,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    """Write one trace as a file for another program; - is standard input.

    TRACE is a file, or a folder, a quoted pattern or a URL that leads to one trace.

    A .speedscope.json holds flame graphs for speedscope, a .collapsed folded stacks for FlameGraph, a .txt the
    table that key_averages().table() would print. In a folder (a name that ends in /) it writes the typical step as
    a trace for ui.perfetto.dev, with findings, critical path, causes of idle time and phases as tracks.

    \b
    Examples:
      traceanalyzer export trace.json.gz -o trace.speedscope.json
      traceanalyzer export trace.json.gz -o host.collapsed --weight host
      traceanalyzer export trace.json -o table.txt --sort-by cpu_time_total
      traceanalyzer export trace.json --format table
      traceanalyzer export trace.json -o tracks/

    \b
    Exit codes:
      0    done, repaired input included
      2    unusable input or usage
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    targets = _targets(outputs, form)
    spoken = delivery.chosen_language(lang, settings)
    chosen = StepChoice(*(steps or (None, None)), skip_warmup)
    exports.check({target.form for target in targets}, chosen)
    source = FolderInput((given,)) if opening.is_one_file(given) else input_of(given, "export")
    trace = _read(given, source, _WHAT[targets[0].form], jobs, quiet=quiet)
    way = delivery.Delivery(spoken, force=force, quiet=quiet)
    for target in targets:
        if target.form == PERFETTO:
            side = SideRecordings((), GraphCaptures((), source.captures))
            report = report_on(trace, source.inputs[0], chosen, settings, side, jobs)
            write_tracks(report, trace, source.inputs[0], Path(target.path), way)
        elif target.path == delivery.SCREEN:
            delivery.put(exports.text(target.form, trace, chosen, spoken), target.form)
        else:
            way.put_file(Path(target.path), exports.text(target.form, trace, chosen, spoken))


def _targets(outputs: Sequence[str], form: str | None) -> list[delivery.Target]:
    """Where to write and in which format; a folder is for Perfetto.

    Raises:
        UsageError: Neither is named, or the format is not known.
    """
    if not outputs and form is None:
        raise UsageError(
            "name what to write: add -o x.speedscope.json, -o x.collapsed, -o table.txt, or -o tracks/ for Perfetto"
        )

    def targets(paths: Sequence[str], form: str | None) -> list[delivery.Target]:
        return delivery.targets(paths, form, known=formats.EXPORTS)

    if form is not None:
        return targets(outputs, form)
    return [one for path in outputs for one in targets([path], PERFETTO if _is_folder(path) else None)]


def _is_folder(path: str) -> bool:
    return path.endswith(("/", os.sep)) or os.path.isdir(path)  # noqa: PTH112 - any text, even one that no path can be


def _read(given: str, source: FolderInput, what: str, jobs: int, *, quiet: bool) -> Trace:
    """The one trace.

    Raises:
        UsageError: It is none, or there are several.
    """
    if source.is_run:
        return traced(None, given, what)
    file = source.inputs[0]
    with reading(file, quiet=quiet) as progress:
        content = opening.read(file, progress, jobs)
    if isinstance(content, Difference):
        raise UsageError(f"{file}: is a saved difference. Did you mean {typed('render', file)}?")
    return traced(content, given, what)


_WITHOUT_EVENTS = {
    CompileLog: "is a compile log",
    FlightDump: "is a dump of the flight recorder",
    LoggedHang: "is the log of a hang",
    MemorySnapshot: "is a memory snapshot",
    TableDocument: "contains printed tables",
}


def traced(
    measured: Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot | Report | None,
    given: str,
    what: str,
) -> Trace:
    """What a file for another program is made of.

    Args:
        measured: What was read; None: several traces.
        given: What the user named.
        what: What the file is called.

    Raises:
        UsageError: It is not one trace.
    """
    if measured is None:
        raise UsageError(f"{given}: contains several ranks, but {what} is made of one trace; name the file of one rank")
    if isinstance(measured, Report):
        raise UsageError(f"{given}: is a saved report, and {what} is made of a trace; name the trace")
    if not isinstance(measured, Trace):
        found = _WITHOUT_EVENTS[type(measured)]
        raise UsageError(f"{given}: {found}, but {what} is made of a trace")
    return measured


def texts(
    exports: ExportOptions,
    measured: Trace | TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot | Report | None,
    given: str,
    steps: StepChoice,
    language: Language,
) -> delivery.Texts:
    """What makes the text of each format, for `report`, which writes them beside reports."""

    def of(form: str) -> Callable[[], str]:
        return lambda: exports.text(form, traced(measured, given, _WHAT[form]), steps, language)

    return {form: of(form) for form in (TABLE, SPEEDSCOPE, COLLAPSED)}


def write_tracks(report: Report, trace: Trace, file: str, folder: Path, way: delivery.Delivery) -> None:
    """Write the step that the page of a report shows, with its tracks, as `DIR/<name>.perfetto.json.gz`.

    Args:
        report: The report on the trace.
        trace: The trace.
        file: Where the trace is; it is read again.
        folder: Where to write; it is made if it does not exist.
        way: Language of the names of the tracks; whether files that this program did not write are overwritten.

    Raises:
        UsageError: The trace has no step, or is standard input.
        OutputError: It cannot be written, or another program wrote it.
    """
    from traceanalyzer.formats import perfetto  # noqa: PLC0415 - few traces are written so
    from traceanalyzer.rewrite.trim import trim  # noqa: PLC0415 - as above

    times = perfetto.range_of(report)
    if times is None:
        raise UsageError(f"{file}: has no step that could be written for Perfetto")
    delivery.make_folder(folder)
    stem = Path(trace.info.name).name.removesuffix(".gz").removesuffix(".json")
    target = folder / f"{stem}.perfetto.json.gz"

    def tracks() -> Iterator[msgspec.Raw]:
        for event in perfetto.events(report, trace.info.origin_ns, way.language):
            yield msgspec.Raw(msgspec.json.encode(event))

    trim(file, target, time_ns=times, added=tracks(), force=way.force)
    if not way.quiet:
        click.echo(f"Wrote {one_line(str(target))}", err=True)
