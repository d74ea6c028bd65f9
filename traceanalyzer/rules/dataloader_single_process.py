"""The training process prepares its batches itself, one after the other, while the GPU waits.

What it detects:
    A `DataLoader` without worker processes (its iterator is `_SingleProcessDataLoaderIter`) that the program waits for
    while no device works. The rule is deprecated: it judges the same time as dataloader-bound, whose evidence now
    includes this cause; it runs only if it is selected by name.

Why it matters:
    Reading, decoding and transforming run between the steps instead of during them.

What to do:
    Set `num_workers`. Start with one worker per two cores; add `pin_memory=True` and `persistent_workers=True`.

How the saving is estimated:
    As for dataloader-bound, of which this is the cause; both findings claim the same time, which counts once. At most
    the exposed waiting; at least the saving with one worker less its cost, and nothing if there is no free core for it.
    In a table, at least the profiled time minus the larger of GPU time and remaining host time.

When it is wrong:
    For small data that is already in memory, starting workers and sending batches between processes costs more than it
    saves; but then the waits are short, and there is no finding. Code in the dataset that cannot be sent to another
    process needs changes first.

References:
    https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _loader, _owners
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.host_waits import is_in_process

_SUBJECT = Text("dataloader-single-process-subject", "exposed waiting for loaders without workers, share of the step")
_SUBJECT_TABLE = Text(
    "dataloader-single-process-subject-table", "waiting for loaders without workers, share of the host time"
)
_BASIS_TABLE = Text(
    "dataloader-single-process-basis-table",
    "the profiled time minus the larger of GPU time and other host time, which remain",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    loaders = facts.need("dataloader", DataLoader).loaders
    average = facts.step_parts
    own = [loader for loader in loaders if loader.in_process]
    exposed = sum(loader.exposed_ns for loader in loaders)
    if average is None or not average.duration_ns or not own or not exposed:
        return
    if _owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    part = sum(loader.exposed_ns for loader in own) / exposed
    wait = average.dataloader_ns * part
    share = wait / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = Evidence(_SUBJECT(), share, limits["exposed_share"], "share", _loader.places(own))
    change = None if _loader.is_too_short(facts, average, part) else _loader.with_workers(facts, average, part)
    yield Draft(
        (evidence,),
        change,
        {"wait": wait, "step": average.duration_ns, "share": share},
        code=_loader.starting_code(facts),
    )


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row) and is_in_process(row.name)]
    total = sum(row.self_cpu_ns or 0 for row in rows)
    if facts.table is None or not facts.table.cpu_ns or not total:
        return
    share = total / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_SUBJECT_TABLE(), share, limits["host_share"], "share", where)
    wait = facts.host_per_step(total)
    change = TimeSaved("loader", (wait, wait), _BASIS_TABLE(), claims={"loader": wait})
    yield Draft((evidence,), change, {"wait": wait, "step": facts.step_ns, "share": share})


RULE = Rule(
    id="dataloader-single-process",
    title=Text("dataloader-single-process-title", "The DataLoader has no worker processes"),
    summary=Text(
        "dataloader-single-process-summary",
        "Batches are prepared by the program itself: {wait:ns} of a step of {step:ns} ({share:share}) is spent on "
        "that.",
    ),
    advice=Text(
        "dataloader-single-process-advice",
        "Set num_workers, so that batches are prepared during the step. Start with one worker per two cores, and "
        "keep the workers alive between epochs.",
    ),
    not_when=Text(
        "dataloader-single-process-not-when",
        "The data is small and already in memory: then keep it on the GPU instead of loading it batch by batch.",
    ),
    severity="low to critical",
    confidence="A",
    tags=("input", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "exposed_share",
            0.03,
            "share",
            "exposed waiting over the step, in a trace",
            "own choice, as for dataloader-bound: a step varies by 1 to 2 % from run to run",
        ),
        Threshold(
            "host_share",
            0.05,
            "share",
            "waiting over all host time, in a table",
            "as the TensorBoard plugin, because a table does not show which waiting is hidden",
        ),
    ),
    code="DataLoader(dataset, num_workers=4, pin_memory=True, persistent_workers=True)",
    links=("https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading",),
    trace=_trace,
    table=_table,
    stage="deprecated",
)
