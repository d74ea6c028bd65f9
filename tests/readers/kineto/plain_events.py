"""What the scan is tried with: plain events of all categories with all arguments, and changes and damage to them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from traceanalyzer.readers.kineto.columns import Collector
from traceanalyzer.readers.kineto.events import ARGS_FIELDS, EVENT_FIELDS
from traceanalyzer.readers.kineto.fields import BY_CONTENT, CATEGORIES, POOL_OF, TableGroup, classify
from traceanalyzer.readers.kineto.parts import Part, join

Pairs = list[tuple[str, str]]
"""Keys and values of an object, in JSON."""

ODD = (
    *("null", "true", "[]", "{}", '[1, {"a": "\\u0041"}]', '""', '"X"', '"s"', '"i"', '"[memory]"', '"kernel"', '"12"'),
    *("-0", "-7", "1.0", "1.5", "12345678901234567890", "999999999999999999", "2147483648", "-2147483648"),
    *("1e3", "1e999", "1E-7", "0.30000000000000004", "0.0005", "0.0015", "1712195499136763.3301", "4000000000000000"),
    *("1712195499136763.33", "12345678901234567.5", "1000000000000000.5", "01", "1.", ".5", "+1", "NaN", "-", "nul"),
    *('"a\\/b"', '"\\\\"', '"\\u0041"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', '"ü €😀"', '"\t"', '"', "'a'"),
    "[" * 40 + "]" * 40,
)
"""Values, some of them no JSON."""

PHASES = {TableGroup.FLOW: '"s"', TableGroup.INSTANT: '"i"', TableGroup.IGNORED: '"f"', TableGroup.ARROW: '"f"'}
NAMES = {TableGroup.INSTANT: '"[memory]"', TableGroup.SPAN: '"PyTorch Profiler (0)"'}
TOLD = [name for name in CATEGORIES if name not in BY_CONTENT and classify(name)[0] != TableGroup.ACCELERATOR]
MARK = "layer"
"""An argument that no writer has; the programs of graphs may."""
FIELDS = sorted({*EVENT_FIELDS, *ARGS_FIELDS, "unheard of", MARK})


def arguments(number: int) -> Pairs:
    """Plausible values of all arguments; every third event describes a collective and a generated kernel."""
    rare = {"Collective name", "kernel_backend"} if number % 3 else set()
    rare |= {"Input dims", "external id"} if number % 2 else {"Input Dims", "External id"}  # written now, and once
    texts = {"Collective name", "dtype", "Process Group Name", "Process Group Ranks", "kernel", "kernel_backend"}
    texts |= {"kernel_file", "kernel_hash", "Task Type", "HW event name"}
    lists = {"Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs", "grid", "block"}
    found: Pairs = [(MARK, f"{number}" if number % 8 else '"mlp"')] if number % 4 == 0 else []
    for place, key in enumerate(ARGS_FIELDS):
        if key in rare or (number + place) % 5 == 0:
            continue
        value = f'"{key} {number % 2}"' if key in texts else f"[[{number % 3}, 2], []]" if key in lists else f"{number}"
        found.append((key, value))
    return found


def events() -> list[tuple[Pairs, Pairs]]:
    """Plain events of all categories, and the arguments of each."""
    found = []
    for number, category in enumerate([*TOLD, "mystery"] * 3):
        group = classify(category)[0]
        event = [
            ("ph", PHASES.get(group, '"X"')),
            ("cat", json.dumps(category)),
            ("name", NAMES.get(group, f'"name {number % 7}"')),
            ("pid", f"{number % 2}"),
            ("tid", f"{number % 5}" if number % 4 else '"stream 7"'),
            ("ts", f"171219549913{number:04}.{number:03}"),
            ("dur", f"{number}.25"),
            ("id", f"{number + (group == TableGroup.ARROW) * (number % 2) * 2**40}"),  # of a launch, or between nodes
        ]
        found.append((event, arguments(number)))
    return found + [_counter(number) for number in range(3)]


def _counter(number: int) -> tuple[Pairs, Pairs]:
    """A sample of a counter, which has no category, and no thread."""
    event = [("ph", '"C"'), ("name", '"Power (W)"'), ("pid", '"GPU 0 Counters"'), ("ts", f"1712195499139900.{number}")]
    return event, [("", f"{300 + number}.5")]


def joined(pairs: Pairs) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"


def listed(found: list[tuple[Pairs, Pairs]]) -> bytes:
    texts = [joined([*event, ("args", joined(args))]) for event, args in found]
    return ("[\n" + ",\n".join(texts) + "\n]").encode("utf-8", "surrogatepass")


PLAIN = events()

CHANGES = st.lists(
    st.tuples(
        st.integers(0, len(PLAIN) - 1),
        st.sampled_from([*FIELDS, "args", "cat", "ph", "ts"]),
        st.sampled_from(ODD),
        st.booleans(),
    ),
    max_size=6,
)
"""The number of an event, a key, its new value, and whether the old one stays beside it."""

NUMBERS = st.lists(
    st.tuples(
        st.integers(0, len(PLAIN) - 1),
        st.sampled_from(["dur", "est. achieved occupancy %"]),
        st.from_regex(r"(0|[1-9][0-9]{0,9})\.[0-9]{3}5", fullmatch=True),
        st.just(False),
    ),
    min_size=1,
    max_size=6,
)
"""Changes that leave events plain; durations lie between two nanoseconds."""

DAMAGE = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=3)), max_size=4)
"""Where in a text, as a share of its length, other bytes stand."""


def change(found: list[tuple[Pairs, Pairs]], changes: list[tuple[int, str, str, bool]]) -> None:
    """Give events other values, as of `CHANGES`."""
    for row, key, value, again in changes:
        event, args = found[row]
        place = args if key in ARGS_FIELDS or key == MARK else event
        if not again:
            place[:] = [(name, old) for name, old in place if name != key]
        place.append((key, value))


def damage(text: bytes, changes: list[tuple[float, bytes]]) -> bytes:
    """Write other bytes into a text, as of `DAMAGE`."""
    damaged = bytearray(text)
    for at, other in changes:
        start = int(at * len(damaged))
        damaged[start : start + len(other)] = other
    return bytes(damaged)


def contents(part: Part | None) -> dict[str, Any]:
    """What a trace gets from a part, whatever the order of its codes."""
    assert part is not None
    collector = Collector()
    join(collector, part)
    tables = {name: table.columns() for name, table in collector.tables.items() if len(table)}
    pools = {name: [*pool.values(), "none"] for name, pool in collector.pools.items()}
    columns = {
        (name, key): [pools[pool][value] for value in column] if (pool := POOL_OF[name].get(key)) else column.tolist()
        for name, table in tables.items()
        for key, column in table.items()
    }
    held = {name: sorted(map(repr, pool)) for name, pool in pools.items()}
    return {"elements": part.elements, "categories": part.categories, "start": part.profiler_start, **held, **columns}
