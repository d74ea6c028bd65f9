"""Builders write exact times, and what writers differ in."""

from __future__ import annotations

import re
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders
from tests.builders import LAYOUTS, MODERN, OLD, ROCM, Raw, TraceBuilder, micros, ns


@given(st.integers(-(10**18), 10**18))
def test_times_survive_exactly(nanoseconds: int) -> None:
    assert ns(micros(nanoseconds)) == nanoseconds
    assert ns(str(micros(nanoseconds))) == nanoseconds


def test_inexact_times_are_refused() -> None:
    with pytest.raises(TypeError):
        ns(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finer"):
        ns("0.0001")


def test_decimals_are_written_with_every_digit() -> None:
    trace = TraceBuilder(origin="1712195495519689.047")
    trace.op("aten::mm", "0.003", 5)
    assert b'"ts": 1712195495519689.050, "dur": 5.000' in trace.to_bytes()
    assert trace.build()["traceEvents"][0]["ts"] == Decimal("1712195495519689.05")
    assert b'"ts":1712195495519689.05,"dur":5.0,' in trace.to_bytes(LAYOUTS["minified"])


def test_raw_text_is_written_as_it_stands() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 1, args={"est. achieved occupancy %": Raw("inf")})
    assert b'"est. achieved occupancy %": inf' in trace.to_bytes()


def test_a_launch_finds_the_innermost_operator() -> None:
    trace = TraceBuilder()
    outer = trace.op("aten::linear", 0, 100)
    inner = trace.op("aten::addmm", 10, 50)
    correlations = [trace.launch_kernel("k", 200 + at, 5, at=at) for at in (20, 70, 150)]
    kernels = {
        event["args"]["correlation"]: event["args"].get("External id")
        for event in trace.build()["traceEvents"]
        if event.get("cat") == "kernel"
    }
    assert [kernels[ident] for ident in correlations] == [inner, outer, None]


def test_dialects_differ_where_writers_did() -> None:
    def kernel(trace: TraceBuilder) -> dict[str, Any]:
        trace.op("aten::mm", "10.7", 20)
        trace.launch_kernel("k", 30, "5.4", at=15, stream=7, grid=(54, 1, 1))
        return next(e for e in trace.build()["traceEvents"] if e.get("cat") in {"kernel", "Kernel"})

    modern, old, rocm = (kernel(TraceBuilder(dialect)) for dialect in (MODERN, OLD, ROCM))
    assert (modern["tid"], old["tid"]) == (7, "stream 7")
    assert (modern["dur"], old["dur"]) == (Decimal("5.4"), 5)
    assert modern["args"]["External id"] == old["args"]["external id"] == 1
    assert modern["args"]["blocks per SM"] == Decimal("0.5")
    assert "blocks per SM" not in rocm["args"]
    assert rocm["args"]["kind"] == "Dispatch Kernel"


def test_options_are_in_the_header_only_when_on() -> None:
    header = TraceBuilder(options=["with_stack"], devices=()).build()
    assert header["with_stack"] == 1
    assert "record_shapes" not in header
    assert header["deviceProperties"] == []


def test_the_page_says_how_to_build_a_trace() -> None:
    """The example of the page, and that the page names builders that exist."""
    page = (Path(builders.__file__).parent / "README.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    events = names["trace"].build()["traceEvents"]
    steps = [event for event in events if str(event["name"]).startswith("ProfilerStep#") and "gpu" not in event["cat"]]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert [kernel["dur"] for kernel in kernels] == [200, 200, 200]
    for step, kernel in zip(steps, kernels, strict=True):
        assert step["ts"] <= kernel["ts"] < kernel["ts"] + kernel["dur"] <= step["ts"] + step["dur"]
    for row in re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)[2:]:
        modules = [name.removesuffix(".py").removesuffix("/") for name in re.findall(r"`([\w./]+)`", row[1])]
        homes = [builders, builders.TraceBuilder, *(import_module(f"tests.builders.{name}") for name in modules)]
        for name in re.findall(r"`(\w+)`", row[0]):
            assert any(hasattr(home, name) for home in homes), name
