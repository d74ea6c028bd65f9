"""The optimizer updates one parameter after the other.

What it detects:
    `Optimizer.step` that launches many small elementwise kernels, some for every parameter, instead of a few for lists
    of all parameters (`_foreach_*`) or one fused kernel. In a printed table, in-place arithmetic that is called many
    times for each `Optimizer.step`, if no operator works on lists. In a program without a GPU, also for optimizers with
    a fused form on a CPU (Adam, AdamW, SGD, Adagrad; torch 2.4 or newer); there a few calls are enough if they take
    more than 0.2 ms each.

Why it matters:
    Every launch costs the host several microseconds, so hundreds of them take milliseconds, however small their work on
    the GPU. If the host bounds the step, this makes the step longer. Without a GPU every call costs as much, and
    parameters are read and written several times instead of once.

What to do:
    Create the optimizer with `fused=True`, or `foreach=True` if it has no fused form. Newer versions of PyTorch choose
    `foreach` automatically if all parameters are on the GPU.

How the saving is estimated:
    Between half and four fifths of the host time of the calls. A step gains at most the time that the GPU waits for
    late launches until the host next waits for the GPU.

    In a program without a GPU, about the measured saving by `fused=True`, as a share of the time of the calls (torch
    2.13, one core of an AMD EPYC, 8 to 68 parameters of 64 to 4 million numbers). For calls of up to 20 us: with Adam
    and AdamW 77 to 87 % (in trainings of the lab 72 to 97 %), with Adagrad 69 %, with SGD 40 to 56 %, with momentum 76
    to 78 %. Longer calls are bound by memory: Adam and AdamW 51 to 80 %, Adagrad 49 to 67 %, SGD with momentum 23 to 38
    %, without momentum nothing. Calls of more than 0.2 ms (parameters of 1 to 32 million numbers): Adam and AdamW 80 to
    90 %, Adagrad 34 to 84 %, SGD with momentum 29 to 45 %. `foreach=True` saved up to 47 % of short calls, and nothing
    of long ones.

When it is wrong:
    Sparse gradients and custom optimizers have no fused form. `foreach` needs memory for one more copy of the
    gradients.

References:
    https://docs.pytorch.org/docs/stable/optim.html
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.optimizer import IN_PLACE, Optimizer, Optimizers
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _settings
from traceanalyzer.rules._fused_optimizers import CLASS, FEWEST_CALLS, is_sparse, is_sparse_name, saved_on_cpu
from traceanalyzer.rules._idle_claims import claims
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.owners import EVALUATION

_LEAST, _MOST = 0.5, 0.8
"""Own choice: the Python loops that collect parameters and a few launches remain."""
_ARITHMETIC = 0.8
"""Own choice: an optimizer that does more than arithmetic on its parameters cannot be fused."""
_OPTION = {
    **dict.fromkeys(("Adam", "AdamW", "SGD", "Adagrad"), "fused"),
    **dict.fromkeys(("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"), "foreach"),
}
"""How torch.optim's classes update all parameters at once (torch 2.4; their documentation)."""

_SUBJECT = Text("optimizer-not-fused-subject", "launches per update of the parameters")
_SUBJECT_TABLE = Text("optimizer-not-fused-subject-table", "calls of in-place arithmetic per update of the parameters")
_HOST = Text("optimizer-not-fused-host", "host time of the updates, share of the step")
_BASIS = Text(
    "optimizer-not-fused-basis",
    "{least:share} to {most:share} of the host time of the updates; a step gains at most the GPU's idle time until "
    "the host next waits for it",
)
_BASIS_CPU = Text("optimizer-not-fused-basis-cpu", "{least:share} to {most:share} of the time of the updates")
_BASIS_TABLE = Text(
    "optimizer-not-fused-basis-table",
    "{least:share} to {most:share} of the host time of the updates; a table does not show which part of it the GPU's "
    "work hides",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if Processor.of(facts).is_cpu:
        yield from _on_cpu(facts, limits)
        return
    for row in facts.need("optimizers", Optimizers).rows:
        host = facts.host_per_step(row.host_ns)
        launches, share = row.launches / row.calls, host / facts.step_ns
        if launches < limits["launches"] or share <= limits["host_share"] or not is_loop(row):
            continue
        place = CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns)
        evidence = (
            Evidence(_SUBJECT(), launches, limits["launches"], "count", (place,)),
            Evidence(_HOST(), share, limits["host_share"], "share", (place,)),
        )
        ended = claims(facts, row.exposed)
        exposed = sum(ended.values())
        direct = _LEAST * host, _MOST * host
        change = TimeSaved(
            "host",
            direct,
            _BASIS(least=_LEAST, most=_MOST),
            (min(direct[0], exposed), min(direct[1], exposed)),
            ended,
            (f"operator:{row.name}",),
        )
        params = {"optimizer": row.name, "launches": round(launches), "host": host, "share": share}
        params |= {"device": facts.host_per_step(row.device_ns)}
        advice = _ADVICE_REFUSED if _settings.refuses_lists(facts) else None
        yield Draft(evidence, change, params, advice=advice, code=fused_code(row.name))


