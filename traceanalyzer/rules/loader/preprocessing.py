"""Detects inputs that the program prepares within the step, and no loader beside it: preprocessing-in-step."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from traceanalyzer.analyzers.host import HostOwner, roles_at
from traceanalyzer.knowledge.loaders import SLOWDOWN
from traceanalyzer.rules.engine import host_owners, host_work, idle_time
from traceanalyzer.rules.engine.change import HostTime, LoaderShorter
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, Missing, page
from traceanalyzer.structure.events import LOADER

_PREPROCESSING = page("preprocessing-in-step")
_STACKS = 0.5
"""What is left at least of a host's time that was recorded with stacks (own choice; C code is not slowed down)."""
_CODE_PROCESSOR = "processor = AutoImageProcessor.from_pretrained(checkpoint, use_fast=True)"
_SHOWN = 5


def _preprocessing(facts: Facts, limits: Limits) -> Drafts:
    if facts.resources.gpu_ns is None:
        yield from _on_cpu(facts, limits)
        return
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_PREPROCESSING.text("no-owners")())
    roles = [row for row in owners.roles if row.role in host_owners.INPUT_ROLES]
    in_pipeline = host_owners.loads_in_pipeline(facts)
    time = host_owners.idle_per_step(owners, roles, in_loader=in_pipeline)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = _owners_of_inputs(facts)
    where = tuple(host_owners.place(row, row.idle_self_ns_per_step) for row in rows if row.idle_self_ns)
    evidence = _PREPROCESSING.evidence(limits, "idle_share", share, where)
    owner = host_owners.most_idle(owners, roles)
    params = {**host_work.figures(facts, time), "owner": host_owners.name(owner)}
    draft = Draft((evidence,), _hidden(facts, time, in_pipeline=in_pipeline), params)
    yield _of_library(draft, rows, in_pipeline=in_pipeline)


def _owners_of_inputs(facts: Facts) -> list[HostOwner]:
    """The owners of inputs in which the device idles for longest."""
    rows = [row for name in host_owners.INPUT_ROLES for row in host_owners.of_role(facts, name)]
    return sorted(rows, key=lambda row: -(row.idle_self_ns or 0))[:_SHOWN]


def _of_library(draft: Draft, rows: Sequence[HostOwner], *, in_pipeline: bool) -> Draft:
    """The draft with the advice for a library's pipeline, or for its processor of images with a variant on tensors."""
    files = [row.file or "" for row in rows]
    is_processor = any("transformers/" in file and "image_process" in file for file in files)
    advice = _PREPROCESSING.text("advice-processor") if is_processor else None
    if in_pipeline:
        advice = _PREPROCESSING.text("advice-pipeline")
    return replace(draft, advice=advice, code=_CODE_PROCESSOR if is_processor else "")


def _on_cpu(facts: Facts, limits: Limits) -> Drafts:
    """Preprocessing on the thread of a program without a device."""
    owners = host_owners.on_cpu(facts)
    if owners is None:
        raise Missing(_PREPROCESSING.text("no-owners")())
    host_work.need_cpu_steps(facts)
    roles = [row for row in owners.roles if row.role in host_owners.INPUT_ROLES]
    time = host_owners.host_per_step(owners, roles) - (facts.resources.loader_ns or 0.0)
    share = time / facts.step_ns
    if not roles or share <= limits["idle_share"]:
        return
    rows = [row for row in owners.rows if row.role in host_owners.INPUT_ROLES]
    rows = sorted(rows, key=lambda row: -row.host_self_ns)[:_SHOWN]
    where = tuple(host_owners.place(row, row.host_self_ns_per_step) for row in rows)
    subject = _PREPROCESSING.text("subject-cpu")()
    at = roles_at(roles=host_owners.INPUT_ROLES, in_loader=False)
    yield Draft(
        (_PREPROCESSING.evidence(limits, "idle_share", share, where, subject=subject),),
        HostTime((0.0, time), _PREPROCESSING.text("basis-cpu")(), at=at),
        {**host_work.figures(facts, time), "owner": host_owners.name(rows[0])},
        ceiling="high",
        title=_PREPROCESSING.text("title-cpu"),
        summary=_PREPROCESSING.text("summary-cpu"),
        advice=_PREPROCESSING.text("advice-cpu"),
    )


def _hidden(facts: Facts, time: float, *, in_pipeline: bool) -> LoaderShorter | HostTime:
    """What is saved if workers prepare the inputs of the next step beside the rest of this one."""
    least = (1 - SLOWDOWN[1]) * min(time, facts.step_ns - time)
    basis = _PREPROCESSING.text("basis")(contention=SLOWDOWN[1])
    if facts.is_host_inflated:
        least, basis = _STACKS * least, _PREPROCESSING.text("basis-stacks")()
    interval = least, time
    if in_pipeline:
        at = roles_at(roles=host_owners.INPUT_ROLES, in_loader=True)
        return LoaderShorter(interval, basis, interval, {LOADER: time}, at)
    return HostTime(interval, basis, interval, host_owners.claims(facts, time))


RULES = (_PREPROCESSING.rule(trace=_preprocessing),)
