"""How well does the causal model predict the durations of other steps in the same recording?

Steps of one program differ in their pauses: waits for the loader, logging, and other long host work between two calls.
Replaying one step with the pauses of another predicts the recorded duration of the other one, so the error of the model
is measured without another run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation import model, step_times, window
from traceanalyzer.simulation.longest_path import replay
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.table import I64

LEAST_SHARE = 0.01
"""Share of a step: shorter host time is no pause, and smaller differences of steps are not compared (own choice)."""


@dataclass(frozen=True)
class StepPrediction:
    """One step predicted from another one."""

    of_step: str
    """Name of the step whose duration is predicted."""
    from_step: str
    """Name of the step that is replayed with the pauses of the predicted one."""
    recorded_ns: int
    """Duration of the predicted step."""
    predicted_ns: int
    """Duration of the replay."""
    naive_ns: int
    """Duration of the replayed step plus the difference of the pauses."""

    @property
    def error_share(self) -> float:
        """Error of the prediction as a share of the step, 0 or more."""
        return abs(self.predicted_ns - self.recorded_ns) / self.recorded_ns

    @property
    def naive_error_share(self) -> float:
        """Error of the naive prediction as a share of the step, 0 or more."""
        return abs(self.naive_ns - self.recorded_ns) / self.recorded_ns


def predictions(context: Context) -> tuple[StepPrediction, ...]:
    """Predictions for all pairs of typical steps with equal calls and different pauses."""
    steps = program_steps(context)
    kept = np.flatnonzero(steps.is_typical & (steps.end_ns > steps.start_ns)).tolist()
    models = {step: model.over(context, [window.of_steps(context, np.array([step]))]) for step in kept}
    points = {step: _points(each) for step, each in models.items()}
    calls = {step: _calls(each, points[step]) for step, each in models.items()}
    results = []
    for one, before in models.items():
        for other, after in models.items():
            if one == other or not np.array_equal(calls[one], calls[other]):
                continue
            names = steps.names[other], steps.names[one]
            predicted = _predict(names, (before, points[one]), (after, points[other]))
            results += [predicted] if predicted is not None else []
    return tuple(results)


def _predict(names: tuple[str, str], one: tuple[Model, I64], other: tuple[Model, I64]) -> StepPrediction | None:
    """The prediction of one step from another; None if their pauses hardly differ."""
    (before, points), (after, others) = one, other
    graph = before.with_residuals
    cost_here, new = graph.host.cost_ns[points], after.with_residuals.host.cost_ns[others]
    pauses = np.maximum(cost_here, new) >= LEAST_SHARE * before.recorded_ns
    more = np.where(pauses, new - cost_here, 0)
    if int(np.abs(more).sum()) < LEAST_SHARE * before.recorded_ns:
        return None
    cost = graph.host.cost_ns.copy()
    cost[points] += more
    times = replay(replace(graph, host=replace(graph.host, cost_ns=cost)))
    start = step_times.starts(before.bounds, before.recorded)
    predicted = int((step_times.ends(before.bounds, times) - start)[0])
    naive = round(before.recorded_ns) + int(more.sum())
    return StepPrediction(*names, round(after.recorded_ns), predicted, naive)


def _points(model: Model) -> I64:
    """The points of the judged step except the first of each thread, before which is no time of the step."""
    host = model.graph.host
    inside = host.is_judged & (host.time_ns <= host.time_ns[model.bounds.end_point[-1]])
    return np.flatnonzero(inside & np.append(False, inside)[: len(inside)])


def _calls(model: Model, points: I64) -> I64:
    """Key that is equal for steps with equal calls: thread, function and end of the call at each point."""
    host, launches = model.graph.host, model.context.trace.launches
    name = np.append(launches.name, -1)[np.where(host.call[points] < 0, len(launches), host.call[points])]
    return np.stack((host.thread[points], name, host.is_end[points], host.in_loader[points]))
