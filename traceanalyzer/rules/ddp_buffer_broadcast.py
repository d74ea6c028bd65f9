"""DistributedDataParallel sends the model's buffers to all ranks before each forward pass, and the GPU waits for that.

What it detects:
    The part of `DistributedDataParallel.forward` in which it flattens, broadcasts and copies back the buffers of the
    model (running means and variances of batch norms, mostly), found by stacks, or by the first operators of the
    forward pass. The GPU has nothing to do meanwhile, for more than one percent of the typical step.

Why it matters:
    A model may have hundreds of small buffers. Copying them takes the host a long time, and no kernel of the model is
    launched before.

What to do:
    Pass `broadcast_buffers=False`, unless ranks must have equal buffers in each step: batch norms in training mode do
    not read their running statistics, and the checkpoint of a rank contains that rank's statistics.

How the saving is estimated:
    At most the GPU's idle time meanwhile. At least this idle time less the time in which the GPU only communicates,
    because waiting for other ranks may take its place, but no more than half of the idle time. On the CPU (gloo) at
    most the time of the broadcast, and at least half of it.

When it is wrong:
    The program itself broadcasts something at the start of its forward pass, which is not part of
    `DistributedDataParallel`. While the GPU works, the broadcast costs almost nothing.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import HostCollectives
from traceanalyzer.analyzers.host import HostOwners
from traceanalyzer.knowledge.host_roles import BUFFERS
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _owners, _recording
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_KEPT = 0.5
"""Share of the idle time that is surely saved (own choice, as for other waits of the host)."""

_NO_OWNERS = Text("ddp-buffer-broadcast-no-owners", "it is unknown which part of the program the GPU waits for")
_SUBJECT = Text("ddp-buffer-broadcast-subject", "broadcast of buffers while the GPU waits, share of the step")
_BASIS = Text(
    "ddp-buffer-broadcast-basis",
    "at most the GPU's idle time during the broadcast; at least {least:ns} of it, because waiting for other ranks may "
    "take the place of the rest",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.find("host_collectives", HostCollectives) is not None:
        yield from _on_host(facts, limits)
        return
    _recording.need_usual_idle_time(facts)
    owners = _owners.found(facts)
    if owners is None:
        raise Missing(_NO_OWNERS())
    role = _owners.role(facts, BUFFERS)
    if role is None or not role.idle_ns_per_step:
        return
    time = role.idle_ns_per_step
    share = time / facts.step_ns
    if share <= limits["idle_share"]:
        return
    where = tuple(_owners.place(row, row.idle_ns_per_step) for row in _owners.of_role(facts, BUFFERS)[:5])
    evidence = Evidence(_SUBJECT(), share, limits["idle_share"], "share", where)
    own = facts.step_resources
    waiting = (own.exposed_communication_ns or 0.0) if own else 0.0
    least = max(time - waiting, _KEPT * time)
    change = TimeSaved("host", (least, time), _BASIS(least=least), (least, time), _owners.claims(facts, time))
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
    where = (_owners.place(owners.rows[role.owner], time),) if owners else ()
    evidence = Evidence(_SUBJECT_HOST(), share, limits["idle_share"], "share", where)
    change = TimeSaved("host", (_KEPT * time, time), _BASIS_HOST(least=_KEPT * time), claims={"buffers": time})
    params = {"host": time, "step": facts.step_ns, "share": share}
    yield Draft((evidence,), change, params, summary=_SUMMARY_HOST, ceiling="high", code=_CODE_HOST)


_CODE_HOST = "model = DistributedDataParallel(model, broadcast_buffers=False)"
_SUBJECT_HOST = Text("ddp-buffer-broadcast-subject-host", "broadcast of buffers, share of the step")
_BASIS_HOST = Text(
    "ddp-buffer-broadcast-basis-host",
    "at most the time of the broadcast; at least {least:ns} of it, because waiting for other ranks may move to the "
    "reduction of gradients",
)
_SUMMARY_HOST = Text(
    "ddp-buffer-broadcast-summary-host",
    "Before each forward pass the buffers of the model are sent to all ranks: {host:ns} of a step of {step:ns} "
    "({share:share}).",
)

RULE = Rule(
    id="ddp-buffer-broadcast",
    title=Text("ddp-buffer-broadcast-title", "DistributedDataParallel broadcasts the buffers in each step"),
    summary=Text(
        "ddp-buffer-broadcast-summary",
        "Before each forward pass the buffers of the model are sent to all ranks: {host:ns} of host time per step, "
        "mostly in {operator}. For {time:ns} of that ({share:share} of the step) the GPU has nothing to do.",
    ),
    advice=Text(
        "ddp-buffer-broadcast-advice",
        "Pass broadcast_buffers=False to DistributedDataParallel if the ranks need not have equal buffers in each "
        "step. Running statistics of batch norms are not read in training; before an evaluation, broadcast or average "
        "them once.",
    ),
    not_when=Text(
        "ddp-buffer-broadcast-not-when",
        "The forward pass reads buffers that one rank changes, or each rank evaluates with its own running statistics.",
    ),
    severity="low to high",
    confidence="B",
    tags=("communication", "host", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "idle_share",
            0.01,
            "share",
            "idle time of the device during the broadcast over the typical step",
            "own choice, because less is within noise",
        ),
    ),
    code="model = DistributedDataParallel(model, device_ids=[rank], broadcast_buffers=False)",
    links=("https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",),
    trace=_trace,
)
