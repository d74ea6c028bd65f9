"""Device time of backward passes by the lines of their forward passes; times are microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import corpus_files
from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.modules import python_lines
from traceanalyzer.analyzers.modules.python_lines import Line, PythonLines
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.sections import modules as section
from traceanalyzer.structure.context import Context

TRAIN = "train.py(20): step"
MODEL = "model.py(30): forward"
LINEAR = "torch/nn/modules/linear.py(130): forward"
EVALUATE = "autograd::engine::evaluate_function: "
ENGINE = 4300


def analyzed(trace: TraceBuilder) -> PythonLines:
    return python_lines.analyze(Context(read_built(trace)))


def forward() -> TraceBuilder:
    """`step` calls `forward`, which calls torch's; the kernel of the forward pass takes 5."""
    trace = TraceBuilder(options=("with_stack",))
    trace.python_function(TRAIN, 0, 500)
    trace.python_function(MODEL, 10, 40)
    trace.python_function(LINEAR, 15, 30)
    trace.op("aten::addmm", 20, 20, sequence=7)
    trace.launch_kernel("gemm", 600, 5, at=25)
    return trace


def gradient(trace: TraceBuilder, start: int, dur: int, sequence: int, *, name: str = "AddmmBackward0") -> None:
    trace.op(f"{EVALUATE}{name}", start, dur, sequence=sequence, fwd_thread=1, tid=ENGINE)


def backward(found: PythonLines) -> dict[str, tuple[int, int]]:
    """Self and total of lines that have any, in microseconds."""
    assert sum(row.backward_device_self_ns or 0 for row in found.rows) == found.backward_device_ns
    return {row.name: both for row in found.rows if any(both := _backward(row))}


def _backward(row: Line) -> tuple[int, int]:
    assert row.backward_device_self_ns is not None
    assert row.backward_device_total_ns is not None
    return row.backward_device_self_ns // 1000, row.backward_device_total_ns // 1000


