"""The causal model of a recording's typical step: replays it, unchanged and with edits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import fsum
from typing import Literal

import msgspec
import numpy as np

from traceanalyzer.simulation import applying, building, steady, step_times, window
from traceanalyzer.simulation import graph as graphs
from traceanalyzer.simulation.edits import Edits
from traceanalyzer.simulation.graph import Graph
from traceanalyzer.simulation.longest_path import Times, replay
from traceanalyzer.simulation.steady import Repeated
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64

ABSTAINS_ABOVE = 0.05
"""Share of the step: a model that is wrong by more says nothing about changes, nor one whose repeated steps take so
much more or less than those recorded. Also of the device's time: if so much starts when it started in the recording,
whatever changes, a small error of the replay proves nothing."""

Doubt = Literal["error", "pinned", "period"]
"""Why a model abstains: it differs from the recording, it takes starts from it, or its steps would not go on so."""


def doubt(error: float, pinned: float, period: float) -> Doubt | None:
    """The first of three shares that is too large for a prediction; None if none is."""
    shares: tuple[tuple[Doubt, float], ...] = (("error", error), ("pinned", pinned), ("period", period))
    return next((name for name, share in shares if share > ABSTAINS_ABOVE), None)


Estimate = tuple[float, float, float]
"""Low, point and high estimate in ns per step."""


class Outcome(msgspec.Struct, frozen=True):
    """What a change does to the typical step."""

    step_ns: float
    """The typical step as it was recorded."""
    predicted_ns: Estimate
    """The typical step with the change."""
    saving_ns: Estimate
    """Time by which the typical step gets shorter; less than 0 where it gets longer."""


class Model(msgspec.Struct, frozen=True, dict=True):
    """The graph of the typical steps of a recording, with and without residuals."""

    context: Context
    windows: tuple[ModelledWindow, ...]
    """The modelled parts of the recording, in the order of time."""
    graph: Graph
    """All parts, without residuals."""
    with_residuals: Graph
    bounds: StepBounds
    part_of_event: I64
    """For each device event, the number of its part."""
    times: Times
    """The unchanged replay without residuals."""
    recorded: Times
    """The unchanged replay with residuals, which equals the recording."""

    @property
    def recorded_ns(self) -> float:
        """Mean recorded duration in ns of the modelled steps."""
        return float(np.concatenate([each.step_end_ns - each.step_start_ns for each in self.windows]).mean())

    @property
    def modelled_ns(self) -> float:
        """Mean duration in ns of the modelled steps in the unchanged replay without residuals."""
        return float(self.durations_ns(self.times).mean())

    @property
    def error_share(self) -> float:
        """Difference of the unchanged replay from the recording as a share of the step, 0 or more."""
        return abs(self.modelled_ns - self.recorded_ns) / self.recorded_ns

    @property
    def pinned_share(self) -> float:
        """Share of the device's time in the modelled steps whose modelled start is simply the recorded one."""
        device = self.graph.device
        whole = int(device.dur_ns[device.part != graphs.NOTHING].sum())
        return self.graph.inputs.pinned_ns / whole if whole else 0.0

    @property
    def period_share(self) -> float:
        """Difference of the period, if the modelled steps went on, from the recorded step as a share of it.

        It is large where work queues up: the host marks steps faster than the device does their work.
        """
        return abs(self.elapsed_ns((), keep_residuals=True) - self.recorded_ns) / self.recorded_ns

    @cached_property
    def doubt(self) -> Doubt | None:
        """Why the model does not predict changes; None if it does."""
        return doubt(self.error_share, self.pinned_share, self.period_share)

    @property
    def abstains(self) -> bool:
        """Whether the model is too far from the recording, or takes too much from it, to predict a change."""
        return self.doubt is not None

    def durations_ns(self, times: Times) -> I64:
        """Duration in ns of each judged step in a replay that changes nothing."""
        return step_times.ends(self.bounds, times) - step_times.starts(self.bounds, times)

    def start_errors_ns(self) -> I64:
        """Absolute errors in ns of the modelled starts of device events within their step."""
        starts, recorded = self.graph.device.start_ns, step_times.starts(self.bounds, self.recorded)
        sizes = self.bounds.size
        step = np.repeat(np.arange(len(sizes)), sizes)
        modelled = self.times.start_ns[self.bounds.events] - step_times.starts(self.bounds, self.times)[step]
        return np.abs(modelled - (starts[self.bounds.events] - recorded[step]))

    def elapsed_ns(self, edits: Edits, *, keep_residuals: bool) -> float:
        """Mean time in ns from the start of one step to the start of the next, with some edits, if steps repeat."""
        if not edits:
            return self._unchanged_ns[keep_residuals]
        graph, _, repeated = self._edited(edits, keep_residuals=keep_residuals)
        return self._period_ns(graph, repeated)

    @cached_property
    def _unchanged_ns(self) -> tuple[float, float]:
        """The period in ns of the unchanged replay, without and with residuals."""
        return self._period_ns(self.graph, self._repeated), self._period_ns(self.with_residuals, self._repeated)

    def elapsed_and_steps_ns(self, edits: Edits, *, keep_residuals: bool) -> tuple[float, I64]:
        """What `elapsed_ns` gives, and how long each judged step takes in ns. Shape of the latter: (steps,)."""
        graph, bounds, repeated = self._edited(edits, keep_residuals=keep_residuals)
        return self._period_ns(graph, repeated), step_times.lengths(bounds, replay(graph))

    def _edited(self, edits: Edits, *, keep_residuals: bool) -> tuple[Graph, StepBounds, Repeated]:
        """The graph with some edits, its step bounds, and what of it is repeated."""
        graph = self.with_residuals if keep_residuals else self.graph
        graph, place = applying.apply(self.context, self._marks_ns, graph, edits)
        if place is None:
            return graph, self.bounds, self._repeated
        return graph, step_times.moved(self.bounds, place), Repeated.of(graph, self.bounds)

    @cached_property
    def _repeated(self) -> Repeated:
        return Repeated.of(self.graph, self.bounds)

    def _period_ns(self, graph: Graph, repeated: Repeated) -> float:
        return float(steady.periods(graph, self.bounds, repeated).sum()) / len(self._marks_ns)

    @property
    def _marks_ns(self) -> I64:
        return np.concatenate([each.mark_start_ns for each in self.windows])

    @cached_property
    def judged(self) -> Intervals:
        """Time of the steps that are modelled."""
        return Intervals.union(
            np.concatenate([each.mark_start_ns for each in self.windows]),
            np.concatenate([np.maximum(each.mark_end_ns, each.step_end_ns) for each in self.windows]),
        )

    @cached_property
    def scale(self) -> float:
        """Ratio of the typical step to the mean of the modelled steps."""
        typical = program_steps(self.context).typical
        return float((typical.end_ns - typical.start_ns).mean()) / self.recorded_ns

    def step_ns(self, edits: Edits, *, keep_residuals: bool = True) -> float:
        """Duration of the typical step in ns with some edits."""
        return self.scale * self.elapsed_ns(edits, keep_residuals=keep_residuals)

    def changed(self, edits: Edits) -> tuple[Graph, Times, StepBounds]:
        """The graph with residuals and some edits, its replay, and its step bounds."""
        graph, bounds, _ = self._edited(edits, keep_residuals=True)
        return graph, replay(graph), bounds

    def what_if(self, edits: Edits, others: Sequence[Edits] = ()) -> Outcome:
        """What a change does to the typical step.

        Args:
            edits: The most likely change. The point estimate is the mean of its replays with and without residuals.
            others: The change at the bounds of its uncertainty, such as with a lower and a higher speedup.
        """
        typical = program_steps(self.context).typical
        step = float((typical.end_ns - typical.start_ns).mean())
        scale = step / self.recorded_ns
        point = self._savings(edits)
        savings = [*point, *(saving for other in others for saving in self._savings(other))]
        # a period has the time between two steps as well, which no step can save
        low, middle, high = (min(step, scale * ns) for ns in (min(savings), fsum(point) / 2, max(savings)))
        return Outcome(step, (step - high, step - middle, step - low), (low, middle, high))

    def _savings(self, edits: Edits) -> tuple[float, float]:
        """Saving per step in ns, with residuals and without them."""
        kept, dropped = (
            self.elapsed_ns((), keep_residuals=keeps) - self.elapsed_ns(edits, keep_residuals=keeps)
            for keeps in (True, False)
        )
        return kept, dropped


