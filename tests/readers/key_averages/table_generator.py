"""Random profiler tables for property tests, and the ways in which texts are damaged on their way."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace
from table_writer import Style

from traceanalyzer.trace.document import ProfilerTable, TableRow, TableTotals

DEVICES = ["CUDA", "XPU", "HPU", "MTIA", "PRIVATEUSEONE", "NPU", "MUSA", "None"]
_WORDS = [
    "aten::mul",
    "forward",
    "void",
    "at::native::kernel<4,",
    "float>",
    "(anonymous",
    "namespace)::f(int&,",
    "Memcpy",
    "->",
    "#1",
    "Optimizer.step#SGD.step",
    "[pl][module]net:",
    "10.5%",
    "12us",
    "модель",
    "层",
]
_STEPS = {"time": [1, 10**3, 10**6], "size": [1, 11, 10486, 10737419]}
_UNITS = {1: 1, 11: 2**10, 10486: 2**20, 10737419: 2**30}


def names(words: list[str]) -> st.SearchStrategy[str]:
    """Names of events with one blank between their words, cut as torch cuts them."""
    joined = st.lists(st.sampled_from(words), min_size=1, max_size=8).map(" ".join)
    return joined.map(lambda name: name if len(name) < 52 else f"{name[:52]}...")


@st.composite
def times(draw: st.DrawFn) -> tuple[int, int]:
    step = draw(st.sampled_from(_STEPS["time"]))
    return step * draw(st.integers(-(10**6), 10**7)), step


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    step = draw(st.sampled_from(_STEPS["size"]))
    if step == 1:
        return draw(st.integers(-1023, 1023)), 1
    hundredths = draw(st.integers(-102399, 102399))
    return round(hundredths * _UNITS[step] / 100), step


SHARES = st.none() | st.integers(-99, 99999).map(lambda hundredths: float(f"{hundredths}e-4"))
SHAPES = st.lists(st.lists(st.integers(1, 2048), max_size=4), max_size=8).map(str)
FRAMES = st.builds(
    "{}({}): {}".format,
    st.sampled_from(["model.py", "...ib/train.py"]),
    st.integers(1, 99),
    st.sampled_from(["forward", "<lambda>"]),
)

BASE = ("name", "self_cpu_share", "self_cpu_ns", "cpu_total_share", "cpu_total_ns", "cpu_avg_ns")
DEVICE = ("self_device_ns", "self_device_share", "device_total_ns", "device_avg_ns")
OLD_DEVICE = ("device_total_share", "device_total_ns", "device_avg_ns")


@st.composite
def columns(draw: st.DrawFn, *, old: bool = False) -> tuple[str, ...]:
    """Columns in torch's order."""

    def some(*group: str) -> tuple[str, ...]:
        return group if draw(st.booleans()) else ()

    device = some(*(OLD_DEVICE if old else DEVICE))
    memory = some("cpu_mem_bytes", "self_cpu_mem_bytes")
    device_memory = some("device_mem_bytes", "self_device_mem_bytes") if memory and device else ()
    overload = () if old else some("overload_name")
    late = () if old else (*some("source_location"), *some("flops"))
    return (
        *BASE[:1],
        *overload,
        *BASE[1:],
        *device,
        *memory,
        *device_memory,
        "calls",
        *some("node_id"),
        *some("input_shapes"),
        *late,
    )


@st.composite
def rows(draw: st.DrawFn, ids: tuple[str, ...], words: list[str]) -> TableRow:
    fields: dict[str, Any] = {"name": draw(names(words)), "resolution": {}}
    fields["name_truncated"] = fields["name"].endswith("...")
    for column in ids:
        if column.endswith(("_ns", "_bytes")):
            value, step = draw(times() if column.endswith("_ns") else sizes())
            fields[column] = value
            fields["resolution"][column] = step
        elif column.endswith("_share"):
            fields[column] = draw(SHARES)
    if draw(st.booleans()):
        fields |= {"is_async": True, "cpu_total_share": None}
    if "calls" in ids:
        fields["calls"] = draw(st.integers(1, 10**9))
    if "node_id" in ids:
        fields["node_id"] = draw(st.integers(-1, 7))
    if "overload_name" in ids:
        fields["overload_name"] = draw(st.sampled_from(["", "Tensor", "out", "Scalar_mode"]))
    if "input_shapes" in ids:
        shapes = draw(SHAPES)[:80].rstrip()
        fields |= {"input_shapes": shapes, "shapes_truncated": shapes.count("[") != shapes.count("]")}
    if "source_location" in ids:
        fields["source_location"] = tuple(draw(st.lists(FRAMES, max_size=3)))
    if "flops" in ids and draw(st.booleans()):
        fields["flops"] = draw(st.integers(0, 10**7))
        fields["resolution"]["flops"] = 1
    return TableRow(line=0, **fields)


