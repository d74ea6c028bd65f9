"""DistributedDataParallel sends the model's buffers to all ranks before each forward pass, and the GPU waits for that.

What it detects:
    The part of `DistributedDataParallel.forward` in which it flattens, broadcasts and copies back the buffers of the
    model (running means and variances of batch norms, mostly), by its stacks, or by the operators with which the
    forward pass begins. Meanwhile the GPU has nothing to do for more than one percent of the typical step.

Why it matters:
    A model has hundreds of small buffers. Copying them takes the host long, and no kernel of the model is launched
    before.

What to do:
    Pass `broadcast_buffers=False`, unless ranks must have equal buffers in each step: batch norms in training mode do
    not read their running statistics, and a checkpoint of one rank holds that rank's.

How the saving is estimated:
    At most the GPU's idle time during the broadcast. At least the larger of half of that and that without the time in
    which the GPU only communicates, because waiting for other ranks may take its place.

When it is wrong:
    The program broadcasts something of its own at the start of its forward pass: that is not part of
    `DistributedDataParallel`. While the GPU works, the broadcast costs next to nothing.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.host_roles import BUFFERS
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _owners, _recording
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts, Missing
from traceanalyzer.rules.rule import Draft, Rule, Threshold

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
