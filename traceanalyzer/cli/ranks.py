"""`traceanalyzer ranks`: all ranks of one run in one report."""

from __future__ import annotations

import click

from traceanalyzer import config, formats, multirank
from traceanalyzer.cli import delivery, one_line, parameters
from traceanalyzer.cli.progress import reading_each
from traceanalyzer.pipeline import StepChoice


@click.command("ranks")
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, shell_complete=parameters.files)
@parameters.output("the report", formats.suffixes())
@parameters.form(formats.EVERY)
@parameters.top("5, in Markdown 20")
@parameters.lang
@parameters.steps(of=" of traces")
@parameters.choice_of_rules
@parameters.fail_on
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
    jobs: int,
    show: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Compare the ranks of one distributed run: who is late, who waits, how far apart the clocks are.

    An INPUT is a file, a folder (searched at any depth), a quoted pattern, a URL such as s3://bucket/run7/, or a
    saved report (report -o x.json).

    Dumps of torch's flight recorder (nccl_trace_rank_0), which a hang leaves, show who holds up the run.

    Name the files of all ranks of one run, or a folder that contains them. The rank is read from the trace
    (distributedInfo), or else from the name of the file (rank3, rank_3/). Saved reports in a folder are used only if
    there are no traces.

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
    if show:
        targets = delivery.with_page(targets, inputs[0], is_chosen=bool(outputs))
    spoken = delivery.chosen_language(lang, settings)
    first, last = steps or (None, None)
    with reading_each(quiet=quiet) as progress:
        run = multirank.find(inputs, StepChoice(first, last, skip_warmup), progress, jobs)
    report = run.report(settings)
    delivery.Delivery(spoken, top or settings.top, force=force, quiet=quiet).deliver(report, targets, {})
    for line in run.summary:
        click.echo(one_line(line), err=True)
    if show:
        delivery.open_page_of(targets)
    delivery.exit_if_found(report, fail_on or settings.fail_on)
