"""Detects programs that wait for batches: for their DataLoader, or because they prepare inputs within the step.

Waiting for the loader is dataloader-bound; the part of it in which the program prepares batches itself is
dataloader-single-process; single batches that come late are dataloader-stalls; the start of workers with each epoch
is dataloader-workers-restarted. More workers than cores are dataloader-too-many-workers, and inputs that no loader
prepares are preprocessing-in-step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import hypot, sqrt
from typing import Any

from traceanalyzer.analyzers.host import HostOwner, HostOwners, RoleTimes, roles_at
from traceanalyzer.analyzers.loader import DataLoader, Loader, LoaderEpochs, in_workers, turns_at
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.knowledge.loaders import FETCH_NS, SLOWDOWN
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, host_work, idle_time, program
from traceanalyzer.rules.engine.change import HostTime, Interval, LoaderShorter, ProcessesReady, StepChange
from traceanalyzer.rules.engine.places import EPOCH
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.simulation import variation
from traceanalyzer.structure.events import LOADER, EventSet
from traceanalyzer.structure.host_waits import is_in_process
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown
from traceanalyzer.structure.typical import mean
from traceanalyzer.trace.document import TableRow

_BOUND = page("dataloader-bound")
_SINGLE_PROCESS = page("dataloader-single-process")
_STALLS = page("dataloader-stalls")
_RESTARTED = page("dataloader-workers-restarted")
_TOO_MANY = page("dataloader-too-many-workers")
_PREPROCESSING = page("preprocessing-in-step")

_FEW_WORKERS = 2
"""Number of workers to advise if the number of cores is unknown; the training itself needs cores, too (own choice)."""
_FEW_EPOCHS = 2
"""Least number of changes of epochs from which their frequency is known."""
_STACKS = 0.5
"""What is left at least of a host's time that was recorded with stacks (own choice; C code is not slowed down)."""
_CODE_PROCESSOR = "processor = AutoImageProcessor.from_pretrained(checkpoint, use_fast=True)"

_FREE = Text(
    "loader-basis-free",
    "at most the waiting in which nothing else runs; at least what one worker saves, less {slowdown:share} of the time "
    "that it loads, because it shares memory and cores with the program, and {fetch:ns} to fetch a batch from it",
)
_BUSY = Text(
    "loader-basis-busy",
    "at most the waiting in which nothing else runs; at least nothing: of {cores:count} hardware threads the program "
    "keeps {threads:count} busy, so workers take time from it",
)
_UNKNOWN = Text(
    "loader-basis-unknown",
    "at most the waiting in which nothing else runs; at least nothing, because the program computes on the CPU and may "
    "keep all cores busy",
)
_ASLEEP = Text(
    "loader-basis-side-by-side",
    "at most the waiting in which nothing else runs; at least what {workers:count} workers save, which wait side by "
    "side: {share:share} of the waiting is for files, a network or a clock and needs no core; less {slowdown:share} of "
    "the rest, because a worker shares memory and cores with the program, and {fetch:ns} to fetch a batch from it",
)


def _bound_in_trace(facts: Facts, limits: Limits) -> Drafts:
    breakdown, average = facts.need("step_breakdown", StepBreakdown), facts.step_parts
    if average is None or not average.duration_ns or host_owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    wait, limit = _wait_within_epochs(facts, average), limits["exposed_share"]
    share = wait / average.duration_ns
    if share <= limit:
        return
    longest = sorted(breakdown.steps, key=lambda step: (-step.dataloader_ns, step.start_ns))[:5]
    where = tuple(CodePlace("step", s.name, value=s.dataloader_ns, unit="ns", start_ns=s.start_ns) for s in longest)
    evidence: tuple[Evidence, ...] = (Evidence(_BOUND.text("subject")(), share, limit, "share", where),)
    in_process = [loader for loader in _loaders(facts) if loader.in_process]
    part = _exposed_share(facts, in_process) * average.dataloader_ns / average.duration_ns
    if part > limit:
        evidence += (Evidence(_BOUND.text("subject-own")(), part, limit, "share", _longest_waits(in_process)),)
    params: dict[str, Any] = {"wait": wait, "step": average.duration_ns, "share": share}
    made_by = program.loader_maker(facts)
    change: StepChange
    if _has_workers(facts):
        if wait > limits["ready_ns"]:
            change = LoaderShorter((0.0, wait), _BOUND.text("basis-workers")(), (0.0, wait), {LOADER: wait})
            yield _bound_with_workers(facts, Draft(evidence, change, params))
    elif _is_too_short(facts, average):
        yield Draft(evidence, None, params, severity="info", advice=_BOUND.text("advice-short"), code="")
    elif made_by is not None:
        params |= {"library": made_by.title}
        change, advice = _saved_by_workers(facts, average), _BOUND.text("advice-library")
        yield Draft(evidence, change, params, advice=advice, code=made_by.workers or "")
    else:
        fitting = _BOUND.text("advice-host") if facts.resources.gpu_ns is None else None
        if (asleep := _asleep(facts, average)) >= in_workers.MOSTLY:
            fitting, params["asleep"] = _BOUND.text("advice-asleep"), asleep
        code = _starting_code(facts, average)
        yield Draft(evidence, _saved_by_workers(facts, average), params, advice=fitting, code=code)


