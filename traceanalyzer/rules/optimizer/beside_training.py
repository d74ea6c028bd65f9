"""Detects work of each step that does not train, or prepares the model anew: work-beside-training."""

from __future__ import annotations

from collections.abc import Mapping

from traceanalyzer.analyzers.host import HostOwners, beside_training, roles_at
from traceanalyzer.analyzers.host.pauses import pauses_at
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.knowledge.host_roles import PREPARATION
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, host_work
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, page

_PAGE = page("work-beside-training")

_LEAST = 0.8
"""Own choice: now and then it is still done."""
_OF_KIND = {
    "average": (0.5, _PAGE.text("basis-average")),
    "frozen": (0.0, _PAGE.text("basis-frozen")),
    "dropout": (0.0, _PAGE.text("basis-dropout")),
}
"""The same of other kinds (own choice), and why: one pass over all parameters remains, or all where inputs change."""
_DRAWS = 0.02
"""Share of frozen layers that drawing numbers for dropout takes from which on that is told (own choice)."""
_FEWEST = 2
"""Steps with such work from which on it is work of each step."""
_TEXTS: Mapping[str, tuple[Text, Text, Text]] = {
    "evaluation": (
        _PAGE.text("what-evaluation"),
        _PAGE.text("subject-evaluation"),
        _PAGE.text("advice-evaluation"),
    ),
    "checkpoint": (
        _PAGE.text("what-checkpoint"),
        _PAGE.text("subject-checkpoint"),
        _PAGE.text("advice-checkpoint"),
    ),
    "copy": (_PAGE.text("what-copy"), _PAGE.text("subject-copy"), _PAGE.text("advice-copy")),
    "linear-algebra": (
        _PAGE.text("what-linear-algebra"),
        _PAGE.text("subject-linear-algebra"),
        _PAGE.text("advice-linear-algebra"),
    ),
    "statistics": (
        _PAGE.text("what-statistics"),
        _PAGE.text("subject-statistics"),
        _PAGE.text("advice-statistics"),
    ),
    "garbage-collection": (
        _PAGE.text("what-garbage-collection"),
        _PAGE.text("subject-garbage-collection"),
        _PAGE.text("advice-garbage-collection"),
    ),
    "average": (_PAGE.text("what-average"), _PAGE.text("subject-average"), _PAGE.text("advice-average")),
    "frozen": (_PAGE.text("what-frozen"), _PAGE.text("subject-frozen"), _PAGE.text("advice-frozen")),
    "dropout": (_PAGE.text("what-dropout"), _PAGE.text("subject-dropout"), _PAGE.text("advice-dropout")),
    "writing": (_PAGE.text("what-writing"), _PAGE.text("subject-writing"), _PAGE.text("advice-writing")),
}
"""What is done, what was measured, and what to change, by kind."""
_CODE: Mapping[str, str | None] = {
    "evaluation": "if step % 500 == 0: validate(model)  # a function of the program",
    "checkpoint": "if step % 1000 == 0: torch.save(model.state_dict(), path)",
    "copy": None,  # the code of the page
    "average": None,
    "dropout": "encoder.eval()  # after model.train(): the layers that are frozen",
}
"""Code by kind; the other kinds have none."""


def _beside(facts: Facts, limits: Limits) -> Drafts:
    owners = host_owners.on_cpu(facts)
    if owners is not None and owners.idle_ns is None and (prepared := [*_preparation(facts, owners, limits)]):
        yield from prepared
        if facts.find("beside_training", beside_training.BesideTraining) is None:
            return
    found = facts.need("beside_training", beside_training.BesideTraining)
    host_work.need_cpu_steps(facts)
    passes = facts.find("passes", Passes)
    for row in found.rows:
        if row.kind == "evaluation" and passes is not None and passes.repeated is not None:
            continue  # redundant-passes tells of the same pass on the same shapes
        share = facts.per_step(row.host_ns) / facts.step_ns
        if row.steps >= max(_FEWEST, limits["steps_share"] * found.steps) and share > limits["share"]:
            yield _draft(facts, row, limits)
    if all(row.kind != "garbage-collection" for row in found.rows):
        yield from _garbage(facts, limits)


def _preparation(facts: Facts, owners: HostOwners, limits: Limits) -> Drafts:
    """A model that is loaded, converted or quantized in each step."""
    for role in owners.roles:
        owner = owners.rows[role.owner]
        time = host_owners.host_per_step(owners, [role])
        share = time / facts.step_ns
        if role.role != PREPARATION or share <= limits["share"] or owner.calls < limits["steps_share"] * owners.steps:
            continue
        host_work.need_cpu_steps(facts)
        subject, place = _PAGE.text("subject-preparation")(), host_owners.place(owner, time)
        at = roles_at(roles=(PREPARATION,), in_loader=False, name="preparation")
        said = {"owner": host_owners.name(owner), "what": _PAGE.text("what-preparation")()}
        yield Draft(
            (_PAGE.evidence(limits, "share", share, (place,), subject=subject),),
            HostTime((_LEAST * time, time), _PAGE.text("basis-preparation")(least=_LEAST), at=at),
            {**host_work.figures(facts, time), **said},
            ceiling="high",
            title=_PAGE.text("title-preparation"),
            summary=_PAGE.text("summary-preparation"),
            advice=_PAGE.text("advice-preparation"),
            code="",
        )


def _garbage(facts: Facts, limits: Limits) -> Drafts:
    """Collections of garbage that a capture saw, where no name shows them."""
    time, per_step = host_work.garbage(facts)
    share = time / facts.step_ns
    if per_step < limits["steps_share"] or share <= limits["share"]:
        return
    what, subject, advice = _TEXTS["garbage-collection"]
    where = (CodePlace("time", "gc.collect", None, time, "ns"),)
    evidence = _PAGE.evidence(limits, "share", share, where, subject=subject())
    interval = _LEAST * time, host_work.most(facts, 0.0, time / host_work.on_core(facts))
    change = HostTime(interval, _PAGE.text("basis")(least=_LEAST), at=pauses_at())
    params = {"time": time, "step": facts.step_ns, "share": share, "what": what()}
    yield Draft((evidence,), change, params, ceiling="high", advice=advice, code="")


def _draft(facts: Facts, row: beside_training.WorkBeside, limits: Limits) -> Draft:
    time, operators = facts.per_step(row.host_ns), facts.per_step(row.operators)
    where = CodePlace("time" if ":" in row.name else "operator", row.name, None, time, "ns", row.start_ns)
    kind = "dropout" if row.kind == "frozen" and row.drawing_ns > _DRAWS * row.host_ns else row.kind
    what, subject, advice = _TEXTS[kind]
    evidence = _PAGE.evidence(limits, "share", time / facts.step_ns, (where,), subject=subject())
    kept, basis = _OF_KIND.get(kind, (_LEAST, _PAGE.text("basis")))
    least = max(kept * host_work.without_recording(facts, time, operators), facts.per_step(row.drawing_ns))
    silent = facts.per_step(row.silent_ns)
    interval = least, host_work.most(facts, time - silent, silent / host_work.on_core(facts))
    change = HostTime(interval, basis(least=kept), at=beside_training.beside_at(row.kind))
    params = {**host_work.figures(facts, time), "what": what()}
    return Draft((evidence,), change, params, ceiling="high", advice=advice, code=_CODE.get(kind, ""))


RULES = (_PAGE.rule(trace=_beside),)
