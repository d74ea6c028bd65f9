"""X."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import hypot, sqrt
from typing import Any

from traceanalyzer.analyzers.host import HostOwner, HostOwners, RoleTimes
from traceanalyzer.analyzers.loader import DataLoader, Loader, in_workers
from traceanalyzer.analyzers.loader.epochs import LoaderEpochs
from traceanalyzer.analyzers.loader.in_workers import Room
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.knowledge.loader_workers import FETCH_NS, SLOWDOWN
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import EPOCH
from traceanalyzer.rules.engine import host_owners, host_work, idle_time, program, settings
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.simulation import variation
from traceanalyzer.structure.loader_waits import is_in_process
from traceanalyzer.structure.step_breakdown import Average, Step, StepBreakdown

FEW_WORKERS = 2
"""Number of workers to advise if the number of cores is unknown; the training itself needs cores, too (own choice)."""


def has_workers(facts: Facts) -> bool | None:
    """Whether the batches that the program waits for come from workers: by a capture, or by the iterators' names."""
    if facts.table is None:
        return in_workers.are_workers(_loaders(facts), facts.capture.facts if facts.capture else None)
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row)]
    longest = max(rows, key=lambda row: row.self_cpu_ns or 0, default=None)
    in_process = None if longest is None else is_in_process(longest.name)
    return None if in_process is None else not in_process


def starting_code(facts: Facts) -> str | None:
    """Code with as many workers as the machine has room for, without settings that are there; None: the rule's."""
    workers = settings.starting_workers(facts)
    is_on_host = facts.resources.gpu_ns is None
    if workers is None:
        return code_without_gpu() if is_on_host else None
    pinning = "" if is_on_host or settings.all_pinned(facts) else "pin_memory=True, "
    return f"DataLoader(dataset, num_workers={workers}, {pinning}persistent_workers=True)"


def places(loaders: list[Loader]) -> tuple[CodePlace, ...]:
    """The longest waits for some loaders."""
    waits = [(wait, loader) for loader in loaders for wait in loader.longest]
    waits.sort(key=lambda entry: (-entry[0].exposed_ns, entry[0].start_ns))
    return tuple(
        CodePlace("operator", loader.name, value=wait.exposed_ns, unit="ns", start_ns=wait.start_ns)
        for wait, loader in waits[:5]
    )


def code_without_gpu() -> str:
    """The code without pinning, for programs that copy nothing to a device."""
    return f"DataLoader(dataset, num_workers={FEW_WORKERS}, persistent_workers=True)"


def room(facts: Facts) -> Room:
    """Cores and busy threads, by a capture."""
    host = facts.capture.facts.host if facts.capture else None
    return in_workers.room(host, is_on_host=facts.resources.gpu_ns is None)


def is_too_short(facts: Facts, average: Average, share: float = 1.0) -> bool:
    """Whether fetching and sending a batch takes as long as preparing it, if there is no free core for a worker."""
    return not room(facts).is_free and average.dataloader_ns * share < 2 * FETCH_NS


def with_workers(facts: Facts, average: Average, share: float = 1.0) -> TimeSaved:
    """At most the exposed waiting; at least the saving with one worker beside the rest of the step, less its cost.

    A worker without a free core may cost as much as it saves; waiting (for a network, asleep) needs no core.

    Args:
        facts: The facts of the run.
        average: Means over the steps.
        share: Share of the waiting that is removed, if there are several loaders.
    """
    own, loaders, capture = room(facts), _loaders(facts), facts.capture.facts if facts.capture else None
    asleep = in_workers.asleep_share(average, loaders, capture)
    saved = in_workers.saving(average, loaders, asleep, own, share)
    costs = {"slowdown": SLOWDOWN[1], "fetch": FETCH_NS}
    if own.is_free:
        basis = _FREE(**costs)
    elif asleep >= _MOSTLY or saved[0] > 0:
        basis = _ASLEEP(share=asleep, **costs)
    else:
        basis = _UNKNOWN() if own.cores is None else _BUSY(cores=own.cores, threads=own.busy)
    return TimeSaved("loader", saved, basis, saved, {"loader": saved[1]})


def _loaders(facts: Facts) -> tuple[Loader, ...]:
    found = facts.find("dataloader", DataLoader)
    return found.loaders if found else ()