def _wait_within_epochs(facts: Facts, average: Average) -> float:
    """Exposed waiting per step, without that at the change of epochs, which is about starting workers."""
    epochs = facts.find("loader_epochs", LoaderEpochs)
    turning = 0.0 if epochs is None else facts.spread(epochs.wait_ns - 2 * epochs.turns * epochs.usual_ns)
    return average.dataloader_ns - min(max(0.0, turning), average.dataloader_ns)


def _bound_with_workers(facts: Facts, draft: Draft) -> Draft:
    """The draft for a loader that already has workers; the trace does not show how many would be enough."""
    workers = program.workers(facts)
    more = "workers" if workers is None else 2 * workers
    code = f"DataLoader(dataset, num_workers={more}, prefetch_factor=4, persistent_workers=True)"
    if workers is None:
        code += "  # workers: more than now"
        return replace(draft, advice=_BOUND.text("advice-some-workers"), code=code)
    params = {**draft.params, "workers": workers}
    return replace(draft, params=params, advice=_BOUND.text("advice-workers"), code=code)


def _bound_in_table(facts: Facts, limits: Limits) -> Drafts:
    table, loader = facts.table, facts.resources.loader_ns
    if table is None or not table.cpu_ns or not loader:
        return
    share = loader * facts.steps / table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = _printed_places([row for row in _printed_waits(facts) if row.self_cpu_ns])
    evidence = Evidence(_BOUND.text("subject-table")(), share, limits["host_share"], "share", where)
    params = {"wait": loader, "step": facts.step_ns, "share": share}
    if _has_workers(facts):
        change = LoaderShorter((0.0, loader), _BOUND.text("basis-table-workers")(), claims={LOADER: loader})
        draft = Draft((evidence,), change, params, summary=_BOUND.text("summary-table"))
        yield _bound_with_workers(facts, draft)
        return
    change = LoaderShorter((loader, loader), _BOUND.text("basis-table")(), claims={LOADER: loader})
    yield Draft((evidence,), change, params, summary=_BOUND.text("summary-table"))


def _single_process_in_trace(facts: Facts, limits: Limits) -> Drafts:
    loaders, average = facts.need("dataloader", DataLoader).loaders, facts.step_parts
    in_process = [loader for loader in loaders if loader.in_process]
    part = _exposed_share(facts, in_process)
    if average is None or not average.duration_ns or not part or host_owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    wait = average.dataloader_ns * part
    share, limit = wait / average.duration_ns, limits["exposed_share"]
    if share <= limit:
        return
    evidence = Evidence(_SINGLE_PROCESS.text("subject")(), share, limit, "share", _longest_waits(in_process))
    change = None if _is_too_short(facts, average, part) else _saved_by_workers(facts, average, part)
    params = {"wait": wait, "step": average.duration_ns, "share": share}
    yield Draft((evidence,), change, params, code=_starting_code(facts, average))


def _single_process_in_table(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in _printed_waits(facts) if is_in_process(row.name)]
    total = sum(row.self_cpu_ns or 0 for row in rows)
    if facts.table is None or not facts.table.cpu_ns or not total:
        return
    share = total / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = _printed_places(rows)
    evidence = Evidence(_SINGLE_PROCESS.text("subject-table")(), share, limits["host_share"], "share", where)
    wait = facts.per_step(total)
    change = LoaderShorter((wait, wait), _SINGLE_PROCESS.text("basis-table")(), claims={LOADER: wait})
    yield Draft((evidence,), change, {"wait": wait, "step": facts.step_ns, "share": share})


