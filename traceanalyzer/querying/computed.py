"""Tables that are computed for a query: what events belong to, idle time by cause, findings, ranks.

Each is what the analyses of a report ask, row by row instead of summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from traceanalyzer.pipeline import summary_of
from traceanalyzer.querying.recordings import QueriedTrace
from traceanalyzer.report.model import Finding
from traceanalyzer.report.names import numbered
from traceanalyzer.structure import gaps, idle_times, module_calls
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import forest
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.table import F64, I32, I64, U8, Array, Bool, Table, column, take_or
from traceanalyzer.trace.tree import NO_PARENT


class LinkRows(Table):
    """What each event of a device belongs to: its launch, the operator, the module and the step."""

    device_row: I64 = column("i8", "", "row of the event in `device`")
    launch_row: I64 = column("i8", "", "row in `launches` of the call that launched it; -1 where absent")
    host_row: I64 = column("i8", "", "row in `host` of the innermost operator around the launch; -1 where absent")
    node: I64 = column("i8", "", "that operator's node in `calls`; -1 where absent")
    operator: I32 = column("i4", "", "name of that operator", pool="names")
    delay_ns: I64 = column("i8", "ns", "from the start of the launch to the start on the device; -1 where absent")
    module_node: I64 = column(
        "i8", "", "node of its module call, in the backward pass that of the forward; -1 where absent"
    )
    module: I32 = column("i4", "", "path of that module call, as in `modules`", pool="paths")
    is_backward: Bool = column("?", "", "whether autograd's backward pass launched it")
    step: I64 = column("i8", "", "row in `steps` of the step in which it starts; -1 where absent")


class CallRows(Table):
    """Operators, steps, loaders and modules on host threads as trees: what lies within a call follows it."""

    node: I32 = column("i4", "", "position in the order of the trees; what lies within it has nodes below `after`")
    after: I32 = column("i4", "", "first node that does not lie within it")
    parent: I32 = column("i4", "", "node around it; -1 where absent")
    depth: I32 = column("i4", "", "number of nodes around it")
    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration, at most until the end of its parent")
    self_ns: I64 = column("i8", "ns", "duration without that of the nodes directly within it")
    name: I32 = column("i4", "", "name", pool="names")
    kind: U8 = column("u1", "", "operator, step, module, dataloader, optimizer, collective or python", pool="kinds")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    host_row: I32 = column("i4", "", "its row in `host`; -1 else: modules are rows of `frames`")
    module: I32 = column("i4", "", "path of the innermost module call around it, as in `modules`", pool="paths")
    step: I64 = column("i8", "", "row in `steps` of the step in which it starts; -1 where absent")


class ModuleRows(Table):
    """Calls of modules (`with_stack=True` and `with_modules=True` record them)."""

    node: I64 = column("i8", "", "node in `calls`; what it launches has `module_node` from it to below `after`")
    after: I64 = column("i8", "", "first node of `calls` that does not lie within it")
    name: I32 = column("i4", "", "name of the module with its number", pool="names")
    path: I32 = column("i4", "", "names of the module calls around it and its own, joined with slashes", pool="paths")
    depth: I64 = column("i8", "", "number of module calls around it")
    start_ns: I64 = column("i8", "ns", "start of the call on the host")
    dur_ns: I64 = column("i8", "ns", "duration of the call on the host")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    step: I64 = column("i8", "", "row in `steps` of the step in which it starts; -1 where absent")


class MarkRows(Table):
    """Marks of the program (`record_function`), nested; those on threads of autograd within the mark that waits."""

    mark: I64 = column("i8", "", "position in the order of the trees; what lies within it has marks below `after`")
    after: I64 = column("i8", "", "first mark that does not lie within it")
    parent: I64 = column("i8", "", "mark around it; -1 where absent")
    depth: I64 = column("i8", "", "number of marks around it")
    name: I64 = column("i8", "", "name", pool="names")
    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration as recorded")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")
    step: I64 = column("i8", "", "row in `steps` of the step in which it starts; -1 where absent")


class StepRows(Table):
    """Steps of the program, as the report has them."""

    step: I64 = column("i8", "", "position among the steps, from 0; other tables name it")
    number: I64 = column("i8", "", "number of the step in the recording; -1 where absent")
    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration, until the last work that it launched is done")
    is_typical: Bool = column("?", "", "whether figures per step are means over it")
    found_by: Array = column("O", "", "what marks the steps, such as ProfilerStep")


class GapRows(Table):
    """Idle time of devices: one row for each cause of each gap, cut where steps begin and end."""

    gap: I64 = column("i8", "", "number of the gap on its device")
    device: I64 = column("i8", "", "number of the device")
    start_ns: I64 = column("i8", "ns", "start of this part of the gap")
    dur_ns: I64 = column("i8", "ns", "duration of this part")
    cause: U8 = column("u1", "", "why the device was idle, as in docs/metrics/idle.md", pool="causes")
    step: I64 = column("i8", "", "row in `steps` of its step; -1 between steps")
    next_device_row: I64 = column("i8", "", "row in `device` of the event that ended the gap; -1 where absent")
    launch_row: I64 = column("i8", "", "row in `launches` of what launched that event; -1 where absent")


class FindingRows(Table):
    """What the report finds, in its order. Naming this table or `spans` computes the whole report."""

    finding: Array = column("O", "", "the id of its rule, or RULE#2 for the second finding of a rule")
    rule: Array = column("O", "", "id of the rule")
    severity: Array = column("O", "", "critical, high, medium, low or info")
    confidence: Array = column("O", "", "A (exact), B (inferred) or C (a heuristic)")
    is_latent: Bool = column("?", "", "whether it saves hardly anything before something else is fixed")
    title: Array = column("O", "", "the finding in a few words")
    summary: Array = column("O", "", "the finding in a few sentences with figures")
    advice: Array = column("O", "", "what to do about it")
    saves_least_ns: F64 = column("f8", "ns", "how much shorter a step gets at least; NaN where absent")
    saves_likely_ns: F64 = column("f8", "ns", "how much shorter a step most likely gets; NaN where absent")
    saves_most_ns: F64 = column("f8", "ns", "how much shorter a step gets at most; NaN where absent")


class SpanRows(Table):
    """Where the findings are: the longest times of the events that each is about."""

    finding: Array = column("O", "", "id as in `findings`")
    kind: Array = column("O", "", "device, host, call or idle")
    name: Array = column("O", "", "what runs then, or the cause of idle time")
    device: I64 = column("i8", "", "number of the device; -1 where absent")
    thread_id: Array = column("O", "", "thread as pid/tid")
    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration")
    is_outside_steps: Bool = column("?", "", "whether it lies outside of the typical steps")


class RankRows(Table):
    """The traces that were read, one for each rank."""

    file: Array = column("O", "", "name of the file")
    recorded_rank: I64 = column("i8", "", "rank that the file names; -1 where absent")
    world_size: I64 = column("i8", "", "number of ranks that train together; -1 where absent")
    backend: Array = column("O", "", "backend of torch.distributed")
    device_name: Array = column("O", "", "name of its first device")
    events: I64 = column("i8", "", "number of events")
    span_ns: I64 = column("i8", "ns", "from the start of the first to the end of the last event")
    base_ns: I64 = column("i8", "ns", "absolute time of the first event since 1970; -1 where absent")
    torch_version: Array = column("O", "", "version of torch, where it is known")


def links(recording: QueriedTrace) -> LinkRows:
    """What each event of a device belongs to."""
    context, trace = recording.context, recording.trace
    launch = context.links.launch
    node = context.links.device_node()
    owners = context.cached(module_calls.owners)
    inner = take_or(owners.launch_node, launch, NO_PARENT)
    module = recording.module_of(inner)
    begun = take_or(trace.launches.start_ns, launch, 0)
    return LinkRows(
        device_row=np.arange(len(trace.device)),
        launch_row=launch,
        host_row=take_or(context.host.row, node, NO_PARENT).astype(np.int64),
        node=node.astype(np.int64),
        operator=take_or(context.host.name, node, NO_PARENT).astype(np.int32),
        delay_ns=np.where(launch == NO_PARENT, NO_PARENT, np.maximum(trace.device.start_ns - begun, 0)),
        module_node=module,
        module=take_or(recording.path_of_node, module, 0).astype(np.int32),
        is_backward=take_or(owners.evaluation, inner, NO_PARENT) != NO_PARENT,
        step=recording.program.at(trace.device.start_ns),
    )


def calls(recording: QueriedTrace) -> CallRows:
    """The host tree, one row for each node."""
    host = recording.context.host
    tree = host.tree
    duration = tree.end_ns - tree.start_ns
    return CallRows(
        node=np.arange(len(tree), dtype=np.int32),
        after=tree.after,
        parent=tree.parent,
        depth=tree.depth,
        start_ns=tree.start_ns,
        dur_ns=duration,
        self_ns=duration - tree.child_sums(duration),
        name=host.name,
        kind=host.kind,
        thread=tree.thread,
        host_row=np.where(host.kind == NodeKind.MODULE, np.int32(NO_PARENT), host.row),
        module=take_or(recording.path_of_node, host.module, np.int32(0)),
        step=recording.program.at(tree.start_ns),
    )


def modules(recording: QueriedTrace) -> ModuleRows:
    """Calls of modules, as far as they were recorded."""
    host = recording.context.host
    tree, nodes = host.tree, recording.calls_of_modules.nodes
    return ModuleRows(
        node=nodes,
        after=tree.after[nodes].astype(np.int64),
        name=host.name[nodes],
        path=recording.path_of_node[nodes],
        depth=recording.calls_of_modules.depth,
        start_ns=tree.start_ns[nodes],
        dur_ns=(tree.end_ns - tree.start_ns)[nodes],
        thread=tree.thread[nodes],
        step=recording.program.at(tree.start_ns[nodes]),
    )


def marks(recording: QueriedTrace) -> MarkRows:
    """Marks of the program, nested."""
    found = recording.context.cached(forest)
    return MarkRows(
        mark=np.arange(len(found)),
        after=found.after,
        parent=found.parent.astype(np.int64),
        depth=found.depth,
        name=found.name,
        start_ns=found.start_ns,
        dur_ns=found.dur_ns,
        thread=found.thread,
        step=recording.program.at(found.start_ns),
    )


def steps(recording: QueriedTrace) -> StepRows:
    """Steps of the program, as the report has them."""
    program = program_steps(recording.context)
    numbers = [int(name) if name.isascii() and name.isdecimal() else NO_PARENT for name in program.names]
    return StepRows(
        step=np.arange(len(program)),
        number=np.array(numbers, np.int64),
        start_ns=program.start_ns,
        dur_ns=program.end_ns - program.start_ns,
        is_typical=program.is_typical,
        found_by=_texts([program.found_by] * len(program)),
    )


def idle(recording: QueriedTrace) -> GapRows:
    """Idle time of every device that runs kernels, over the whole recording."""
    context = recording.context
    within, number = _with_rest(recording.program, recording.trace.info.span_ns)
    parts = [_of_device(context, device, within, number) for device in gaps.with_kernels(context)]
    if not parts:
        return GapRows.empty()
    return GapRows(**{c.name: np.concatenate([getattr(p, c.name) for p in parts]) for c in GapRows.columns()})


def _with_rest(every: Steps, span_ns: int) -> tuple[Steps, I64]:
    """The steps with the time before the first and after the last one, and the position of each; -1 for these."""
    first, last = (int(every.start_ns[0]), int(every.end_ns[-1])) if len(every) else (span_ns, span_ns)
    before, after = first > 0, len(every) > 0 and last < span_ns
    start = np.concatenate(([0] if before else [], every.start_ns, [last] if after else [])).astype(np.int64)
    end = np.concatenate(([first] if before else [], every.end_ns, [span_ns] if after else [])).astype(np.int64)
    number = np.concatenate(([-1] if before else [], np.arange(len(every)), [-1] if after else [])).astype(np.int64)
    names = ("",) * len(start)
    return Steps(names, start, end, every.found_by), number


def _of_device(context: Context, device: int, within: Steps, number: I64) -> GapRows:
    if not len(within):
        return GapRows.empty()
    divided = idle_times.divide(context, device, within)
    start, end, cause = divided.pieces
    part = divided.part
    whole = divided.gaps.whole_start_ns
    begins = np.append(True, np.diff(whole) != 0)[: len(whole)]
    return GapRows(
        gap=(np.cumsum(begins) - 1)[part],
        device=np.full(len(part), device, np.int64),
        start_ns=start,
        dur_ns=end - start,
        cause=cause,
        step=take_or(number, divided.step[part], NO_PARENT),
        next_device_row=divided.gaps.next[part].astype(np.int64),
        launch_row=divided.gaps.launch[part].astype(np.int64),
    )


def findings(recording: QueriedTrace) -> FindingRows:
    """What the report finds, in its order."""
    found = recording.report.findings
    numbers = [_saving(finding) for finding in found]
    return FindingRows(
        finding=_texts(numbered(f.rule for f in found)),
        rule=_texts([f.rule for f in found]),
        severity=_texts([f.severity for f in found]),
        confidence=_texts([f.confidence for f in found]),
        is_latent=np.array([f.latent for f in found], np.bool_),
        title=_texts([f.title.text for f in found]),
        summary=_texts([f.summary.text for f in found]),
        advice=_texts([f.advice.text for f in found]),
        saves_least_ns=np.array([least for least, _, _ in numbers], np.float64),
        saves_likely_ns=np.array([likely for _, likely, _ in numbers], np.float64),
        saves_most_ns=np.array([most for *_, most in numbers], np.float64),
    )


def _saving(finding: Finding) -> tuple[float, float, float]:
    """The least, likely and most that a step gets shorter by, in ns; NaN where it is unknown."""
    saving, unknown = finding.saving, float("nan")
    if saving is None:
        return unknown, unknown, unknown
    least, most = saving.wall_ns_per_step
    return least, unknown if saving.point_ns_per_step is None else saving.point_ns_per_step, most


def spans(recording: QueriedTrace) -> SpanRows:
    """Where the findings of the report are."""
    found = recording.report.findings
    rows = [
        (id_, at, start, duration)
        for id_, finding in zip(numbered(f.rule for f in found), found, strict=True)
        for at in finding.where
        for start, duration in at.spans
    ]
    return SpanRows(
        finding=_texts([id_ for id_, *_ in rows]),
        kind=_texts([at.kind for _, at, *_ in rows]),
        name=_texts([at.name for _, at, *_ in rows]),
        device=np.array([NO_PARENT if at.device is None else at.device for _, at, *_ in rows], np.int64),
        thread_id=_texts([at.thread for _, at, *_ in rows]),
        start_ns=np.array([start for *_, start, _ in rows], np.int64),
        dur_ns=np.array([duration for *_, duration in rows], np.int64),
        is_outside_steps=np.array([at.outside_steps for _, at, *_ in rows], np.bool_),
    )


def ranks(recording: QueriedTrace) -> RankRows:
    """The facts of the trace itself."""
    info = recording.trace.info
    summary = summary_of(recording.trace, recording.context)

    def number(value: int | None) -> I64:
        return np.array([NO_PARENT if value is None else value], np.int64)

    return RankRows(
        file=_texts([info.name]),
        recorded_rank=number(info.rank),
        world_size=number(info.world_size),
        backend=_texts([info.backend]),
        device_name=_texts([info.devices[0].name if info.devices else None]),
        events=number(summary.events),
        span_ns=number(info.span_ns),
        base_ns=number(summary.base_ns),
        torch_version=_texts([summary.torch_version]),
    )


def _texts(values: Sequence[Any]) -> Array:
    """A column of texts; None stays None."""
    made = np.empty(len(values), object)
    made[:] = values
    return made
