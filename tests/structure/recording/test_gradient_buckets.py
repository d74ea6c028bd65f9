"""All-reduces that are gradient buckets, and all-reduces that are not."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.frameworks import FrameworkEvidence, frameworks, gradient_buckets

FIRST = (1 << 20) // 4
"""Numbers in a bucket of 1 MiB."""
FULL = (25 << 20) // 4
"""Numbers in a bucket of 25 MiB."""


def reducing(sizes: list[int], steps: int = 3, *, kind: str = "float", name: str = "gloo:all_reduce") -> TraceBuilder:
    """This number of flat tensors is reduced in each step, on separate threads."""
    trace = TraceBuilder()
    for step in range(steps):
        for at, size in enumerate(sizes):
            _reduce(trace, [[size]], [kind], 1000 * step + 10 * at, name, tid=7000 + at)
    return trace


def _reduce(
    trace: TraceBuilder, shapes: list[list[int]], types: list[str], start: int, name: str, tid: int = 7000
) -> None:
    trace.annotation(name, start, 500, tid=tid, args={"Input Dims": shapes, "Input type": types})


def found(trace: TraceBuilder) -> int | None:
    """Number of all-reduces that are gradient buckets."""
    buckets = gradient_buckets(Context(read_built(trace)))
    return buckets.events if buckets else None


def test_full_buckets_and_the_rest() -> None:
    trace = reducing([FIRST, FULL, FULL + 8, 1000], steps=4)
    assert found(trace) == 16
    assert frameworks(Context(read_built(trace))) == (FrameworkEvidence("ddp", "collective", "gloo:all_reduce", 16, 1),)


@pytest.mark.parametrize("kind", ["c10::BFloat16", "c10::Half"])
def test_halves_fill_a_bucket_with_twice_as_many(kind: str) -> None:
    assert found(reducing([2 * FIRST, 1000], kind=kind)) == 6
    assert found(reducing([2 * FIRST - 1, 1000], kind=kind)) is None


@pytest.mark.parametrize(
    "sizes",
    [
        [FIRST - 1, 1000],
        [FIRST, FULL - 1, 1000],
        [1000, FIRST],
        [FIRST],
    ],
    ids=["first-not-full", "second-not-full", "last-first", "one-bucket"],
)
def test_other_sizes_are_no_buckets(sizes: list[int]) -> None:
    assert found(reducing(sizes)) is None


def test_two_steps_may_be_chance() -> None:
    assert found(reducing([FIRST, 1000], steps=2)) is None


def test_another_order_is_no_bucket() -> None:
    trace = reducing([FIRST, 1000])
    for start, size in ((3000, 1000), (3010, FIRST)):
        _reduce(trace, [[size]], ["float"], start, "gloo:all_reduce")
    assert found(trace) is None


@pytest.mark.parametrize(
    ("shapes", "types"),
    [([[512, 4096]], ["float"]), ([[FIRST], [8]], ["float", "float"]), ([[FIRST]], ["long int"]), ([], [])],
    ids=["matrix", "two-tensors", "integers", "unknown"],
)
def test_activations_and_counts_are_no_gradients(shapes: list[list[int]], types: list[str]) -> None:
    trace = reducing([FIRST, 1000])
    _reduce(trace, shapes, types, 3000, "gloo:all_reduce")
    assert found(trace) is None


def test_other_collectives_reduce_no_gradients() -> None:
    assert found(reducing([FIRST, 1000], name="gloo:all_gather")) is None


def test_no_host_no_gradients() -> None:
    trace = TraceBuilder()
    trace.kernel("gemm", 0, 5)
    assert found(trace) is None


def test_sizes_are_asked_only_where_nothing_else_tells() -> None:
    trace = reducing([FIRST, 1000])
    trace.annotation("FullyShardedDataParallel.forward", 0, 50)
    assert [evidence.id for evidence in frameworks(Context(read_built(trace)))] == ["fsdp"]
