"""Reads what torch says of memory in any text: errors of allocations that failed, and `torch.cuda.memory_summary()`.

The wordings are those of `c10/cuda/CUDACachingAllocator.cpp` from torch 0.4 on, and of its siblings for other devices:

    CUDA out of memory. Tried to allocate 2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already ...
    CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 4.00 GiB of which 2.35 GiB ...

The line of the program that asked is the innermost one of its own in the traceback above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceanalyzer.knowledge import python_frames
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.trace.document import MemorySummary, PrintedFailure

MARKS = re.compile(rb"out of memory|memory summary, device ID")
"""What a text with any of it contains."""

_SIZE = r"[0-9]{1,12}(?:\.[0-9]{1,6})? ?(?:bytes|[KMGT]i?B|B)"
_FAILED = re.compile(rf"out of memory\b.{{0,250}}?[Tt]ried to allocate (?P<asked>{_SIZE})")
_FACTS = tuple(
    re.compile(pattern.replace("SIZE", _SIZE))
    for pattern in (
        r"\([A-Z]{3} (?P<device>\d{1,4}); (?P<total>SIZE) total capacity; (?P<allocated>SIZE) already allocated; ",
        r"already allocated; (?P<free>SIZE) free; (?P<reserved>SIZE) (?:reserved in total by PyTorch|cached)",
        r"[A-Z]{3} (?P<device>\d{1,4}) has a total capaci?ty of (?P<total>SIZE) of which (?P<free>SIZE) is free",
        r"this process has (?P<process>SIZE) memory in use",
        r"Of the allocated memory (?P<allocated>SIZE) is allocated by PyTorch",
        r"(?P<inactive>SIZE) is reserved by PyTorch but unallocated",
        r"MPS allocated: (?P<allocated>SIZE), other allocations: (?P<others>SIZE), max allowed: (?P<total>SIZE)",
    )
)
_FRAME = re.compile(
    r"""File "(?P<path>[^"\n]{1,400})", line (?P<line>\d{1,7}), in (?P<function>[^\s│]{1,200})"""
    r"|(?P<rich>(?<![\w./\\~-])[\w./\\~-]{1,400}\.py):(?P<rich_line>\d{1,7}) in (?P<rich_function>[\w<>.]{1,200})"
)
"""A line of a traceback as Python prints it, or as rich does."""
_BEGIN = "Traceback (most recent call last)"
_LABEL = re.compile(r"\A\s{0,4}(\[rank\d{1,6}\]|\d{1,6}:)")
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_WRAPPED = 8
"""Lines from the first one of an error on that may have the rest of it, where a terminal or a person broke it."""
_TRACEBACK = 400
"""Most lines above an error that are searched for the lines of its program."""
_LONGEST = 4000
_SUMMARY = re.compile(r"memory summary, device ID (?P<device>\d{1,4})")
_COUNTS = re.compile(r"OOMs: (?P<failures>\d{1,9})\b.{0,80}?retries: (?P<retries>\d{1,9})\b")
_ROW = re.compile(
    r"\|\s*(?P<name>Allocated memory|Active memory|GPU reserved memory|Non-releasable memory)\s*\|"
    rf"\s*(?P<now>{_SIZE})\s*\|\s*(?P<peak>{_SIZE})\s*\|"
)
_LENGTH = 60
"""Lines that a summary has at most (own choice: torch prints up to 48)."""


def failures(lines: Lines) -> tuple[PrintedFailure, ...]:
    """The allocations that failed, each once, in their order."""
    found: dict[tuple[object, ...], PrintedFailure] = {}
    for index in range(len(lines)):
        if "out of memory" not in lines[index]:
            continue
        text = _whole(lines, index)
        starts = [match.start() for match in _FAILED.finditer(text)]
        for at, match in enumerate(_FAILED.finditer(text)):
            end = starts[at + 1] if at + 1 < len(starts) else len(text)
            failure = _failure(lines, index, match, text[match.start() : end])
            key = (failure.device, failure.asked_bytes, failure.free_bytes, failure.allocated_bytes)
            found.setdefault(key, failure)
    return tuple(found.values())


