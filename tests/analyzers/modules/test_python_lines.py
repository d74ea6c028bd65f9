"""Times of Python lines, with and without torch's own code."""

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
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.tree import NO_PARENT

MAIN = "train.py(10): main"
STEP = "train.py(20): step"
SOFTMAX = "torch/nn/functional.py(2103): softmax"


def lines(trace: TraceBuilder) -> PythonLines:
    return python_lines.analyze(Context(read_built(trace)))


def small() -> TraceBuilder:
    """`main` calls `step` twice; `step` calls torch's softmax through a built-in function and a module."""
    trace = TraceBuilder(options=("with_stack",))
    trace.python_function(MAIN, 0, 100)
    for start in (10, 50):
        trace.python_function(STEP, start, 30)
        trace.module("Softmax_0", start + 5, 20)
        trace.python_function("<built-in method softmax of type object at 0x7f00>", start + 6, 18)
        trace.python_function(SOFTMAX, start + 10, 10)
        trace.launch_kernel("inner", start + 200, 7, at=start + 12)
        trace.launch_kernel("outer", start + 300, 3, at=start + 26)
    trace.launch_kernel("main's", 600, 1, at=90)
    return trace


def test_self_and_total_times() -> None:
    found = lines(small())
    # step: 30 less softmax's 10; main: 100 less twice 30
    assert found.rows == (
        Line(SOFTMAX, 2, 20_000, 20_000, 14_000, 14_000, 0, 0),
        Line(STEP, 2, 40_000, 60_000, 6_000, 20_000, 0, 0),
        Line(MAIN, 1, 40_000, 100_000, 1_000, 21_000, 0, 0),
    )
    assert (found.device_ns, found.unattributed_device_ns) == (21_000, 0)


def test_without_torch_its_time_belongs_to_the_caller() -> None:
    assert lines(small()).rows_outside_torch == (
        Line(STEP, 2, 60_000, 60_000, 20_000, 20_000, 0, 0),
        Line(MAIN, 1, 40_000, 100_000, 1_000, 21_000, 0, 0),
    )


def test_calls_within_a_call_count_once_in_totals() -> None:
    trace = TraceBuilder()
    trace.python_function(STEP, 0, 100)
    trace.python_function(MAIN, 10, 60)
    trace.python_function(STEP, 20, 30)
    trace.launch_kernel("k", 200, 8, at=25)
    trace.python_function(STEP, 110, 5)
    by_name = {row.name: row for row in lines(trace).rows}
    assert by_name[STEP] == Line(STEP, 3, 40_000 + 30_000 + 5_000, 105_000, 8_000, 8_000, 0, 0)
    assert by_name[MAIN] == Line(MAIN, 1, 30_000, 60_000, 0, 8_000, 0, 0)


def test_threads_nest_apart() -> None:
    trace = TraceBuilder()
    trace.python_function(MAIN, 0, 100)
    trace.python_function(STEP, 10, 20, tid=77)
    assert {row.name: row.host_self_ns for row in lines(trace).rows} == {MAIN: 100_000, STEP: 20_000}


def test_what_no_line_launched_is_said() -> None:
    trace = TraceBuilder()
    trace.python_function(MAIN, 0, 50)
    trace.launch_kernel("mine", 100, 10, at=20)
    trace.launch_kernel("autograd's", 100, 20, at=20, tid=99)
    trace.launch_kernel("after", 200, 30, at=60)
    trace.kernel("without a launch", 300, 40)
    found = lines(trace)
    assert (found.device_ns, found.unattributed_device_ns) == (100_000, 90_000)


def test_without_a_device_host_time_ranks() -> None:
    trace = TraceBuilder(devices=())
    trace.python_function("b.py(1): b", 0, 10)
    trace.python_function("c.py(1): c", 10, 30)
    trace.python_function("a.py(1): a", 40, 10)
    assert [row.name for row in lines(trace).rows] == ["c.py(1): c", "a.py(1): a", "b.py(1): b"]


def test_chosen_steps_cut_frames() -> None:
    trace = TraceBuilder()
    trace.python_function(MAIN, 0, 100)
    trace.python_function(STEP, 50, 20)
    for number, start in enumerate((10, 40, 70)):
        trace.step(number, start, 30)
        trace.launch_kernel("k", start + 10, 5, at=start + 5)
    whole = Context(read_built(trace))
    found = python_lines.analyze(Context(whole.trace, StepChoice(1, 1).of(whole.steps)))
    assert found.rows == (Line(MAIN, 1, 10_000, 30_000, 5_000, 5_000, 0, 0), Line(STEP, 1, 20_000, 20_000, 0, 0, 0, 0))
    assert found.device_ns == 5_000


