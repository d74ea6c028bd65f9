"""Reads a Kineto trace into tables.

The format: `libkineto/src/output_json.cpp` of pytorch/kineto; older writers back to torch 1.8 are read too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import msgspec
import numpy as np

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.kineto import accelerators, details, header, implausible, merged
from traceanalyzer.readers.kineto.columns import MOST_RECORDED, Collector
from traceanalyzer.readers.kineto.events import NOT_JSON
from traceanalyzer.readers.kineto.fields import POOL_OF, none_of
from traceanalyzer.readers.kineto.parts import add
from traceanalyzer.readers.kineto.scanning import ScanningDecoder
from traceanalyzer.readers.kineto.windows import EventWindows
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import CUPTI_MONITOR, Device, Loss, Thread, Trace, TraceInfo
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I32, UNKNOWN, Table

CATEGORIES_NAMED = 50
"""Greatest number of unknown categories with a separate warning; no writer uses a tenth as many."""

WORTHWHILE_BYTES = 32 << 20
"""Size from which on several processes decode a trace. To start them takes as long as to decode a few megabytes."""

_UNPACKED = 8
"""Bytes of text for each compressed one, at the least; profilers' traces have ten to twenty."""

_OBJECTS = ("threads", "collectives", "sources", "details")
"""Pools that do not hold strings."""

_AT_ONCE = 1 << 13
"""Rows among which codes that are new are looked for at once (own choice: most codes come in the first thousands)."""

_MEASURED = ("host", "launches", "device", "accelerator", "frames", "memory")
"""Tables of which at least one has a row in a trace that is worth a look."""


def read(source: Source, jobs: int = 1, worthwhile: int = WORTHWHILE_BYTES) -> Trace:
    """Read a whole trace.

    Args:
        source: Decompressed bytes of a trace, an object or a bare array, whole or damaged.
        jobs: Greatest number of processes that decode it; it does not change the trace.
        worthwhile: Bytes of text from which on more than one process is used.

    Returns:
        The trace; losses are in `Trace.losses`.

    Raises:
        UnusableInputError: The input is not a trace, or contains no event that can be analyzed.
    """
    trace, further = _first_of(source, jobs, worthwhile)
    others: list[Trace] = []
    while header.EVENTS_KEY.search(further) and len(others) < MOST_RECORDED:
        rest = Source(io.BytesIO(further), source.name, len(further), lambda _: None)
        try:
            other, further = _first_of(rest, 1, worthwhile)
        except UnusableInputError:
            break
        others.append(other)
    return merged.with_further(trace, others) if others else trace


def _first_of(source: Source, jobs: int, worthwhile: int) -> tuple[Trace, bytes]:
    """The first trace of a file, and the text after it, as far as it was read."""
    collector = Collector()
    with _windows(source, jobs if _text_bytes(source) >= worthwhile else 1) as windows:
        for window in windows:
            add(collector, window)
    _require_events(source, windows, collector)
    after, further = header.divided(windows.after)
    meta, whole = header.metadata(windows.before, after)
    losses = _losses(source, windows, collector, metadata_is_whole=whole)
    file = _File(source, meta, header.writer(windows.before, meta), losses)
    may_be_several = 1 < len(collector.recorded) <= MOST_RECORDED
    tables = {name: buffer.finish(keeps_order=may_be_several) for name, buffer in collector.tables.items()}
    parts = _recorded(collector, tables) if may_be_several else []
    is_of_several = len(parts) > 1 or (may_be_several and len({one.profiler_start for one in collector.recorded}) > 1)
    trace = merged.with_ranks(_assemble(file, collector, tables, collector.profiler_start))
    is_of_one = len(collector.recorded) == 1
    if is_of_one or trace.ranks or not merged.is_muddled(trace, is_of_several=is_of_several):
        return trace, further
    return merged.of_recordings(trace, [_assemble(file, collector, *part) for part in parts]), further


class _File(NamedTuple):
    """What holds for all that is in a file."""

    source: Source
    meta: Mapping[str, Any]
    writer: str | None
    losses: tuple[Loss, ...]


def _recorded(collector: Collector, tables: Mapping[str, Table]) -> list[tuple[dict[str, Table], int | None]]:
    """The rows that each profiler wrote, with its start; none if some were written after the last one's own span."""
    parts = []
    before = dict.fromkeys(tables, 0)
    for rows, start in collector.recorded:
        if rows != before:
            parts.append(
                ({name: _between(collector, tables, name, before[name], rows[name]) for name in tables}, start)
            )
        before = rows
    return parts if before == collector.rows() else []