def _loaders(facts: Facts) -> tuple[Loader, ...]:
    loaders = facts.find("dataloader", DataLoader)
    return loaders.loaders if loaders else ()


def _exposed_share(facts: Facts, loaders: Sequence[Loader]) -> float:
    """Part of some loaders in the time in which the program waits for all loaders and nothing else runs."""
    exposed = sum(loader.exposed_ns for loader in _loaders(facts))
    return sum(loader.exposed_ns for loader in loaders) / exposed if exposed else 0.0


def _longest_waits(loaders: Sequence[Loader]) -> tuple[CodePlace, ...]:
    """The longest waits for some loaders."""
    waits = [(wait, loader) for loader in loaders for wait in loader.longest]
    waits.sort(key=lambda entry: (-entry[0].exposed_ns, entry[0].start_ns))
    return tuple(
        CodePlace("operator", loader.name, value=wait.exposed_ns, unit="ns", start_ns=wait.start_ns)
        for wait, loader in waits[:5]
    )


def _printed_waits(facts: Facts) -> list[TableRow]:
    """Rows of a table that are waits for loaders."""
    return [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row)]


def _printed_places(rows: Sequence[TableRow]) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)


def _has_workers(facts: Facts) -> bool | None:
    """Whether the batches that the program waits for come from workers: by a capture, or by the iterators' names."""
    if facts.table is None:
        return in_workers.are_workers(_loaders(facts), facts.capture.facts if facts.capture else None)
    longest = max(_printed_waits(facts), key=lambda row: row.self_cpu_ns or 0, default=None)
    in_process = None if longest is None else is_in_process(longest.name)
    return None if in_process is None else not in_process


def _starting_code(facts: Facts, average: Average) -> str | None:
    """Code with as many workers as there is room for, or as wait side by side; None: the rule's."""
    workers, is_on_host = program.starting_workers(facts), facts.resources.gpu_ns is None
    if (asleep := _asleep(facts, average)) and (workers or asleep >= in_workers.MOSTLY):
        workers = max(workers or 0, in_workers.side_by_side(average, _loaders(facts), asleep, _room(facts)))
    if workers is None and not is_on_host:
        return None
    is_pinned = workers is None or is_on_host or program.all_pinned(facts)
    pinning = "" if is_pinned else "pin_memory=True, "
    return f"DataLoader(dataset, num_workers={workers or _FEW_WORKERS}, {pinning}persistent_workers=True)"


def _asleep(facts: Facts, average: Average) -> float:
    """Share of the waiting that needs no core."""
    return in_workers.asleep_share(average, _loaders(facts), facts.capture.facts if facts.capture else None)


def _room(facts: Facts) -> in_workers.Room:
    """Cores and busy threads, by a capture."""
    host = facts.capture.facts.host if facts.capture else None
    return in_workers.room(host, is_on_host=facts.resources.gpu_ns is None)


def _is_too_short(facts: Facts, average: Average, share: float = 1.0) -> bool:
    """Whether fetching and sending a batch takes as long as preparing it, if there is no free core for a worker."""
    return not _room(facts).is_free and average.dataloader_ns * share < 2 * FETCH_NS


def _saved_by_workers(facts: Facts, average: Average, share: float = 1.0) -> StepChange:
    """What workers save of a share of the waiting, if there are several loaders, and why it is no more or less."""
    room, asleep = _room(facts), _asleep(facts, average)
    saved = in_workers.saving(average, _loaders(facts), asleep, room, share)
    costs = {"slowdown": SLOWDOWN[1], "fetch": FETCH_NS}
    workers = in_workers.side_by_side(average, _loaders(facts), asleep, room)
    if workers > 1 and (asleep >= in_workers.MOSTLY or saved[0] > 0):
        basis = _ASLEEP(workers=workers, share=asleep, **costs)
    elif room.is_free:
        basis = _FREE(**costs)
    else:
        basis = _UNKNOWN() if room.cores is None else _BUSY(cores=room.cores, threads=room.busy)
    return LoaderShorter(saved, basis, saved, {LOADER: saved[1]})


def _stalls_in_trace(facts: Facts, limits: Limits) -> Drafts:
    loaders = facts.need("dataloader", DataLoader).loaders
    judged = [loader for loader in loaders if loader.calls >= limits["calls"]]
    if not judged:
        most = max((loader.calls for loader in loaders), default=0)
        raise Missing(_STALLS.text("few")(calls=most, least=int(limits["calls"])))
    for loader in judged:
        yield from _stalls_of(facts, loader, limits)


