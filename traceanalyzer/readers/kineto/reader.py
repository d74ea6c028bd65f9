"""Reads a Kineto trace into tables.

The format: `libkineto/src/output_json.cpp` of pytorch/kineto; older writers back to torch 1.8 are read too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.kineto import crowds, header
from traceanalyzer.readers.kineto.columns import Collector
from traceanalyzer.readers.kineto.events import NOT_JSON
from traceanalyzer.readers.kineto.parts import Part, join
from traceanalyzer.readers.kineto.scanning import ScanningDecoder
from traceanalyzer.readers.kineto.windows import EventWindows
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Device, Loss, Thread, Trace, TraceInfo, all_tables
from traceanalyzer.trace.strings import StringPool, Strings
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, Table

_FAR_NS = 24 * 3600 * 10**9
"""Distance or duration beyond which a time must be wrong, because no profile lasts a day."""

CATEGORIES_NAMED = 50
"""Greatest number of unknown categories with a separate warning; no writer uses a tenth as many."""

WORTHWHILE_BYTES = 32 << 20
"""Size from which on several processes decode a trace. To start them takes as long as to decode a few megabytes."""

_UNPACKED = 8
"""Bytes of text for each compressed one, at the least; profilers' traces have ten to twenty."""

_FEW = 0.01
"""Share of far events up to which they are strays; more of them, and the file is made that way."""


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
    collector = Collector()
    with _windows(source, jobs if _text_bytes(source) >= worthwhile else 1) as windows:
        for found in windows:
            if isinstance(found, Part):
                join(collector, found)
            else:
                collector.add(found)
    _require_events(source, windows, collector)
    meta, whole = header.metadata(windows.before, windows.after)
    losses = _losses(source, windows, collector, metadata_is_whole=whole)
    return _without_strays(_assemble(source, collector, meta, losses))


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
    filled = (
        collector.host,
        collector.launches,
        collector.device,
        collector.accelerator,
        collector.frames,
        collector.memory,
    )
    if not any(len(buffer) for buffer in filled):
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
    losses += _unsupported(collector.categories.unsupported)
    if not metadata_is_whole:
        losses.append(Loss("read-damaged-metadata", 1))
    return tuple(sorted(losses, key=_loss_order))


