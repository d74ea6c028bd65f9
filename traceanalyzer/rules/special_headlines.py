"""What bounds a run where the usual sentence would be wrong: captured graphs, earlier work, one late rank."""

from __future__ import annotations

from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.ranks.model import Ranks, Straggler
from traceanalyzer.analyzers.recording import Recording
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.typical_headline import Verdict

_MOST_STEPS = 0.75
_MOSTLY = 0.5
"""Share of the recording without events from which on nothing else counts (own choice)."""
_MOST_WAITING = 0.5
"""A rank is named as late from these shares on, as by the rule `comm-straggler`."""

_CAPTURE = Text(
    "headline-capture",
    "The recording holds the capture of graphs ({launches:count} launch calls, but work on the device: "
    "{events:count}): kernels do not run while they are captured, so nothing tells what bounds the program. Record a "
    "step that replays the graphs.",
    note="graphs are CUDA graphs or HIP graphs",
)
_HARDLY_ANY = Text(
    "headline-hardly-any-work",
    "The recording holds hardly any work of the GPU: {kernels:count} kernels in {busy:ns}. That is too little to say "
    "what bounds the program.",
    one="The recording holds hardly any work of the GPU: one kernel in {busy:ns}. That is too little to say what "
    "bounds the program.",
)
_REMOVED = Text(
    "headline-removed-events",
    "Events are missing from this recording: for {part:part} it holds nothing although calls were counted, so nothing "
    "tells what bounds the program.",
)
_LATE_RANK = Text(
    "headline-late-rank",
    "Bound by one late rank: the others wait for rank {rank}, each for {wait:ns} of each step of {step:ns} "
    "({share:share}).",
)


def of_trace(facts: Facts) -> Verdict | None:
    """The sentence for a recording that is no program's usual work; None for all others."""
    figures, recording = facts.find("launches", LaunchFigures), facts.find("recording", Recording)
    if figures is not None and figures.capture is not None and figures.capture.is_most:
        capture = figures.capture
        return Verdict("capture", _CAPTURE(launches=capture.launch_calls, events=capture.device_events), None)
    if recording is None or recording.window is None:
        return None
    removed, whole = recording.window.removed_ns, recording.window.end_ns - recording.window.start_ns
    if removed >= _MOSTLY * whole > 0:
        return Verdict("none", _REMOVED(part=(removed, whole)), None)
    if recording.has_hardly_any_work and not facts.is_startup:
        kernels = figures.kernels if figures else 0
        return Verdict("none", _HARDLY_ANY(kernels=kernels, busy=recording.device_busy_ns), None)
    return None


def late_rank(facts: Facts, communication_ns: float) -> Message | None:
    """The sentence for a run that communicates mostly because it waits for one rank; None for all others.

    Args:
        facts: Of a run of several ranks; others have no such sentence.
        communication_ns: Time per step in which devices only communicate, mean over the ranks.
    """
    found = facts.find("ranks", Ranks)
    late = _latest(found) if found is not None and found.mean_step_ns else None
    if found is None or late is None or not found.mean_step_ns or late.caused_ns < _MOST_WAITING * communication_ns:
        return None
    wait = late.caused_ns * len(found.ranks) / (len(found.ranks) - 1)
    return _LATE_RANK(rank=late.rank, wait=wait, step=found.mean_step_ns, share=wait / found.mean_step_ns)


def _latest(found: Ranks) -> Straggler | None:
    """The rank that causes most of the waiting in most of the steps."""
    if found.is_on_host or len(found.ranks) < 2 or not found.counted_steps or not found.stragglers:
        return None
    late = found.stragglers[0]
    is_late = late.share >= _MOST_WAITING and late.steps >= _MOST_STEPS * found.counted_steps
    return late if is_late else None