_MOSTLY = 0.5
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
    "loader-basis-needs-no-core",
    "at most the waiting in which nothing else runs; at least what one worker saves of the part that needs no core "
    "({share:share} is waiting for files, a network or a clock), less {slowdown:share} of the other part, because a "
    "worker shares memory and cores with the program, and {fetch:ns} to fetch a batch from it",
)


_BOUND = page("dataloader-bound")


def _bound_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    breakdown = facts.need("step_breakdown", StepBreakdown)
    average = facts.step_parts
    if average is None or not average.duration_ns or host_owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    wait = _wait(facts, average)
    share = wait / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = [Evidence(_BOUND.text("subject")(), share, limits["exposed_share"], "share", _worst(breakdown.steps))]
    evidence += _in_process(facts, average, limits["exposed_share"])
    params: dict[str, Any] = {"wait": wait, "step": average.duration_ns, "share": share}
    made_by = program.loader_maker(facts)
    if has_workers(facts):
        if wait > limits["ready_ns"]:
            change = TimeSaved("loader", (0.0, wait), _BOUND.text("basis-workers")(), (0.0, wait), {"loader": wait})
            yield _of_workers(facts, tuple(evidence), change, params)
        return
    if is_too_short(facts, average):
        yield Draft(tuple(evidence), None, params, severity="info", advice=_BOUND.text("advice-short"), code="")
        return
    saved = with_workers(facts, average)
    if made_by is not None:
        params |= {"library": made_by.title}
        yield Draft(tuple(evidence), saved, params, advice=_BOUND.text("advice-library"), code=made_by.workers or "")
        return
    advice = _BOUND.text("advice-host") if facts.resources.gpu_ns is None else None
    yield Draft(tuple(evidence), saved, params, advice=advice, code=starting_code(facts))


def _wait(facts: Facts, average: Average) -> float:
    """Exposed waiting per step, without that at the change of epochs, which is about starting workers."""
    epochs = facts.find("loader_epochs", LoaderEpochs)
    turning = 0.0 if epochs is None else facts.host_per_step(epochs.wait_ns - 2 * epochs.turns * epochs.usual_ns)
    return average.dataloader_ns - min(max(0.0, turning), average.dataloader_ns)


def _of_workers(
    facts: Facts, evidence: tuple[Evidence, ...], change: TimeSaved, params: dict[str, Any], summary: Text | None = None
) -> Draft:
    """The loader already has workers; the trace does not show how many would be enough."""
    workers = settings.workers(facts)
    more = "workers" if workers is None else 2 * workers
    code = f"DataLoader(dataset, num_workers={more}, prefetch_factor=4, persistent_workers=True)"
    if workers is None:
        code += "  # workers: more than now"
        return Draft(evidence, change, params, summary=summary, advice=_BOUND.text("advice-some-workers"), code=code)
    params = {**params, "workers": workers}
    return Draft(evidence, change, params, summary=summary, advice=_BOUND.text("advice-workers"), code=code)


def _in_process(facts: Facts, average: Average, limit: float) -> list[Evidence]:
    """The part of the waiting in which the program itself prepares the batch."""
    found = facts.find("dataloader", DataLoader)
    loaders = list(found.loaders) if found else []
    own, exposed = [row for row in loaders if row.in_process], sum(row.exposed_ns for row in loaders)
    if not own or not exposed:
        return []
    part = sum(row.exposed_ns for row in own) / exposed * average.dataloader_ns / average.duration_ns
    return [Evidence(_BOUND.text("subject-own")(), part, limit, "share", places(own))] if part > limit else []


def _worst(steps: tuple[Step, ...]) -> tuple[CodePlace, ...]:
    longest = sorted(steps, key=lambda step: (-step.dataloader_ns, step.start_ns))[:5]
    return tuple(CodePlace("step", s.name, value=s.dataloader_ns, unit="ns", start_ns=s.start_ns) for s in longest)


def _bound_in_table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    table, loader = facts.table, facts.resources.loader_ns
    if table is None or not table.cpu_ns or not loader:
        return
    share = loader * facts.steps / table.cpu_ns
    if share <= limits["host_share"]:
        return
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row) and row.self_cpu_ns]
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_BOUND.text("subject-table")(), share, limits["host_share"], "share", where)
    params = {"wait": loader, "step": facts.step_ns, "share": share}
    if has_workers(facts):
        change = TimeSaved("loader", (0.0, loader), _BOUND.text("basis-table-workers")(), claims={"loader": loader})
        yield _of_workers(facts, (evidence,), change, params, _BOUND.text("summary-table"))
        return
    change = TimeSaved("loader", (loader, loader), _BOUND.text("basis-table")(), claims={"loader": loader})
    yield Draft((evidence,), change, params, summary=_BOUND.text("summary-table"))


