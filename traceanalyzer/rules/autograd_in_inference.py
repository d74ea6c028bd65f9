"""Detects autograd-in-inference: see pages/autograd-in-inference.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import FORWARD
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.recording import Recording

_PAGE = page("autograd-in-inference")
_AT_MOST = 0.02
"""Greatest share of the host time that is saved (own choice: about what autograd's bookkeeping takes)."""
_AT_MOST_ON_CPU = 0.2
"""The share for programs without a device (own choice: somewhat more than the lab measured)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    passes = facts.find("passes", Passes)
    if passes is None:  # nothing has a number of autograd, so gradients are off
        facts.need("operators", object)
        return
    recording = facts.find("recording", Recording)
    if recording is not None and recording.workload == "training":
        raise Missing(_PAGE.text("trains")())
    if passes.backward_passes or passes.updates or passes.graph_passes < limits["forward_passes"]:
        return
    label = FORWARD()
    where = CodePlace("time", "forward", None, passes.graph_host_ns, "ns", passes.graph_start_ns, label)
    evidence = Evidence(_PAGE.text("subject")(), passes.graph_passes, limits["forward_passes"], "count", (where,))
    part = _AT_MOST if facts.resources.gpu_ns is not None else _AT_MOST_ON_CPU
    most = part * facts.host_per_step(passes.graph_host_ns)
    params = {"passes": passes.graph_passes, "functions": passes.graph_functions}
    yield Draft((evidence,), TimeSaved("host", (0.0, most), _PAGE.text("basis")(most=part)), params, severity="low")


RULE = _PAGE.rule(trace=_trace)
