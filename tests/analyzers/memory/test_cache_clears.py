"""Which calls empty the allocator's cache, with Python frames and without, and what takes memory again."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.memory.cache_clears import ANALYSES, CacheClears, ClearingLine, analyze
from traceanalyzer.structure.context import Context

_FRAME = "torch/cuda/memory.py(170): empty_cache"


def trace(*, frames: bool, between: str = "cudaDeviceSynchronize") -> TraceBuilder:
    """Two steps of 1 ms: one call takes memory, two free it with a call between them. Times in microseconds."""
    built = TraceBuilder()
    for number in range(2):
        at = 1000 * number
        built.step(number, at, 990)
        built.launch("cudaMalloc", at + 10, 40)
        if frames:
            built.python_function("train.py(3): run", at + 400, 200)
            built.python_function(_FRAME, at + 450, 120)
            built.python_function("<built-in function _cuda_emptyCache>", at + 455, 110)
        built.launch("cudaFree", at + 460, 30)
        built.launch(between, at + 500, 10)
        built.launch("cudaFree", at + 520, 30)
    return built


def found(built: TraceBuilder) -> CacheClears:
    return analyze(Context(read_built(built)))


def test_frames_name_the_calls() -> None:
    """The function of torch takes 120 us; the built-in function in it is no second call."""
    line = ClearingLine("train.py(3): run", 2, 240_000)
    assert found(trace(frames=True)) == CacheClears(2, True, 2, 2, 240_000, 4, 4, 2, 1, 40_000, (line,))


def test_without_frames_calls_in_a_row_count() -> None:
    """From the first cudaFree to the end of the second one: 90 us; a wait between them is a part of it."""
    assert found(trace(frames=False)) == CacheClears(2, False, 2, 2, 180_000, 4, 4, 2, 1, 40_000, ())


def test_a_launch_between_them_makes_two_of_one_each() -> None:
    assert found(trace(frames=False, between="cudaEventRecord")).clears == 0


def test_what_it_needs() -> None:
    reason = ANALYSES[0].missing(Context(read_built(trace(frames=False, between="cudaEventRecord"))))
    assert reason is not None
    assert reason.id == "skip-no-cache-clears"
    assert ANALYSES[0].missing(Context(read_built(trace(frames=True)))) is None
