"""Detects programs that wait for batches: for their DataLoader, or because they prepare inputs within the step.

Waiting for the loader is dataloader-bound; the part of it in which the program prepares batches itself is
dataloader-single-process; single batches that come late are dataloader-stalls; the start of workers with each epoch
is dataloader-workers-restarted. More workers than cores are dataloader-too-many-workers.

`preprocessing` is about inputs that no loader prepares, `batch_waits` about what a run shows of its loaders.
"""

from __future__ import annotations

from math import hypot, sqrt

from msgspec.structs import replace

from traceanalyzer.analyzers.loader import DataLoader, Loader, LoaderEpochs, turns_at
from traceanalyzer.rules.engine import host_owners, program
from traceanalyzer.rules.engine.change import Interval, LoaderShorter, ProcessesReady
from traceanalyzer.rules.engine.places import EPOCH
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.rules.loader import batch_waits, preprocessing
from traceanalyzer.rules.loader.batch_waits import BatchWaits, SlowFunction
from traceanalyzer.simulation import variation
from traceanalyzer.structure.events import LOADER, EventSet
from traceanalyzer.structure.step_breakdown import StepBreakdown

_BOUND = page("dataloader-bound")
_SINGLE_PROCESS = page("dataloader-single-process")
_STALLS = page("dataloader-stalls")
_RESTARTED = page("dataloader-workers-restarted")
_TOO_MANY = page("dataloader-too-many-workers")

_SAMPLES = {
    "aten::multinomial": "WeightedRandomSampler(weights, samples)  # samples: as many as an epoch uses",
    "aten::randperm": "RandomSampler(dataset, replacement=True, num_samples=samples)  # as many as an epoch uses",
}
"""Samplers that draw no more than is used, by the operator with which those of torch draw."""
_FEW_EPOCHS = 2
"""Least number of changes of epochs from which their frequency is known."""


def _bound(facts: Facts, limits: Limits) -> Drafts:
    breakdown = facts.need("step_breakdown", StepBreakdown)
    waits = BatchWaits.of(facts)
    if waits is None or host_owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    wait = waits.within_epochs_ns
    share = waits.share(wait)
    if share <= limits["exposed_share"]:
        return
    where = batch_waits.steps_with_most(breakdown)
    evidence = [_BOUND.evidence(limits, "exposed_share", share, where)]
    own = waits.in_process_part * waits.average.dataloader_ns / waits.average.duration_ns
    if own > limits["exposed_share"]:
        places = batch_waits.longest_waits(waits.in_process)
        subject = _BOUND.text("subject-own")()
        evidence.append(_BOUND.evidence(limits, "exposed_share", own, places, subject=subject))
    draft = Draft(tuple(evidence), params=waits.figures(wait))
    if waits.sampler is not None:
        yield _of_sampler(waits, draft, waits.sampler, wait)
        return
    slow = waits.slow_function
    if not waits.has_workers:
        draft = _with_workers(facts, waits, draft)
        yield draft if slow is None or program.loader_maker(facts) is not None else _of_function(waits, draft, slow)
    elif wait > limits["ready_ns"]:
        change = LoaderShorter((0.0, wait), _BOUND.text("basis-workers")(), (0.0, wait), {LOADER: wait})
        draft = _in_bursts(waits, _with_more_workers(facts, replace(draft, change=change)))
        yield draft if slow is None else _of_function(waits, draft, slow)


def _of_sampler(waits: BatchWaits, draft: Draft, loader: Loader, wait: float) -> Draft:
    """The draft that names the operator with which the order of samples is drawn; what is left of it is unknown."""
    most = wait * min(1.0, loader.sampler_ns / loader.total_ns)
    basis = _BOUND.text("basis-sampler")()
    change = LoaderShorter((0.0, most), basis, (0.0, most), {LOADER: most}, by_workers=False)
    operator = loader.sampler_operator or ""
    return replace(
        draft,
        change=change,
        params=waits.figures(wait) | {"operator": operator},
        title=_BOUND.text("title-sampler"),
        summary=_BOUND.text("summary-sampler"),
        advice=_BOUND.text("advice-sampler"),
        code=_SAMPLES.get(operator, ""),
    )