def of(context: Context) -> Model | None:
    """The model of a recording, built once; None if all steps have length 0, or one lies within a runtime call."""
    return context.cached(_of)


def require(context: Context) -> Model:
    """Like `of`, but raises if there is no model.

    Raises:
        ValueError: All steps have length 0.
    """
    causal_model = of(context)
    if causal_model is None:
        raise ValueError("no step is longer than 0")
    return causal_model


def _of(context: Context) -> Model | None:
    windows = context.cached(window.find_windows)
    return over(context, windows) if windows else None


def over(context: Context, windows: Sequence[ModelledWindow]) -> Model:
    """The model of some parts of a recording."""
    built = [building.build(context, each) for each in windows]
    graph = graphs.joined([each.graph for each in built])
    points = np.cumsum([0, *(len(each.graph.host) for each in built)]).tolist()
    events = np.cumsum([0, *(len(each.graph.device) for each in built)]).tolist()
    parts = [step_times.of(context, each, one) for each, one in zip(windows, built, strict=True)]
    bounds = step_times.joined(list(zip(parts, points, events, strict=False)))
    kept = building.keep_residuals(graph)
    part = np.repeat(np.arange(len(built)), np.diff(events))
    return Model(context, tuple(windows), graph, kept, bounds, part, replay(graph), replay(kept))