def _unsupported(counts: Mapping[str, int]) -> Iterator[Loss]:
    """Categories that nothing here understands: those with most events by name, the others as a number."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for name, count in ranked[:CATEGORIES_NAMED]:
        yield Loss("read-unsupported", count, {"category": name})
    if rest := ranked[CATEGORIES_NAMED:]:
        params = {"categories": len(rest), "kept": CATEGORIES_NAMED}
        yield Loss("read-many-categories", sum(count for _, count in rest), params)


def _loss_order(loss: Loss) -> tuple[str, str]:
    return loss.id, str(loss.params)


def _cut(loss: str, windows: EventWindows) -> dict[str, Any]:
    return {"bytes": windows.cut_bytes} if loss == "read-truncated" else {}


def _assemble(source: Source, collector: Collector, meta: Mapping[str, Any], losses: tuple[Loss, ...]) -> Trace:
    threads, thread_codes = _threads(collector.threads)
    shapes, shape_codes = _texts(collector.shapes)
    types, type_codes = _texts(collector.types)
    dims, dim_codes = _texts(collector.dims)
    strides, stride_codes = _texts(collector.strides)
    concrete, concrete_codes = _texts(collector.concrete)
    unsupported = collector.categories.unsupported
    host = collector.host.finish()
    launches = collector.launches.finish()
    device, crowds_lost = crowds.bounded(collector.device.finish())
    accelerator = collector.accelerator.finish()
    gpu_annotations = collector.gpu_annotations.finish()
    frames = collector.frames.finish()
    memory = collector.memory.finish()
    overheads = collector.overheads.finish()
    flows = collector.flows.finish()
    distributed = meta.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    backend = distributed.get("backend")
    seen = {
        "record_shapes": len(shapes) > 1,
        "with_stack": len(frames) > 0,
        "profile_memory": len(memory) > 0,
        "with_modules": bool((frames.module_id != UNKNOWN).any()),
    }
    return Trace(
        info=TraceInfo(
            name=source.name,
            size_bytes=source.size_bytes,
            origin_ns=0,
            span_ns=0,
            base_ns=header.integer(meta.get("baseTimeNanoseconds")),
            profiler_start_ns=collector.profiler_start,
            devices=_all_devices(header.devices(meta), device.device),
            options=header.options(meta, seen),
            rank=header.count(distributed.get("rank")),
            world_size=header.count(distributed.get("world_size")) or None,
            backend=backend if isinstance(backend, str) else None,
            unsupported=unsupported,
            capture=header.capture(meta),
            has_old_categories=collector.categories.has_old,
        ),
        names=Strings(collector.names.values()),
        shapes=shapes,
        types=types,
        dims=dims,
        strides=strides,
        concrete=concrete,
        collectives=tuple(collector.collectives.values()),
        sources=tuple(collector.sources.values()),
        threads=threads,
        host=replace(
            host,
            thread=thread_codes[host.thread],
            shapes=shape_codes[host.shapes],
            types=type_codes[host.types],
            strides=stride_codes[host.strides],
            concrete=concrete_codes[host.concrete],
        ),
        launches=replace(launches, thread=thread_codes[launches.thread]),
        device=replace(device, grid=dim_codes[device.grid], block=dim_codes[device.block]),
        gpu_annotations=replace(gpu_annotations, thread=thread_codes[gpu_annotations.thread]),
        frames=replace(frames, thread=thread_codes[frames.thread]),
        memory=replace(memory, thread=thread_codes[memory.thread]),
        syncs=collector.syncs.finish(),
        overheads=replace(overheads, thread=thread_codes[overheads.thread]),
        flows=replace(flows, thread=thread_codes[flows.thread]),
        accelerator=replace(accelerator, thread=thread_codes[accelerator.thread]),
        losses=tuple(sorted((*losses, *crowds_lost), key=_loss_order)),
    )


def _threads(pool: StringPool[tuple[Any, Any]]) -> tuple[tuple[Thread, ...], I32]:
    """Threads with their ids as text, and the row of each code: one thread may be written in two ways."""
    rows: StringPool[Thread] = StringPool()
    keys = pool.values()
    codes = rows.codes((Thread(_identity(pid), _identity(tid)) for pid, tid in keys), len(keys))
    return tuple(rows.values()), codes


def _identity(value: object) -> str:
    return str(value).removeprefix("stream ").strip()


def _texts(pool: StringPool[bytes]) -> tuple[Strings, I32]:
    """Compact JSON texts, and the new code of each old one: layouts differ, values count."""
    texts: StringPool[str] = StringPool("")
    raw = pool.values()
    codes = texts.codes(map(_compact, raw), len(raw))
    return Strings(texts.values()), codes


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


def _without_strays(trace: Trace) -> Trace:
    """Drop events whose time cannot be true, count them, and let time begin with the first remaining event."""
    found = all_tables(trace)
    starts = [t.start_ns for t in found.values() if len(t)]
    middle = int(np.median(np.concatenate([s[:: max(1, len(s) // 10_000)] for s in starts])))
    kept = {name: _near(table, middle) for name, table in found.items()}
    strays = Counter({name: int((~rows).sum()) for name, rows in kept.items()})
    if strays.total() > _FEW * sum(map(len, found.values())) + 1:
        strays.clear()
    if strays.total():
        found = {n: t.take(kept[n]) if strays[n] else t for n, t in found.items()}
        losses = (*trace.losses, Loss("read-absurd-time", strays.total()))
        trace = replace(trace, losses=tuple(sorted(losses, key=lambda loss: loss.id)))
    starts = [t.start_ns for t in found.values() if len(t)]
    origin = min(int(s[0]) for s in starts)
    shifted = {name: _shifted(table, origin) for name, table in found.items()}
    end = max(int(_ends(t).max()) for t in shifted.values() if len(t))
    began = trace.info.profiler_start_ns
    began = began - origin if began is not None and abs(began - middle) <= _FAR_NS else None
    info = replace(trace.info, origin_ns=origin, span_ns=end, profiler_start_ns=began)
    changes: dict[str, Any] = {**shifted, "info": info}
    return replace(trace, **changes)


def _shifted(table: Table, origin: int) -> Table:
    changes: dict[str, Any] = {"start_ns": table.start_ns - origin}
    return replace(table, **changes)


def _near(table: Table, middle: int) -> Bool:
    near: Bool = np.abs(table.start_ns - middle) <= _FAR_NS
    if hasattr(table, "dur_ns"):
        near &= table.dur_ns <= _FAR_NS
    return near


def _ends(table: Table) -> I64:
    end: I64 = table.start_ns + getattr(table, "dur_ns", 0)
    return end
