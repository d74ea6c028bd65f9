"""Reads what `torch.cuda.graph_annotations.dump_kernel_py_stacks` writes: the lines that made the nodes of graphs.

The file is a JSON object, compressed or not. Its keys are ids of nodes as decimal texts; its values are stacks, a line
`file:line:function` for each function, the innermost first. Functions of torch are left out by torch.
"""

from __future__ import annotations

import re

import msgspec

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.graph_stacks import GraphStacks, StackFrame

_LONGEST = 512 << 20
"""Most bytes of a file; torch keeps 100,000 stacks of a graph."""
_DEEPEST = 200
"""Most functions of a stack, the innermost ones."""
_FRAME = re.compile(r"(.+):([0-9]{1,9}):(.*)")


def read(source: Source) -> GraphStacks:
    """The stacks in a file.

    Raises:
        UnusableInputError: It is no such file.
    """
    try:
        nodes = msgspec.json.decode(source.peek(_LONGEST), type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        nodes = {}
    texts: dict[str, int] = {"": 0}
    of_node = {
        int(node): texts.setdefault(text, len(texts))
        for node, text in nodes.items()
        if node.isdecimal() and len(node) < 19
    }
    if not of_node:
        raise UnusableInputError(
            f"{source.name}: contains no stacks of nodes of graphs, as torch.cuda.graph_annotations."
            "dump_kernel_py_stacks writes them"
        )
    return GraphStacks(source.name, tuple(map(_stack, texts)), of_node)


def _stack(text: str) -> tuple[StackFrame, ...]:
    found = map(_FRAME.fullmatch, text.splitlines()[:_DEEPEST])
    return tuple(StackFrame(match[1], int(match[2]), match[3]) for match in found if match)[::-1]
