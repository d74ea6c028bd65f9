"""`traceanalyzer finding`: one finding of a report with everything that is known of it."""

from __future__ import annotations

import click

from traceanalyzer import config, formats
from traceanalyzer.cli import delivery, parameters
from traceanalyzer.cli.report import ReportRequest, make
from traceanalyzer.formats.one_finding import FORMATS, answer
from traceanalyzer.pipeline import StepChoice

_FORMATS = {name: formats.EVERY[name] for name in FORMATS}
"""Formats of a finding, and their suffixes."""


@click.command("finding")
@click.argument("report", metavar="REPORT", shell_complete=parameters.files)
@click.argument("finding", metavar="ID", shell_complete=parameters.rules)
@parameters.output("the finding", formats.suffixes(_FORMATS))
@parameters.form(_FORMATS)
@parameters.top("20")
@parameters.lang
@parameters.steps(of=" of a trace")
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    report: str,
    finding: str,
    outputs: tuple[str, ...],
    form: str | None,
    top: int | None,
    lang: str | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    """Show one finding whole: evidence, places, saving, what would refute it.

    REPORT is a saved report (report -o x.json), which is instant, or what report takes: a trace, a text, a folder of
    one run. ID is the id of the finding's rule; RULE#2 is the second finding of a rule, RUN/RULE that of a run in a
    document with several. report --format brief lists the ids.

    \b
    Examples:
      traceanalyzer finding report.json dataloader-bound
      traceanalyzer finding trace.json.gz h2d-pageable --format json

    \b
    Exit codes:
      0    done
      2    unusable input or usage, such as an id that no finding has
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    targets = delivery.targets(outputs, form, known=_FORMATS)
    spoken = delivery.chosen_language(lang, settings)
    choice = StepChoice(*(steps or (None, None)), skip_warmup)
    made = make(report, ReportRequest(choice, settings, (), (), None, jobs), quiet=quiet)
    delivery.deliver_answer(
        answer(made.report, finding, spoken), targets, top or settings.top, force=force, quiet=quiet
    )
