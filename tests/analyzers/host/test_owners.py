"""Owners of host time, with figures worked out by hand; times are microseconds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analyzers.host.reading_owners import assert_adds_up, by_name, owners_of, self_us
from tests.builders import OLD, TraceBuilder
from tests.builders.timeline import Host, Stream, finish
from tests.reading import read_built
from tests.rules.host_work import compute
from traceanalyzer.analyzers import host
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners import owner_index


def a_step(length: int = 100) -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(0, 0, length)
    return trace


def test_time_belongs_to_the_innermost_function_of_the_program() -> None:
    trace = a_step()
    trace.python_function("train.py(50): main", 0, 100)
    trace.python_function("train.py(20): train_step", 10, 80)
    trace.python_function("torch/nn/functional.py(9): linear", 20, 30)
    trace.python_function("<built-in function linear>", 21, 28)
    trace.python_function("contextlib.py(7): inner", 60, 10)
    trace.op("aten::linear", 22, 20)
    found = owners_of(trace)
    assert self_us(found) == {"main": 20, "train_step": 80}
    rows = by_name(found)
    assert (rows["main"].host_ns, rows["train_step"].host_ns) == (100_000, 80_000)
    assert (rows["train_step"].kind, rows["train_step"].file, rows["train_step"].line) == ("function", "train.py", 20)
    assert (rows["train_step"].calls, rows["train_step"].parts[0].name) == (1, "aten::linear")
    assert_adds_up(found)


def test_a_mark_and_a_module_own_what_is_inside_unless_a_function_of_the_program_does() -> None:
    trace = a_step()
    trace.annotation("## forward ##", 10, 60)
    trace.module("Block_0", 20, 40)
    trace.python_function("model.py(30): forward", 21, 38)
    trace.python_function("model.py(40): rotate", 30, 5)
    trace.module("Linear_0", 40, 10)
    trace.python_function("torch/nn/modules/linear.py(124): forward", 41, 8)
    found = owners_of(trace)
    assert self_us(found) == {"## forward ##": 20, "Block": 25, "rotate": 5, "Linear": 10}
    assert found.unowned.host_self_ns == 40_000
    block = by_name(found)["Block"]
    assert (block.kind, block.file, block.line, block.host_ns) == ("module", "model.py", 30, 40_000)
    assert_adds_up(found)


def test_instances_of_a_class_are_one_owner_and_recursion_counts_once() -> None:
    trace = a_step()
    trace.module("Block_0", 10, 40, module=1)
    trace.module("Block_1", 20, 10, module=2)
    trace.module("Block_2", 60, 5, module=3)
    (row,) = owners_of(trace).rows
    assert (row.name, row.calls, row.host_ns, row.host_self_ns) == ("Block", 3, 45_000, 45_000)


def test_a_library_function_is_an_owner_if_it_takes_a_fair_share_and_splits_the_time() -> None:
    """`run` and `pipeline` pass the call on, `fetch` (4 %) is small; `encode` and `decode` split the time."""
    trace = a_step()
    trace.python_function("predict.py(3): predict", 0, 100)
    trace.python_function("transformers/pipelines/base.py(9): __call__", 0, 100)
    trace.python_function("transformers/pipelines/base.py(20): run_single", 1, 98)
    trace.python_function("transformers/models/x.py(1): encode", 2, 30)
    trace.python_function("transformers/models/x.py(5): encode_all", 3, 28)  # 93 % of `encode`
    trace.python_function("transformers/models/x.py(9): decode", 40, 50)
    trace.python_function("transformers/models/x.py(11): fetch", 41, 4)
    found = owners_of(trace)
    assert self_us(found) == {"predict": 20, "encode": 30, "decode": 50}
    assert by_name(found)["encode"].kind == "library"
    assert_adds_up(found)


def test_without_stacks_modules_and_marks_the_outermost_operators_and_calls_are_owners() -> None:
    trace = TraceBuilder()
    trace.op("aten::linear", 0, 30)
    trace.op("aten::addmm", 5, 20)
    trace.launch_kernel("gemm", 15, 40, at=10)
    trace.launch("cudaDeviceSynchronize", 40, 20)
    trace.op("aten::relu", 70, 10)
    found = owners_of(trace)
    assert self_us(found) == {"aten::linear": 30, "cudaDeviceSynchronize": 20, "aten::relu": 10}
    assert found.unowned.host_self_ns == 20_000
    linear = by_name(found)["aten::linear"]
    assert (linear.kind, linear.device_ns, linear.longest_call and linear.longest_call.name) == (
        "operator",
        40_000,
        "aten::linear",
    )
    assert_adds_up(found)


def test_idle_time_is_what_the_host_is_to_blame_for() -> None:
    """Busy 30 to 50 and 80 to 95; launched at 20 and 75; after the last event the device waits for the host."""
    trace = a_step()
    trace.annotation("prepare", 0, 15)
    trace.annotation("compute", 15, 45)
    trace.launch_kernel("a", 30, 20, at=20)
    trace.annotation("log", 60, 30)
    trace.launch_kernel("b", 80, 15, at=75)
    found = owners_of(trace)
    rows = by_name(found)
    assert (rows["prepare"].idle_self_ns, rows["prepare"].device_self_ns) == (15_000, 0)
    assert (rows["compute"].idle_self_ns, rows["compute"].device_self_ns) == (15_000 + 10_000, 20_000)
    assert (rows["log"].idle_self_ns, rows["log"].device_self_ns) == (20_000, 15_000)
    assert (found.unowned.idle_self_ns, found.idle_ns, found.device_ns) == (5_000, 65_000, 35_000)
    assert_adds_up(found)


def test_time_in_which_a_launched_kernel_waits_is_no_ones_fault() -> None:
    """The call returns at 15, the kernel starts at 80: what it waits for is not the host."""
    trace = a_step()
    trace.annotation("all", 0, 100)
    trace.launch_kernel("a", 80, 20, at=10, call_dur=5)
    trace.launch_kernel("b", 120, 20, at=90, call_dur=5)
    (row,) = owners_of(trace).rows
    assert row.idle_self_ns == 15_000


def test_a_blocking_copy_is_told_with_its_caller_and_what_it_waits_for() -> None:
    """The copy waits for the kernel, which ends at 80, before it runs itself for 2 us."""
    trace = a_step()
    trace.python_function("train.py(9): evaluate", 0, 100)
    trace.launch_kernel("busy", 10, 70, at=5, call_dur=2)
    trace.op("aten::to", 18, 70)
    trace.memcpy("DtoH", 256, 82, 2, at=20, call_dur=65)
    (row,) = owners_of(trace).rows
    call = row.longest_call
    assert call is not None
    assert (call.name, call.wait, call.waits_for, call.event) == ("aten::to", "cudaMemcpyAsync", "work", "busy")
    assert (call.duration_ns, call.waiting_ns, row.waiting_self_ns) == (70_000, 65_000, 65_000)


def test_a_copy_that_lasts_long_itself_is_what_the_call_waits_for() -> None:
    trace = a_step()
    trace.annotation("load", 0, 90)
    trace.memcpy("HtoD", 2**20, 12, 50, at=10, call_dur=55)
    trace.launch_kernel("k", 80, 5, at=70)
    (row,) = owners_of(trace).rows
    call = row.longest_call
    assert call is not None
    assert (call.name, call.waits_for, call.event) == ("cudaMemcpyAsync", "copy", "Memcpy HtoD (Pageable -> Device)")


def test_built_in_functions_with_a_role_are_told_by_their_caller() -> None:
    trace = a_step()
    trace.python_function("serve.py(9): poll", 0, 100)
    trace.python_function("<built-in function sleep>", 10, 40)
    trace.python_function("<built-in function collect>", 60, 20)
    found = owners_of(trace)
    assert {(row.name, row.role): row.host_self_ns // 1000 for row in found.rows} == {
        ("poll", None): 40,
        ("poll", "sleep"): 40,
        ("poll", "garbage-collection"): 20,
    }
    assert {row.role: row.host_ns // 1000 for row in found.roles} == {"sleep": 40, "garbage-collection": 20}


def test_what_is_called_inside_has_the_role_of_what_is_around_it() -> None:
    trace = a_step()
    trace.python_function("data.py(3): preprocess_images", 0, 60)
    trace.python_function("data.py(9): shift", 10, 20)
    trace.python_function("transformers/tokenization_utils_base.py(8): encode", 30, 10)  # a role of its own
    trace.python_function("model.py(1): run", 70, 20)
    found = owners_of(trace)
    roles = {row.name: row.role for row in found.rows}
    assert roles == {
        "preprocess_images": "preprocessing",
        "shift": "preprocessing",
        "encode": "tokenization",
        "run": None,
    }
    told = {row.role: (row.host_ns, row.host_self_ns, found.rows[row.owner].name) for row in found.roles}
    assert told["preprocessing"] == (60_000, 50_000, "preprocess_images")
    assert told["tokenization"] == (10_000, 10_000, "encode")


def test_frames_that_cross_each_other_end_where_the_outer_one_ends() -> None:
    trace = a_step()
    trace.python_function("a.py(1): first", 10, 30)
    trace.python_function("a.py(2): second", 20, 50)  # ends after the one in which it started
    trace.python_function("a.py(3): empty", 75, 0)
    found = owners_of(trace)
    assert self_us(found) == {"first": 10, "second": 20}
    assert_adds_up(found)


def test_what_other_threads_do_takes_none_of_the_time() -> None:
    trace = a_step()
    trace.annotation("work", 10, 80)
    trace.launch_kernel("k", 30, 60, at=20)
    trace.annotation("watch", 0, 100, tid=77)
    trace.python_function("threading.py(3): wait", 0, 100, tid=78)
    found = owners_of(trace)
    assert self_us(found) == {"work": 80}
    assert_adds_up(found)


def test_further_threads_that_launch_are_told_beside() -> None:
    trace = a_step()
    trace.annotation("work", 10, 80)
    trace.launch_kernel("k", 30, 60, at=20)
    trace.launch_kernel("k", 92, 2, at=85)
    trace.annotation("copy thread", 20, 50, tid=77)
    trace.annotation("inner", 30, 10, tid=77)
    trace.memcpy("HtoD", 64, 40, 7, at=25, tid=77, pinned=True, stream=9)
    found = owners_of(trace)
    (other,) = found.other_threads
    assert (other.thread, other.host_ns, other.device_ns) == ("77", 50_000, 7_000)
    assert [(row.name, row.host_self_ns, row.device_self_ns) for row in other.rows] == [
        ("copy thread", 40_000, 7_000),
        ("inner", 10_000, 0),
    ]
    assert found.device_ns == 62_000
    assert_adds_up(found)


def test_marks_of_old_writers_are_marks_and_no_operators() -> None:
    trace = TraceBuilder(OLD)
    trace.step(0, 0, 100)
    trace.annotation("## forward ##", 10, 60)
    trace.op("aten::mm", 20, 30)
    found = owners_of(trace)
    assert [(row.name, row.kind) for row in found.rows] == [("## forward ##", "mark")]


def test_many_numbered_marks_share_a_row() -> None:
    trace = a_step(300)
    for number in range(80):
        trace.annotation(f"layer_{number}", 3 * number, 2)
    (row,) = owners_of(trace).rows
    assert (row.name, row.calls, row.host_self_ns) == ("layer_*", 80, 160_000)


def test_only_steps_that_count_do_and_each_value_is_per_step() -> None:
    trace = TraceBuilder()
    for number in range(5):
        trace.step(number, 1000 * number, 1000 if number < 4 else 4000)
        trace.annotation("work", 1000 * number + 100, 500)
        trace.launch_kernel("k", 1000 * number + 300, 400, at=1000 * number + 200)
    found = owners_of(trace)
    row = by_name(found)["work"]
    assert (found.steps, found.time_ns, row.calls) == (4, 4_000_000, 4)
    assert (row.host_ns, row.host_ns_per_step) == (2_000_000, 500_000)


def test_a_trace_without_host_events_has_no_owners() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 10)
    context = Context(read_built(trace))
    assert host.ANALYSES[0].missing(context) is not None
    assert not context.cached(owner_index).owners


def test_the_index_tells_the_owner_of_rows_and_the_timeline_tiles_the_step() -> None:
    trace = a_step()
    trace.annotation("outer", 10, 60)
    trace.annotation("inner", 20, 30)
    trace.op("aten::mm", 25, 10)
    trace.launch_kernel("k", 60, 30, at=26)
    context = Context(read_built(trace))
    index = context.cached(owner_index)
    names = [owner.name for owner in index.owners]
    operator = np.flatnonzero(context.trace.host.name == context.trace.names.code("aten::mm"))
    assert [names[number] for number in index.of_host_rows(context, operator).tolist()] == ["inner"]
    assert [names[number] for number in index.of_launches(context, np.array([0])).tolist()] == ["inner"]
    segments = index.timeline
    told = [
        (start // 1000, end // 1000, names[owner] if owner >= 0 else None)
        for start, end, owner in zip(
            segments.start_ns.tolist(), segments.end_ns.tolist(), segments.owner.tolist(), strict=True
        )
    ]
    assert told == [
        (0, 10, None),
        (10, 20, "outer"),
        (20, 50, "inner"),
        (50, 70, "outer"),
        (70, 100, None),
    ]


def test_the_longest_call_is_one_that_comes_again() -> None:
    """On a CPU a head takes 5 ms in each step beside three short layers; once its thread lost its core for 7 ms."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(6):
        trace.step(number, at, 15_000)
        trace.annotation("predict", at, 14_900)
        for length in (100, 100, 100, 12_000 if number == 3 else 5000):
            trace.op("aten::linear", at + 1, length)
            at += length + 10
        at = 15_000 * (number + 1)
    call = by_name(owners_of(trace))["predict"].longest_call
    assert call is not None
    assert (call.name, call.duration_ns) == ("aten::linear", 5_000_000)


@pytest.mark.parametrize(
    ("around", "role"),
    [("torch/utils/tensorboard/writer.py(3): add_image", "logging"), ("train.py(3): show", "writing")],
)
def test_writing_has_the_purpose_of_what_is_around_it(around: str, role: str) -> None:
    trace = TraceBuilder()
    program, stream = Host(trace, at=0), Stream()
    for number in range(3):
        with program.annotation(f"ProfilerStep#{number}"):
            compute(program, stream, 10)
            with program.frame(around), program.frame("PIL/Image.py(9): save"):
                program.work(500)
    times = {row.role: row.host_ns for row in owners_of(finish(trace)).roles}
    assert times == {role: pytest.approx(1_500_000, rel=0.02)}


def test_a_loader_that_waits_for_its_queue_waits_for_no_requests() -> None:
    trace = TraceBuilder()
    program, stream = Host(trace, at=0), Stream()
    for number in range(3):
        with program.annotation(f"ProfilerStep#{number}"):
            with (
                program.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
                program.frame("multiprocessing/queues.py(102): get"),
            ):
                program.work(500)
            compute(program, stream, 10)
    assert {row.role for row in owners_of(finish(trace)).roles} == {"loader"}
