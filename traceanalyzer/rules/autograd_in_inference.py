"""Inference builds a graph for gradients that are never computed.

What it detects:
    Several forward passes (of one module, or in several steps) that build autograd's graph, in a trace without any
    backward pass or optimizer update.

Why it matters:
    The graph keeps activations in memory until the output is dropped, so batches must be smaller than necessary, and
    every operator costs the host a little more.

What to do:
    Run inference under `torch.inference_mode()`, or under `torch.no_grad()` where outputs take part in training later.

How the saving is estimated:
    The gain is mostly memory, which is not counted as time. At most 2 % of the operators' host time; in programs
    without a device at most 20 %, because the graph is freed on the same thread, and kept activations need memory that
    is not in caches (the lab measured 6 to 13 %). The lower end is 0 because the overhead was not measured.

When it is wrong:
    The recording may end before a backward pass that comes much later, for example if features are collected over many
    batches.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html
    https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import FORWARD
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.recording import Recording

_AT_MOST = 0.02
"""Greatest share of the host time that is saved (own choice: about what autograd's bookkeeping takes)."""

_AT_MOST_ON_CPU = 0.2
"""The share for programs without a device (own choice: somewhat more than the lab measured)."""

_SUBJECT = Text(
    "autograd-in-inference-subject", "forward passes that build a graph, with no backward pass in the trace"
)
_NO_TABLE = Text("autograd-in-inference-no-table", "a printed table does not show whether gradients were recorded")
_TRAINS = Text("autograd-in-inference-trains", "the program trains, even if the recording contains no backward pass")
_BASIS = Text(
    "autograd-in-inference-basis",
    "at most {most:share} of the host time of these operators; the lower end is 0, because the gain is mostly memory",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    passes = facts.find("passes", Passes)
    if passes is None:  # nothing has a number of autograd, so gradients are off
        facts.need("operators", object)
        return
    recording = facts.find("recording", Recording)
    if recording is not None and recording.workload == "training":
        raise Missing(_TRAINS())
    if passes.backward_passes or passes.updates or passes.graph_passes < limits["forward_passes"]:
        return
    label = FORWARD()
    where = CodePlace("time", "forward", None, passes.graph_host_ns, "ns", passes.graph_start_ns, label)
    evidence = Evidence(_SUBJECT(), passes.graph_passes, limits["forward_passes"], "count", (where,))
    part = _AT_MOST if facts.resources.gpu_ns is not None else _AT_MOST_ON_CPU
    most = part * facts.host_per_step(passes.graph_host_ns)
    params = {"passes": passes.graph_passes, "functions": passes.graph_functions}
    yield Draft((evidence,), TimeSaved("host", (0.0, most), _BASIS(most=part)), params, severity="low")


RULE = Rule(
    id="autograd-in-inference",
    title=Text("autograd-in-inference-title", "Inference records gradients"),
    summary=Text(
        "autograd-in-inference-summary",
        "{passes:count} forward passes add {functions:count} functions to the graph of autograd, but nothing in the "
        "trace computes a gradient: activations are kept for nothing.",
        one="{passes:count} forward pass adds {functions:count} functions to the graph of autograd, but nothing in "
        "the trace computes a gradient: activations are kept for nothing.",
    ),
    advice=Text(
        "autograd-in-inference-advice",
        "Run inference under torch.inference_mode(), or under torch.no_grad() where the outputs take part in training "
        "later.",
        note="torch.inference_mode() and torch.no_grad() are code",
    ),
    not_when=Text(
        "autograd-in-inference-not-when",
        "A backward pass follows after the window that was profiled.",
    ),
    severity="low",
    confidence="B",
    tags=("host", "memory", "inference"),
    since="0.1",
    thresholds=(
        Threshold(
            "forward_passes",
            2,
            "count",
            "calls of one module, or steps, that extend the graph",
            "own choice, because the window of the profiler may end between a forward pass and its backward pass",
        ),
    ),
    code="with torch.inference_mode(): output = model(batch)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
