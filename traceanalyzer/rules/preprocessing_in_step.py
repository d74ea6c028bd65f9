"""Detects preprocessing-in-step: see pages/preprocessing-in-step.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.host import HostOwner, HostOwners, RoleTimes
from traceanalyzer.knowledge.loaders import SLOWDOWN
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _host_work, _owners, _recording
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("preprocessing-in-step")
_STACKS = 0.5
"""What is left at least of a host's time that was recorded with stacks (own choice; C code is not slowed down)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.resources.gpu_ns is None:
        yield from _on_cpu(facts, limits)
        return
    _recording.need_usual_idle_time(facts)
    owners = _owners.found(facts)
    if owners is None:
        raise Missing(_PAGE.text("no-owners")())
    roles = [row for row in owners.roles if row.role in _owners.INPUT_ROLES]
    in_pipeline = _owners.loads_in_pipeline(facts)
    time = sum(_idle_ns(row, in_pipeline) for row in roles) / owners.steps
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = sorted((row for name in _owners.INPUT_ROLES for row in _owners.of_role(facts, name)), key=_own_idle)[:5]
    where = tuple(_owners.place(row, row.idle_self_ns_per_step) for row in rows if row.idle_self_ns)
    evidence = Evidence(_PAGE.text("subject")(), share, limits["idle_share"], "share", where)
    most = _most(owners, roles)
    params = {"time": time, "step": facts.step_ns, "share": share, "owner": _owners.name(most)}
    yield Draft(
        (evidence,),
        _change(facts, time, is_loader=in_pipeline),
        params,
        advice=_PAGE.text("advice-pipeline")
        if in_pipeline
        else _PAGE.text("advice-processor")
        if _is_processor(rows)
        else None,
        code=_CODE_PROCESSOR if _is_processor(rows) else "",
    )


def _on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Preprocessing on the thread of a program without a device."""
    owners = facts.find("host_owners", HostOwners)
    if owners is None or not owners.steps:
        raise Missing(_PAGE.text("no-owners")())
    _host_work.need_cpu_steps(facts)
    roles = [row for row in owners.roles if row.role in _owners.INPUT_ROLES]
    time = sum(row.host_ns for row in roles) / owners.steps - (facts.resources.loader_ns or 0.0)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = sorted((row for row in owners.rows if row.role in _owners.INPUT_ROLES), key=lambda row: -row.host_self_ns)[
        :5
    ]
    where = tuple(_owners.place(row, row.host_self_ns_per_step) for row in rows)
    evidence = Evidence(_PAGE.text("subject-cpu")(), share, limits["idle_share"], "share", where)
    params = {"time": time, "step": facts.step_ns, "share": share, "owner": _owners.name(rows[0])}
    change = TimeSaved("host", (0.0, time), _PAGE.text("basis-cpu")())
    yield Draft(
        (evidence,), change, params, summary=_PAGE.text("summary-cpu"), advice=_PAGE.text("advice-cpu"), ceiling="high"
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


def _change(facts: Facts, time: float, *, is_loader: bool) -> TimeSaved:
    hidden = (1 - SLOWDOWN[1]) * min(time, facts.step_ns - time)
    basis = _PAGE.text("basis")(contention=SLOWDOWN[1])
    if facts.is_host_inflated:
        hidden, basis = _STACKS * hidden, _PAGE.text("basis-stacks")()
    interval = (hidden, time)
    claimed = {"loader": time} if is_loader else _owners.claims(facts, time)
    return TimeSaved("loader" if is_loader else "host", interval, basis, interval, claimed)


_CODE_PROCESSOR = "processor = AutoImageProcessor.from_pretrained(checkpoint, use_fast=True)"

RULE = _PAGE.rule(trace=_trace)