def _of_function(waits: BatchWaits, draft: Draft, slow: SlowFunction) -> Draft:
    """The draft that names the function which makes batches slow; how much faster it can be is not known."""
    most = waits.average.dataloader_ns
    change = draft.change or LoaderShorter((0.0, most), _BOUND.text("basis-function")(), (0.0, most), {LOADER: most})
    params = {**draft.params, "function": slow.name, "sample": slow.sample_ns, "part": slow.share}
    if not draft.code:
        return replace(draft, change=change, severity=None, params=params, advice=_BOUND.text("advice-function"))
    params["code"] = draft.code
    return replace(draft, change=change, params=params, code="", advice=_BOUND.text("advice-function-workers"))


def _with_workers(facts: Facts, waits: BatchWaits, draft: Draft) -> Draft:
    """The draft for a loader without workers: the program's own, or one that a library makes."""
    if waits.is_too_short():
        return replace(draft, severity="info", advice=_BOUND.text("advice-short"), code="")
    maker = program.loader_maker(facts)
    params = dict(draft.params)
    code = waits.starting_code
    advice = _BOUND.text("advice-host") if facts.resources.gpu_ns is None else None
    if maker is not None:
        advice = _BOUND.text("advice-library")
        code = maker.workers or ""
        params["library"] = maker.title
    elif waits.is_mostly_asleep:
        advice = _BOUND.text("advice-asleep")
        params["asleep"] = waits.asleep
    return replace(draft, change=waits.saved_by_workers(), params=params, advice=advice, code=code)


def _with_more_workers(facts: Facts, draft: Draft) -> Draft:
    """The draft for a loader that already has workers; the trace does not show how many would be enough."""
    workers = program.workers(facts)
    more = "workers" if workers is None else 2 * workers
    code = f"DataLoader(dataset, num_workers={more}, prefetch_factor=4, persistent_workers=True)"
    if workers is None:
        code += "  # workers: more than now"
        return replace(draft, advice=_BOUND.text("advice-some-workers"), code=code)
    params = {**draft.params, "workers": workers}
    return replace(draft, params=params, advice=_BOUND.text("advice-workers"), code=code)


def _in_bursts(waits: BatchWaits, draft: Draft) -> Draft:
    """The draft that says so if few of the waits have most of the time."""
    if waits.bursts is None:
        return draft
    long, every = waits.bursts
    params = {**draft.params, "long": long, "all": every}
    return replace(draft, params=params, summary=_BOUND.text("summary-bursts"))


def _bound_in_table(facts: Facts, limits: Limits) -> Drafts:
    table, wait = facts.table, facts.resources.loader_ns
    if table is None or not table.cpu_ns or not wait:
        return
    share = wait * facts.steps / table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = batch_waits.printed_places([row for row in batch_waits.printed_waits(facts) if row.self_cpu_ns])
    evidence = _BOUND.evidence(limits, "host_share", share, where, subject=_BOUND.text("subject-table")())
    params = {"wait": wait, "step": facts.step_ns, "share": share}
    summary = _BOUND.text("summary-tool") if facts.is_whole_run else _BOUND.text("summary-table")
    draft = Draft((evidence,), params=params, summary=summary)
    if batch_waits.prints_workers(facts):
        change = LoaderShorter((0.0, wait), _BOUND.text("basis-table-workers")(), claims={LOADER: wait})
        yield _with_more_workers(facts, replace(draft, change=change))
    else:
        beside = min(wait, max(0.0, facts.step_ns - wait))  # what one worker hides beside the rest of the step
        change = LoaderShorter((beside, wait), _BOUND.text("basis-table")(), claims={LOADER: wait})
        yield replace(draft, change=change)