def _stalls_of(facts: Facts, loader: Loader, limits: Limits) -> Drafts:
    usual, late, first_late = max(loader.median_ns, 1.0), limits["p95_medians"], limits["first_medians"]
    where = tuple(CodePlace("operator", loader.name, None, w.duration_ns, "ns", w.start_ns) for w in loader.longest)
    evidence, excess, calls = [], 0.0, 0
    if loader.p95_ns > late * usual:
        evidence.append(Evidence(_STALLS.text("p95")(), loader.p95_ns / usual, late, "number", where))
        excess, calls = loader.excess_ns, loader.long_calls
    wait = facts.spread(excess)  # a late first batch is not part of a typical step, so it has no saving
    if loader.first_ns > first_late * usual:
        evidence.append(Evidence(_STALLS.text("first")(), loader.first_ns / usual, first_late, "number", where))
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


def _restarted_in_trace(facts: Facts, limits: Limits) -> Drafts:
    epochs = facts.need("loader_epochs", LoaderEpochs)
    starts = _starts_processes(facts, epochs)
    if starts is None:
        raise Missing(_RESTARTED.text("no-sign")())
    usual = 2 * epochs.turns * epochs.usual_ns
    longer = max(0.0, epochs.total_ns - usual, epochs.excess_ns or 0.0)
    most = facts.spread(longer)
    least = min(max(0.0, facts.spread(epochs.wait_ns - usual)), most)
    share = longer / facts.recorded_steps_ns if facts.recorded_steps_ns else 0.0
    if not starts or share <= limits["share"]:
        return
    where = tuple(
        CodePlace("time", "epoch", None, turn.duration_ns, "ns", turn.start_ns, EPOCH()) for turn in epochs.longest
    )
    interval, basis, ceiling = (0.0, most), _RESTARTED.text("basis-once"), "medium"
    if epochs.turns >= _FEW_EPOCHS:
        interval, basis, ceiling = _varied(epochs, least, most), _RESTARTED.text("basis"), "critical"
    claims = {EventSet.other("start of an epoch"): most}
    change = ProcessesReady(interval, basis(), claims=claims, at=turns_at())
    params = {"turns": epochs.turns, "each": longer / epochs.turns, "share": share}
    params |= {"total": epochs.total_ns, "time": facts.spread(epochs.total_ns)}
    evidence = Evidence(_RESTARTED.text("subject")(), share, limits["share"], "share", where)
    yield Draft((evidence,), change, params, ceiling=ceiling)


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


def _too_many_in_trace(facts: Facts, limits: Limits) -> Drafts:
    captured, average = facts.capture.facts if facts.capture else None, facts.step_parts
    if captured is None or captured.host.cpus is None or captured.loaders is None:
        raise Missing(_TOO_MANY.text("no-capture")())
    workers, cores = max((loader.workers or 0 for loader in captured.loaders), default=0), captured.host.cpus
    if average is None or not average.duration_ns:
        return
    wait = average.dataloader_ns / average.duration_ns
    if workers / cores <= limits["per_core"] or wait > limits["wait_share"]:
        return
    where = _longest_waits(_loaders(facts))
    evidence = (
        Evidence(_TOO_MANY.text("subject")(), workers / cores, limits["per_core"], "number", where),
        Evidence(_TOO_MANY.text("wait")(), wait, limits["wait_share"], "share", where),
    )
    fewer = max(1, cores // 2)
    code = f"DataLoader(dataset, num_workers={fewer}, persistent_workers=True)  # or 0, if batches are cheap"
    yield Draft(evidence, None, {"workers": workers, "cores": cores}, severity="medium", code=code)


def _preprocessing_in_trace(facts: Facts, limits: Limits) -> Drafts:
    if facts.resources.gpu_ns is None:
        yield from _preprocessing_on_cpu(facts, limits)
        return
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_PREPROCESSING.text("no-owners")())
    roles = [row for row in owners.roles if row.role in host_owners.INPUT_ROLES]
    in_pipeline = host_owners.loads_in_pipeline(facts)
    in_loader = 0 if in_pipeline else sum(row.idle_in_loader_ns or 0 for row in roles)
    time = mean(sum(row.idle_ns or 0 for row in roles) - in_loader, owners.steps)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = [row for name in host_owners.INPUT_ROLES for row in host_owners.of_role(facts, name)]
    rows = sorted(rows, key=lambda row: -(row.idle_self_ns or 0))[:5]
    where = tuple(host_owners.place(row, row.idle_self_ns_per_step) for row in rows if row.idle_self_ns)
    evidence = Evidence(_PREPROCESSING.text("subject")(), share, limits["idle_share"], "share", where)
    owner = host_owners.name(_most_idle(owners, roles))
    params = {"time": OfEvents(time), "step": facts.step_ns, "share": OfEvents(time, is_share=True), "owner": owner}
    files = [row.file or "" for row in rows]
    # a processor of images of a library that has a fast variant on tensors
    advice, by_processor = None, any("transformers/" in file and "image_process" in file for file in files)
    if in_pipeline or by_processor:
        advice = _PREPROCESSING.text("advice-pipeline") if in_pipeline else _PREPROCESSING.text("advice-processor")
    change = _preprocessing_hidden(facts, time, is_loader=in_pipeline)
    code = _CODE_PROCESSOR if by_processor else ""
    yield Draft((evidence,), change, params, advice=advice, code=code)