_SINGLE_PROCESS = page("dataloader-single-process")


def _single_process_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    loaders = facts.need("dataloader", DataLoader).loaders
    average = facts.step_parts
    own = [loader for loader in loaders if loader.in_process]
    exposed = sum(loader.exposed_ns for loader in loaders)
    if average is None or not average.duration_ns or not own or not exposed:
        return
    if host_owners.loads_in_pipeline(facts):
        return  # the work of a pipeline's own loader is judged by preprocessing-in-step
    part = sum(loader.exposed_ns for loader in own) / exposed
    wait = average.dataloader_ns * part
    share = wait / average.duration_ns
    if share <= limits["exposed_share"]:
        return
    evidence = Evidence(_SINGLE_PROCESS.text("subject")(), share, limits["exposed_share"], "share", places(own))
    change = None if is_too_short(facts, average, part) else with_workers(facts, average, part)
    yield Draft(
        (evidence,),
        change,
        {"wait": wait, "step": average.duration_ns, "share": share},
        code=starting_code(facts),
    )


def _single_process_in_table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if is_dataloader(row) and is_in_process(row.name)]
    total = sum(row.self_cpu_ns or 0 for row in rows)
    if facts.table is None or not facts.table.cpu_ns or not total:
        return
    share = total / facts.table.cpu_ns
    if share <= limits["host_share"]:
        return
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_SINGLE_PROCESS.text("subject-table")(), share, limits["host_share"], "share", where)
    wait = facts.host_per_step(total)
    change = TimeSaved("loader", (wait, wait), _SINGLE_PROCESS.text("basis-table")(), claims={"loader": wait})
    yield Draft((evidence,), change, {"wait": wait, "step": facts.step_ns, "share": share})


_STALLS = page("dataloader-stalls")


def _stalls_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    loaders = facts.need("dataloader", DataLoader).loaders
    judged = [loader for loader in loaders if loader.calls >= limits["calls"]]
    if not judged:
        most = max((loader.calls for loader in loaders), default=0)
        raise Missing(_STALLS.text("few")(calls=most, least=int(limits["calls"])))
    for loader in judged:
        yield from _judge(facts, loader, limits)


def _judge(facts: Facts, loader: Loader, limits: Mapping[str, float]) -> Iterator[Draft]:
    usual = max(loader.median_ns, 1.0)
    where = tuple(
        CodePlace("operator", loader.name, value=wait.duration_ns, unit="ns", start_ns=wait.start_ns)
        for wait in loader.longest
    )
    evidence, excess, calls = [], 0.0, 0
    if loader.p95_ns > limits["p95_medians"] * usual:
        evidence.append(Evidence(_STALLS.text("p95")(), loader.p95_ns / usual, limits["p95_medians"], "number", where))
        excess, calls = loader.excess_ns, loader.long_calls
    if loader.first_ns > limits["first_medians"] * usual:
        evidence.append(
            Evidence(_STALLS.text("first")(), loader.first_ns / usual, limits["first_medians"], "number", where)
        )
        excess, calls = excess + loader.first_excess_ns, calls + 1
    if not evidence or facts.host_per_step(excess) < limits["gain_share"] * facts.step_ns:
        return
    change = _stalls_change(
        facts.host_per_step(loader.excess_ns if loader.p95_ns > limits["p95_medians"] * usual else 0)
    )
    params = {"calls": calls, "all": loader.calls, "usual": loader.median_ns, "excess": excess}
    yield Draft(tuple(evidence), change, params, severity="low", ceiling="high")


def _stalls_change(per_step: float) -> TimeSaved | None:
    """What long waits cost in each step; a late first batch is not part of a typical step, so it has no saving."""
    if not per_step:
        return None
    return TimeSaved("loader", (0.0, per_step), _STALLS.text("basis")(), (0.0, per_step), {"loader": per_step})


_RESTARTED = page("dataloader-workers-restarted")
_FEW = 2
"""Least number of changes of epochs from which their frequency is known."""


