"""The program waits for its DataLoader while the GPU does nothing.

What it detects:
    Waiting for the next batch (`enumerate(DataLoader)#...__next__` and the like) during which no kernel, copy or other
    work of the program runs. Waiting that is hidden behind the GPU's work costs nothing and does not count. In a
    printed table, the share of such rows in the host time.

Why it matters:
    A GPU that waits for input costs money and does nothing, and making the model faster does not help.

What to do:
    Load batches in worker processes, into pinned memory, and a few batches ahead: `num_workers`, `pin_memory`,
    `persistent_workers`, `prefetch_factor`. If there are workers already, make each batch cheaper: decode faster,
    transform less or on the GPU, or store the data so that it can be read sequentially.

How the saving is estimated:
    At most the exposed waiting. With one worker, loading runs in parallel with the rest of the step, and a step takes
    as long as the slower of the two. The lower end is what that saves, less a fifth, because workers compete with the
    program for cores and memory. If a capture shows that there are workers already, at least nothing. In a table, at
    least the profiled time minus the larger of GPU time and remaining host time.

When it is wrong:
    The first wait of an epoch starts the workers and fills their queues. Loaders of other libraries that leave no marks
    in the trace are not seen. If storage is the limit, more workers do not help.

References:
    https://docs.pytorch.org/docs/stable/data.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.step_breakdown import Step, StepBreakdown
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _settings
from traceanalyzer.rules._loader import CONTENTION, code_without_gpu, with_workers
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.rule import Draft, Rule, Threshold

_SUBJECT = Text("dataloader-bound-subject", "waiting for the DataLoader that nothing hides, share of the step")
_SUBJECT_TABLE = Text("dataloader-bound-subject-table", "waiting for the DataLoader, share of the host time")
_BASIS = Text(
    "dataloader-bound-basis",
    "at most the waiting that nothing hides; at least what one worker saves, less {contention:share} because workers "
    "share the cores",
)
_BASIS_TABLE = Text(
    "dataloader-bound-basis-table",
    "at least the profiled time minus the larger of GPU time and other host time; at most all waiting, because a "
    "table does not show which of it the GPU's work hides",
)
_BASIS_WORKERS = Text(
    "dataloader-bound-basis-workers",
    "at most the waiting that nothing hides; at least nothing, because storage or cores may hold up the existing "
    "workers",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    breakdown = facts.need("step_breakdown", StepBreakdown)
    average = facts.step_parts
    if average is None or not average.duration_ns:
        return
    share = average.dataloader_ns / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = Evidence(_SUBJECT(), share, limits["exposed_share"], "share", _worst(breakdown.steps))
    params = {"wait": average.dataloader_ns, "step": average.duration_ns, "share": share}
    workers = _settings.workers(facts)
    if not workers:
        change = with_workers(average, _BASIS(contention=CONTENTION))
        if facts.resources.gpu_ns is None:
            yield Draft((evidence,), change, params, advice=_ADVICE_HOST, code=code_without_gpu())
        else:
            yield Draft((evidence,), change, params)
        return
    change = TimeSaved(
        "loader",
        (0.0, average.dataloader_ns),
        _BASIS_WORKERS(),
        (0.0, average.dataloader_ns),
        {"loader": average.dataloader_ns},
    )
    code = f"DataLoader(dataset, num_workers={2 * workers}, prefetch_factor=4, persistent_workers=True)"
    yield Draft((evidence,), change, {**params, "workers": workers}, advice=_ADVICE_WORKERS, code=code)


def _worst(steps: tuple[Step, ...]) -> tuple[CodePlace, ...]:
    longest = sorted(steps, key=lambda step: (-step.dataloader_ns, step.start_ns))[:5]
    return tuple(CodePlace("step", s.name, value=s.dataloader_ns, unit="ns", start_ns=s.start_ns) for s in longest)


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    table, loader = facts.table, facts.resources.loader_ns
    if table is None or not table.cpu_ns or not loader:
        return
    share = loader * facts.steps / table.cpu_ns
    if share <= limits["host_share"]:
        return
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row) and row.self_cpu_ns]
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_SUBJECT_TABLE(), share, limits["host_share"], "share", where)
    change = TimeSaved("loader", (loader, loader), _BASIS_TABLE(), claims={"loader": loader})
    params = {"wait": loader, "step": facts.step_ns, "share": share}
    yield Draft((evidence,), change, params, summary=_SUMMARY_TABLE)


_ADVICE_HOST = Text(
    "dataloader-bound-advice-host",
    "Let worker processes prepare batches during the step. They need cores of their own: if all cores are in use, "
    "give the training fewer threads (torch.set_num_threads), and add workers while the step gets shorter.",
)
_ADVICE_WORKERS = Text(
    "dataloader-bound-advice-workers",
    "The {workers:count} workers of the loader cannot keep up. Add some if cores are free and look whether the step "
    "gets shorter; otherwise make a batch cheaper to load: smaller files, decoding and augmentation on the GPU, data "
    "that is prepared once.",
    one="The one worker of the loader cannot keep up. Add some if cores are free and look whether the step gets "
    "shorter; otherwise make a batch cheaper to load: smaller files, decoding and augmentation on the GPU, data that "
    "is prepared once.",
)
_SUMMARY_TABLE = Text(
    "dataloader-bound-summary-table",
    "{wait:ns} of {step:ns} per step ({share:share} of the host time) is waiting for the DataLoader.",
)

RULE = Rule(
    id="dataloader-bound",
    title=Text("dataloader-bound-title", "Steps wait for the DataLoader"),
    summary=Text(
        "dataloader-bound-summary",
        "For {wait:ns} of a step of {step:ns} ({share:share}) the program waits for its next batch and nothing else "
        "runs.",
    ),
    advice=Text(
        "dataloader-bound-advice",
        "Let worker processes prepare batches while the GPU computes, in pinned memory. Start with one worker per "
        "two cores and add more while the step gets shorter. If workers are not enough, make each batch cheaper to "
        "load.",
    ),
    not_when=Text(
        "dataloader-bound-not-when",
        "The storage or the network that the data comes from is already at its limit, or the data would fit into the "
        "GPU's memory as a whole: then load it once.",
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
            "own choice, because a step varies by 1 to 2 % from run to run; the TensorBoard plugin used 5 %",
        ),
        Threshold(
            "host_share",
            0.05,
            "share",
            "waiting over all host time, in a table",
            "as the TensorBoard plugin, because a table does not tell which waiting is hidden",
        ),
    ),
    code="DataLoader(dataset, num_workers=4, pin_memory=True, persistent_workers=True)",
    links=(
        "https://docs.pytorch.org/docs/stable/data.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    table=_table,
)