def _single_process(facts: Facts, limits: Limits) -> Drafts:
    facts.need("dataloader", DataLoader)
    waits = BatchWaits.of(facts)
    if waits is None or not waits.in_process_part or host_owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    if waits.sampler is not None:
        return  # which draws in the program's process also where workers prepare batches
    part = waits.in_process_part
    wait = waits.average.dataloader_ns * part
    share = waits.share(wait)
    if share <= limits["exposed_share"]:
        return
    where = batch_waits.longest_waits(waits.in_process)
    evidence = _SINGLE_PROCESS.evidence(limits, "exposed_share", share, where)
    change = None if waits.is_too_short(part) else waits.saved_by_workers(part)
    yield Draft((evidence,), change, waits.figures(wait), code=waits.starting_code)


def _single_process_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = batch_waits.printed_waits(facts, in_process=True)
    total = sum(row.self_cpu_ns or 0 for row in rows)
    if facts.table is None or not facts.table.cpu_ns or not total:
        return
    share = total / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = batch_waits.printed_places(rows)
    subject = _SINGLE_PROCESS.text("subject-table")()
    evidence = _SINGLE_PROCESS.evidence(limits, "host_share", share, where, subject=subject)
    wait = facts.per_step(total)
    change = LoaderShorter((wait, wait), _SINGLE_PROCESS.text("basis-table")(), claims={LOADER: wait})
    yield Draft((evidence,), change, {"wait": wait, "step": facts.step_ns, "share": share})


def _stalls(facts: Facts, limits: Limits) -> Drafts:
    loaders = facts.need("dataloader", DataLoader).loaders
    judged = [loader for loader in loaders if loader.calls >= limits["calls"]]
    if not judged:
        most = max((loader.calls for loader in loaders), default=0)
        raise Missing(_STALLS.text("few")(calls=most, least=int(limits["calls"])))
    epochs = facts.find("loader_epochs", LoaderEpochs)
    ends = 2 * epochs.turns + 2 if epochs is not None and _starts_processes(facts, epochs) else 0
    for loader in judged:
        if batch_waits.waits_for_sampler(loader):
            continue  # that is dataloader-bound: batches that are ready earlier do not draw their order faster
        if loader.long_calls > ends or not ends:  # else they are those of dataloader-workers-restarted
            yield from _stalls_of(facts, loader, limits)


def _stalls_of(facts: Facts, loader: Loader, limits: Limits) -> Drafts:
    usual = max(loader.median_ns, 1.0)
    where = tuple(CodePlace("operator", loader.name, None, w.duration_ns, "ns", w.start_ns) for w in loader.longest)
    evidence, excess, calls = [], 0.0, 0
    if loader.p95_ns > limits["p95_medians"] * usual:
        subject = _STALLS.text("p95")()
        evidence.append(_STALLS.evidence(limits, "p95_medians", loader.p95_ns / usual, where, subject=subject))
        excess, calls = loader.excess_ns, loader.long_calls
    wait = facts.spread(excess)  # a late first batch is not part of a typical step, so it has no saving
    if loader.first_ns > limits["first_medians"] * usual:
        subject = _STALLS.text("first")()
        evidence.append(_STALLS.evidence(limits, "first_medians", loader.first_ns / usual, where, subject=subject))
        excess, calls = excess + loader.first_excess_ns, calls + 1
    if not evidence or facts.spread(excess) < limits["gain_share"] * facts.step_ns:
        return
    change = LoaderShorter((0.0, wait), _STALLS.text("basis")(), (0.0, wait), {LOADER: wait}) if wait else None
    params = {
        "calls": calls,
        "all": loader.calls,
        "usual": loader.median_ns,
        "excess": excess,
        "wait": OfEvents(facts.resources.loader_ns or 0.0),
    }
    yield Draft(tuple(evidence), change, params, severity="low", ceiling="high")


