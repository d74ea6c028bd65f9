"""Cuts a trace to some steps or a time range.

What starts in the range is kept, and what belongs to it: work of the device that runs in the range or was launched in
it, the calls that launched what is kept, both ends of flows, Python frames around the range, names of processes and
threads, and the metadata of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Raw

from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.opening import load
from traceanalyzer.knowledge import marks
from traceanalyzer.readers.kineto import accelerators
from traceanalyzer.readers.kineto.events import NO_TEXT, NOT_JSON
from traceanalyzer.readers.kineto.fields import FIRST_ARROW, TableGroup, classify
from traceanalyzer.readers.kineto.header import integer
from traceanalyzer.readers.kineto.values import INVALID, nanoseconds
from traceanalyzer.rewrite import Copied, copy, require_file
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, UNKNOWN, take_or

_FLOW_PHASES = frozenset("stf")
_TIMED_FLOWS = frozenset({"async_npu", "async_task_queue", "HostToDevice"})
"""Arrows of Ascend's writer, whose ids are not correlation ids."""

_METADATA = "M"
_NS_PER_US = 1000


class _Args(msgspec.Struct, gc=False):
    """Arguments that tie events together."""

    correlation: object = UNKNOWN
    task_type: object = msgspec.field(name="Task Type", default="")
    engine: object = msgspec.field(name="HW event name", default="")


class _Event(msgspec.Struct, gc=False):
    """The parts of an event that decide whether it is kept."""

    name: object = ""
    ph: object = ""
    cat: object = ""
    pid: object = ""
    ts: Raw = NO_TEXT
    dur: object = None
    id: object = UNKNOWN
    args: _Args = msgspec.field(default_factory=_Args)


_DECODER = msgspec.json.Decoder(_Event)


@dataclass(frozen=True)
class Range:
    """The time to keep, in the clock of the file."""

    start_ns: int
    end_ns: int
    """End of the range, which is not part of it."""
    launched: frozenset[int]
    """Correlation ids of device work that was launched in the range, whenever it ran."""
    launching: frozenset[int]
    """Correlation ids of device work that is kept, whenever it was launched."""
    flows: frozenset[int]
    """Ids of forward-backward flows with both ends in the range."""
    others: frozenset[str]
    """Marks of steps that were not requested; work of the last step may overlap the next one."""


