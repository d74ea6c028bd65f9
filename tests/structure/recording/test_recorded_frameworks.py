"""Which frameworks are found in small traces, by what, and which of them is named."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.knowledge.framework_examples import FRAMES, MARKS, NAMES, NO_FRAMES, NO_NAMES
from tests.reading import read_built
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.frameworks import FrameworkEvidence, frameworks, main_framework

MARKED = [(framework, name) for framework, name, _ in MARKS]


def context_of(trace: TraceBuilder) -> Context:
    return Context(read_built(trace))


def named(context: Context) -> str:
    """Id of the framework that a report names; empty where it names none."""
    main = main_framework(context)
    return main.id if main else ""


def server(*marks: str) -> TraceBuilder:
    """One mark after the other, each around an operator that launches a kernel."""
    trace = TraceBuilder()
    for number, mark in enumerate(marks):
        start = 100 * number
        trace.annotation(mark, start, 90)
        trace.op("aten::mm", start + 10, 20)
        trace.launch_kernel("gemm", start + 20, 40, at=start + 15)
    return trace


def test_marks_are_counted_with_the_first_of_them() -> None:
    context = context_of(server("step[EXTEND bs=2 toks=900]", "step[DECODE bs=2]", "step[DECODE bs=2]"))
    assert frameworks(context) == (FrameworkEvidence("sglang", "mark", "step[EXTEND bs=2 toks=900]", 3, 2),)
    assert named(context) == "sglang"


def test_the_first_is_the_first_in_time_and_not_the_first_in_the_file() -> None:
    trace = TraceBuilder()
    trace.annotation("step[DECODE bs=2]", 100, 50)
    trace.annotation("step[EXTEND bs=2 toks=900]", 0, 50)
    assert frameworks(context_of(trace))[0].name == "step[EXTEND bs=2 toks=900]"


def test_a_server_that_writes_the_marks_of_another_is_itself() -> None:
    trace = server("step[DECODE bs=2]")
    trace.annotation("execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk90sqsq2sqsk90)", 5, 80)
    context = context_of(trace)
    assert [(found.id, found.events) for found in frameworks(context)] == [("sglang", 1), ("vllm", 1)]
    assert named(context) == "sglang"


def test_a_server_comes_before_the_library_that_it_imports() -> None:
    trace = server("execute_context_0(0)_generation_2(2)")
    trace.python_function("transformers/tokenization_utils_base.py(40): decode", 0, 10)
    trace.python_function("vllm/v1/engine/core.py(300): step", 0, 90)
    context = context_of(trace)
    assert frameworks(context) == (
        FrameworkEvidence("vllm", "mark", "execute_context_0(0)_generation_2(2)", 1, 1),
        FrameworkEvidence("huggingface", "frame", "transformers/tokenization_utils_base.py(40): decode", 1, 1),
    )
    assert named(context) == "vllm"


def test_stronger_evidence_replaces_weaker_and_is_counted_alone() -> None:
    trace = TraceBuilder()
    trace.python_function("torch/nn/parallel/distributed.py(1643): forward", 0, 50)
    assert frameworks(context_of(trace))[0].kind == "frame"
    trace.module("DistributedDataParallel_0", 0, 50)
    assert frameworks(context_of(trace))[0].kind == "module"
    trace.op("torch::distributed::reducer::mul_out", 60, 5)
    trace.op("torch::distributed::reducer::mul_out", 70, 5)
    assert frameworks(context_of(trace)) == (
        FrameworkEvidence("ddp", "operator", "torch::distributed::reducer::mul_out", 2, 1),
    )
    trace.annotation("DistributedDataParallel.forward", 0, 50)
    assert frameworks(context_of(trace)) == (FrameworkEvidence("ddp", "mark", "DistributedDataParallel.forward", 1, 1),)


def test_sharded_embeddings_come_before_what_wraps_the_rest() -> None:
    trace = TraceBuilder()
    trace.annotation("DistributedDataParallel.forward", 0, 50)
    trace.annotation("## wait_sparse_data_dist ##", 60, 5)
    trace.op("fbgemm::permute_2D_sparse_data", 70, 5)
    context = context_of(trace)
    assert [found.id for found in frameworks(context)] == ["torchrec", "ddp", "fbgemm"]
    assert named(context) == "torchrec"


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("Torch-Compiled Region: 0/0", "torch.compile"),
        ("[param|pytorch.model.net|0|0|0|measure|forward]", "param"),
        ("fbgemm::permute_2D_sparse_data", "fbgemm"),
    ],
)
def test_compilers_benchmarks_and_runtimes_are_shown_and_never_named(name: str, framework: str) -> None:
    trace = TraceBuilder()
    trace.annotation(name, 0, 50)
    context = context_of(trace)
    assert [found.id for found in frameworks(context)] == [framework]
    assert main_framework(context) is None


def test_kinds_of_events_tell_of_a_runtime() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50)
    trace.add("mtia_ccp_events", "matmul", (10, 5), (0, 0), {})
    assert frameworks(context_of(trace)) == (FrameworkEvidence("mtia", "category", "mtia_ccp_events", 1, 1),)


def test_marks_of_the_device_serve_where_the_host_was_not_recorded() -> None:
    trace = TraceBuilder()
    trace.kernel("gemm", 0, 50)
    trace.gpu_annotation("step[DECODE bs=2]", 0, 50, external_id=1)
    assert frameworks(context_of(trace)) == (FrameworkEvidence("sglang", "mark", "step[DECODE bs=2]", 1, 1),)
    trace.annotation("step[DECODE bs=2]", 0, 50)
    assert [found.events for found in frameworks(context_of(trace))] == [1]


@pytest.mark.parametrize(("framework", "name"), [example for example in (*MARKED, *NAMES) if example[0] != "mtia"])
def test_a_name_alone_is_found(framework: str, name: str) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    trace.annotation(name, 10, 50)
    trace.annotation(name, 70, 50)
    assert frameworks(context_of(trace)) == (FrameworkEvidence(framework, "mark", name, 2, 1),)


@pytest.mark.parametrize(("framework", "name"), FRAMES)
def test_a_frame_alone_is_found(framework: str, name: str) -> None:
    trace = TraceBuilder()
    trace.python_function("train.py(1): main", 0, 90)
    trace.python_function(name, 10, 50)
    kind = "module" if name.startswith("nn.Module") else "frame"
    assert frameworks(context_of(trace)) == (FrameworkEvidence(framework, kind, name, 1, 1),)


def test_in_old_traces_marks_of_steps_are_told_from_operators() -> None:
    trace = TraceBuilder()
    trace.op("step[DECODE bs=2]", 0, 50)
    trace.op("sgl_kernel::rotary_embedding", 10, 5)
    assert frameworks(context_of(trace)) == (FrameworkEvidence("sglang", "mark", "step[DECODE bs=2]", 1, 1),)


def test_names_that_only_look_similar_are_none() -> None:
    trace = TraceBuilder()
    for at, name in enumerate(filter(None, NO_NAMES)):
        trace.annotation(name, at, 1)
    for at, name in enumerate(NO_FRAMES):
        trace.python_function(name, at, 1)
    assert frameworks(context_of(trace)) == ()


def test_a_plain_loop_has_no_framework() -> None:
    trace = TraceBuilder()
    for name in ("## forward ##", "execute_order_66", "step[1]", "Optimizer.step#Adam.step"):
        trace.annotation(name, 0, 50)
    trace.python_function("/home/me/vllm_notes/train.py(3): main", 0, 50)
    trace.module("Trainer_0", 0, 50)
    assert frameworks(context_of(trace)) == ()


def test_kernels_alone_have_no_framework() -> None:
    trace = TraceBuilder()
    trace.kernel("gemm", 0, 5)
    assert frameworks(context_of(trace)) == ()
