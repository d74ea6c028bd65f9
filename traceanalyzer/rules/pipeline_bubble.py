"""A stage of a pipeline waits while the pipeline fills and drains.

What it detects:
    A training whose forward and backward passes lie one by one between messages from rank to rank (`c10d::send`,
    `c10d::recv_`), and come in the same order, as with GPipe and 1F1B of `torch.distributed.pipelining`, Megatron and
    DeepSpeed. Before the first forward pass, before the first backward pass, and in backward passes after the last
    forward pass, it waits for messages for more than a tenth of the step while nothing is computed, and longer than in
    all other messages.

Why it matters:
    A stage has nothing to do until the first micro-batch has passed the stages before it, and after the last one has
    passed. Of p stages and m micro-batches of equal time, this bubble is (p - 1) / (m + p - 1) of the time: 43 % with
    four of each, 16 % with four stages and sixteen micro-batches.

What to do:
    Cut the batch into more micro-batches, as long as each still fills the device. Or give each rank several stages
    (interleaved schedules), or use a schedule that fills the bubble with gradients of weights (zero bubble).

How the saving is estimated:
    At most the waiting in these places. Twice as many micro-batches of half the time halve the bubble, so at least half
    of the waiting; but no more than half the bubble of two equal stages or, where messages come from both sides, three,
    because it is not known how many there are. It may be less where smaller micro-batches do not fill the device. On a
    CPU at least nothing: each micro-batch also adds its gradients to those of others, and ranks may share cores.

When it is wrong:
    The first message of a step also waits for what other ranks do before it, such as loading data. Point-to-point
    messages of another kind are told apart: exchanges within layers (ring attention) cut forward passes into pieces,
    and those of embeddings are all-to-all. Interleaved schedules, whose passes come in another order, are not
    recognized. With no more micro-batches than stages, 1F1B on the first stage looks like GPipe, and what it waits
    between its backward passes does not count. In a recording over gloo on four ranks with four micro-batches, the
    stages waited for 27 to 41 % (GPipe) and 26 to 31 % (1F1B) of the step.

References:
    https://docs.pytorch.org/docs/stable/distributed.pipelining.html
    https://arxiv.org/abs/1811.06965
    https://arxiv.org/abs/2104.04473
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("pipeline-bubble-subject", "waiting while the pipeline fills and drains, share of the step")
_BASIS = Text(
    "pipeline-bubble-basis",
    "at most the waiting while the pipeline fills and drains; at least half of it, as with twice as many micro-batches "
    "that compute as efficiently, but no more than half the bubble of {stages} equal stages",
    note="stages is 2 or 3",
)
_BASIS_HOST = Text(
    "pipeline-bubble-basis-host",
    "at most the waiting while the pipeline fills and drains; at least nothing, because on a CPU smaller micro-batches "
    "may take longer in all",
)
_CODE = (
    "from torch.distributed.pipelining import Schedule1F1B; "
    "schedule = Schedule1F1B(stage, n_microbatches={count}, loss_fn=criterion)"
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("passes", Passes).pipeline
    if found is None or found.waiting_ns <= found.other_ns:
        return
    time = found.waiting_ns / found.steps
    share = time / facts.step_ns
    if share <= limits["waiting_share"]:
        return
    where = tuple(
        CodePlace("time", wait.place, value=wait.time_ns, unit="ns", start_ns=wait.start_ns) for wait in found.examples
    )
    evidence = Evidence(_SUBJECT(), share, limits["waiting_share"], "share", where)
    claims = {"communication": time}
    if found.is_on_host:
        change = TimeSaved("host", (0.0, time), _BASIS_HOST(), claims=claims)
    else:
        stages = 3 if found.is_between else 2
        bubble = facts.step_ns * (stages - 1) / (found.micro_batches + stages - 1)
        saved = min(time, bubble) / 2, time
        change = TimeSaved("communication", saved, _BASIS(stages=stages), saved, claims)
    params = {"micro_batches": found.micro_batches, "time": time, "step": facts.step_ns, "share": share}
    code = _CODE.format(count=2 * found.micro_batches)
    yield Draft((evidence,), change, params, ceiling="high", code=code)


RULE = Rule(
    id="pipeline-bubble",
    title=Text("pipeline-bubble-title", "A stage waits while the pipeline fills and drains"),
    summary=Text(
        "pipeline-bubble-summary",
        "Micro-batches per update: {micro_batches:count}. While the pipeline fills and drains, this stage computes "
        "nothing and waits for others: {time:ns} of a step of {step:ns} ({share:share}).",
    ),
    advice=Text(
        "pipeline-bubble-advice",
        "Cut the batch into more micro-batches, as long as each still fills the device: n_microbatches of the schedule "
        "in torch.distributed.pipelining, a smaller --micro-batch-size in Megatron, gradient_accumulation_steps in "
        "DeepSpeed. Or give each rank several stages (interleaved 1F1B), or use a zero-bubble schedule.",
        note="n_microbatches, --micro-batch-size and gradient_accumulation_steps are code",
    ),
    not_when=Text(
        "pipeline-bubble-not-when",
        "Smaller micro-batches no longer fill the device, or the stage waits because another rank loads data.",
    ),
    severity="low to high",
    confidence="B",
    tags=("communication", "training"),
    since="0.2",
    thresholds=(
        Threshold(
            "waiting_share",
            0.1,
            "share",
            "time in which the stage waits for messages at the fill and drain of the pipeline over the step",
            "own choice: the bubble of four stages with 27 micro-batches",
        ),
    ),
    code=_CODE.format(count=16),
    links=(
        "https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
        "https://arxiv.org/abs/1811.06965",
        "https://arxiv.org/abs/2104.04473",
    ),
    trace=_trace,
    stage="preview",
)