def _preprocessing_on_cpu(facts: Facts, limits: Limits) -> Drafts:
    """Preprocessing on the thread of a program without a device."""
    owners = facts.find("host_owners", HostOwners)
    if owners is None or not owners.steps:
        raise Missing(_PREPROCESSING.text("no-owners")())
    host_work.need_cpu_steps(facts)
    roles = [row for row in owners.roles if row.role in host_owners.INPUT_ROLES]
    time = mean(sum(row.host_ns for row in roles), owners.steps) - (facts.resources.loader_ns or 0.0)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = [row for row in owners.rows if row.role in host_owners.INPUT_ROLES]
    rows = sorted(rows, key=lambda row: -row.host_self_ns)[:5]
    where = tuple(host_owners.place(row, row.host_self_ns_per_step) for row in rows)
    evidence = Evidence(_PREPROCESSING.text("subject-cpu")(), share, limits["idle_share"], "share", where)
    params = {
        "time": OfEvents(time),
        "step": facts.step_ns,
        "share": OfEvents(time, is_share=True),
        "owner": host_owners.name(rows[0]),
    }
    at = roles_at(roles=host_owners.INPUT_ROLES, in_loader=False)
    change = HostTime((0.0, time), _PREPROCESSING.text("basis-cpu")(), at=at)
    title, summary = _PREPROCESSING.text("title-cpu"), _PREPROCESSING.text("summary-cpu")
    advice = _PREPROCESSING.text("advice-cpu")
    yield Draft((evidence,), change, params, title=title, summary=summary, advice=advice, ceiling="high")


def _most_idle(owners: HostOwners, roles: Sequence[RoleTimes]) -> HostOwner:
    """The owner to name: among owners with half of the time, the one with the most time of its own."""
    largest = max(roles, key=lambda row: row.idle_ns or 0)
    rows = [row for row in owners.rows if row.role == largest.role]
    half = [row for row in rows if 2 * (row.idle_self_ns or 0) >= (largest.idle_ns or 0)]
    around = [row for row in rows if 2 * (row.idle_ns or 0) >= (largest.idle_ns or 0)]
    return min(half or around or rows, key=lambda row: row.idle_ns or 0)


def _preprocessing_hidden(facts: Facts, time: float, *, is_loader: bool) -> StepChange:
    """What is saved if workers prepare the inputs of the next step beside the rest of this one."""
    hidden = (1 - SLOWDOWN[1]) * min(time, facts.step_ns - time)
    basis = _PREPROCESSING.text("basis")(contention=SLOWDOWN[1])
    if facts.is_host_inflated:
        hidden, basis = _STACKS * hidden, _PREPROCESSING.text("basis-stacks")()
    claims = {LOADER: time} if is_loader else host_owners.claims(facts, time)
    at = roles_at(roles=host_owners.INPUT_ROLES, in_loader=True) if is_loader else None
    kind = LoaderShorter if is_loader else HostTime
    return kind((hidden, time), basis, (hidden, time), claims, at)


RULES = (
    _BOUND.rule(trace=_bound_in_trace, table=_bound_in_table),
    _SINGLE_PROCESS.rule(trace=_single_process_in_trace, table=_single_process_in_table),
    _STALLS.rule(trace=_stalls_in_trace),
    _RESTARTED.rule(trace=_restarted_in_trace),
    _TOO_MANY.rule(trace=_too_many_in_trace),
    _PREPROCESSING.rule(trace=_preprocessing_in_trace),
)