def trim(
    path: str,
    target: Path,
    *,
    steps: tuple[int | None, int | None] | None = None,
    time_ns: tuple[int | None, int | None] | None = None,
    added: Iterable[Raw] = (),
    force: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Copied:
    """Write a trace that is cut to some steps or a time range.

    Args:
        path: The trace.
        target: What to write, `.json` or `.json.gz`.
        steps: First and last step, both included; None for the first and the last there is.
        time_ns: Start and end since the first event.
        added: Further events, which come first.
        force: Overwrite files that this program did not write.
        progress: Called with the number of bytes after each read; the file is read twice.

    Raises:
        UnusableInputError: The input is not a trace.
        UsageError: The trace has no such steps, or nothing in the range.
        OutputError: The target cannot be written, or another program wrote it.
    """
    require_file(path)
    trace = load(path, progress)
    if not isinstance(trace, Trace):
        raise UsageError(f"{path}: contains printed tables; only traces can be cut")
    context = Context(trace)
    bounds = _of_steps(context, steps) if steps is not None else (*_of_time(trace, time_ns or (None, None)), ())
    chosen = _range(context, *bounds)

    others = iter(added)

    def kept(events: list[Raw]) -> Iterator[Raw]:
        yield from others
        yield from _kept(events, chosen)

    return copy(path, target, "trim", kept, lambda meta: meta, force=force, progress=progress)


def _of_steps(context: Context, steps: tuple[int | None, int | None]) -> tuple[int, int, Collection[str]]:
    """From the start of the first mark to the end of the last step's device work; and the marks of other steps."""
    host, names = context.trace.host, context.trace.names
    marked = np.flatnonzero(context.kind == NodeKind.STEP).tolist()
    numbers = {row: marks.step_number(names[int(host.name[row])]) or 0 for row in marked}
    inside = [row for row, number in numbers.items() if _is_within(number, steps)]
    if not inside:
        raise _no_such_step(context.trace, numbers.values())
    wanted = {str(numbers[row]) for row in inside}
    ends = (host.start_ns[inside] + host.dur_ns[inside]).tolist()
    for name, end in zip(context.steps.names, context.steps.end_ns.tolist(), strict=True):
        if name in wanted:
            ends.append(end)
    others = {names[int(host.name[row])] for row in marked if row not in inside}
    return int(host.start_ns[inside].min()), max(ends), others


def _no_such_step(trace: Trace, known: Collection[int]) -> UsageError:
    has = f"steps {min(known)} to {max(known)}" if known else "no marked steps (cut it with --time)"
    return UsageError(f"{trace.info.name}: no such step: the trace has {has}")


def _is_within(number: int, steps: tuple[int | None, int | None]) -> bool:
    first, last = steps
    return (first is None or number >= first) and (last is None or number <= last)


def _of_time(trace: Trace, time_ns: tuple[int | None, int | None]) -> tuple[int, int]:
    start, end = time_ns
    start, end = start or 0, trace.info.span_ns + 1 if end is None else end
    if start >= end or start > trace.info.span_ns:
        raise UsageError(
            f"{trace.info.name}: nothing lies between {start / 1e6:g} and {end / 1e6:g} ms; the trace lasts "
            f"{trace.info.span_ns / 1e6:.3f} ms"
        )
    return start, end


def _range(context: Context, start: int, end: int, others: Collection[str]) -> Range:
    device, launches, flows = context.trace.device, context.trace.launches, context.trace.flows
    accelerator, origin = context.trace.accelerator, context.trace.info.origin_ns
    # work of GPUs whose launch is in the range, and work that runs in it
    launch_start = take_or(launches.start_ns, context.links.launch, -1)
    launched = (launch_start >= start) & (launch_start < end)
    runs = (device.start_ns < end) & (device.end_ns > start)
    # the same of other devices, which name their launch by its correlation
    called = launches.correlation[(launches.start_ns >= start) & (launches.start_ns < end)]
    tasks = np.isin(accelerator.correlation, called)
    running = (accelerator.start_ns < end) & (accelerator.end_ns > start)
    # arrows of which an end is outside of the range
    outside = (flows.start_ns < start) | (flows.start_ns >= end)
    return Range(
        start_ns=start + origin,
        end_ns=end + origin,
        launched=_ids(device.correlation[launched]) | _ids(accelerator.correlation[tasks]),
        launching=_ids(device.correlation[launched | runs]) | _ids(accelerator.correlation[tasks | running]),
        flows=_ids(flows.flow[~outside]) - _ids(flows.flow[outside]),
        others=frozenset(others),
    )


def _ids(values: I64) -> frozenset[int]:
    return frozenset(values.tolist()) - {UNKNOWN}


def _kept(events: Sequence[Raw], chosen: Range) -> Iterator[Raw]:
    decoded = [_decoded(event) for event in events]
    starts = nanoseconds([event.ts for event in decoded], len(decoded)).tolist()
    for raw, event, start in zip(events, decoded, starts, strict=True):
        if _is_kept(event, start, chosen):
            yield raw


def _decoded(raw: Raw) -> _Event:
    """Decode events; one that cannot be understood has no time and is left out."""
    try:
        return _DECODER.decode(raw)
    except (*NOT_JSON, msgspec.ValidationError):
        return _Event()


def _is_kept(event: _Event, start: int, chosen: Range) -> bool:
    if event.ph == _METADATA:
        return True
    if start == INVALID or event.name in chosen.others:
        return False
    group, _ = classify(event.cat) if isinstance(event.cat, str) else (TableGroup.UNKNOWN, None)
    told = accelerators.group_of(event.cat, event.pid, event.args.task_type, event.args.engine)
    group = group if told is None else told
    return _RULES.get(group, _starts)(event, start, chosen)


def _starts(event: _Event, start: int, chosen: Range) -> bool:
    del event
    return chosen.start_ns <= start < chosen.end_ns


def _is_device_work(event: _Event, start: int, chosen: Range) -> bool:
    return _overlaps(event, start, chosen) or _correlation(event) in chosen.launched


def _is_launch(event: _Event, start: int, chosen: Range) -> bool:
    return _starts(event, start, chosen) or _correlation(event) in chosen.launching


def _is_flow(event: _Event, start: int, chosen: Range) -> bool:
    del start
    return integer(event.id) in chosen.flows


def _is_launch_flow(event: _Event, start: int, chosen: Range) -> bool:
    """Arrows from launches to the device; everything else that analyses ignore goes by its time."""
    number = integer(event.id)
    is_tied = event.ph in _FLOW_PHASES and event.cat not in _TIMED_FLOWS and (number is None or number < FIRST_ARROW)
    return number in chosen.launching if is_tied else _starts(event, start, chosen)


def _overlaps(event: _Event, start: int, chosen: Range) -> bool:
    """Whether a part of it lies in the range; an event without duration lies at its start."""
    return start < chosen.end_ns and (start >= chosen.start_ns or start + _duration(event) > chosen.start_ns)


def _duration(event: _Event) -> float:
    try:
        return float(event.dur) * _NS_PER_US  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError):
        return 0.0


def _correlation(event: _Event) -> int | None:
    return integer(event.args.correlation)


_RULES: dict[TableGroup, Callable[[_Event, int, Range], bool]] = {
    TableGroup.SPAN: lambda *_: True,
    TableGroup.DEVICE: _is_device_work,
    TableGroup.ACCELERATOR: _is_device_work,
    TableGroup.GPU_ANNOTATION: _is_device_work,
    TableGroup.SYNC: _is_device_work,
    TableGroup.GRAPH_NODE: _is_device_work,
    TableGroup.LAUNCH: _is_launch,
    TableGroup.FRAME: _overlaps,
    TableGroup.FLOW: _is_flow,
    TableGroup.IGNORED: _is_launch_flow,
    TableGroup.ARROW: _is_launch_flow,
}
"""Which events of a kind are kept; those of all other kinds are kept if they start in the range."""