def _restarted_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("loader_epochs", LoaderEpochs)
    starts = _starts(facts, found)
    if starts is None:
        raise Missing(_RESTARTED.text("no-sign")())
    usual = 2 * found.turns * found.usual_ns
    most = facts.host_per_step(max(0.0, found.total_ns - usual, found.excess_ns or 0.0))
    least = min(max(0.0, facts.host_per_step(found.wait_ns - usual)), most)
    share = most / facts.step_ns
    if not starts or share <= limits["share"]:
        return
    where = tuple(
        CodePlace("time", "epoch", None, turn.duration_ns, "ns", turn.start_ns, EPOCH()) for turn in found.longest
    )
    is_frequent = found.turns >= _FEW
    interval = _varied(found, least, most) if is_frequent else (0.0, most)
    change = TimeSaved(
        "host",
        interval,
        (_RESTARTED.text("basis") if is_frequent else _RESTARTED.text("basis-once"))(),
        claims={"loader:epochs": most},
    )
    params = {"turns": found.turns, "each": most * facts.steps / found.turns, "share": share}
    evidence = Evidence(_RESTARTED.text("subject")(), share, limits["share"], "share", where)
    yield Draft((evidence,), change, params, ceiling="critical" if is_frequent else "medium")


def _varied(found: LoaderEpochs, least: float, most: float) -> Interval:
    """The interval with the error of the mean of the changes, and of their number in the recorded steps.

    Where within an epoch a recording begins is chance, so that their number is off by less than one, each value as
    likely: a standard deviation of a change over the root of twelve.
    """
    middle = (least + most) / 2
    share = hypot(variation.of_mean([turn.duration_ns for turn in found.longest]), 1 / sqrt(12) / found.turns)
    low, high = variation.combined((least, most), middle, variation.COVERS * share * middle)
    return max(0.0, low), high


def _starts(facts: Facts, found: LoaderEpochs) -> bool | None:
    """Whether processes start when epochs change; None if the trace does not show it."""
    told = [turn.starts_processes for turn in found.longest if turn.starts_processes is not None]
    if told:
        return all(told)
    loaders = facts.capture.facts.loaders if facts.capture else None
    own = [loader for loader in loaders or () if loader.workers]
    if not own:
        return None
    return len(own) > 1 or own[0].persistent_workers is False


_TOO_MANY = page("dataloader-too-many-workers")


def _too_many_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    known, average = facts.capture.facts if facts.capture else None, facts.step_parts
    if known is None or known.host.cpus is None or known.loaders is None:
        raise Missing(_TOO_MANY.text("no-capture")())
    workers = max((loader.workers or 0 for loader in known.loaders), default=0)
    if average is None or not average.duration_ns:
        return
    wait = average.dataloader_ns / average.duration_ns
    if workers <= limits["per_core"] * known.host.cpus or wait > limits["wait_share"]:
        return
    found = facts.find("dataloader", DataLoader)
    where = places(list(found.loaders) if found else [])
    evidence = (
        Evidence(_TOO_MANY.text("subject")(), workers / known.host.cpus, limits["per_core"], "number", where),
        Evidence(_TOO_MANY.text("wait")(), wait, limits["wait_share"], "share", where),
    )
    fewer = max(1, known.host.cpus // 2)
    params = {"workers": workers, "cores": known.host.cpus}
    code = f"DataLoader(dataset, num_workers={fewer}, persistent_workers=True)  # or 0, if batches are cheap"
    yield Draft(evidence, None, params, severity="medium", code=code)


_PREPROCESSING = page("preprocessing-in-step")
_STACKS = 0.5
"""What is left at least of a host's time that was recorded with stacks (own choice; C code is not slowed down)."""


def _preprocessing_in_trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.resources.gpu_ns is None:
        yield from _preprocessing_on_cpu(facts, limits)
        return
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_PREPROCESSING.text("no-owners")())
    roles = [row for row in owners.roles if row.role in host_owners.INPUT_ROLES]
    in_pipeline = host_owners.loads_in_pipeline(facts)
    time = sum(_idle_ns(row, in_pipeline) for row in roles) / owners.steps
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = sorted((row for name in host_owners.INPUT_ROLES for row in host_owners.of_role(facts, name)), key=_own_idle)[
        :5
    ]
    where = tuple(host_owners.place(row, row.idle_self_ns_per_step) for row in rows if row.idle_self_ns)
    evidence = Evidence(_PREPROCESSING.text("subject")(), share, limits["idle_share"], "share", where)
    most = _most(owners, roles)
    params = {"time": time, "step": facts.step_ns, "share": share, "owner": host_owners.name(most)}
    yield Draft(
        (evidence,),
        _preprocessing_change(facts, time, is_loader=in_pipeline),
        params,
        advice=_PREPROCESSING.text("advice-pipeline")
        if in_pipeline
        else _PREPROCESSING.text("advice-processor")
        if _is_processor(rows)
        else None,
        code=_CODE_PROCESSOR if _is_processor(rows) else "",
    )


