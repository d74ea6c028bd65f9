"""What bounds a run where the usual sentence is wrong: captured graphs, older work, a late rank, devices but no GPU."""

from __future__ import annotations

from traceanalyzer.analyzers.accelerators import Accelerators
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.ranks.model import Ranks, Straggler
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules import _recording
from traceanalyzer.rules.facts import Facts

_EARLIER = 0.2
"""Share of all steps from which on earlier work decides how they look (own choice, as what is worth a sentence)."""
_MOST_STEPS = 0.75
_MOST_WAITING = 0.5
"""A rank is named as late from these shares on, as by the rule `comm-straggler`."""

_CAPTURE = Text(
    "headline-capture",
    "The recording holds the capture of graphs ({launches:count} launch calls, but work on the device: "
    "{events:count}): kernels do not run while they are captured, so nothing tells what bounds the program. Record a "
    "step that replays the graphs.",
    note="graphs are CUDA graphs or HIP graphs",
)
_EARLIER_WORK = Text(
    "headline-earlier-work",
    "The recording began in the middle of the device's work: for {time:ns} of {step:ns} ({share:share}) launched work "
    "waited although nothing that was recorded ran; the device most likely finished what was launched before. In the "
    "rest it works for {busy:share}.",
)
_ACCELERATOR = Text(
    "headline-accelerator",
    "{vendor} device {device} is busy for {busy:ns} of the {span:ns} between its first and its last event "
    "({share:share}): work runs for {work:ns}, transfers for {transfer:ns}, communication for {communication:ns}.",
    note="vendor is a kind of device, such as MTIA, NPU, HPU; device is its number",
)
_LATE_RANK = Text(
    "headline-late-rank",
    "Bound by one late rank: the others wait for rank {rank}, each for {wait:ns} of each step of {step:ns} "
    "({share:share}).",
)


def of_trace(facts: Facts) -> Message | None:
    """The sentence for a recording whose steps are not what they seem; None for all others."""
    figures = facts.find("launches", LaunchFigures)
    if figures is None:
        return _accelerator(facts)
    capture = figures.capture
    if capture is not None and _recording.is_capture(facts):
        return _CAPTURE(launches=capture.launch_calls, events=capture.device_events)
    return _earlier_work(facts, figures.earlier_work_ns)


def _accelerator(facts: Facts) -> Message | None:
    """What the busiest device does that is no GPU, where there is no GPU."""
    found = facts.find("accelerators", Accelerators)
    if found is None or not found.devices:
        return None
    use = found.devices[0]
    return _ACCELERATOR(
        vendor=use.vendor,
        device="?" if use.device is None else str(use.device),
        busy=use.busy_ns,
        span=use.span_ns,
        share=use.busy_share_of_span,
        work=use.work_ns,
        transfer=use.transfer_ns,
        communication=use.communication_ns,
    )


def _earlier_work(facts: Facts, earlier_ns: int) -> Message | None:
    whole, busy = facts.step_ns * facts.steps, facts.resources.gpu_ns
    if busy is None or not _EARLIER * whole <= earlier_ns < whole:
        return None
    share = min(1.0, busy * facts.steps / (whole - earlier_ns))
    return _EARLIER_WORK(time=earlier_ns, step=whole, share=earlier_ns / whole, busy=share)


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
