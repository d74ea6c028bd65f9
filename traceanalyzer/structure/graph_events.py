"""Which events of devices do graphs launch, and which modules and names did the program give to them?

A replayed graph has no calls on the host from which an owner could follow. Torch labels its kernels while the graph is
captured (`mark_kernels`), and its writers put the labels beside the kernels: the path of a module, a name, or anything
else under any key. A key of which hardly two events have the same value tells events apart and names nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set

import msgspec
import numpy as np

from traceanalyzer.knowledge.marks import PASSES, is_graph_launch
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.graph_stacks import StackFrame
from traceanalyzer.trace.model import DeviceDetail
from traceanalyzer.trace.table import I64, Bool, take_or

FORWARD, BACKWARD = PASSES

_LONGEST = 32
"""Most parts of a path that count (own choice: modules of models nest ten deep)."""

_MODULE, _NAME, _PHASE = "module_fqn", "name", "autograd_phase"
"""Keys of what the program says of kernels that torch and frameworks give a meaning."""
_IS_BACKWARD = f"{_PHASE}=backward"
"""Part of the labels of kernels that autograd ran; torch writes no such part for the pass forward."""
_FEW = 100
"""Values of a key that are names in any case (own choice: layers and phases of a program are fewer)."""
_NO_LABELS = frozenset({"", "stream"})
"""Keys that name nothing: a stream is where a viewer shows the kernel."""


class GraphLabels(msgspec.Struct, frozen=True):
    """Labels of events of devices."""

    of_event: I64
    """For each event the row of its label; 0 for none."""
    paths: tuple[tuple[str, ...], ...]
    """The parts of each label, the outermost module first; nothing for row 0."""


def graph_labels(context: Context) -> GraphLabels:
    """The labels of all events of devices."""
    trace = context.trace
    rows: dict[tuple[str, ...], int] = {(): 0}
    said = list(map(_marks, trace.details))
    left_out = _NO_LABELS | _unique(said, count_by(trace.device.detail, len(said)).tolist())
    of_detail = np.array([rows.setdefault(_path(marks, left_out), len(rows)) for marks in said], np.int64)
    if len(rows) == 1:
        return GraphLabels(np.zeros(len(trace.device), np.int64), ((),))
    return GraphLabels(of_detail[trace.device.detail], tuple(rows))


def passes(labels: GraphLabels) -> tuple[str, ...]:
    """For each label the pass of a training that its events belong to: `forward`, `backward`, or none.

    Forward is what has the label of a backward pass but for that part: other labels may be those of an optimizer.
    """
    backward = [path for path in labels.paths if _IS_BACKWARD in path]
    told = {tuple(part for part in path if part != _IS_BACKWARD): FORWARD for path in backward}
    told |= dict.fromkeys(backward, BACKWARD) | {(): ""}
    return tuple(told.get(path, "") for path in labels.paths)


def _marks(detail: DeviceDetail) -> dict[str, str]:
    """All that the program said of events, by key."""
    return _said(detail.annotation) | {
        key: value for key, value in ((_MODULE, detail.module), (_NAME, detail.label), (_PHASE, detail.phase)) if value
    }


def _unique(said: Sequence[Mapping[str, str]], events: Sequence[int]) -> set[str]:
    """Keys with so many values that they number events.

    Args:
        said: What the program said, by detail.
        events: How many events have each detail.
    """
    of_value: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for marks, count in zip(said, events, strict=True):
        for key, value in marks.items():
            if key not in (_MODULE, _NAME, _PHASE, ""):
                of_value[key][value] += count
    return {key for key, counts in of_value.items() if len(counts) > _FEW and counts.total() < 2 * len(counts)}


def _path(marks: Mapping[str, str], left_out: Set[str]) -> tuple[str, ...]:
    """The parts of a label: modules of the path, then the name; what is neither is a part of its own, with its key."""
    said = dict(marks)
    modules, name = said.pop(_MODULE, ""), said.pop(_NAME, "")
    text = said.pop("", "") if not modules and not name else ""
    others = [f"{key}={value}" for key, value in sorted(said.items()) if key not in left_out]
    return (*(part for part in modules.split(".", _LONGEST) if part), *filter(None, (name, text)), *others)


def _said(annotation: str) -> dict[str, str]:
    """What the program said of a kernel, by key; under no key what has none. Of nested marks the last one counts.

    The monitor of torch 2.14 writes all marks of a kernel as one list.
    """
    if not annotation.startswith(("[", "{")):
        return {"": annotation} if annotation else {}
    try:
        marks = msgspec.json.decode(annotation)
    except (msgspec.DecodeError, RecursionError):
        return {"": annotation}
    said: dict[str, str] = {}
    for mark in marks if isinstance(marks, list) else [marks]:
        said |= {str(key): str(value) for key, value in mark.items()} if isinstance(mark, dict) else {_NAME: str(mark)}
    return said


class GraphLines(msgspec.Struct, frozen=True):
    """Lines of Python that made events of devices."""

    of_event: I64
    """For each event the position of its stack; 0 for none."""
    stacks: tuple[tuple[StackFrame, ...], ...]
    """The outermost function first; the first stack is empty."""


def graph_lines(context: Context) -> GraphLines:
    """The stacks of all events of devices, from a file beside the trace."""
    found, nodes = context.trace.graph_stacks, context.trace.device.graph_node
    if found is None:
        return GraphLines(np.zeros(len(nodes), np.int64), ((),))
    codes, own = ranked(nodes)
    positions = np.array([found.of_node.get(node, 0) for node in codes.tolist()], np.int64)
    return GraphLines(take_or(positions, own, 0), found.stacks)


def of_graphs(context: Context) -> Bool:
    """Which device events the launch of a graph started."""
    trace, launch = context.trace, context.links.launch
    launches = trace.names.where(is_graph_launch)[trace.launches.name]
    return take_or(launches, launch, False)