@st.composite
def tables(draw: st.DrawFn, *, old: bool = False, words: list[str] = _WORDS) -> ProfilerTable:
    """Tables as torch prints them, with line numbers still to come."""
    ids = draw(columns(old=old))
    has_device = "device_total_ns" in ids
    fields = ["self_cpu_ns"] + (["device_total_ns" if old else "self_device_ns"] if has_device else [])
    totals = {field: draw(times()) for field in fields}
    return ProfilerTable(
        title=None,
        section=None,
        line=0,
        columns=ids,
        device=draw(st.sampled_from(DEVICES)) if has_device else None,
        rows=tuple(draw(st.lists(rows(ids, words), min_size=1, max_size=5))),
        totals=TableTotals(
            **{field: value for field, (value, _) in totals.items()},
            resolution={field: step for field, (_, step) in totals.items()},
        ),
        top_level_only=draw(st.booleans()),
        has_plain_names=old and bool({"self_cpu_ns", "self_cpu_share"} & set(ids)),
    )


STYLES = st.builds(Style, unit_of_size=st.sampled_from("bB"), header=st.none() | st.just("What it is"))
OLD_STYLE = Style(old=True, unit_of_size="b")


def unnumbered(table: ProfilerTable) -> ProfilerTable:
    """The table without what depends on the text around it."""
    return replace(table, line=0, title=None, section=None, rows=tuple(replace(row, line=0) for row in table.rows))


def _each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(change, text.split("\n")))


def _numbered(pattern: str) -> Callable[[str], str]:
    return lambda text: "\n".join(pattern.format(i) + line for i, line in enumerate(text.split("\n"), start=8))


def _wrapped(width: int) -> Callable[[str], str]:
    def wrap(line: str) -> str:
        return "\n".join(line[i : i + width] for i in range(0, len(line), width))

    return _each_line(wrap)


HARMLESS: dict[str, Callable[[str], str]] = {
    "as printed": str,
    "no trailing blanks": _each_line(str.rstrip),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "carriage returns only": lambda text: text.replace("\n", "\r"),
    "double spaced": lambda text: text.replace("\n", "\n\n"),
    "colours": _each_line(lambda line: f"\x1b[1;32m{line}\x1b[0m"),
    "quotation": _each_line(lambda line: f"> {line}"),
    "stripped quotation": _each_line(lambda line: f"> {line}".rstrip()),
    "compose log": _each_line(lambda line: f"trainer-1  | {line}"),
    "comment": _each_line(lambda line: f"# {line}"),
    "indentation": _each_line(lambda line: f"        {line}"),
    "time stamps": _numbered("2024-05-01 10:00:{:02d},123 - INFO - "),
    "growing line numbers": _numbered("[{}] "),
    "prefix on the first line only": lambda text: f"INFO:root:{text}",
    "box": _each_line(lambda line: f"│ {line} │"),
    "HTML": lambda text: f"<pre>{html.escape(text)}</pre>",
    "notebook": _each_line(lambda line: f'      "{line}\\n",'),
    "no-break blanks": lambda text: text.replace(" ", "\xa0"),
    "HTML blanks": lambda text: html.escape(text).replace(" ", "&nbsp;"),
    "full-width blanks": lambda text: text.replace(" ", "\u3000"),
    "progress bar": lambda text: f"100%|####| 8/8 [00:01<00:00]\r{text}",
    "code block": lambda text: f"```\n{text}\n```\n",
    "wrapped at 80": _wrapped(80),
}
"""Changes after which everything can still be read, for any table."""

LOSSY: dict[str, Callable[[str], str]] = {
    "collapsed blanks": _each_line(lambda line: re.sub(" +", " ", line).strip()),
    "tabs for blanks": _each_line(lambda line: re.sub(" {2,}", "\t", line.strip())),
    "no leading blanks": _each_line(str.lstrip),
}
"""Changes that move the columns: everything is read that does not depend on an empty cell."""
