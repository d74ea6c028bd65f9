"""The causal model: predicts how a change of the program affects its step time, from the dependencies in a recording.

    window           chooses what is modelled: typical steps, in parts of consecutive ones
    host_points      points of host threads and their causes
    streams          device events by stream, with the usual times from launch to start
    waits            which device event ends a wait
    device_chain     device events and their causes
    graph            the causes of each call and each device event
    building         makes the graph, so that it reproduces the recorded times
    longest_path     computes the times of a replay
    steady           repeats the steps: the period of a program that goes on
    step_times       durations of steps in a replay
    edits            changes of a program as data
    measured_edits   changes whose size was measured: workers of loaders, the cost of recording
    gathering        combines edits, so that their order does not matter
    applying         applies them to the graph
    model            replays the typical step, unchanged and with edits
    selectors        finds the events that a user names
    what_if          answers for a trace
    what_if_ranks    answers for the ranks of a run
    replay_error     how well the model reproduces the recording; an analysis
    critical_path    what decides how long the typical step takes; an analysis
    back_pointers    finds the critical path
    path_parts       describes it
    variation        how much steps differ
    allocator        the model of the caching allocator
    memory_replay    what changes of a program save of its memory

The graph has points of host threads (starts and ends of calls, marks) and device events. Time between two points of a
thread is a fixed cost, device events run for a fixed time, and every start has up to three causes: the point before it
on its thread or stream, its launch or a hand-over from another thread, and an event that it waits for. Times are
longest paths, and the recorded order is a topological order in which they can be computed.

There is no loop over events. Between two places at which a host thread may have to wait, its points lie at fixed
distances (a block); device events that one block launched on one stream, and that wait for nothing else, follow from
two sums (a run). Only blocks and runs are visited one by one, backwards for slack; times inside them follow from
cumulative sums and running maxima.

Latencies and gaps have the usual value of their stream; the rest of the recorded times are residuals. With residuals an
unchanged replay equals the recording to the nanosecond (a law in the tests), without them its difference is the model's
error. Each change is replayed with and without residuals. Changes that only shorten never lengthen, alone or together.
Ranks of one run are replayed by their own work between meetings (`analyzers/ranks/stragglers.py`). There the edit is
"like the others": the work of a rank takes at most, or exactly, the median of all ranks at the same place of the step.
A saving is the change of the period of the typical steps, replayed from the state that each leaves, or it would be
borrowed from the next steps.
"""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.simulation import critical_path, memory_replay, replay_error, window
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.trace.tree import NO_PARENT

_STEP_LENGTH = Need(
    Text("skip-no-step-length", "the trace has no step longer than 0"),
    lambda context: bool(context.cached(window.find_windows)),
)
_LAUNCHES = Need(
    Text("skip-path-no-launches", "the trace does not show which calls launched the device's work"),
    lambda context: not len(context.trace.device) or (context.links.launch != NO_PARENT).any(),
)
ANALYSES: tuple[Analysis, ...] = (
    *memory_replay.ANALYSES,
    Analysis(1000, "replay", replay_error.Replay, replay_error.analyze, needs=(_STEP_LENGTH,)),
    Analysis(1010, "critical_path", critical_path.CriticalPath, critical_path.analyze, needs=(_STEP_LENGTH, _LAUNCHES)),
)
"""The analyses of the model, in the order of the report."""
