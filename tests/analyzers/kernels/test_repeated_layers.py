"""Sequences of kernels that the device repeats."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.kernels import repeated_layers
from traceanalyzer.analyzers.kernels.repeated_layers import RepeatedLayers
from traceanalyzer.structure.context import Context

NORM, QKV, ATTENTION, OUT, EXPERTS, COPY, SAMPLE = (
    "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
    "void flash::flash_fwd_kernel<Traits>(Params)",
    "ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x6_tn",
    "fused_moe_kernel",
    "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>",
    "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024>(float*)",
)
DENSE, SPARSE = (NORM, QKV, ATTENTION, OUT), (NORM, QKV, ATTENTION, OUT, EXPERTS)
_LENGTH = {NORM: 1, QKV: 4, ATTENTION: 3, OUT: 2, EXPERTS: 10, COPY: 1, SAMPLE: 5}
"""Duration of each kernel in us."""


def replay(trace: TraceBuilder, at: int, names: Sequence[str], stream: int = 7) -> int:
    """One launch of a graph, its kernels one after another; returns when the last has ended."""
    kernels, start = [], at + 10
    for name in names:
        kernels.append((name, start, _LENGTH.get(name, 1), {"stream": stream}))
        start += _LENGTH.get(name, 1)
    trace.graph_launch(at, 5, kernels)  # type: ignore[arg-type]
    return start


def found_in(*launches: Sequence[str]) -> RepeatedLayers:
    trace, at = TraceBuilder(), 0
    for names in launches:
        at = replay(trace, at, names) + 20
    return repeated_layers.analyze(Context(read_built(trace)))


def test_layers_between_a_prologue_and_an_epilogue() -> None:
    found = found_in([COPY, *DENSE * 36, NORM, OUT, SAMPLE])
    (row,) = found.rows
    assert (row.repetitions, row.repetitions_in_a_row, row.runs, row.in_graph) == (36, 36, 1, True)
    assert [kernel.name for kernel in row.kernels] == list(DENSE)
    assert [kernel.kernel_class for kernel in row.kernels] == ["normalization", "gemm", "attention", "gemm"]
    assert [kernel.total_ns for kernel in row.kernels] == [36_000, 144_000, 108_000, 72_000]
    assert (row.total_ns, row.mean_ns) == (360_000, 10_000)
    assert found.kernel_ns == 360_000 + 1_000 + 1_000 + 2_000 + 5_000
    assert found.repeated_ns == 360_000
    assert row.share == 360 / 369
    assert row.start_ns == 11_000  # the launch at 0, the first kernel 10 us later, after the copy


def test_layers_of_two_kinds_are_two_rows() -> None:
    found = found_in([COPY, *DENSE * 3, *SPARSE * 9, SAMPLE])
    assert [(row.repetitions, len(row.kernels)) for row in found.rows] == [(9, 5), (3, 4)]


def test_kinds_that_take_turns_are_one_sequence() -> None:
    (row,) = found_in([COPY, *(*DENSE, *SPARSE) * 6, SAMPLE]).rows
    assert (row.repetitions, [kernel.name for kernel in row.kernels]) == (6, [*DENSE, *SPARSE])


def test_launches_are_added() -> None:
    (row,) = found_in(*[[COPY, *DENSE * 12, SAMPLE]] * 5).rows
    assert (row.repetitions, row.repetitions_in_a_row, row.runs) == (60, 12, 5)
    assert row.total_ns == 60 * 10_000


def test_a_recording_that_begins_within_a_layer_has_the_same_layers() -> None:
    (row,) = found_in([*DENSE * 12, SAMPLE], [*DENSE[2:], *DENSE * 7, SAMPLE]).rows
    assert (row.repetitions, row.runs) == (12 + 7, 2)
    assert [kernel.name for kernel in row.kernels] == list(DENSE)
    # of the second run 7 whole repetitions count, which begin with its first kernel
    assert [kernel.total_ns for kernel in row.kernels] == [19_000, 76_000, 57_000, 38_000]


def test_layers_come_before_the_steps_that_repeat_them() -> None:
    trace, at = TraceBuilder(), 0
    for _ in range(5):
        for name in (COPY, *DENSE * 8, SAMPLE):
            trace.kernel(name, at, _LENGTH[name])
            at += _LENGTH[name]
    (row,) = repeated_layers.analyze(Context(read_built(trace))).rows
    assert (row.repetitions, len(row.kernels), row.in_graph) == (40, 4, False)


def test_each_stream_is_a_sequence_of_its_own() -> None:
    trace = TraceBuilder()
    for turn in range(6):
        for place, name in enumerate(DENSE):
            trace.kernel(name, 40 * turn + 10 * place, 4)
        trace.kernel("ncclDevKernel_AllGather", 40 * turn + (7 * turn) % 30, 5, stream=9)
        trace.kernel("ncclDevKernel_ReduceScatter", 40 * turn + (7 * turn) % 30 + 6, 5, stream=9)
    rows = repeated_layers.analyze(Context(read_built(trace))).rows
    assert [(row.repetitions, len(row.kernels)) for row in rows] == [(6, 4), (6, 2)]


def test_what_does_not_repeat_is_no_layer() -> None:
    assert found_in([f"kernel_{number}" for number in range(60)]).rows == ()
    assert found_in([*DENSE, *DENSE]).rows == ()  # twice is not enough
    assert found_in([COPY] * 50).rows == ()  # a loop of one kernel
    assert found_in(DENSE, DENSE, DENSE, DENSE).rows == ()  # one layer per launch: the launch repeats, not a layer


def test_times_without_length_are_told() -> None:
    trace = TraceBuilder()
    for number, name in enumerate(DENSE * 4):
        trace.kernel(name, number, 0)
    found = repeated_layers.analyze(Context(read_built(trace)))
    assert [(row.repetitions, row.total_ns, row.share) for row in found.rows] == [(4, 0, None)]


def test_without_kernels_it_says_why() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    assert repeated_layers.ANALYSES[0].missing(Context(read_built(trace))) is not None


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=12),
    st.integers(3, 9),
    st.lists(st.integers(10, 19), max_size=5, unique=True),
    st.lists(st.integers(20, 29), max_size=5, unique=True),
)
def test_planted_layers_are_covered(layer: list[int], times: int, before: list[int], after: list[int]) -> None:
    """Whatever repeats is found, as itself or as shorter sequences within; nothing around it is taken for it."""
    names = [f"kernel_{number}" for number in (*before, *layer * times, *after)]
    found = found_in(names)
    assert found.kernel_ns == len(names) * 1000
    covered = sum(row.total_ns for row in found.rows)
    assert covered == found.repeated_ns <= len(layer) * times * 1000
    if len(set(layer)) == len(layer):
        (row,) = found.rows
        assert (row.repetitions, [kernel.name for kernel in row.kernels]) == (times, [f"kernel_{n}" for n in layer])
    assert all(row.repetitions >= 3 and len({kernel.name for kernel in row.kernels}) > 1 for row in found.rows)