@pytest.mark.parametrize(
    ("name", "is_line", "is_torch"),
    [
        ("train.py(12): step", True, False),
        ("<frozen importlib._bootstrap>(1176): _find_and_load", True, False),
        ("<string>(1): <lambda>", True, False),
        ("/opt/lib/site-packages/torch/nn/modules/linear.py(130): forward", True, True),
        ("torch/nn/modules/linear.py(130): forward", True, True),
        ("torch\\nn\\modules\\linear.py(130): forward", True, True),
        ("torchvision/models/resnet.py(266): _forward_impl", True, False),
        ("my/torch/train.py(1): run", True, False),
        ("nn.Module: Linear_0", False, False),
        ("<built-in method f of dict object at 0x7f00>", False, False),
    ],
)
def test_names_of_frames(name: str, is_line: bool, is_torch: bool) -> None:
    assert host_activity.is_line(name) is is_line
    assert host_activity.is_torch(name) is is_torch


def test_without_stacks_it_says_why() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    reason = python_lines.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert reason.id == "skip-no-stacks"
    assert python_lines.ANALYSES[0].missing(Context(read_built(small()))) is None


frame = st.tuples(
    st.sampled_from([MAIN, STEP, SOFTMAX]), st.integers(0, 200), st.integers(0, 80), st.sampled_from([1, 2])
)


@given(st.lists(frame, max_size=15), st.lists(st.tuples(st.integers(0, 250), st.sampled_from([1, 2])), max_size=8))
def test_self_times_add_up(frames: list[tuple[str, int, int, int]], launches: list[tuple[int, int]]) -> None:
    trace = TraceBuilder()
    trace.op("aten::first", 0, 1, tid=3)
    for name, start, dur, tid in frames:
        trace.python_function(name, start, dur, tid=tid)
    for at, tid in launches:
        trace.launch_kernel("k", at + 300, 5, at=at, tid=tid)
    context = Context(read_built(trace))
    found = python_lines.analyze(context)
    tree = context.cached(host_activity.line_tree).tree  # frames that outlast their caller end with it
    running = int((tree.end_ns - tree.start_ns)[tree.parent == NO_PARENT].sum())
    assert sum(row.host_self_ns for row in found.rows) == running
    assert sum(row.device_self_ns for row in found.rows) == found.device_ns - found.unattributed_device_ns
    for row in found.rows:
        assert row.host_self_ns >= 0
        assert row.device_self_ns <= row.device_total_ns <= found.device_ns
    for row in found.rows_outside_torch:
        assert not row.name.startswith("torch/")
        if not tree.clipped:  # where frames overlap, leaving some out moves the ends of others
            same = next(r for r in found.rows if r.name == row.name)
            assert row.host_self_ns >= same.host_self_ns
            assert row.device_total_ns == same.device_total_ns


def test_the_section_shows_both_rankings() -> None:
    report = report_with("python_lines", lines(small()))
    own, every = section.build_lines(report, 1)
    assert own.tables[0].rows == ((STEP, 2, 20_000, 20_000, 60_000, 60_000),)
    assert own.tables[0].total_rows == 2
    assert every.tables[0].rows[0][0] == SOFTMAX
    assert own.is_detail
    assert every.is_detail
    assert list(section.build_lines(report_with("python_lines", None), 5)) == []


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    ["bert_small_h100_inference", "normalization_layers_mi300", "owlv2_h100_inference", "sglang_decode_graph_mi300"],
)
def test_lines_of_real_traces(corpus: Path, name: str) -> None:
    """No reference has lines; the sums are checked against the trace itself."""
    trace = corpus_files.trace_of(corpus / "corpus" / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    found = python_lines.analyze(Context(trace))
    assert found.device_ns == int(trace.device.dur_ns.sum())
    assert sum(row.device_self_ns for row in found.rows) == found.device_ns - found.unattributed_device_ns
    attributed = sum(row.device_self_ns for row in found.rows_outside_torch)
    assert 0 < attributed <= found.device_ns - found.unattributed_device_ns
    assert all(row.host_self_ns <= row.host_total_ns for row in found.rows if row.calls == 1)
