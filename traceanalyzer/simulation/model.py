"""The causal model of a recording's typical step: replays it, unchanged and with edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.recording.program_steps import program_steps
from traceanalyzer.simulation import applying, building, residuals, step_times
from traceanalyzer.simulation import window as window_
from traceanalyzer.simulation.building import Built
from traceanalyzer.simulation.edits import Edits
from traceanalyzer.simulation.graph import Graph
from traceanalyzer.simulation.longest_path import Times, replay
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.simulation.window import Window
from traceanalyzer.trace.table import F64, I64, Bool

ABSTAINS_ABOVE = 0.05
"""Share of the step: a model that is wrong by more says nothing about changes."""

Estimate = tuple[float, float, float]
"""Low, point and high estimate in ns per step."""


@dataclass(frozen=True)
class Outcome:
    """What a change does to the typical step."""

    step_ns: float
    """The typical step as it was recorded."""
    predicted_ns: Estimate
    """The typical step with the change."""
    saving_ns: Estimate
    """Time by which the typical step gets shorter; less than 0 where it gets longer."""


@dataclass(frozen=True)
class Model:
    """The graph of the typical steps of a recording, with and without what it does not explain."""

    context: Context
    window: Window
    built: Built
    bounds: StepBounds
    with_residuals: Graph
    times: Times
    """The unchanged replay without residuals."""

    @property
    def graph(self) -> Graph:
        """The graph without residuals."""
        return self.built.graph

    @property
    def recorded_ns(self) -> float:
        """Mean duration in ns of the steps that are modelled."""
        return float((self.window.step_end_ns - self.window.step_start_ns).mean())

    @property
    def modelled_ns(self) -> float:
        """The same in the unchanged replay without residuals."""
        return self.step_ns(self.times)

    @property
    def error_share(self) -> float:
        """How far the unchanged replay is from the recording, as a share of the step; 0 or more."""
        return abs(self.modelled_ns - self.recorded_ns) / self.recorded_ns

    @property
    def abstains(self) -> bool:
        """Whether the model is too far from the recording to say what a change does."""
        return self.error_share > ABSTAINS_ABOVE

    @property
    def is_alone(self) -> Bool:
        """Which device events start within a judged step."""
        return self.step_of_events() >= 0

    def step_of_events(self) -> I64:
        """For each device event the judged step in which it starts in the recording, or -1."""
        start = self.graph.device.start_ns
        step = np.searchsorted(self.window.step_start_ns, start, side="right") - 1
        inside = (step >= 0) & (start < np.append(self.window.step_end_ns, 0)[step])
        return np.where(inside, step, -1)

    def start_errors(self) -> F64:
        """By how much the modelled starts of the steps' device events are off within their step, in ns; 0 or more."""
        step = self.step_of_events()
        rows = np.flatnonzero(step >= 0)
        starts = step_times.starts(self.bounds, self.times)[step[rows]]
        modelled = self.times.start_ns[rows] - starts
        recorded = self.graph.device.start_ns[rows] - self.window.step_start_ns[step[rows]]
        return np.abs(modelled - recorded).astype(np.float64)

    def step_ns(self, times: Times) -> float:
        """Mean duration in ns of the judged steps in a replay."""
        durations = step_times.ends(self.bounds, times) - step_times.starts(self.bounds, times)
        return float(np.maximum(durations, 0).mean())

    def replayed_ns(self, edits: Edits, *, keep_residuals: bool) -> float:
        """Mean duration in ns of the judged steps with some edits."""
        graph = self.with_residuals if keep_residuals else self.graph
        changed = applying.apply(self.context, self.window, graph, edits)
        if not any(np.array_equal(changed.device.row, each.device.row) for each in (graph,)):
            return self._of_moved(changed)
        return self.step_ns(replay(changed))

    def _of_moved(self, changed: Graph) -> float:
        """The same where events have other positions, because they left their stream."""
        times = replay(changed)
        place = np.empty(len(changed.device), np.int64)
        place[np.argsort(changed.device.row, kind="stable")] = np.arange(len(place))
        order = np.argsort(self.graph.device.row, kind="stable")
        back = np.empty(len(place), np.int64)
        back[order] = np.argsort(changed.device.row, kind="stable")
        return self.step_ns(Times(times.point_ns, times.start_ns[back], times.end_ns[back], times.dropped))

    def what_if(self, edits: Edits, others: Sequence[Edits] = ()) -> Outcome:
        """What a change does to the typical step.

        Args:
            edits: What is most likely changed; the point estimate lies in the middle of its two replays.
            others: The change at the ends of its uncertainty, such as with a lower and a higher speedup.
        """
        scale = self._typical_ns / self.recorded_ns
        point = self._savings(edits)
        savings = [*point, *(saving for other in others for saving in self._savings(other))]
        low, middle, high = (scale * ns for ns in (min(savings), sum(point) / 2, max(savings)))
        step = self._typical_ns
        return Outcome(step, (step - high, step - middle, step - low), (low, middle, high))

    def _savings(self, edits: Edits) -> tuple[float, float]:
        """What a step saves in ns with residuals kept, and without them."""
        kept = self.recorded_ns - self.replayed_ns(edits, keep_residuals=True)
        return kept, self.modelled_ns - self.replayed_ns(edits, keep_residuals=False)

    @property
    def _typical_ns(self) -> float:
        """The typical step over all steps that count, also those that are not modelled."""
        typical = program_steps(self.context).typical
        return float((typical.end_ns - typical.start_ns).mean())


def of(context: Context) -> Model | None:
    """The model of a recording, built once; None where no step has any length."""
    return context.once(_of)


def _of(context: Context) -> Model | None:
    window = window_.find(context)
    return None if window is None else over(context, window)


def over(context: Context, window: Window) -> Model:
    """The model of some steps."""
    built = building.build(context, window)
    bounds = step_times.of(context, window, built)
    return Model(context, window, built, bounds, residuals.keep(built.graph), replay(built.graph))
