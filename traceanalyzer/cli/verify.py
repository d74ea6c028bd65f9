"""`traceanalyzer verify`: whether the fixes of findings gained what was predicted."""

from __future__ import annotations

import sys

import click

from traceanalyzer import config, formats
from traceanalyzer.cli import delivery, parameters
from traceanalyzer.cli.progress import reading_each
from traceanalyzer.comparison.verification import verify
from traceanalyzer.formats.verification import FORMATS, answer
from traceanalyzer.pipeline import StepChoice

_FORMATS = {name: formats.EVERY[name] for name in FORMATS}
"""Formats of a verification, and their suffixes."""
CODES = {"confirmed": 0, "better": 0, "worse": 1, "cannot-tell": 3, "refuted": 4, "not-done": 5}
"""Exit codes by outcome; 2 is bad input, as everywhere."""


@click.command("verify")
@click.argument("before", metavar="BEFORE", shell_complete=parameters.files)
@click.argument("after", metavar="[AFTER]", required=False, shell_complete=parameters.files)
@click.option(
    "--finding",
    "findings",
    multiple=True,
    metavar="ID",
    help="Check this finding only: the id of its rule, or of several findings of a rule RULE#2. Repeatable.",
)
@parameters.noise
@parameters.output("the outcome", formats.suffixes(_FORMATS))
@parameters.form(_FORMATS)
@parameters.top("20")
@parameters.lang
@parameters.steps(of=" of traces")
@parameters.jobs
@parameters.force
@parameters.quiet
def command(
    *,
    before: str,
    after: str | None,
    findings: tuple[str, ...],
    noise: str | None,
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
    """Check whether the fixes of findings gained what was predicted.

    BEFORE is the measurement with the findings, AFTER the same program after the change; each is a file, a folder, a
    pattern, a URL or a saved report, as for diff. If AFTER is left out, the two runs of one document are taken.

    A finding is confirmed if what it is about takes less time and the step gained what was predicted; better or worse
    if it gained more or less; refuted if the step did not follow; not done if what it is about takes as much time as
    before. Otherwise nobody can tell: noise, other work, other clocks.

    \b
    Examples:
      traceanalyzer verify before.json.gz after.json.gz
      traceanalyzer verify base.json head.json --finding dataloader-bound
      traceanalyzer verify runs/main/ runs/branch/ --format json -o -

    \b
    Exit codes:
      0    confirmed, or better than predicted
      1    worse than predicted
      2    unusable input or usage
      3    cannot tell
      4    refuted
      5    not done
      130  interrupted

    Of several findings the exit code is the first of 4, 1, 5, 3 and 0 that occurs.
    """  # noqa: D301 - \b is click's mark for "do not rewrap"
    settings = config.load()
    targets = delivery.targets(outputs, form, known=_FORMATS)
    spoken = delivery.chosen_language(lang, settings)
    first, last = steps or (None, None)
    choice = StepChoice(first, last, skip_warmup)
    with reading_each(quiet=quiet) as progress:
        checked = verify(
            before,
            after,
            findings=findings,
            noise=noise,
            steps=choice,
            config=settings,
            progress=progress,
            jobs=jobs,
        )
    delivery.deliver_answer(answer(checked, spoken), targets, top or settings.top, force=force, quiet=quiet)
    if code := CODES[checked.outcome]:
        sys.exit(code)
