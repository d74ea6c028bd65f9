"""Compiled regions, graph breaks, guards and compilations, with and without a log."""

from __future__ import annotations

from pathlib import Path

import traceanalyzer as ta
from tests.builders import TraceBuilder
from tests.builders import compile_log as build
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.compilation import test_graph_breaks as graph_breaks
from traceanalyzer.analyzers import compilation
from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.compilation.logged import is_of_trace
from traceanalyzer.inputs import opening
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.compile_log import CompileLog


def analyzed(folder: Path, builder: TraceBuilder, log: str = "") -> CompiledCode:
    trace = folder / "trace.json"
    builder.write(trace)
    context = Context(ta.load(trace), compile_logs=_logs(folder, log) if log else ())
    assert compilation.ANALYSES[0].missing(context) is None
    return compilation.analyze(context)


def _logs(folder: Path, text: str) -> tuple[CompileLog, ...]:
    (folder / "torch.log").write_text(text, "utf-8")
    return opening.read_compile_logs([folder / "torch.log"])


def test_regions_within_regions_are_breaks(tmp_path: Path) -> None:
    found = analyzed(tmp_path, graph_breaks.broken(steps=4, between=100))
    assert (found.steps, found.regions_per_step, found.breaks_per_step) == (4, 3.0, 2.0)
    assert found.between_ns_per_step == 2 * 100_000
    assert [(b.before, b.behind, b.calls, b.between_ns) for b in found.breaks] == [
        ("0/0", "1/0", 4, 400_000),
        ("1/0", "2/0", 4, 400_000),
    ]


def test_regions_take_their_own_time_only(tmp_path: Path) -> None:
    """5 us before and after, and an operator of 5 + 5 us around a launch; 100 us of Python before the next region."""
    found = analyzed(tmp_path, graph_breaks.broken(steps=4, between=100))
    own = {region.compilation: region.host_ns for region in found.regions}
    assert own["0/0"] == own["1/0"] == own["2/0"] + 4 * 100_000


def test_functions_one_after_another_are_no_breaks(tmp_path: Path) -> None:
    found = analyzed(tmp_path, graph_breaks.trap_functions_one_after_another())
    assert (found.regions_per_step, found.breaks_per_step, found.breaks) == (3.0, 0.0, ())


def test_an_operator_that_calls_compiled_code_of_its_own_is_no_break(tmp_path: Path) -> None:
    """A custom operator in a graph may run a compiled function: its region lies within the operator."""
    found = analyzed(tmp_path, graph_breaks.trap_operator_with_compiled_code())
    assert (found.regions_per_step, found.breaks_per_step) == (2.0, 0.0)


def test_the_log_names_line_and_reason_of_each_break(tmp_path: Path) -> None:
    log = build.broke("0/0", "/work/train.py", 7, "print", "Do not print.") + build.broke(
        "1/0", "/work/train.py", 9, "branch"
    )
    log += build.measured("1/0", "torch_dynamo_resume_in_f_at_7", "/work/train.py", 7, 0.1)
    log += build.measured("2/0", "torch_dynamo_resume_in_f_at_9", "/work/train.py", 9, 0.1)
    found = analyzed(tmp_path, graph_breaks.fires(), log)
    assert [(b.file, b.line, b.reason, b.hint) for b in found.breaks] == [
        ("/work/train.py", 7, "print", "Do not print."),
        ("/work/train.py", 9, "branch", None),
    ]
    assert found.logs == ("torch.log",)


def test_a_function_that_breaks_at_two_lines_is_matched_by_the_line_that_goes_on(tmp_path: Path) -> None:
    log = build.broke("0/0", "train.py", 3, "first") + build.broke("0/0", "train.py", 7, "second")
    log += build.measured("1/0", "torch_dynamo_resume_in_f_at_7", "train.py", 7, 0.1)
    found = analyzed(tmp_path, graph_breaks.fires(), log)
    assert [(b.before, b.reason) for b in found.breaks] == [("0/0", "second"), ("1/0", None)]


