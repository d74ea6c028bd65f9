"""What a program says of the kernels of its graphs under keys of its own (`mark_kernels({"layer": 3})`).

Some writers put such keys among an event's own arguments: the monitor of CUPTI if one mark holds for a kernel, and
Python's exporter from torch 2.15, as `torch.cuda._annotate_cuda_graph_trace` did before it. Which keys are whose no
trace says, so every key counts that no writer has, of a text or a whole number: those are the program's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from traceanalyzer.readers.kineto.fields import DESCRIPTIONS, OWN

_MARK = dict[str, Any]
_ARGUMENTS = msgspec.json.Decoder(_MARK)
_COLLECTIVE = frozenset(DESCRIPTIONS["collectives"].defaults)
"""What torch says of a collective, if it is one; `dtype` is said of other kernels, too."""


def with_labels(args: Any, text: bytes) -> Any:
    """Arguments of an event of a device, whose annotation has what the program said, too.

    Args:
        args: The arguments as far as they are read (`events.Args`).
        text: All of them, as JSON.
    """
    if not (_is_id(args.graph_node_id) or _is_id(args.graph_id)):
        return args
    arguments = _ARGUMENTS.decode(text)
    own = OWN | _COLLECTIVE if arguments.get("Collective name") else OWN
    said = {key: str(value) for key, value in arguments.items() if key not in own and isinstance(value, str | int)}
    return msgspec.structs.replace(args, annotation=_joined(args.annotation, said)) if said else args


def _is_id(number: object) -> bool:
    """Whether there is a graph or node of an id; some writers give 0 where there is none, others the lower half."""
    try:
        return int(number) > 0  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return False


def _joined(annotation: Any, said: _MARK) -> str:
    """An annotation with marks beside it, in the form of a list of marks."""
    marks = [{"": str(annotation)}] if annotation else []
    if isinstance(annotation, str) and annotation.startswith(("[", "{")):
        try:
            marks = msgspec.json.decode(annotation)
        except (msgspec.DecodeError, RecursionError):
            marks = [{"": annotation}]
    return msgspec.json.encode([*(marks if isinstance(marks, list) else [marks]), said]).decode()
