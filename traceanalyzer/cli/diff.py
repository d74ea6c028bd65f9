"""`traceanalyzer diff`: compares two traces, reports, folders or runs, and distinguishes changes from noise."""

from __future__ import annotations

import sys

import click
from msgspec.structs import replace

from traceanalyzer import config, formats
from traceanalyzer.cli import card, commits, delivery, parameters
from traceanalyzer.cli.parameters import Share
from traceanalyzer.cli.progress import reading_each
from traceanalyzer.comparison import diff
from traceanalyzer.comparison.snapshots import are_snapshots, diff_snapshots
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.difference import FORMATS, answer
from traceanalyzer.pipeline import StepChoice

REGRESSION = 1
INCONCLUSIVE = 3
_CODES = {"passed": 0, "regression": REGRESSION, "inconclusive": INCONCLUSIVE}
_FORMATS = {name: formats.EVERY[name] for name in FORMATS}
"""Formats of a difference, and their suffixes."""


@click.command("diff")
@click.argument("base", metavar="BASE", shell_complete=parameters.files)
@click.argument("head", metavar="[HEAD]", required=False, shell_complete=parameters.files)
@parameters.output("the difference", formats.suffixes(_FORMATS))
@parameters.form(_FORMATS)
@click.option(
    "--fail-on-regression",
    "limit",
    type=Share(),
    metavar="N%",
    help="Exit with 1 if steps became slower by more than N %, with 3 if inconclusive.",
)
@parameters.noise
@parameters.top("5, in Markdown and on a page 20")
@parameters.lang
@parameters.steps(of=" of traces")
@card.option
@commits.page_url_option
@commits.option("--base-commit", "BASE")
@commits.option("--head-commit", "HEAD")
@click.option("--story", is_flag=True, help="Tell what changed as a story, before the tables.")
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    base: str,
    head: str | None,
    outputs: tuple[str, ...],
    form: str | None,
    limit: float | None,
    noise: str | None,
    top: int | None,
    lang: str | None,
    steps: tuple[int | None, int | None] | None,
    skip_warmup: int,
    card_file: str | None,
    page_url: str | None,
    base_commit: str | None,
    head_commit: str | None,
    story: bool,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    """Compare two measurements: BASE is before, HEAD is after.

    Each is a file, a folder (searched at any depth), a quoted pattern, a URL such as s3://bucket/run7/, or a
    saved report (report -o x.json).

    All traces of a folder form one side (several captures and ranks; ranks are matched). To choose one run of a
    document with printed tables, add its id: notes.md#run-1. If HEAD is left out, the two runs of one document are
    compared. Of two memory snapshots it says what grew.

    The answer is faster, slower, no change, or inconclusive: fewer than 5 steps on a side, noise larger than the
    change, or sides that cannot be compared.

    \b
    Examples:
      traceanalyzer diff base.json.gz head.json.gz
      traceanalyzer diff base.json head.json -o diff.html --card diff.png
      traceanalyzer diff base.json head.json -o diff.md --fail-on-regression 3%
      traceanalyzer diff runs/main/ runs/branch/ --format json -o -
      traceanalyzer diff runs/main/ runs/branch/ --noise runs/unchanged/
      traceanalyzer diff base.json head.json -o writeup.md --story
      traceanalyzer diff profiling.md#run-1 profiling.md#run-2
      traceanalyzer diff before.pickle after.pickle

    \b
    Exit codes:
      0    done; with --fail-on-regression: no regression
      1    a regression beyond the limit (only with --fail-on-regression)
      2    unusable input or usage
      3    inconclusive (only with --fail-on-regression)
      130  interrupted
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    targets = delivery.targets(outputs, form, known=_FORMATS)
    delivery.require_formats_of_differences(targets)
    card.check(card_file)
    spoken = delivery.chosen_language(lang, settings)
    top = top or settings.top
    first, last = steps or (None, None)
    choice = StepChoice(first, last, skip_warmup)
    if head is not None and are_snapshots(base, head):
        _require_no_steps(limit, noise, choice, card_file, story=story)
        with reading_each(quiet=quiet) as progress:
            changed = diff_snapshots(base, head, progress)
        delivery.Delivery(spoken, top, force=force, quiet=quiet).deliver(changed, targets, {})
        return
    with reading_each(quiet=quiet) as progress:
        difference = diff(
            base, head, limit=limit, noise=noise, steps=choice, config=settings, progress=progress, jobs=jobs
        )
    difference = replace(
        difference,
        base=replace(difference.base, commit=base_commit),
        head=replace(difference.head, commit=head_commit),
    )
    told = answer(difference, spoken, is_story=story, page_url=page_url)
    delivery.deliver_answer(told, targets, top, force=force, quiet=quiet)
    card.draw(difference, card_file, delivery.Delivery(spoken, force=force, quiet=quiet))
    if difference.gate is not None and (code := _CODES[difference.gate.outcome]):
        sys.exit(code)


def _require_no_steps(
    limit: float | None, noise: str | None, choice: StepChoice, card_file: str | None, *, story: bool
) -> None:
    """Refuse what only measurements with steps have.

    Raises:
        UsageError: Something of it was given.
    """
    given = {
        "--fail-on-regression": limit is not None,
        "--noise": noise is not None,
        "--steps": not choice.is_everything,
        "--card": card_file is not None,
        "--story": story,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{name} is about steps, which memory snapshots do not have")