def test_python_stacks_name_the_line_without_a_log(tmp_path: Path) -> None:
    trace = TraceBuilder()
    host = Host(trace, at=10)
    with host.op("Torch-Compiled Region: 0/0", 5, 5), host.frame("train.py(3): f"):
        host.leaf("aten::mm", 50)
        with host.op("Torch-Compiled Region: 1/0", 5, 5), host.frame("train.py(7): torch_dynamo_resume_in_f_at_7"):
            host.leaf("aten::mm", 50)
    found = analyzed(tmp_path, finish(trace))
    assert [(b.file, b.line, b.reason) for b in found.breaks] == [("train.py", 7, None)]


def test_copies_before_a_graph_launch_go_into_its_static_inputs(tmp_path: Path) -> None:
    """30 us on the device for the input; the copy behind the launch takes the output and does not count."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    with host.op("Torch-Compiled Region: 0/0", 5, 5):
        with host.op("aten::copy_", 2, 3, shapes=[[8, 3], [8, 3], []]):
            host.launch(Work("copy_kernel", 30), stream)
        host.graph([Work("fused", 200)], stream)
        with host.op("aten::copy_", 2, 3, shapes=[[8, 10], [8, 10], []]):
            host.launch(Work("copy_kernel", 50), stream)
    with host.op("aten::copy_", 2, 3):
        host.launch(Work("copy_kernel", 70), stream)
    host.wait(stream)
    copies = analyzed(tmp_path, finish(trace)).input_copies
    assert copies is not None
    assert (copies.calls, copies.device_ns, copies.shapes) == (1, 30_000, ("[[8,3],[8,3],[]]",))


def test_without_graphs_nothing_is_said_about_their_inputs(tmp_path: Path) -> None:
    assert analyzed(tmp_path, graph_breaks.fires()).input_copies is None


def compiling(ident: str) -> TraceBuilder:
    """One step in which a function is compiled for 300 us, in the two ranges that dynamo writes, and its backward."""
    trace = TraceBuilder()
    host = Host(trace, at=10)
    with host.annotation("ProfilerStep#3", 0, 0):
        host.leaf("TorchDynamo Cache Lookup", 20)
        with host.op("entire_frame_compile", 0, 0):
            host.range(f"entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id={ident}", 10)
            host.leaf("_compile.compile_inner (dynamo_timed)", 290)
        with host.op(f"Torch-Compiled Region: {ident}", 5, 5):
            host.leaf("aten::mm", 50)
        with host.op("entire_backward_compile", 0, 0):
            host.range(f"entire_backward_compile_data: fn_name=backward._backward_impl, compile_id={ident}", 10)
            host.work(30)
    return finish(trace)


def test_compilations_of_the_recording(tmp_path: Path) -> None:
    found = analyzed(tmp_path, compiling("0/1"))
    rows = [(c.compilation, c.is_backward, c.is_again, c.time_ns, c.step) for c in found.compilations]
    assert rows == [("0/1", False, True, 300_000, "3"), ("0/1", True, True, 40_000, "3")]
    assert found.compiling_ns == 340_000
    assert (found.guard_checks_per_step, found.guards_ns_per_step) == (1.0, 20_000.0)


def test_a_first_compilation_is_not_again(tmp_path: Path) -> None:
    assert [c.is_again for c in analyzed(tmp_path, compiling("4/0")).compilations] == [False, False]


def test_the_log_says_why_a_function_was_compiled_again(tmp_path: Path) -> None:
    log = build.started("0/0") + build.measured("0/0", "f", "train.py", 3, 2.0)
    log += build.recompiled("0/1", "0/0: L['n'] == 3") + build.measured("0/1", "f", "train.py", 3, 0.3)
    first, backward, earlier = analyzed(tmp_path, compiling("0/1"), log).compilations
    assert (first.function, first.line, first.reasons) == ("f", 3, ("L['n'] == 3",))
    assert backward.reasons == first.reasons
    assert (earlier.compilation, earlier.start_ns, earlier.time_ns) == ("0/0", None, 2_000_000_000)


def test_a_log_of_another_rank_says_nothing_about_this_one(tmp_path: Path) -> None:
    log = build.started("0/0", rank=3) + build.started("0/0", rank=2) + build.started("1/0", rank=2)
    found = analyzed(tmp_path, compiling("9/0"), log)
    assert [c.compilation for c in found.compilations if c.start_ns is None] == ["0/0", "1/0"], "the lowest rank"


def test_a_log_explains_a_trace_without_compiled_regions(tmp_path: Path) -> None:
    trace = TraceBuilder()
    Host(trace, at=10).leaf("aten::mm", 50)
    failed = build.measured("0/0", "f", "train.py", 3, 0.1, fail_type="X", fail_reason="no backend")
    found = analyzed(tmp_path, finish(trace), failed)
    assert [(f.function, f.error) for f in found.failures] == [("f", "no backend")]
    assert found.guards_ns_per_step is None
    assert found.size_checks_ns_per_step is None
    (doubt,) = compilation.doubts(found)
    assert (doubt.id, doubt.count, doubt.params) == (
        "q-compilation-failed",
        1,
        {"function": "f", "error": "no backend"},
    )
    assert list(compilation.doubts(None)) == []


def test_a_trace_without_compiled_code_says_so(tmp_path: Path) -> None:
    trace = TraceBuilder()
    Host(trace, at=10).leaf("aten::mm", 50)
    finish(trace).write(tmp_path / "trace.json")
    message = compilation.ANALYSES[0].missing(Context(ta.load(tmp_path / "trace.json")))
    assert message is not None
    assert "no code of torch.compile" in message.text


def plain(name: str) -> TraceBuilder:
    """A trace of one event."""
    trace = TraceBuilder()
    Host(trace, at=10).leaf(name, 50)
    return finish(trace)


def is_joined(folder: Path, builder: TraceBuilder, log: str) -> bool | None:
    builder.write(folder / "trace.json")
    return is_of_trace(Context(ta.load(folder / "trace.json"), compile_logs=_logs(folder, log)))


def test_a_log_is_of_a_trace_if_its_graphs_are(tmp_path: Path) -> None:
    log = build.started("0/0") + build.entry("artifact", {"name": "fx_graph_cache_hit"}, "0/0", '{"key": "fabc"}')
    assert is_joined(tmp_path, plain("## Call CompiledFxGraph fabc ##"), log) is True
    assert is_joined(tmp_path, plain("## Call CompiledFxGraph fxyz ##"), log) is False


def test_a_log_is_of_a_trace_if_its_kernels_are(tmp_path: Path) -> None:
    """Both programs number their first compilation 0/0."""
    code = "triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', ...)"
    log = build.started("0/0") + build.entry("inductor_output_code", {"filename": "c.py"}, "0/0", code)
    assert is_joined(tmp_path, plain("triton_poi_fused_add_0"), log) is True
    assert is_joined(tmp_path, plain("triton_poi_fused_mul_0"), log) is False
    assert is_joined(tmp_path, plain("triton__0d1d2d"), log) is None, "old versions of torch name no kernels"


def test_a_log_is_of_a_trace_if_its_functions_are(tmp_path: Path) -> None:
    """Both programs number their first compilation 0/0."""

    def with_stack(function: str) -> TraceBuilder:
        trace = TraceBuilder()
        host = Host(trace, at=10)
        with host.frame(f"train.py(7): {function}"):
            host.leaf("Torch-Compiled Region: 0/0", 50)
        return finish(trace)

    log = build.started("0/0") + build.measured("0/0", "forward", "/work/train.py", 7, 1)
    assert is_joined(tmp_path, with_stack("forward"), log) is True
    assert is_joined(tmp_path, with_stack("evaluate"), log) is False


def test_numbers_decide_where_nothing_else_does(tmp_path: Path) -> None:
    log = build.started("0/0") + build.measured("0/0", "forward", "/work/train.py", 7, 1)
    assert is_joined(tmp_path, plain("Torch-Compiled Region: 0/0"), log) is True
    assert is_joined(tmp_path, plain("Torch-Compiled Region: 3/1"), log) is False
    assert is_joined(tmp_path, plain("Torch-Compiled Region"), log) is None, "versions before 2.6 write no numbers"
    assert is_joined(tmp_path, plain("aten::mm"), log) is False
    assert is_joined(tmp_path, plain("triton__0d1d2d"), log) is False, "the log has no generated code"
    failed = build.measured("0/0", "forward", "/work/train.py", 7, 1, fail_type="X")
    assert is_joined(tmp_path, plain("aten::mm"), failed) is None, "what failed leaves nothing in a trace"


def test_a_compilation_without_a_number_is_the_logged_one_of_its_duration(tmp_path: Path) -> None:
    """Old versions of torch record no number: 300 us are those of 0/1, and nothing is told twice."""
    log = build.started("0/0") + build.measured("0/0", "f", "train.py", 3, 0.9)
    log += build.recompiled("0/1", "0/0: L['n'] == 3") + build.started("0/1")
    log += build.measured("0/1", "f", "train.py", 3, 0.000_295)
    trace = TraceBuilder()
    host = Host(trace, at=10)
    host.leaf("Torch-Compiled Region", 50)
    host.leaf("entire_frame_compile", 300)
    found = analyzed(tmp_path, finish(trace), log)
    assert [(c.compilation, c.time_ns, c.reasons) for c in found.compilations] == [
        ("0/1", 300_000, ("L['n'] == 3",)),
        ("0/0", 900_000_000, ()),
    ]
    assert found.log is not None
    assert (found.log.compilations, found.log.recompilations) == (2, 1)


def test_what_a_log_alone_says(tmp_path: Path) -> None:
    """Parts of the time add up to it; the second function has another backend, the third no figures."""
    stack = [(0, 40, "main")]
    log = build.interned({0: "/work/train.py"}) + build.started("0/0", stack)
    log += build.entry("artifact", {"name": "fx_graph_cache_miss"}, "0/0", '{"time_taken_ns": 500}')
    times = {"backend_compile_time_s": 0.75, "inductor_compile_time_s": 0.5}
    log += build.measured("0/0", "forward", "/lib/torch/nn/module.py", 7, 1, **times)
    log += build.entry("bwd_compilation_metrics", {"inductor_compile_time_s": 0.25}, "0/0")
    log += build.broke("1/0", "/work/train.py", 9, "why")
    log += build.started("1/0") + build.measured("1/0", "g", "/work/g.py", 3, 2, backend_compile_time_s=0.5)
    log += build.at(build.started("2/0"), 19) + build.at(build.entry("dynamo_guards", {}, "2/0"), 19.5)
    found = compilation.of_logs(_logs(tmp_path, log))
    assert found.log is not None
    figures = found.log
    assert (figures.dynamo_ns, figures.aot_ns, figures.inductor_ns) == (1_750_000_000, 250_000_000, 500_000_000)
    assert (figures.other_backend_ns, figures.backward_ns) == (500_000_000, 250_000_000)
    assert (figures.compiling_ns, figures.is_by_clock) == (3_750_000_000, True)
    first = found.compilations[0]
    assert (first.is_library, first.place, first.cache_misses) == (True, ("/work/train.py", 40), 1)
    assert [(b.file, b.line, b.reason) for b in found.logged_breaks] == [("/work/train.py", 9, "why")]
    assert [(c.cache, c.misses, c.missed_ns, c.saved_ns) for c in found.caches] == [("fx_graph", 1, 500, None)]
    assert (found.steps, found.breaks_per_step, found.breaks) == (0, None, ())
