"""Rows for tests of the printing: made by hand, or generated."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from traceanalyzer.analyzers.operators.key_averages import EventAverage, KeyAverages

NOTHING: dict[str, Any] = {
    "calls": 1,
    "on_device": False,
    "is_user_annotation": False,
    "self_cpu_us": 0.0,
    "cpu_total_us": 0.0,
    "self_device_us": 0.0,
    "device_total_us": 0.0,
    "cpu_mem_bytes": 0,
    "self_cpu_mem_bytes": 0,
    "device_mem_bytes": 0,
    "self_device_mem_bytes": 0,
    "flops": 0,
    "input_shapes": None,
}


def row(name: str, **values: Any) -> EventAverage:
    """A row of zeros with the given values."""
    return EventAverage(name=name, **(NOTHING | values))


def averages(*rows: EventAverage, device: str | None = None, memory: bool = False, flops: bool = False) -> KeyAverages:
    """Rows and what their table shows."""
    return KeyAverages(rows, device, memory, flops)


_NAMES = st.sampled_from(["aten::mm", "aten::add_", "ProfilerStep*", "train.py(3): step", "void f<int, 4>(int*)"])
_TIMES = st.integers(0, 10**11).map(lambda ns: ns / 1000)
_SIZES = st.integers(-(2**40), 2**40)
_FLOPS = st.just(0) | st.integers(10**6, 10**10)  # of one unit; what is too wide for its column moves the others
_SHAPES = st.lists(st.lists(st.integers(0, 4096), max_size=4), max_size=3).map(str)


@st.composite
def key_averages(draw: st.DrawFn) -> KeyAverages:
    """Any rows that a trace could give: some columns shown, some not."""
    memory, shapes, flops, device = (draw(st.booleans()) for _ in range(4))
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        on_device = device and draw(st.booleans())
        sizes = {key: draw(_SIZES) for key in NOTHING if key.endswith("bytes")}
        cpu = (draw(_TIMES), draw(_TIMES)) if not on_device else (0.0, 0.0)
        own = (draw(_TIMES), draw(_TIMES)) if device else (0.0, 0.0)
        rows.append(
            EventAverage(
                draw(_NAMES),
                draw(st.integers(1, 10**6)),
                on_device,
                draw(st.booleans()),
                *cpu,
                *own,
                *sizes.values(),
                flops=draw(_FLOPS) if flops else 0,
                input_shapes=draw(_SHAPES) if shapes else None,
            )
        )
    return KeyAverages(tuple(rows), "CUDA" if device else None, memory, flops)
