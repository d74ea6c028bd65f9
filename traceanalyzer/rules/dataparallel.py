"""The model is wrapped in nn.DataParallel.

What it detects:
    The range `DataParallel.forward`, or Python frames of the wrapper if only those were recorded, and the number of
    devices it runs on. `DistributedDataParallel` is a different wrapper and is not affected.

Why it matters:
    With one GPU, the wrapper checks every parameter and scatters inputs in each step for nothing. With several, it
    copies the model to all of them in each step, drives them from threads of one Python process, and collects outputs
    and gradients on the first one.

What to do:
    With one GPU call the model directly. With several use `DistributedDataParallel`, one process per GPU.

How the saving is estimated:
    With one GPU, the time of the wrapper itself, without the wrapped module. With several GPUs, also the host time of
    scattering, copying and gathering. At least half of that. A step gains at most the time that the GPU waits for late
    launches until the host next waits for the GPU.

When it is wrong:
    The wrapper may be kept on one GPU for a script that also runs on several; it costs little, and the finding says how
    much.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
    https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication.data_parallel import DataParallel
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._idle_claims import claims
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LEAST = 0.5
"""Own choice: what replaces the wrapper is not free either."""
_NAME = "DataParallel.forward"

_SUBJECT = Text("dataparallel-subject", "calls of the wrapper per step")
_BASIS = Text("dataparallel-basis", "{least:share} to all of the wrapper's own host time")
_BASIS_MANY = Text(
    "dataparallel-basis-many",
    "{least:share} to all of the host time of the wrapper itself and of scattering, copying and gathering",
)
_BASIS_TABLE = Text(
    "dataparallel-basis-table",
    "at most the wrapper's own host time; the lower end is 0, because it includes the profiler's own cost",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("data_parallel", DataParallel)
    calls = found.calls / facts.steps
    if not calls > limits["calls_per_step"]:
        return
    many = len(found.devices) > 1
    own = facts.host_per_step(found.own_host_ns)
    moving = facts.host_per_step(sum(row.host_ns for row in found.distribution)) if many else 0.0
    where = [CodePlace("operator", _NAME, value=found.host_ns, unit="ns", start_ns=found.start_ns)]
    where += [CodePlace("operator", row.name, value=row.host_ns, unit="ns") for row in found.distribution]
    evidence = Evidence(_SUBJECT(), calls, limits["calls_per_step"], "number", tuple(where))
    time = own + moving
    ended = {} if many or not found.devices else claims(facts, found.exposed)
    exposed = None if many or not found.devices else sum(ended.values())
    change = TimeSaved(
        "host",
        (_LEAST * time, time),
        (_BASIS_MANY if many else _BASIS)(least=_LEAST),
        None if exposed is None else (min(_LEAST * time, exposed), min(time, exposed)),
        ended,
    )
    params = {"devices": len(found.devices), "time": time}
    confidence = None if found.is_marked else "B"
    yield Draft(
        (evidence,),
        change,
        params,
        confidence=confidence,
        summary=_SUMMARY_MANY if many else None,
        advice=_ADVICE_MANY if many else None,
        code=_CODE_MANY if many else None,
    )


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [] if facts.view is None else [row for row, _ in facts.view.by_name if row.name == _NAME and row.calls]
    calls = sum(row.calls or 0 for row in rows) / facts.steps
    if not calls > limits["calls_per_step"]:
        return
    own = facts.host_per_step(sum(row.self_cpu_ns or 0 for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
    evidence = Evidence(_SUBJECT(), calls, limits["calls_per_step"], "number", where)
    change = TimeSaved("host", (0.0, own), _BASIS_TABLE())
    yield Draft((evidence,), change, {"time": own}, summary=_SUMMARY_TABLE, advice=_ADVICE_TABLE)


_CODE_MANY = "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])"
_SUMMARY_MANY = Text(
    "dataparallel-summary-many",
    "nn.DataParallel spreads each batch over {devices:count} GPUs from one process; wrapping, copying and gathering "
    "take {time:ns} of host time per step.",
)
_SUMMARY_TABLE = Text(
    "dataparallel-summary-table",
    "The model runs in nn.DataParallel, whose own host time is {time:ns} per step.",
)
_ADVICE_MANY = Text(
    "dataparallel-advice-many",
    "Use DistributedDataParallel with one process per GPU: the model is copied once, and gradients are exchanged while "
    "the backward pass still runs.",
)
_ADVICE_TABLE = Text(
    "dataparallel-advice-table",
    "With one GPU call the model directly; with several use DistributedDataParallel, one process per GPU.",
)

RULE = Rule(
    id="dataparallel",
    title=Text("dataparallel-title", "The model runs in nn.DataParallel"),
    summary=Text(
        "dataparallel-summary",
        "The model runs in nn.DataParallel but uses one device: the wrapper takes {time:ns} of host time per step for "
        "nothing.",
    ),
    advice=Text(
        "dataparallel-advice",
        "Call the model without the wrapper. When more GPUs come, use DistributedDataParallel with one process per "
        "GPU.",
    ),
    not_when=Text(
        "dataparallel-not-when",
        "The script has to run unchanged on machines with more GPUs, and the time it costs here does not matter.",
    ),
    severity="info to high",
    confidence="A",
    tags=("host", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "calls_per_step",
            0,
            "number",
            "calls of the wrapper over the steps",
            "own choice, because any use is worth a finding; the saving shows what it costs",
        ),
    ),
    code="output = model(batch)  # not torch.nn.DataParallel(model)(batch)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html",
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
    ),
    trace=_trace,
    table=_table,
)
