"""What a program says of the kernels of its graphs under keys of its own (`mark_kernels({"region": "prefill"})`).

Some writers put such keys among an event's own arguments: the monitor of CUPTI if one mark holds for a kernel, and
Python's exporter from torch 2.15, as `torch.cuda._annotate_cuda_graph_trace` did before it. Which keys are whose no
trace says, so a key counts that no writer is known to have, if it says a name: numbers, sizes and addresses may be what
a later writer measures.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from traceanalyzer.readers.kineto.fields import OWN

_MARK = dict[str, Any]
_ARGUMENTS = msgspec.json.Decoder(_MARK)
_DTYPE = "dtype"
"""What torch says of a collective, if it is one, and programs of other kernels."""
_NAME = re.compile(r"[^\W\d]")
"""How names of modules and phases begin; numbers, with units or without, addresses and lists do not."""
_NO_NAMES = frozenset({"inf", "nan", "n/a", "na", "none", "null", "true", "false", "unknown"})
_LONGEST = 500
"""Letters of a name, at most (own choice: paths of modules have a hundred)."""


def with_labels(args: Any, text: bytes) -> Any:
    """Arguments of an event of a device, whose annotation has what the program said, too.

    Args:
        args: The arguments as far as they are read (`events.Args`).
        text: All of them, as JSON.
    """
    if not (_is_id(args.graph_node_id) or _is_id(args.graph_id)):
        return args
    arguments = _ARGUMENTS.decode(text)
    own = OWN | {_DTYPE} if arguments.get("Collective name") else OWN
    said = {key: value for key, value in arguments.items() if key not in own and _is_name(value)}
    return msgspec.structs.replace(args, annotation=_joined(args.annotation, said)) if said else args


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= _LONGEST
        and _NAME.match(value) is not None
        and value.lower() not in _NO_NAMES
    )


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