def is_loop(row: Optimizer) -> bool:
    """Whether it does arithmetic on one parameter at a time, and could do it on lists."""
    arithmetic = row.elementwise_launches >= _ARITHMETIC * row.launches
    own = row.kind == "step" and not row.closures
    return own and not row.list_operators and arithmetic and not is_sparse(row)


def _on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Without a GPU calls of operators take the time that launches take elsewhere."""
    processor = Processor.of(facts)
    for row in facts.need("optimizers", Optimizers).rows:
        each, share = row.in_place / row.calls, processor.share(row.host_ns)
        saved = saved_on_cpu(facts, row, limits["launches"])
        if saved is None or share <= limits["host_share"]:
            continue
        place = CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns)
        evidence = [Evidence(_HOST(), share, limits["host_share"], "share", (place,))]
        if each >= limits["launches"]:
            evidence.insert(0, Evidence(_SUBJECT_TABLE(), each, limits["launches"], "count", (place,)))
        host = processor.per_step(row.host_ns)
        least, most = saved
        basis = _BASIS_CPU(least=least, most=most)
        change = TimeSaved("host", (least * host, most * host), basis, claims={f"optimizer:{row.name}": host})
        params = {"optimizer": row.name, "calls": round(each), "host": host, "share": share}
        advice = _ADVICE_CPU_REFUSED if _settings.refuses_lists(facts) else _ADVICE_CPU
        yield Draft(tuple(evidence), change, params, summary=_SUMMARY_CPU, advice=advice, code=fused_code(row.name))


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if marks.is_optimizer_step(row.name) and row.cpu_total_ns]
    calls = max((row.calls or 0 for row in rows), default=0)
    if not calls or _has_lists(facts) or facts.table is None or not facts.table.cpu_ns:
        return
    optimizer = sum(row.cpu_total_ns or 0 for row in rows)
    if any(is_sparse_name(row.name) for row in rows) or _has_closure(facts, optimizer):
        return
    updates = [row for row in facts.operators if row.name in IN_PLACE]
    each = sum(row.calls for row in updates) / calls
    host = facts.host_per_step(optimizer)
    share = host * facts.steps / facts.table.cpu_ns
    if each < limits["launches"] or share <= limits["host_share"]:
        return
    where = [CodePlace("row", row.name, value=row.cpu_total_ns, unit="ns") for row in rows[:1]]
    where += _longest(updates)
    evidence = (
        Evidence(_SUBJECT_TABLE(), each, limits["launches"], "count", tuple(where)),
        Evidence(_HOST(), share, limits["host_share"], "share", tuple(where[:1])),
    )
    change = TimeSaved("host", (_LEAST * host, _MOST * host), _BASIS_TABLE(least=_LEAST, most=_MOST))
    params = {"optimizer": rows[0].name, "launches": round(each), "host": host, "share": share}
    code = fused_code(rows[0].name)
    yield Draft(evidence, change, params, confidence="C", summary=_SUMMARY_TABLE, code=code)


def _has_closure(facts: Facts, optimizer_ns: int) -> bool:
    """Whether the optimizer's time contains what autograd evaluates: a closure, as with LBFGS or PyTorch Lightning."""
    evaluated = sum(row.host_total_ns for row in facts.operators if row.name.startswith(EVALUATION))
    whole = facts.table.cpu_ns if facts.table else None
    return whole is not None and evaluated > 0 and optimizer_ns + evaluated > whole


