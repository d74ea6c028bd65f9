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
    At most the exposed waiting. With one worker, loading runs beside the rest of the step, so a step takes as long as
    the slower of the two, and of a wait of more than five medians only as much is hidden as a step computes between two
    batches; the lower end is this saving less the cost of a worker: 1.5 ms to fetch a batch, and up to 0.31 of its
    loading time, by which the rest of the step was longer in two pairs of recordings (docs/whatif.md). The lower end is
    0 if there is no free core for a worker (a capture shows hardware threads and threads of the program; a program on
    the CPU is assumed to use all cores), except for waiting that needs no core, which stacks or a capture show; if the
    loader already has workers; and below a millisecond per step. If all cores are in use and a batch takes less than 3
    ms, no saving is given. In a table, the profiled time minus the larger of GPU time and remaining host time; the
    lower end is 0 if there are workers.

When it is wrong:
    The first wait of an epoch starts the workers and fills their queues. Loaders of other libraries that leave no marks
    in the trace are not seen. If storage is the limit, more workers do not help.

References:
    https://docs.pytorch.org/docs/stable/data.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traceanalyzer.analyzers.loader import DataLoader, LoaderEpochs
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.knowledge.loader_workers import READY_NS
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _loader, _owners, _program, _settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.step_breakdown import Average, Step, StepBreakdown

_SUBJECT = Text("dataloader-bound-subject", "waiting for the DataLoader while nothing else runs, share of the step")
_SUBJECT_OWN = Text(
    "dataloader-bound-subject-own", "waiting while the program itself prepares the batch, share of the step"
)
_SUBJECT_TABLE = Text("dataloader-bound-subject-table", "waiting for the DataLoader, share of the host time")
_BASIS_TABLE = Text(
    "dataloader-bound-basis-table",
    "the profiled time minus the larger of GPU time and other host time, which remain",
)
_BASIS_TABLE_WORKERS = Text(
    "dataloader-bound-basis-table-workers",
    "at most the profiled time minus the larger of GPU time and other host time; at least nothing, because storage or "
    "cores may hold up the existing workers",
)
_BASIS_WORKERS = Text(
    "dataloader-bound-basis-workers",
    "at most the waiting in which nothing else runs; at least nothing, because storage or cores may hold up the "
    "existing workers",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    breakdown = facts.need("step_breakdown", StepBreakdown)
    average = facts.step_parts
    if average is None or not average.duration_ns or _owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    wait = _wait(facts, average)
    share = wait / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = [Evidence(_SUBJECT(), share, limits["exposed_share"], "share", _worst(breakdown.steps))]
    evidence += _in_process(facts, average, limits["exposed_share"])
    params: dict[str, Any] = {"wait": wait, "step": average.duration_ns, "share": share}
    made_by = _program.loader_maker(facts)
    if _loader.has_workers(facts):
        if wait > limits["ready_ns"]:
            change = TimeSaved("loader", (0.0, wait), _BASIS_WORKERS(), (0.0, wait), {"loader": wait})
            yield _of_workers(facts, tuple(evidence), change, params)
        return
    if _loader.is_too_short(facts, average):
        yield Draft(tuple(evidence), None, params, severity="info", advice=_ADVICE_SHORT, code="")
        return
    saved = _loader.with_workers(facts, average)
    if made_by is not None:
        params |= {"library": made_by.title}
        yield Draft(tuple(evidence), saved, params, advice=_ADVICE_LIBRARY, code=made_by.workers or "")
        return
    advice = _ADVICE_HOST if facts.resources.gpu_ns is None else None
    yield Draft(tuple(evidence), saved, params, advice=advice, code=_loader.starting_code(facts))


def _wait(facts: Facts, average: Average) -> float:
    """Exposed waiting per step, without that at the change of epochs, which is about starting workers."""
    epochs = facts.find("loader_epochs", LoaderEpochs)
    turning = 0.0 if epochs is None else facts.host_per_step(epochs.wait_ns - 2 * epochs.turns * epochs.usual_ns)
    return average.dataloader_ns - min(max(0.0, turning), average.dataloader_ns)


def _of_workers(
    facts: Facts, evidence: tuple[Evidence, ...], change: TimeSaved, params: dict[str, Any], summary: Text | None = None
) -> Draft:
    """The loader already has workers; the trace does not show how many would be enough."""
    workers = _settings.workers(facts)
    more = "workers" if workers is None else 2 * workers
    code = f"DataLoader(dataset, num_workers={more}, prefetch_factor=4, persistent_workers=True)"
    if workers is None:
        code += "  # workers: more than now"
        return Draft(evidence, change, params, summary=summary, advice=_ADVICE_SOME_WORKERS, code=code)
    params = {**params, "workers": workers}
    return Draft(evidence, change, params, summary=summary, advice=_ADVICE_WORKERS, code=code)


def _in_process(facts: Facts, average: Average, limit: float) -> list[Evidence]:
    """The part of the waiting in which the program itself prepares the batch."""
    found = facts.find("dataloader", DataLoader)
    loaders = list(found.loaders) if found else []
    own, exposed = [row for row in loaders if row.in_process], sum(row.exposed_ns for row in loaders)
    if not own or not exposed:
        return []
    part = sum(row.exposed_ns for row in own) / exposed * average.dataloader_ns / average.duration_ns
    return [Evidence(_SUBJECT_OWN(), part, limit, "share", _loader.places(own))] if part > limit else []


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
    params = {"wait": loader, "step": facts.step_ns, "share": share}
    if _loader.has_workers(facts):
        change = TimeSaved("loader", (0.0, loader), _BASIS_TABLE_WORKERS(), claims={"loader": loader})
        yield _of_workers(facts, (evidence,), change, params, _SUMMARY_TABLE)
        return
    change = TimeSaved("loader", (loader, loader), _BASIS_TABLE(), claims={"loader": loader})
    yield Draft((evidence,), change, params, summary=_SUMMARY_TABLE)


_ADVICE_HOST = Text(
    "dataloader-bound-advice-host",
    "Let worker processes prepare batches during the step. What they compute needs free cores: if all cores are in "
    "use, give the training fewer threads (torch.set_num_threads). Waiting for files or a network needs none. Add "
    "workers while the step gets shorter.",
)
_ADVICE_SHORT = Text(
    "dataloader-bound-advice-short",
    "Leave the loader as it is, or make a batch cheaper to load. Fetching a batch from a worker takes a millisecond or "
    "two, and all cores are in use: workers would hardly save anything here, and may make the step longer.",
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
_ADVICE_SOME_WORKERS = Text(
    "dataloader-bound-advice-some-workers",
    "The loader's workers cannot keep up. Add some if cores are free and look whether the step gets shorter; otherwise "
    "make a batch cheaper to load: faster decoding, augmentation on the GPU, faster storage, data that is prepared "
    "once.",
)
_ADVICE_LIBRARY = Text(
    "dataloader-bound-advice-library",
    "The loader is made by {library}, and the program has no DataLoader to change. Make an input cheaper to prepare (a "
    "faster processor, or one that works on the GPU), prepare once what several inputs share, and prepare the next "
    "inputs in a thread while the GPU computes.",
    note="library is a name such as transformers.pipeline",
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
            "ready_ns",
            READY_NS,
            "ns",
            "exposed waiting per step with workers: up to this their batches are ready, and only fetched",
            "own choice: twice the usual wait for a ready batch, which is 0.1 to 2.0 ms in recordings with workers",
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
    links=(
        "https://docs.pytorch.org/docs/stable/data.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    table=_table,
)