def _preprocessing_on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Preprocessing on the thread of a program without a device."""
    owners = facts.find("host_owners", HostOwners)
    if owners is None or not owners.steps:
        raise Missing(_PREPROCESSING.text("no-owners")())
    host_work.need_cpu_steps(facts)
    roles = [row for row in owners.roles if row.role in host_owners.INPUT_ROLES]
    time = sum(row.host_ns for row in roles) / owners.steps - (facts.resources.loader_ns or 0.0)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = sorted(
        (row for row in owners.rows if row.role in host_owners.INPUT_ROLES), key=lambda row: -row.host_self_ns
    )[:5]
    where = tuple(host_owners.place(row, row.host_self_ns_per_step) for row in rows)
    evidence = Evidence(_PREPROCESSING.text("subject-cpu")(), share, limits["idle_share"], "share", where)
    params = {"time": time, "step": facts.step_ns, "share": share, "owner": host_owners.name(rows[0])}
    change = TimeSaved("host", (0.0, time), _PREPROCESSING.text("basis-cpu")())
    yield Draft(
        (evidence,),
        change,
        params,
        summary=_PREPROCESSING.text("summary-cpu"),
        advice=_PREPROCESSING.text("advice-cpu"),
        ceiling="high",
    )


def _idle_ns(row: RoleTimes, in_pipeline: bool) -> int:
    """Idle time of a role, without what the program's own loader takes."""
    return (row.idle_ns or 0) - (0 if in_pipeline else row.idle_in_loader_ns or 0)


def _own_idle(row: HostOwner) -> float:
    return -(row.idle_self_ns or 0)


def _most(owners: HostOwners, roles: list[RoleTimes]) -> HostOwner:
    """The owner to name: among owners with half of the time, the one with the most time of its own."""
    largest = max(roles, key=lambda row: row.idle_ns or 0)
    rows = [row for row in owners.rows if row.role == largest.role]
    half = [row for row in rows if 2 * (row.idle_self_ns or 0) >= (largest.idle_ns or 0)]
    around = [row for row in rows if 2 * (row.idle_ns or 0) >= (largest.idle_ns or 0)]
    return min(half or around or rows, key=lambda row: row.idle_ns or 0)


def _is_processor(rows: list[HostOwner]) -> bool:
    """Whether a processor of images of a library takes part that has a fast variant on tensors."""
    return any("transformers/" in (row.file or "") and "image_process" in (row.file or "") for row in rows)


def _preprocessing_change(facts: Facts, time: float, *, is_loader: bool) -> TimeSaved:
    hidden = (1 - SLOWDOWN[1]) * min(time, facts.step_ns - time)
    basis = _PREPROCESSING.text("basis")(contention=SLOWDOWN[1])
    if facts.is_host_inflated:
        hidden, basis = _STACKS * hidden, _PREPROCESSING.text("basis-stacks")()
    interval = (hidden, time)
    claimed = {"loader": time} if is_loader else host_owners.claims(facts, time)
    return TimeSaved("loader" if is_loader else "host", interval, basis, interval, claimed)


_CODE_PROCESSOR = "processor = AutoImageProcessor.from_pretrained(checkpoint, use_fast=True)"


RULES = (
    _BOUND.rule(trace=_bound_in_trace, table=_bound_in_table),
    _SINGLE_PROCESS.rule(trace=_single_process_in_trace, table=_single_process_in_table),
    _STALLS.rule(trace=_stalls_in_trace),
    _RESTARTED.rule(trace=_restarted_in_trace),
    _TOO_MANY.rule(trace=_too_many_in_trace),
    _PREPROCESSING.rule(trace=_preprocessing_in_trace),
)
