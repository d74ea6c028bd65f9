"""Says in a few words what small texts show that have no times of a program: stacks, and comparisons of statements."""

from __future__ import annotations

import re
from collections import Counter

_THREAD = re.compile(r'^\W{0,4}Thread \w+ \((?:active|idle)[^)\n]*\): "(?P<name>[^"\n]+)"', re.MULTILINE)
_FRAME = re.compile(
    r"^[ \t|>]{1,40}(?P<function>[^\s(]{1,200}) \((?P<place>(?:[A-Za-z]:)?[^()\s:]{1,400}:\d{1,7})\)", re.MULTILINE
)
_WAITS = re.compile(r"(?:threading|queue|selectors|connection|popen_fork)\.py|concurrent/futures/")
"""Files whose functions only wait: what called them says for what."""
_MAIN = "MainThread"
_MOST_PLACES = 3
_STACK = 20_000
"""Most characters of a stack that are searched."""


def stacks(text: str) -> str | None:
    """Where the main threads stand in stacks that `py-spy dump` printed; None if there are none."""
    threads = list(_THREAD.finditer(text))
    ends = [thread.start() for thread in threads[1:]] + [len(text)]
    places: Counter[str] = Counter()
    same = 0
    for thread, end in zip(threads, ends, strict=False):
        if thread["name"] != _MAIN:
            continue
        same += 1
        frames = list(_FRAME.finditer(text, thread.end(), min(end, thread.end() + _STACK)))
        telling = next((frame for frame in frames if not _WAITS.search(frame["place"])), frames[0] if frames else None)
        if telling is not None:  # threads with the same stack may be listed above it
            places[f"{telling['function']} ({telling['place']})"] += same
            same = 0
    if not places:
        return None
    if sum(places.values()) == 1:
        return f"the main thread stands in {next(iter(places))}"
    told = ", ".join(f"{count} in {place}" for place, count in places.most_common(_MOST_PLACES))
    return f"of {sum(places.values())} main threads, {told}"


_MEASURED = re.compile(r"^Times are in \w+ \([a-zµ]+\)", re.MULTILINE)
_CELL = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


def compared(text: str) -> str | None:
    """Which statement of a comparison of `torch.utils.benchmark` differs most; None if the text has none."""
    unit = _MEASURED.search(text)
    heads: list[str] = []
    most, said = 0.0, None
    for line in text[: unit.start()].splitlines() if unit else ():
        label, *cells = (cell.strip() for cell in line.split("|"))
        numbers = [float(match[0].replace(",", "")) if (match := _CELL.match(cell)) else 0.0 for cell in cells]
        if len(cells) > 1 and not label:
            heads = cells
        known = [(number, head) for number, head in zip(numbers, heads, strict=False) if number > 0]
        if not label or len(known) < 2:
            continue
        (slow, slower), (fast, faster) = max(known), min(known)
        if slow / fast > most:
            most, said = slow / fast, f"for {label}, {slower} takes {slow / fast:.1f} times as long as {faster}"
    return said