def _longest(updates: Sequence[OperatorFact]) -> list[CodePlace]:
    shown = sorted(updates, key=lambda row: (-row.host_total_ns, row.name))[:4]
    return [CodePlace("row", row.name, value=row.host_total_ns, unit="ns") for row in shown]


def _has_lists(facts: Facts) -> bool:
    """Whether some operator works on lists of parameters."""
    return any("_foreach_" in row.name or "_fused_" in row.name for row in facts.operators)


def fused_code(call: str) -> str:
    """Code for the optimizer that the program uses, which keeps its settings; empty where it is none of torch's."""
    found = CLASS.search(call)
    option = _OPTION.get(found[1]) if found else None
    return (
        f"torch.optim.{found[1]}(parameters, **settings, {option}=True)  # settings: as before"
        if found and option
        else ""
    )


_ADVICE_REFUSED = Text(
    "optimizer-not-fused-advice-refused",
    "The optimizer was constructed with foreach=False, which asks for the loop: leave that out, or construct it with "
    "fused=True.",
    note="foreach=False and fused=True are code",
)
_ADVICE_CPU = Text(
    "optimizer-not-fused-advice-cpu",
    "Let one operator update all parameters: construct the optimizer with fused=True. With foreach=True the operators "
    "still take one parameter after the other here.",
    note="fused=True and foreach=True are code; here: on a CPU",
)
_ADVICE_CPU_REFUSED = Text(
    "optimizer-not-fused-advice-cpu-refused",
    "Let one operator update all parameters: construct the optimizer with fused=True instead of foreach=False.",
    note="fused=True and foreach=False are code",
)
_SUMMARY_CPU = Text(
    "optimizer-not-fused-summary-cpu",
    "{optimizer} calls in-place arithmetic {calls:count} times, several times for each parameter: {host:ns} per step "
    "({share:share}).",
    note="optimizer is a name such as Optimizer.step#SGD.step",
)
_SUMMARY_TABLE = Text(
    "optimizer-not-fused-summary-table",
    "{optimizer} takes {host:ns} of host time per step ({share:share}), no operator works on lists of parameters, and "
    "there are {launches:count} calls of in-place arithmetic for each update.",
    note="optimizer is a row of the table such as Optimizer.step#SGD.step",
)

RULE = Rule(
    id="optimizer-not-fused",
    title=Text("optimizer-not-fused-title", "The optimizer updates one parameter after the other"),
    summary=Text(
        "optimizer-not-fused-summary",
        "{optimizer} launches {launches:count} small kernels: {host:ns} of host time per step ({share:share}) for "
        "{device:ns} of work on the GPU.",
        note="optimizer is a name such as Optimizer.step#SGD.step",
    ),
    advice=Text(
        "optimizer-not-fused-advice",
        "Let the optimizer update all parameters at once: construct it with fused=True, or with foreach=True where it "
        "has no fused form.",
        note="fused=True and foreach=True are code",
    ),
    not_when=Text(
        "optimizer-not-fused-not-when",
        "Gradients are sparse, the optimizer has neither form, or there is no memory for another copy of the "
        "gradients (then fused=True, which needs none, may still work).",
    ),
    severity="info to high",
    confidence="A",
    tags=("host", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "launches",
            FEWEST_CALLS,
            "count",
            "launches of one call of step (in a table, and without a GPU, calls of in-place arithmetic for each)",
            "own choice, because optimizers on lists launch some tens for any model, and fewer launches take less "
            "than a millisecond",
        ),
        Threshold(
            "host_share",
            0.02,
            "share",
            "host time of the calls over the step, or over all host time in a table",
            "own choice, because half of less is not above the noise of a step",
        ),
    ),
    code="torch.optim.AdamW(parameters, **settings, fused=True)  # settings: as before",
    links=(
        "https://docs.pytorch.org/docs/stable/optim.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    ),
    trace=_trace,
    table=_table,
)
