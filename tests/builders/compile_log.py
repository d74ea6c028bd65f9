"""Builds structured compile logs as torch writes them: a line of its logger, a JSON object, and payload behind tabs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_HEAD = "V1122 09:59:18.932000 3886 torch/_dynamo/convert_frame.py:303] "


def entry(kind: str, value: Any, ident: str | None = None, payload: str = "", **more: Any) -> str:
    """One entry, with its payload.

    Args:
        kind: Key of the JSON object, such as `dynamo_start`.
        value: Its value.
        ident: The compilation, such as `0/1`; None for entries that belong to none.
        payload: Text behind the entry.
        more: Other keys of the object.
    """
    data = {kind: value}
    if ident is not None:
        frame, number = ident.split("/")
        data |= {"frame_id": int(frame), "frame_compile_id": int(number), "attempt": 0}
    data |= more
    lines = "".join(f"\t{line}\n" for line in payload.splitlines())
    return f"{_HEAD}{json.dumps(data)}\n{lines}"


def at(text: str, seconds: float) -> str:
    """Some entries, of which the first was written this many seconds after the minute, of less than ten."""
    return text.replace("09:59:18.932000", f"09:59:{seconds:09.6f}", 1)


def interned(texts: Mapping[int, str]) -> str:
    """Texts that stacks refer to by number."""
    return "".join(entry("str", [text, number]) for number, text in texts.items())


def started(ident: str, stack: Iterable[tuple[int, int, str]] = (), **more: Any) -> str:
    """The start of a compilation; frames are the number of a file, a line and a function."""
    frames = [{"filename": file, "line": line, "name": name} for file, line, name in stack]
    return entry("dynamo_start", {"stack": frames}, ident, **more)


def measured(ident: str, function: str, file: str, line: int, seconds: float, **more: Any) -> str:
    """The end of a compilation, with its figures."""
    figures = {"co_name": function, "co_filename": file, "co_firstlineno": line, "entire_frame_compile_time_s": seconds}
    return entry("compilation_metrics", figures | more, ident)


def broke(ident: str, file: str, line: int, reason: str, hint: str = "") -> str:
    """A graph break, in the words of torch 2.7 and later."""
    lines = [f"Graph break in user code at {file}:{line}", f"Graph Break Reason: {reason}"]
    lines += [f"  Hint: {hint}"] if hint else []
    lines += ["", "User code traceback:", f'  File "{file}", line {line}, in f']
    return entry("artifact", {"name": "dynamo_graph_break_reason"}, ident, "\n".join(lines))


def recompiled(ident: str, *reasons: str) -> str:
    """Why a function is compiled again; one reason a line, as torch 2.13 writes them."""
    return entry("artifact", {"name": "recompile_reasons", "encoding": "json"}, ident, "\n".join(reasons))


def whole() -> str:
    """A log with something of each kind."""
    kinds = {
        "recompile_reasons": "0/0: tensor 'x' size mismatch at index 0",
        "fx_graph_cache_miss": '{"key": "fabc", "time_taken_ns": 7}',
        "aotautograd_cache_bypass": '{"cache_bypass_reason": "a \\"b\\""}',
    }
    return "".join(
        (
            interned({0: "train.py"}),
            started("0/0", [(0, 7, "forward")]),
            *(entry("artifact", {"name": name}, "0/0", text) for name, text in kinds.items()),
            entry("guard_added", {"expr": "Eq(s0, 2)", "stack": [{"filename": 0, "line": 7, "name": "f"}]}, "0/0"),
            broke("0/0", "train.py", 9, "Data-dependent branching", "Use torch.cond."),
            measured("0/0", "forward", "train.py", 7, 1.5),
        )
    )