def _restarted(facts: Facts, limits: Limits) -> Drafts:
    epochs = facts.need("loader_epochs", LoaderEpochs)
    starts = _starts_processes(facts, epochs)
    if starts is None:
        raise Missing(_RESTARTED.text("no-sign")())
    longer = max(0.0, epochs.total_ns - epochs.usual_total_ns, epochs.excess_ns or 0.0)
    share = longer / facts.recorded_steps_ns if facts.recorded_steps_ns else 0.0
    if not starts or share <= limits["share"]:
        return
    where = tuple(
        CodePlace("time", "epoch", None, turn.duration_ns, "ns", turn.start_ns, EPOCH()) for turn in epochs.longest
    )
    params = {
        "turns": epochs.turns,
        "each": longer / epochs.turns,
        "share": share,
        "total": epochs.total_ns,
        "time": facts.spread(epochs.total_ns),
    }
    evidence = _RESTARTED.evidence(limits, "share", share, where)
    ceiling = "critical" if epochs.turns >= _FEW_EPOCHS else "medium"
    yield Draft((evidence,), _workers_kept(facts, epochs, longer), params, ceiling=ceiling)


def _workers_kept(facts: Facts, epochs: LoaderEpochs, longer: float) -> ProcessesReady:
    """The change in which workers go on with the next epoch, which takes this much longer in the recording in ns."""
    most = facts.spread(longer)
    interval, basis = (0.0, most), _RESTARTED.text("basis-once")
    if epochs.turns >= _FEW_EPOCHS:
        least = min(max(0.0, facts.spread(epochs.wait_ns - epochs.usual_total_ns)), most)
        interval = _varied(epochs, least, most)
        basis = _RESTARTED.text("basis")
    return ProcessesReady(interval, basis(), claims={EventSet.other("start of an epoch"): most}, at=turns_at())


def _varied(epochs: LoaderEpochs, least: float, most: float) -> Interval:
    """The interval with the error of the mean of the changes, and of their number in the recorded steps.

    Where within an epoch a recording begins is chance, so that their number is off by less than one, each value as
    likely: a standard deviation of a change over the root of twelve.
    """
    middle = (least + most) / 2
    share = hypot(variation.of_mean([turn.duration_ns for turn in epochs.longest]), 1 / sqrt(12) / epochs.turns)
    low, high = variation.combined((least, most), middle, variation.COVERS * share * middle)
    return max(0.0, low), high


def _starts_processes(facts: Facts, epochs: LoaderEpochs) -> bool | None:
    """Whether processes start when epochs change; None if the trace does not show it."""
    shown = [turn.starts_processes for turn in epochs.longest if turn.starts_processes is not None]
    if shown:
        return all(shown)
    loaders = facts.capture.facts.loaders if facts.capture else None
    with_workers = [loader for loader in loaders or () if loader.workers]
    if not with_workers:
        return None
    return len(with_workers) > 1 or with_workers[0].persistent_workers is False


def _too_many(facts: Facts, limits: Limits) -> Drafts:
    captured = facts.capture.facts if facts.capture else None
    if captured is None or captured.host.cpus is None or captured.loaders is None:
        raise Missing(_TOO_MANY.text("no-capture")())
    waits = BatchWaits.of(facts)
    if waits is None:
        return
    workers = max((loader.workers or 0 for loader in captured.loaders), default=0)
    cores = captured.host.cpus
    share = waits.share(waits.average.dataloader_ns)
    if workers / cores <= limits["per_core"] or share > limits["wait_share"]:
        return
    where = batch_waits.longest_waits(waits.loaders)
    evidence = (
        _TOO_MANY.evidence(limits, "per_core", workers / cores, where),
        _TOO_MANY.evidence(limits, "wait_share", share, where, subject=_TOO_MANY.text("wait")()),
    )
    fewer = max(1, cores // 2)
    code = f"DataLoader(dataset, num_workers={fewer}, persistent_workers=True)  # or 0, if batches are cheap"
    yield Draft(evidence, None, {"workers": workers, "cores": cores}, severity="medium", code=code)


RULES = (
    _BOUND.rule(trace=_bound, table=_bound_in_table),
    _SINGLE_PROCESS.rule(trace=_single_process, table=_single_process_in_table),
    _STALLS.rule(trace=_stalls),
    _RESTARTED.rule(trace=_restarted),
    _TOO_MANY.rule(trace=_too_many),
    *preprocessing.RULES,
)
