"""Training runs forward or backward passes whose results are not used.

What it detects:
    Backward passes whose gradients `zero_grad` discards before any update; and modules that, before each of several
    updates, run on inputs of one shape more often than their outputs reach a backward pass. Forward passes that
    checkpointing repeats within a backward pass do not count. Also forward passes without autograd that, for half of
    the updates or more, run the same operators on the same shapes as the training pass, for example to log a loss.

Why it matters:
    A pass takes its full time even if its result is dropped.

What to do:
    Find the call in the training loop and delete it. If its result is needed only for a metric, compute it under
    `torch.no_grad()` or take it from the training pass.

How the saving is estimated:
    The time of these passes: on the GPU if it works longer than the host, else on the host. At least nine tenths of it,
    because the work that follows may find a colder cache. On a CPU up to 1.5 times this time, because the remaining
    passes then find their memory mapped and in the cache (in the lab 1.0 to 1.4 times this time was saved, in four
    programs).

When it is wrong:
    Gradients may be read before they are discarded (accumulation, SAM, gradient penalties, checks); passes do not count
    if a recorded operator reads their gradients. Programs with several optimizers that take turns are not judged. An
    output may be used without a backward pass, for example to choose among candidates. A second network of the same
    structure (a teacher, a target network) runs the same operators and looks the same in a trace without modules.
    Programs that average their parameters are not judged, if the trace shows it.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    https://docs.pytorch.org/docs/stable/notes/autograd.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Discarded, Passes, UnusedForward
from traceanalyzer.analyzers.optimizer.repeated_passes import RepeatedForward
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import BACKWARD
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_LEAST = 0.9
"""Least part of the time that is saved (own choice, explained on the rule's page)."""

_MOST_ON_CPU = 1.5
"""Most that goes away on a CPU, over the time of the passes (measured in the lab, explained on the rule's page)."""
_OF_UPDATES = 0.5
"""Least part of the updates with a repeated pass (own choice: a validation now and then is wanted)."""

_DISCARDED = Text("redundant-passes-discarded", "backward passes whose gradients zero_grad throws away")
_UNUSED = Text("redundant-passes-unused", "updates before which some outputs reach no backward pass")
_REPEATED = Text("redundant-passes-repeated", "updates with one more forward pass without autograd")
_BASIS_CPU = Text(
    "redundant-passes-basis-cpu",
    "at least {least:share} of the time of these passes; up to {most:number} times of it, because the passes that "
    "remain find their memory mapped and in the cache",
)
_NO_TABLE = Text("redundant-passes-no-table", "a printed table does not show the order of passes")
_BASIS = Text("redundant-passes-basis", "the time of these passes; at least {least:share} of it")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    passes = facts.need("passes", Passes)
    if passes.discarded is not None and passes.discarded.passes >= limits["discarded_passes"]:
        yield _discarded(facts, passes, passes.discarded, limits["discarded_passes"])
    for row in passes.unused:
        if row.updates >= limits["unused_updates"]:
            yield _unused(facts, row, limits["unused_updates"])
    found = passes.repeated
    if found is not None and found.updates >= max(limits["unused_updates"], _OF_UPDATES * passes.updates):
        yield _repeated(facts, passes, found, limits["unused_updates"])


def _discarded(facts: Facts, passes: Passes, found: Discarded, limit: float) -> Draft:
    where = tuple(CodePlace("time", "backward", None, w.host_ns, "ns", w.start_ns, BACKWARD()) for w in found.examples)
    change = _change(facts, found.device_ns, found.host_ns)
    params = {"passes": found.passes, "all": passes.backward_passes, "updates": passes.updates}
    evidence = Evidence(_DISCARDED(), found.passes, limit, "count", where)
    return Draft((evidence,), change, {**params, "time": _time(facts, found.device_ns, found.host_ns)})


def _unused(facts: Facts, row: UnusedForward, limit: float) -> Draft:
    place = CodePlace("module", row.name, row.input_shapes or None, row.host_ns, "ns", row.start_ns)
    change = _change(facts, row.device_ns, row.host_ns)
    params = {"module": row.name.removeprefix("nn.Module: "), "calls": row.calls, "unused": row.unused_calls}
    params |= {"updates": row.updates, "time": _time(facts, row.device_ns, row.host_ns)}
    evidence = Evidence(_UNUSED(), row.updates, limit, "count", (place,))
    return Draft((evidence,), change, params, confidence="C", summary=_SUMMARY_UNUSED)


def _repeated(facts: Facts, passes: Passes, found: RepeatedForward, limit: float) -> Draft:
    """A forward pass without autograd, beside the same one that trains."""
    place = CodePlace("operator", found.name, found.input_shapes or None, found.host_ns, "ns", found.start_ns)
    change = _change(facts, found.device_ns, found.host_ns)
    time = _time(facts, found.device_ns, found.host_ns)
    params = {"passes": found.passes, "operators": found.operators, "updates": passes.updates, "time": time}
    evidence = Evidence(_REPEATED(), found.updates, limit, "count", (place,))
    return Draft(
        (evidence,),
        change,
        params,
        ceiling="medium",
        confidence="C",
        summary=_SUMMARY_REPEATED,
        advice=_ADVICE_REPEATED,
    )


def _change(facts: Facts, device_ns: int, host_ns: int) -> TimeSaved:
    """The saving on the resource that bounds the step, because a pass takes both host and GPU time."""
    on_gpu, time = _is_on_gpu(facts, device_ns), _time(facts, device_ns, host_ns)
    if Processor.of(facts).is_cpu:
        basis = _BASIS_CPU(least=_LEAST, most=_MOST_ON_CPU)
        return TimeSaved("host", (_LEAST * time, min(_MOST_ON_CPU * time, facts.step_ns)), basis)
    return TimeSaved("gpu" if on_gpu else "host", (_LEAST * time, time), _BASIS(least=_LEAST))


def _time(facts: Facts, device_ns: int, host_ns: int) -> float:
    """Time of the passes per step, of the processor that takes longer."""
    if _is_on_gpu(facts, device_ns):
        return facts.gpu_per_step(device_ns)
    processor = Processor.of(facts)
    return processor.per_step(host_ns) if processor.is_cpu else facts.host_per_step(host_ns)


def _is_on_gpu(facts: Facts, device_ns: int) -> bool:
    return bool(device_ns) and (facts.resources.gpu_ns or 0) >= (facts.resources.host_ns or 0)


_SUMMARY_REPEATED = Text(
    "redundant-passes-summary-repeated",
    "The program runs {operators:count} operators of the forward pass that trains once more without autograd, on the "
    "same shapes: the same network, or one of equal structure. Such passes: {passes:count} (updates: {updates:count}), "
    "{time:ns} per step.",
)
_ADVICE_REPEATED = Text(
    "redundant-passes-advice-repeated",
    "If the second pass is only for a metric, take it from the pass that trains: keep its outputs with detach(). If it "
    "is for the updated parameters, run it every few hundred steps.",
    note="detach() is code",
)
_SUMMARY_UNUSED = Text(
    "redundant-passes-summary-unused",
    "{module} runs {calls:count} times on inputs of one shape; outputs that reach no backward pass: {unused:count} "
    "(updates after them: {updates:count}), {time:ns} per step.",
    note="module is a class of modules or a wrapper",
)

RULE = Rule(
    id="redundant-passes",
    title=Text("redundant-passes-title", "Passes are computed for nothing"),
    summary=Text(
        "redundant-passes-summary",
        "{passes:count} of {all:count} backward passes, with the forward passes before them, end in zero_grad without "
        "an update: {time:ns} per step for gradients that are thrown away.",
        one="{passes:count} of {all:count} backward passes, with the forward pass before it, ends in zero_grad without "
        "an update: {time:ns} per step for gradients that are thrown away.",
    ),
    advice=Text(
        "redundant-passes-advice",
        "Find the calls in the training loop and delete them. If only a metric is wanted, take it from the pass that "
        "trains or compute it under torch.no_grad(). If the gradients should count, move zero_grad before them.",
        note="torch.no_grad() and zero_grad are code",
    ),
    not_when=Text(
        "redundant-passes-not-when",
        "Something reads these gradients or outputs: a second optimizer, an attack, a penalty, a teacher, the choice "
        "among candidates.",
    ),
    severity="medium to critical",
    confidence="B",
    tags=("gpu", "host", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "discarded_passes",
            2,
            "count",
            "backward passes that end in zero_grad",
            "own choice, because a single one can be a warm-up, or cut by the window of the profiler",
        ),
        Threshold(
            "unused_updates",
            2,
            "count",
            "updates before which a module's output reaches no backward pass",
            "own choice, because one can be a validation that was run once",
        ),
    ),
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
