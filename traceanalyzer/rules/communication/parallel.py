"""Detects trainings on several devices that exchange more, or wait longer, than they have to.

The rules are dataparallel, pipeline-bubble, ddp-sync-in-accumulation, ddp-buffer-broadcast and ddp-unused-search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum

from traceanalyzer.analyzers import host
from traceanalyzer.analyzers.communication import Communication, HostCollectives, data_parallel
from traceanalyzer.analyzers.optimizer import exchanges
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.knowledge.collectives import bus_factor
from traceanalyzer.knowledge.host_roles import BUFFERS
from traceanalyzer.rules.engine import host_owners, idle_time, program, stage_waits
from traceanalyzer.rules.engine.change import CollectivesShorter, HostTime
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact, if_known
from traceanalyzer.rules.engine.places import BACKWARD, of_operators
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import COMMUNICATION, EventSet
from traceanalyzer.structure.typical import rows_of

_WRAPPER = page("dataparallel")
_BUBBLE = page("pipeline-bubble")
_ACCUMULATION = page("ddp-sync-in-accumulation")
_BUFFERS = page("ddp-buffer-broadcast")
_SEARCH = page("ddp-unused-search")

_WRAPPER_LEAST = 0.5
"""Own choice: what replaces the wrapper is not free either."""
_MUCH_SENT = 0.05
"""Share of a step in which devices only communicate from which on that is what the wrapper costs (own choice)."""
_WRAPPER_NAME = "DataParallel.forward"
_CODE_MANY = "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])"

_EXCHANGE_LEAST = 0.5
"""Least part of the time that is saved (own choice: one rank's trace does not show what of a collective is waiting)."""
_SLOWED = 1.35
"""Greatest saving on a CPU as a multiple of the time of the exchanges (measured in the lab, explained on the page)."""
_COPYING = re.compile(r"torch::distributed::reducer::|torch\.distributed\.ddp\.reducer::|c10d::allreduce_$")
"""Operators of DistributedDataParallel that copy gradients into buckets and back, and start all-reduces on the CPU."""

_KEPT = 0.5
"""Share of the idle time that is surely saved (own choice, as for other waits of the host)."""
_WITH_OTHERS = 1.5
"""Greatest saving over the time of a broadcast over gloo (1.2 to 1.5 times were measured in the lab): other ranks, and
threads of gloo, have less to do as well."""
_CODE_BUFFERS = "model = DistributedDataParallel(model, broadcast_buffers=False)"

_BROADCASTING = re.compile(r"^(void )?[nr]ccl\w*_Broadcast", re.IGNORECASE)
_REDUCING = re.compile(r"^(void )?[nr]ccl\w*_AllReduce", re.IGNORECASE)
"""Kernels of NCCL and RCCL: DistributedDataParallel sends buffers with the first, and reduces gradients with this."""

_SEARCHING = "torch.distributed.ddp.reducer::search_unused_parameters"
_COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_SINKS = ("_DDPSink", "_DDPSinkBackward")
_NOTE = "aten::select"
"""What the reducer calls on its list of used parameters, which are int32 numbers in memory of the host: in the backward
pass for each gradient, at its end for each parameter. Sources of the names: torch/csrc/distributed/c10d/reducer.cpp,
torch/nn/parallel/distributed.py (torch 2.13)."""


def _wrapper(facts: Facts, limits: Limits) -> Drafts:
    wrapper = facts.need("data_parallel", data_parallel.DataParallel)
    calls = facts.per_step(wrapper.calls)
    if not calls > limits["calls_per_step"]:
        return
    many = len(wrapper.devices) > 1
    if many and (draft := _sent(facts, limits, wrapper, calls)) is not None:
        yield draft
        return
    time = facts.per_step(wrapper.spread_ns if many else wrapper.own_host_ns)
    yield Draft(
        (_WRAPPER.evidence(limits, "calls_per_step", calls, _parts(facts, wrapper)),),
        _unwrapped(facts, wrapper, time),
        {"devices": len(wrapper.devices), "time": OfEvents(time)},
        confidence=None if wrapper.is_marked else "B",
        summary=_WRAPPER.text("summary-many") if many else None,
        advice=_WRAPPER.text("advice-many") if many else None,
        code=_CODE_MANY if many else None,
    )


def _sent(facts: Facts, limits: Limits, wrapper: data_parallel.DataParallel, calls: float) -> Draft | None:
    """The finding where collectives copy the model and collect gradients; None where they take next to nothing."""
    found, own = facts.find("communication", Communication), facts.need_step_resources()
    exposed = own.exposed_communication_ns or 0.0
    if found is None or facts.step_share(exposed) < _MUCH_SENT:
        return None
    evidence = _WRAPPER.evidence(limits, "calls_per_step", calls, _parts(facts, wrapper))
    params = {"devices": len(wrapper.devices), "time": exposed, "share": facts.step_share(exposed)}
    summary, advice = _WRAPPER.text("summary-sent"), _WRAPPER.text("advice-many")
    confidence = None if wrapper.is_marked else "B"
    change = _without_sending(facts, found, exposed, len(wrapper.devices))
    return Draft((evidence,), change, params, confidence=confidence, summary=summary, advice=advice, code=_CODE_MANY)


def _without_sending(facts: Facts, found: Communication, exposed: float, devices: int) -> CollectivesShorter:
    """The step without broadcasts of the model, and at best with gradients that travel beside the backward pass."""
    sent, collected = (
        facts.in_collectives(fsum(row.total_ns for row in rows_of(found) if row.operation == kind))
        for kind in ("broadcast", "reduce")
    )
    beyond = max(0.0, (bus_factor("all_reduce", devices) or 1.0) - 1)  # what all get takes longer than what one gets
    computing = (facts.need_step_resources().gpu_ns or 0.0) - exposed
    least = max(0.0, min(exposed, sent) - beyond * collected)
    saved = least, min(exposed, max(least, sent + min(collected, computing)))
    return CollectivesShorter(saved, _WRAPPER.text("basis-sent")(), saved, {COMMUNICATION: exposed}, may_wait=False)


def _parts(facts: Facts, wrapper: data_parallel.DataParallel) -> tuple[CodePlace, ...]:
    """The wrapper and what it does to distribute a batch, with host time per step in ns."""
    time = facts.per_step(wrapper.host_ns)
    whole = CodePlace("operator", _WRAPPER_NAME, value=time, unit="ns", start_ns=wrapper.start_ns)
    times = ((row.name, facts.per_step(row.host_ns)) for row in wrapper.distribution)
    return whole, *(CodePlace("operator", name, value=time, unit="ns") for name, time in times)


def _unwrapped(facts: Facts, wrapper: data_parallel.DataParallel, time: float) -> HostTime:
    """The step without the wrapper, which leaves one device idle, or several to wait for each other."""
    many = len(wrapper.devices) > 1
    least = _WRAPPER_LEAST * time
    basis = (_WRAPPER.text("basis-many") if many else _WRAPPER.text("basis"))(least=_WRAPPER_LEAST)
    where = data_parallel.wrapper_at(all_distribution=many)
    if many or not wrapper.devices:
        return HostTime((least, time), basis, at=where)
    ended = idle_time.claims(facts, wrapper.exposed)
    idle = fsum(ended.values())
    return HostTime((least, time), basis, (min(least, idle), min(time, idle)), ended, within=where)


def _wrapper_in_table(facts: Facts, limits: Limits) -> Drafts:
    printed = [] if facts.view is None else [row for row, _ in facts.view.by_name]
    rows = [row for row in printed if row.name == _WRAPPER_NAME and row.calls]
    calls = facts.per_step(sum(row.calls or 0 for row in rows))
    if not calls > limits["calls_per_step"]:
        return
    own = facts.per_step(fsum(row.self_cpu_ns or 0 for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = _WRAPPER.evidence(limits, "calls_per_step", calls, where)
    change = HostTime((0.0, own), _WRAPPER.text("basis-table")())
    summary, advice = _WRAPPER.text("summary-table"), _WRAPPER.text("advice-table")
    yield Draft((evidence,), change, {"time": own}, summary=summary, advice=advice)


def _bubble(facts: Facts, limits: Limits) -> Drafts:
    pipeline = facts.need("passes", Passes).pipeline
    if pipeline is None:
        waits = stage_waits.found(facts)
        yield from _turns(facts, limits) if waits is None else _by_messages(facts, limits, waits)
        return
    if pipeline.waiting_ns <= pipeline.other_ns:
        return
    time = pipeline.waiting_ns_per_step
    share = time / facts.step_ns
    if share <= limits["waiting_share"]:
        return
    where = tuple(CodePlace("time", wait.place, None, wait.time_ns, "ns", wait.start_ns) for wait in pipeline.examples)
    params = {
        "micro_batches": pipeline.micro_batches,
        "time": OfEvents(time),
        "step": facts.step_ns,
        "share": OfEvents(time, is_share=True),
    }
    code = (_BUBBLE.code or "").replace("n_microbatches=16", f"n_microbatches={2 * pipeline.micro_batches}")
    evidence = _BUBBLE.evidence(limits, "waiting_share", share, where)
    yield Draft((evidence,), _shorter_bubble(facts, pipeline, time), params, ceiling="high", code=code)


def _by_messages(facts: Facts, limits: Limits, waits: stage_waits.StageWait) -> Drafts:
    """A stage whose passes are not told apart, or that has one micro-batch, by messages that wait."""
    share = facts.step_share(waits.ns)
    if share <= limits["waiting_share"]:
        return
    rows = sorted(waits.rows, key=lambda row: -row.total_ns)
    where = tuple(
        CodePlace("kernel", row.operation or "", value=facts.in_collectives(row.total_ns), unit="ns") for row in rows
    )
    where = where or (CodePlace("operator", "recv", value=waits.ns, unit="ns"),)
    subject = _BUBBLE.text("subject-messages")()
    evidence = _BUBBLE.evidence(limits, "waiting_share", share, where, subject=subject)
    params = {
        "time": OfEvents(waits.ns),
        "step": facts.step_ns,
        "share": OfEvents(waits.ns, is_share=True),
        "usual": waits.usual_ns,
        "longest": waits.longest_ns,
    }
    change = stage_waits.change(waits, _BUBBLE.text("basis-messages")())
    summary = _BUBBLE.text("summary-messages") if waits.rows else _BUBBLE.text("summary-one-batch")
    yield Draft((evidence,), change, params, ceiling="high", confidence="C", summary=summary)


def _turns(facts: Facts, limits: Limits) -> Drafts:
    """Parts of a model on several GPUs of one process, of which one computes at a time."""
    time = idle_time.of_turns(facts)
    share = facts.step_share(time)
    if share <= limits["waiting_share"] or not program.trains(facts):
        return
    place = CodePlace("time", "pending", None, time, "ns", label=_BUBBLE.text("waits")())
    evidence = _BUBBLE.evidence(limits, "waiting_share", share, (place,), subject=_BUBBLE.text("subject-turns")())
    params = {"time": time, "share": share, "step": facts.step_ns, "busy": facts.resources.gpu_ns or 0.0}
    yield Draft(
        (evidence,),
        None,
        params,
        severity="high",
        title=_BUBBLE.text("title-turns"),
        summary=_BUBBLE.text("summary-turns"),
        advice=_BUBBLE.text("advice-turns"),
    )


def _shorter_bubble(facts: Facts, pipeline: exchanges.Pipeline, time: float) -> HostTime | CollectivesShorter:
    """The waiting with twice as many micro-batches: at least half of the bubble of the fewest stages there can be."""
    claims = {COMMUNICATION: time}
    if pipeline.is_on_host:
        return HostTime((0.0, time), _BUBBLE.text("basis-host")(), claims=claims, at=exchanges.bubbles_at())
    stages = 3 if pipeline.is_between else 2
    bubble = facts.step_ns * (stages - 1) / (pipeline.micro_batches + stages - 1)
    saved = min(time, bubble) / 2, time
    return CollectivesShorter(saved, _BUBBLE.text("basis")(stages=stages), saved, claims, at=exchanges.bubbles_at())


def _accumulation(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("passes", Passes).accumulation
    if found is None or found.early_exchanges < limits["early_exchanges"]:
        return
    rows = found.examples
    where = tuple(CodePlace("time", "backward", None, row.time_ns, "ns", row.start_ns, BACKWARD()) for row in rows)
    evidence = _ACCUMULATION.evidence(limits, "early_exchanges", found.early_exchanges, where)
    params = {"passes": found.passes, "updates": found.updates, "early": found.early_exchanges}
    if found.time_ns is None or found.exposed_ns is None:
        yield Draft((evidence,), None, params, severity="info", summary=_ACCUMULATION.text("summary-host"))
        return
    time = facts.per_step(found.time_ns)
    change = _without_early(facts, found, time, facts.per_step(found.exposed_ns))
    yield Draft((evidence,), change, {**params, "time": OfEvents(time)}, severity="info")


def _without_early(
    facts: Facts, found: exchanges.Accumulation, time: float, exposed: float
) -> HostTime | CollectivesShorter:
    """The step with one exchange for each update; on a CPU, without copying gradients for the others, too."""
    least, claims, at = _EXCHANGE_LEAST * exposed, {COMMUNICATION: time}, exchanges.early_at()
    if not found.is_on_host:
        basis = _ACCUMULATION.text("basis")(least=_EXCHANGE_LEAST)
        return CollectivesShorter((time, time), basis, (least, exposed), claims, at=at)
    early = found.early_exchanges
    moving = sum(row.host_total_ns for row in facts.operators if _COPYING.match(row.name))
    copying = early / (early + found.updates) * facts.per_step(moving)
    basis = _ACCUMULATION.text("basis-cpu")(most=_SLOWED, least=_EXCHANGE_LEAST)
    return HostTime((least, _SLOWED * (time + copying)), basis, None, claims, at=at)


def _buffers(facts: Facts, limits: Limits) -> Drafts:
    if facts.is_gpu_alone:
        yield from _buffers_by_kernels(facts, limits)
        return
    if facts.find("host_collectives", HostCollectives) is not None:
        yield from _buffers_on_host(facts, limits)
        return
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_BUFFERS.text("no-owners")())
    role = next((row for row in owners.roles if row.role == BUFFERS), None)
    if role is None or not role.idle_ns_per_step:
        return
    time = role.idle_ns_per_step
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    where = tuple(host_owners.place(row, row.idle_ns_per_step) for row in host_owners.of_role(facts, BUFFERS)[:5])
    parts = owners.rows[role.owner].parts
    params = {
        "host": role.host_ns_per_step,
        "time": OfEvents(time),
        "step": facts.step_ns,
        "share": OfEvents(time, is_share=True),
        "operator": parts[0].name if parts else "aten::copy_",
    }
    yield Draft((_BUFFERS.evidence(limits, "idle_share", share, where),), _kept(facts, time), params, ceiling="high")


def _buffers_by_kernels(facts: Facts, limits: Limits) -> Drafts:
    """Broadcasts beside all-reduces, where no operator shows whose they are."""
    rows = [row for row in facts.kernels if _BROADCASTING.search(row.name) and row.calls >= facts.steps]
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows))
    share = facts.step_share(work.time)
    if share <= limits["idle_share"] or not any(_REDUCING.search(row.name) for row in facts.kernels):
        return
    subject = _BUFFERS.text("subject-kernels")()
    yield Draft(
        (_BUFFERS.evidence(limits, "idle_share", share, work.places, subject=subject),),
        work.shorter((0.0, 1.0), _BUFFERS.text("basis-kernels")()),
        {"time": OfEvents(work.time), "share": OfEvents(work.time, is_share=True)},
        ceiling="medium",
        confidence="C",
        summary=_BUFFERS.text("summary-kernels"),
    )


def _kept(facts: Facts, time: float) -> HostTime:
    """Idle time without the broadcasts; at least what cannot be waiting for other collectives."""
    own = facts.step_resources
    waiting = (own.exposed_communication_ns or 0.0) if own else 0.0
    least = max(time - waiting, _KEPT * time)
    basis = _BUFFERS.text("basis")(least=least)
    at = host.broadcasts_at(on_host=False)
    return HostTime((least, time), basis, (least, time), host_owners.claims(facts, time), at=at)


def _buffers_on_host(facts: Facts, limits: Limits) -> Drafts:
    """Without a device the whole time of the broadcast counts."""
    owners = facts.find("host_owners", host.HostOwners)
    role = next((row for row in owners.roles if row.role == BUFFERS), None) if owners else None
    if owners is None or role is None:
        return
    time = role.host_ns_per_step
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    where = (host_owners.place(owners.rows[role.owner], time),)
    subject = _BUFFERS.text("subject-host")()
    change = HostTime(
        (_KEPT * time, min(_WITH_OTHERS * time, facts.step_ns)),
        _BUFFERS.text("basis-host-2")(least=_KEPT * time, most=_WITH_OTHERS),
        claims={EventSet.other("buffers"): time},
        at=host.broadcasts_at(on_host=True),
    )
    params = {"host": OfEvents(time), "step": facts.step_ns, "share": OfEvents(time, is_share=True)}
    evidence = _BUFFERS.evidence(limits, "idle_share", share, where, subject=subject)
    summary = _BUFFERS.text("summary-host")
    yield Draft((evidence,), change, params, summary=summary, ceiling="high", code=_CODE_BUFFERS)


def _search(facts: Facts, limits: Limits) -> Drafts:
    rows = {row.name: row for row in facts.operators if row.name in (_SEARCHING, _COPY, _ACCUMULATE, *_SINKS)}
    search = rows.get(_SEARCHING)
    if search is None:
        return
    notes = _notes(facts, search.calls)
    parameters = (rows[_COPY].calls if _COPY in rows else 0) or search.calls * sum(map(_listed, notes))
    used = rows[_ACCUMULATE].calls if _ACCUMULATE in rows else 0
    if parameters > used > 0:
        return  # some have no gradient
    sinks = (rows[name] for name in _SINKS if name in rows)
    known = round(parameters / search.calls) if parameters and parameters == used else None
    yield from _searched(facts, (search, *sinks, *notes), known, limits)


def _searched(facts: Facts, rows: Sequence[OperatorFact], parameters: int | None, limits: Limits) -> Drafts:
    """The finding about what takes time for a search, of which all parameters are used if their number is known."""
    claims = {row.events: facts.per_step(row.host_total_ns) for row in rows}
    time = fsum(claims.values())
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    where = of_operators(facts, rows[:5], lambda row: facts.per_step(row.host_total_ns))
    evidence = _SEARCH.evidence(limits, "host_share", share, where)
    change = HostTime((claims[rows[0].events], time), _SEARCH.text("basis")(), claims=claims)
    params = {"time": time, "share": share}
    if parameters is not None:
        yield Draft((evidence,), change, {**params, "parameters": parameters}, ceiling="medium")
        return
    summary = _SEARCH.text("summary-unknown")
    yield Draft((evidence,), change, params, ceiling="medium", confidence="B", summary=summary)


def _notes(facts: Facts, searches: int) -> list[OperatorFact]:
    """Calls on the list of used parameters: for each search, as many as it has parameters, or twice as many."""
    shaped = if_known(lambda: facts.shaped)
    own = [row for row in shaped if row.name == _NOTE and row.inputs.type(0) == "int"]
    return [row for row in own if row.calls >= _listed(row) * searches > 0]


def _listed(row: OperatorFact) -> int:
    """Number of entries of the list that a call is about; 0 if it is none."""
    shape = row.inputs.shape(0)
    return shape[0] if shape is not None and len(shape) == 1 else 0


RULES = (
    _WRAPPER.rule(trace=_wrapper, table=_wrapper_in_table),
    _BUBBLE.rule(trace=_bubble),
    _ACCUMULATION.rule(trace=_accumulation),
    _BUFFERS.rule(trace=_buffers),
    _SEARCH.rule(trace=_search, table=_search),
)