def _between(collector: Collector, tables: Mapping[str, Table], name: str, first: int, end: int) -> Table:
    """The rows of a finished table that stand in a stretch of the file."""
    order = collector.tables[name].order
    place = np.arange(len(tables[name])) if order is None else order
    return tables[name].take((place >= first) & (place < end))


def _text_bytes(source: Source) -> int:
    """Approximate size of the text; 0 if unknown."""
    return (source.size_bytes or 0) * (_UNPACKED if source.is_gzip else 1)


def _windows(source: Source, jobs: int) -> AbstractContextManager[EventWindows]:
    if jobs < 2:
        return nullcontext(EventWindows(source, ScanningDecoder()))
    from traceanalyzer.readers.kineto import ahead  # noqa: PLC0415 - what starts processes is for large files alone

    return ahead.windows_of(source, jobs)


def _require_events(source: Source, windows: EventWindows, collector: Collector) -> None:
    """Raise an error of one line that says what is wrong when there is nothing to analyze."""
    if not windows.is_trace:
        raise UnusableInputError(
            f"{source.name}: is not a profiler trace: no traceEvents list in its {windows.bytes_read:,} bytes; "
            "give the JSON that torch.profiler exports (.json, .json.gz) or text with a key_averages() table"
        )
    if not any(len(collector.tables[name]) for name in _MEASURED):
        raise UnusableInputError(
            f"{source.name}: contains no event of the PyTorch profiler: {collector.elements:,} elements in its event "
            f"list, {sum(collector.categories.unsupported.values()):,} of them of unknown categories; "
            "record at least one step between prof.start() and prof.stop(), and where other threads do the work, pass "
            "experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True) to the profiler"
        )


def _losses(
    source: Source, windows: EventWindows, collector: Collector, *, metadata_is_whole: bool
) -> tuple[Loss, ...]:
    losses = [
        Loss(loss, count, {"offset": windows.first_at[loss]} | _cut(loss, windows))
        for loss, count in windows.losses.items()
    ]
    losses += [Loss(loss, count) for loss, count in collector.losses.items()]
    losses += source.losses
    losses += _legacy(collector)
    losses += _unsupported(collector.categories.unsupported)
    losses += _forms(collector.forms)
    if not metadata_is_whole:
        losses.append(Loss("read-damaged-metadata", 1))
    return tuple(sorted(losses, key=_loss_order))


def _legacy(collector: Collector) -> Iterator[Loss]:
    """That it is a list of the legacy profiler; with the arrows to a device, if nothing else of it is in the list."""
    if any(pid in accelerators.LEGACY for pid, _ in collector.pools["threads"].values()):
        arrows = [name for name in collector.categories.names if name.startswith("cpu_to_")]
        is_all = arrows and not len(collector.tables["accelerator"])
        yield Loss("read-legacy-list", 1, {"sign": arrows[0]} if is_all else {})


def _unsupported(counts: Mapping[str, int]) -> Iterator[Loss]:
    """Categories that nothing here understands: those with most events by name, the others as a number."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for name, count in ranked[:CATEGORIES_NAMED]:
        yield Loss("read-unsupported", count, {"category": name})
    if rest := ranked[CATEGORIES_NAMED:]:
        params = {"categories": len(rest), "kept": CATEGORIES_NAMED}
        yield Loss("read-many-categories", sum(count for _, count in rest), params)


def _forms(counts: Mapping[tuple[str, str], int]) -> Iterator[Loss]:
    """Phases that nothing here understands for their category: those with most events, the others together."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for (phase, category), count in ranked[:CATEGORIES_NAMED]:
        yield Loss("read-phase", count, {"phase": phase, "category": category})
    if rest := ranked[CATEGORIES_NAMED:]:
        yield Loss("read-other-phase", sum(count for _, count in rest))


def _loss_order(loss: Loss) -> tuple[str, str]:
    return loss.id, str(loss.params)


def _cut(loss: str, windows: EventWindows) -> dict[str, Any]:
    return {"bytes": windows.cut_bytes} if loss == "read-truncated" else {}