def summaries(lines: Lines) -> tuple[MemorySummary, ...]:
    """The summaries of `torch.cuda.memory_summary()`, in their order."""
    found: list[MemorySummary] = []
    for index in range(len(lines)):
        head = _SUMMARY.search(lines[index][:_LONGEST])
        if head is not None:
            end = min(index + _LENGTH, len(lines))
            below = [lines[at][:_LONGEST] for at in range(index + 1, end)]
            ends = next((at for at, text in enumerate(below) if _SUMMARY.search(text)), len(below))
            found += _summary(lines.number(index), int(head["device"]), below[:ends])
    return tuple(found)


def _whole(lines: Lines, index: int) -> str:
    """An error from the line on in which it begins, as far as it may go on in lines below."""
    last = min(index + _WRAPPED, len(lines))
    rest = (lines[at][:_LONGEST].strip(" │|>") for at in range(index + 1, last))
    below = []
    for text in rest:
        if not text or "out of memory" in text or _FRAME.search(text):
            break
        below.append(text)
    return " ".join([lines[index][:_LONGEST].strip(), *below])


def _failure(lines: Lines, index: int, match: re.Match[str], text: str) -> PrintedFailure:
    told: dict[str, int] = {}
    before = lines[index][:_LONGEST]
    for pattern in _FACTS:
        fact = pattern.search(text) or pattern.search(before)
        for name, value in fact.groupdict().items() if fact else ():
            told[name] = int(value) if name == "device" else _bytes(value)
    allocated, inactive, reserved = told.get("allocated"), told.get("inactive"), told.get("reserved")
    if inactive is None and allocated is not None and reserved is not None:
        inactive = max(0, reserved - allocated)
    if reserved is None and allocated is not None and inactive is not None:
        reserved = allocated + inactive
    free = told.get("free")
    if free is None and "others" in told and allocated is not None:
        free = max(0, told["total"] - allocated - told["others"])
    return PrintedFailure(
        line=lines.number(index),
        device=told.get("device"),
        code=_asking(lines, index),
        asked_bytes=_bytes(match["asked"]),
        total_bytes=told.get("total"),
        free_bytes=free,
        process_bytes=told.get("process"),
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        inactive_bytes=inactive,
    )


def _bytes(text: str) -> int:
    """A size, with units as torch writes them, which are always of 1024."""
    number, unit = re.split(r" |(?=[A-Za-z])", text, maxsplit=1)
    return round(float(number) * _UNITS[unit.strip()[0].lower()])


def _asking(lines: Lines, index: int) -> str | None:
    """The innermost line of the program in the traceback above an error, as the profiler writes frames.

    Without one of the program's own, that of the library which called torch. Lines of other ranks are not of it.
    """
    label = _LABEL.match(lines[index])
    known: str | None = None
    for at in range(index, max(-1, index - _TRACEBACK), -1):
        text = lines[at][:_LONGEST]
        own = _LABEL.match(text)
        if (own and own[1]) != (label and label[1]):
            continue
        if _BEGIN in text:
            break
        match = _FRAME.search(text)
        if match is None:
            continue
        path = match["path"] or match["rich"]
        frame = f"{path}({match['line'] or match['rich_line']}): {match['function'] or match['rich_function']}"
        if python_frames.is_own_file(path):
            return frame
        known = known or (None if "/torch/" in path.replace("\\", "/") else frame)
    return known


def _summary(line: int, device: int, below: list[str]) -> Iterator[MemorySummary]:
    """One summary; nothing if it has no row of what was allocated."""
    counts = next((match for text in below if (match := _COUNTS.search(text))), None)
    rows: dict[str, tuple[int, int]] = {}
    for text in below:
        if match := _ROW.search(text):
            rows.setdefault(match["name"], (_bytes(match["now"]), _bytes(match["peak"])))
    allocated, reserved = rows.get("Allocated memory"), rows.get("GPU reserved memory")
    stuck = rows.get("Non-releasable memory")
    if allocated is not None:
        yield MemorySummary(
            line=line,
            device=device,
            failures=int(counts["failures"]) if counts else None,
            retries=int(counts["retries"]) if counts else None,
            allocated_bytes=allocated[0],
            peak_bytes=allocated[1],
            reserved_bytes=reserved[0] if reserved else None,
            stuck_bytes=stuck[0] if stuck else None,
        )