def test_backward_belongs_to_the_line_that_called_the_operator_of_the_forward_pass() -> None:
    trace = forward()
    gradient(trace, 100, 60, 7)
    trace.op("aten::mm", 110, 20, tid=ENGINE)
    trace.launch_kernel("grad", 700, 9, at=115, tid=ENGINE)
    trace.launch_kernel("bare", 800, 2, at=300, tid=ENGINE)  # outside of the evaluation
    found = analyzed(trace)
    assert backward(found) == {LINEAR: (9, 9), MODEL: (0, 9), TRAIN: (0, 9)}
    assert {row.name: row.device_self_ns // 1000 for row in found.rows} == {LINEAR: 5, MODEL: 0, TRAIN: 0}
    assert (found.device_ns, found.unattributed_device_ns, found.backward_device_ns) == (16_000, 11_000, 9_000)
    outside = {row.name: _backward(row) for row in found.rows_outside_torch}
    assert outside == {MODEL: (9, 9), TRAIN: (0, 9)}


def test_lines_are_in_the_order_of_both_passes() -> None:
    trace = forward()
    trace.python_function("loss.py(3): loss", 60, 20)
    trace.op("aten::nll_loss", 62, 10, sequence=8)
    trace.launch_kernel("loss", 650, 6, at=65)
    gradient(trace, 100, 60, 7)
    trace.launch_kernel("grad", 700, 9, at=115, tid=ENGINE)
    assert [row.name for row in analyzed(trace).rows] == [LINEAR, "loss.py(3): loss", TRAIN, MODEL]


def test_gradients_of_parameters_follow_the_function_before_them() -> None:
    trace = forward()
    gradient(trace, 100, 30, 7)
    trace.op(f"{EVALUATE}torch::autograd::AccumulateGrad", 140, 20, tid=ENGINE)
    trace.launch_kernel("add", 700, 4, at=145, tid=ENGINE)
    assert backward(analyzed(trace))[LINEAR] == (4, 4)


def test_double_backward_belongs_to_the_line_of_the_first_forward_pass() -> None:
    """With create_graph the operators of the backward pass have sequence numbers, and a backward pass of their own."""
    trace = forward()
    gradient(trace, 100, 60, 7)
    trace.op("aten::mm", 110, 20, sequence=8, tid=ENGINE)
    trace.launch_kernel("grad", 700, 9, at=115, tid=ENGINE)
    gradient(trace, 200, 60, 8, name="MmBackward0")
    trace.op("aten::mm", 205, 20, sequence=9, tid=ENGINE)
    trace.launch_kernel("grad of grad", 800, 11, at=210, tid=ENGINE)
    gradient(trace, 300, 60, 9, name="MmBackward0")
    trace.launch_kernel("third", 900, 13, at=310, tid=ENGINE)
    assert backward(analyzed(trace))[LINEAR] == (9 + 11 + 13, 9 + 11 + 13)


def test_a_number_that_two_threads_have_tells_no_line_but_a_flow_does() -> None:
    trace = forward()
    trace.op("aten::addmm", 20, 20, sequence=7, tid=99)
    gradient(trace, 100, 60, 7)
    trace.launch_kernel("grad", 700, 9, at=115, tid=ENGINE)
    assert backward(analyzed(trace)) == {}
    trace.fwdbwd((20, trace.tid), (100, ENGINE))
    assert backward(analyzed(trace))[LINEAR] == (9, 9)


def test_a_forward_pass_on_a_thread_without_frames_has_no_line() -> None:
    trace = forward()
    trace.op("aten::mul", 60, 10, sequence=11, tid=99)
    gradient(trace, 100, 60, 11)
    trace.launch_kernel("grad", 700, 9, at=115, tid=ENGINE)
    found = analyzed(trace)
    assert backward(found) == {}
    assert (found.unattributed_device_ns, found.backward_device_ns) == (9_000, 0)


def test_a_checkpoint_is_run_again_by_the_line_that_called_it() -> None:
    """What the second forward pass and its backward pass launch has no frames: it is the checkpoint's."""
    trace = TraceBuilder()
    trace.python_function(MODEL, 0, 50)
    trace.op("CheckpointFunction", 5, 40, sequence=7)
    gradient(trace, 100, 200, 7, name="CheckpointFunctionBackward")
    trace.op("aten::mm", 115, 20, sequence=8, tid=ENGINE)
    trace.launch_kernel("again", 1000, 5, at=120, tid=ENGINE)
    gradient(trace, 160, 30, 8, name="MmBackward0")
    trace.launch_kernel("grad", 1100, 7, at=170, tid=ENGINE)
    assert backward(analyzed(trace)) == {MODEL: (12, 12)}


def test_frames_of_a_checkpoint_that_is_run_again_count_once() -> None:
    trace = TraceBuilder()
    trace.python_function(TRAIN, 0, 50)
    trace.op("CheckpointFunction", 5, 40, sequence=7)
    gradient(trace, 100, 200, 7, name="CheckpointFunctionBackward")
    trace.python_function(MODEL, 110, 40, tid=ENGINE)
    trace.op("aten::mm", 115, 20, sequence=8, tid=ENGINE)
    trace.launch_kernel("again", 1000, 5, at=120, tid=ENGINE)
    gradient(trace, 160, 30, 8, name="MmBackward0")
    trace.launch_kernel("grad", 1100, 7, at=170, tid=ENGINE)
    trace.launch_kernel("other", 1200, 11, at=210, tid=ENGINE)
    found = analyzed(trace)
    assert backward(found) == {MODEL: (7, 7), TRAIN: (11, 11)}
    assert {row.name: row.device_self_ns // 1000 for row in found.rows} == {MODEL: 5, TRAIN: 0}
    assert (found.unattributed_device_ns, found.backward_device_ns) == (18_000, 18_000)


def test_what_a_line_launched_stays_its_own() -> None:
    """An engine on the thread that calls it: the line that called backward launched the kernel."""
    trace = forward()
    trace.op(f"{EVALUATE}AddmmBackward0", 100, 60, sequence=7, fwd_thread=1)
    trace.launch_kernel("grad", 700, 9, at=115)
    found = analyzed(trace)
    assert backward(found) == {}
    assert {row.name: row.device_self_ns // 1000 for row in found.rows}[TRAIN] == 9
    assert found.unattributed_device_ns == 0


def test_recursion_counts_once_and_chosen_steps_count_alone() -> None:
    trace = TraceBuilder()
    for number in range(3):
        begin = 1000 * number
        trace.step(number, begin, 1000)
        trace.python_function(MODEL, begin + 10, 60)
        trace.python_function(MODEL, begin + 20, 40)
        trace.op("aten::addmm", begin + 30, 20, sequence=number)
        gradient(trace, begin + 100, 60, number)
        trace.launch_kernel("grad", begin + 700, 9, at=begin + 115, tid=ENGINE)
    whole = Context(read_built(trace))
    assert backward(python_lines.analyze(whole)) == {MODEL: (27, 27)}
    one = python_lines.analyze(Context(whole.trace, StepChoice(1, 1).of(whole.steps)))
    assert backward(one) == {MODEL: (9, 9)}


def test_the_section_shows_forward_and_backward() -> None:
    trace = forward()
    gradient(trace, 100, 60, 7)
    trace.launch_kernel("grad", 700, 9, at=115, tid=ENGINE)
    trace.launch_kernel("bare", 800, 2, at=300, tid=ENGINE)
    own, every = section.build_lines(report_with("python_lines", analyzed(trace)), 1)
    titles = [column.title.english for column in own.tables[0].columns]
    assert titles[2:6] == ["Device self", "Device total", "Backward self", "Backward total"]
    assert own.tables[0].rows[0][:6] == (MODEL, 1, 5_000, 5_000, 9_000, 9_000)
    assert every.tables[0].rows[0][:6] == (LINEAR, 1, 5_000, 5_000, 9_000, 9_000)
    assert [message.params for message in own.messages] == [{"share": 2 / 16}]


frame = st.tuples(st.sampled_from([TRAIN, MODEL, LINEAR]), st.integers(0, 200), st.integers(0, 80), st.booleans())
operator = st.tuples(st.integers(0, 300), st.integers(1, 100), st.integers(0, 3), st.booleans(), st.booleans())


@given(
    st.lists(frame, max_size=8),
    st.lists(operator, max_size=10),
    st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=8),
)
def test_every_launch_counts_at_most_once(
    frames: list[tuple[str, int, int, bool]],
    operators: list[tuple[int, int, int, bool, bool]],
    launches: list[tuple[int, bool]],
) -> None:
    trace = TraceBuilder()
    threads = (trace.tid, ENGINE)
    for name, start, dur, is_engine in frames:
        trace.python_function(name, start, dur, tid=threads[is_engine])
    for start, dur, number, is_engine, is_backward in operators:
        name = f"{EVALUATE}X" if is_backward else "aten::x"
        trace.op(name, start, dur, sequence=number, fwd_thread=int(is_backward), tid=threads[is_engine])
    for at, is_engine in launches:
        trace.launch_kernel("k", at + 500, 5, at=at, tid=threads[is_engine])
    trace.op("aten::first", 0, 1, tid=3)
    found = analyzed(trace)
    assert found.backward_device_ns is not None
    assert 0 <= found.backward_device_ns <= found.unattributed_device_ns
    assert sum(row.device_self_ns for row in found.rows) == found.device_ns - found.unattributed_device_ns
    assert sum(row.backward_device_self_ns or 0 for row in found.rows) == found.backward_device_ns
    outside = sum(row.backward_device_self_ns or 0 for row in found.rows_outside_torch)
    assert outside <= found.unattributed_device_ns
    for row in (*found.rows, *found.rows_outside_torch):
        own, total = _backward(row)
        assert 0 <= own <= total <= found.device_ns


@pytest.mark.corpus
def test_sums_hold_in_the_corpus(corpus: Path, corpus_name: str) -> None:
    found = python_lines.analyze(corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz"))
    assert sum(row.backward_device_self_ns or 0 for row in found.rows) == found.backward_device_ns
    assert (found.backward_device_ns or 0) <= found.unattributed_device_ns
