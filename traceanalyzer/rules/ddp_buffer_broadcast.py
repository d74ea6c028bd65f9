"""Detects ddp-buffer-broadcast: see pages/ddp-buffer-broadcast.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import HostCollectives
from traceanalyzer.analyzers.host import HostOwners
from traceanalyzer.knowledge.host_roles import BUFFERS
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules.engine import host_owners, idle_time
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("ddp-buffer-broadcast")
_KEPT = 0.5
"""Share of the idle time that is surely saved (own choice, as for other waits of the host)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.find("host_collectives", HostCollectives) is not None:
        yield from _on_host(facts, limits)
        return
    idle_time.need_usual_idle_time(facts)
    owners = host_owners.found(facts)
    if owners is None:
        raise Missing(_PAGE.text("no-owners")())
    role = host_owners.role(facts, BUFFERS)
    if role is None or not role.idle_ns_per_step:
        return
    time = role.idle_ns_per_step
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    where = tuple(host_owners.place(row, row.idle_ns_per_step) for row in host_owners.of_role(facts, BUFFERS)[:5])
    evidence = Evidence(_PAGE.text("subject")(), share, limits["idle_share"], "share", where)
    own = facts.step_resources
    waiting = (own.exposed_communication_ns or 0.0) if own else 0.0
    least = max(time - waiting, _KEPT * time)
    change = TimeSaved(
        "host", (least, time), _PAGE.text("basis")(least=least), (least, time), host_owners.claims(facts, time)
    )
    parts = owners.rows[role.owner].parts
    params = {
        "host": role.host_ns_per_step,
        "time": time,
        "step": facts.step_ns,
        "share": share,
        "operator": parts[0].name if parts else "aten::copy_",
    }
    yield Draft((evidence,), change, params, ceiling="high")


def _on_host(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Without a device the whole time of the broadcast counts."""
    owners = facts.find("host_owners", HostOwners)
    role = next((row for row in owners.roles if row.role == BUFFERS), None) if owners else None
    if role is None:
        return
    time = role.host_ns_per_step
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    where = (host_owners.place(owners.rows[role.owner], time),) if owners else ()
    evidence = Evidence(_PAGE.text("subject-host")(), share, limits["idle_share"], "share", where)
    change = TimeSaved(
        "host", (_KEPT * time, time), _PAGE.text("basis-host")(least=_KEPT * time), claims={"buffers": time}
    )
    params = {"host": time, "step": facts.step_ns, "share": share}
    yield Draft((evidence,), change, params, summary=_PAGE.text("summary-host"), ceiling="high", code=_CODE_HOST)


_CODE_HOST = "model = DistributedDataParallel(model, broadcast_buffers=False)"


RULE = _PAGE.rule(trace=_trace)