def _assemble(file: _File, collector: Collector, tables: dict[str, Any], profiler_start: int | None) -> Trace:
    """The trace with the rows of these tables, which begins with its first event.

    The tables are taken out of the dict, so that none of their columns is in memory twice.
    """
    source, meta, writer, losses = file
    devices, of = header.devices(meta), collector.pools
    told, dims = of["details"].values(), of["dims"].values()
    tables["device"] = details.settled(tables["device"], told, of["names"].encode, dims, devices)
    tables["device"], ids_lost = implausible.with_limited_ids(tables["device"])
    tables["frames"], without_return = implausible.with_returns(tables["frames"])
    tables["counters"] = tables["counters"].take(~np.isnan(tables["counters"].value))  # of other programs
    pools = {name: _ordered(name, pool.values(), tables) for name, pool in collector.pools.items()}
    values: dict[str, Any] = {name: values for name, (values, _) in pools.items()}
    codes = {name: codes for name, (_, codes) in pools.items()}
    for name in list(tables):
        tables[name] = _recoded(tables[name], codes)
    seen = {
        "record_shapes": len(values["shapes"]) > 1,
        "with_stack": len(tables["frames"]) > 0,
        "profile_memory": len(tables["memory"]) > 0,
        "with_modules": bool((tables["frames"].module_id != UNKNOWN).any()),
    }
    distributed = _distributed(meta)
    backend = distributed.get("backend")
    trace = Trace(
        info=TraceInfo(
            name=source.name,
            size_bytes=source.size_bytes,
            origin_ns=0,
            span_ns=0,
            base_ns=header.integer(meta.get("baseTimeNanoseconds")),
            profiler_start_ns=profiler_start,
            devices=_all_devices(devices, tables["device"].device),
            options=header.options(meta, seen),
            rank=header.count(distributed.get("rank")),
            world_size=header.count(distributed.get("world_size")) or None,
            backend=backend if isinstance(backend, str) else None,
            unsupported=collector.categories.unsupported,
            capture=header.capture(meta),
            has_old_categories=collector.categories.has_old,
            writer=CUPTI_MONITOR if details.are_of_monitor(told) else writer,
        ),
        **values,
        **tables,
        losses=tuple(sorted((*losses, *ids_lost, *without_return), key=_loss_order)),
    )
    tables.clear()
    return implausible.without_far_events(trace)


def _distributed(meta: Mapping[str, Any]) -> dict[str, Any]:
    distributed = meta.get("distributedInfo")
    return distributed if isinstance(distributed, dict) else {}


def _recoded(table: Table, codes: Mapping[str, I32]) -> Any:
    """The table with other codes.

    Args:
        table: The table.
        codes: By pool the new code of each old one; the last one is that of -1.
    """
    columns = (column for column in table.columns() if column.pool)
    return table.changed(**{c.name: codes[c.pool].take(getattr(table, c.name), mode="wrap") for c in columns})


def _ordered(pool: str, values: list[Any], tables: Mapping[str, Table]) -> tuple[Sequence[Any], I32]:
    """What the codes of a pool stand for, and the code of each value that was read; the last one is that of -1.

    Values have the order in which the tables have them, so that nothing depends on how the file was cut while it was
    read; threads that of their ids, so that of equal threads the same one comes first. One value may be written in
    several ways: layouts of JSON texts differ, and ids of threads.
    """
    if pool == "threads":
        values = [Thread(_identity(pid), _identity(tid)) for pid, tid in values]
        ordered = sorted(set(values), key=lambda one: (len(one.pid), one.pid, len(one.tid), one.tid))
    else:
        columns = [getattr(tables[name], key) for name, pools in POOL_OF.items() for key in pools if pools[key] == pool]
        is_text = none_of(pool) == (b"",)
        values = list(map(_compact, values)) if is_text else values
        ordered = list(dict.fromkeys(values[code] for code in _appeared(columns, len(none_of(pool)), len(values))))
    codes = {value: code for code, value in enumerate(ordered)}
    codes_of_values = np.array([*(codes.get(value, UNKNOWN) for value in values), UNKNOWN], np.int32)
    return tuple(ordered) if pool in _OBJECTS else Strings(ordered), codes_of_values


def _appeared(columns: Sequence[I32], first: int, count: int) -> Iterator[int]:
    """The codes, of which there are so many, in the order in which columns have them; some come first in any case."""
    seen = np.zeros(count + 1, np.bool_)
    seen[:first] = seen[-1] = True  # the last is for -1
    yield from range(first)
    for column in columns:
        for start in range(0, len(column), _AT_ONCE):
            part = column[start : start + _AT_ONCE]
            for code in dict.fromkeys(part[~seen[part]].tolist()):
                seen[code] = True
                yield code


def _identity(value: object) -> str:
    return str(value).removeprefix("stream ").strip()


def _compact(raw: bytes) -> str:
    try:
        text = msgspec.json.format(raw, indent=-1).decode("utf-8", "replace") if raw else ""
    except NOT_JSON:
        return ""
    return "" if text == "null" else text


def _all_devices(described: Sequence[Device], used: I32) -> tuple[Device, ...]:
    """The described devices, and those that only events know of."""
    known = {d.id for d in described}
    seen = set(distinct(used).tolist()) - {UNKNOWN} - known
    return (*described, *(Device(id=number) for number in sorted(seen)))
