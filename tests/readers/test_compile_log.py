"""Structured compile logs of torch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.builders import compile_log as build
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import opening
from traceanalyzer.trace.compile_log import CompileLog, LoggedGuard, LoggedLookup, SourceLine


def read(folder: Path, text: str) -> CompileLog:
    file = folder / "dedicated_log_torch_trace_1.log"
    file.write_text(text, "utf-8")
    return opening.read_compile_logs([file])[0]


FILES = build.interned({0: "/work/train.py", 1: "/lib/site-packages/torch/nn/modules/module.py"})


def test_a_compilation_with_its_function_caller_and_time(tmp_path: Path) -> None:
    stack = [(0, 40, "main"), (1, 1500, "_call_impl"), (0, 7, "forward")]
    log = read(
        tmp_path, FILES + build.started("0/0", stack) + build.measured("0/0", "forward", "/work/train.py", 7, 1.5)
    )
    (found,) = log.compilations
    assert found.code == SourceLine("/work/train.py", 7, "forward")
    assert found.caller == SourceLine("/work/train.py", 40, "main"), "torch's own frames are nobody's caller"
    assert found.duration_ns == 1_500_000_000
    assert found.reasons == ()
    assert log.entries == 4


def test_microseconds_are_preferred_to_rounded_seconds(tmp_path: Path) -> None:
    (found,) = read(tmp_path, build.measured("0/0", "f", "f.py", 1, 1.5, duration_us=1_500_001)).compilations
    assert found.duration_ns == 1_500_001_000


def test_a_graph_break_with_place_reason_and_hint(tmp_path: Path) -> None:
    log = read(tmp_path, build.broke("0/0", "C:\\a b\\train.py", 9, "Data-dependent branching", "Use torch.cond."))
    (found,) = log.breaks
    assert found.at == SourceLine("C:\\a b\\train.py", 9, "f")
    assert (found.id, found.reason, found.hint) == ("0/0", "Data-dependent branching", "Use torch.cond.")


def test_a_reason_that_only_announces_one_is_followed_by_it(tmp_path: Path) -> None:
    announced = "Encountered graph break when attempting to trace CALL: a call:\n\nFailed to trace builtin operator"
    (found,) = read(tmp_path, build.broke("0/0", "train.py", 7, announced)).breaks
    assert found.reason == "Failed to trace builtin operator"


def test_the_words_of_older_versions(tmp_path: Path) -> None:
    text = "Graph break in user code at train.py:3\nReason: Unsupported: call print\nUser code traceback:\n  Reason: no"
    old = build.entry("artifact", {"name": "dynamo_graph_break_reason"}, "0/0", text)
    assert [(b.at, b.reason) for b in read(tmp_path, old).breaks] == [
        (SourceLine("train.py", 3), "Unsupported: call print")
    ]


def test_breaks_that_are_only_known_as_reasons_to_start_again(tmp_path: Path) -> None:
    log = read(tmp_path, build.measured("0/0", "f", "f.py", 1, 0.1, restart_reasons=["Unsupported:  print"]))
    assert [(b.id, b.at, b.reason) for b in log.breaks] == [("0/0", None, "Unsupported: print")]


def test_restart_reasons_do_not_count_a_break_twice(tmp_path: Path) -> None:
    both = build.broke("0/0", "f.py", 1, "why") + build.measured("0/0", "f", "f.py", 1, 0.1, restart_reasons=["why"])
    assert len(read(tmp_path, both).breaks) == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_why_a_function_is_compiled_again(tmp_path: Path, *, as_json: bool) -> None:
    reasons = ["0/0: tensor 'x' size mismatch at index 0. expected 32, actual 48", "0/0: L['n'] == 3"]
    said = [json.dumps(reasons)] if as_json else reasons
    (found,) = read(tmp_path, build.started("0/1") + build.recompiled("0/1", *said)).compilations
    assert found.id == "0/1"
    assert found.reasons == ("tensor 'x' size mismatch at index 0. expected 32, actual 48", "L['n'] == 3")


def test_a_reason_among_the_figures(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path, build.measured("0/1", "f", "f.py", 1, 0.1, recompile_reason="0/0: L['n'] == 3")
    ).compilations
    assert found.reasons == ("L['n'] == 3",)


def test_a_failure(tmp_path: Path) -> None:
    failed = build.measured("0/0", "f", "f.py", 1, 0.1, fail_type="<class 'X'>", fail_reason="backend raised:\nno")
    (found,) = read(tmp_path, failed).compilations
    assert found.failure == "backend raised: no"


def test_added_guards_are_told_with_the_line_of_the_program(tmp_path: Path) -> None:
    stack = [{"filename": 0, "line": 297, "name": "forward"}, {"filename": 1, "line": 5, "name": "x"}]
    log = read(tmp_path, FILES + build.entry("guard_added", {"expr": "Eq(s0, 3)", "user_stack": stack, "stack": []}))
    assert log.guards == (LoggedGuard(None, "Eq(s0, 3)", SourceLine("/work/train.py", 297, "forward")),)


def test_an_id_that_is_used_again_is_another_compilation(tmp_path: Path) -> None:
    """`torch._dynamo.reset` lets torch count from 0 again."""
    once = build.started("0/0") + build.measured("0/0", "f", "f.py", 1, 0.5)
    again = build.started("0/0", attempt=1)
    log = read(tmp_path, once + build.started("0/0") + again + build.measured("0/0", "g", "g.py", 2, 0.25))
    assert [(c.code and c.code.function, c.duration_ns) for c in log.compilations] == [
        ("f", 500_000_000),
        ("g", 250_000_000),
    ]


def test_hits_and_misses_of_caches(tmp_path: Path) -> None:
    names = ("fx_graph_cache_miss", "fx_graph_cache_hit", "aotautograd_cache_bypass", "fx_graph_runnable")
    figures = (
        '{"key": "fabc", "time_taken_ns": 7}',
        '{"key": "fabd", "time_saved_ns": 8}',
        '{"cache_bypass_reason": "a \\"b\\""}',
    )
    entries = (
        build.entry("artifact", {"name": name}, "0/0", text) for name, text in zip(names, (*figures, ""), strict=True)
    )
    (found,) = read(tmp_path, "".join(entries)).compilations
    assert found.lookups == (
        LoggedLookup("fx_graph", "miss", "fabc", 7),
        LoggedLookup("fx_graph", "hit", "fabd", 8),
        LoggedLookup("aotautograd", "bypass", reason='a "b"'),
    )


def test_ranks_keep_their_compilations_apart(tmp_path: Path) -> None:
    log = read(tmp_path, build.started("0/0", rank=1) + build.started("0/0", rank=0))
    assert [(c.rank, c.id) for c in log.compilations] == [(1, "0/0"), (0, "0/0")]


def test_compilations_are_in_the_order_of_time(tmp_path: Path) -> None:
    log = read(tmp_path, build.at(build.started("1/0"), 1.5) + build.at(build.started("0/0"), 3))
    assert [(c.id, c.start_ns) for c in log.compilations] == [("1/0", 0), ("0/0", 1_500_000_000)]
    assert log.span_ns == 1_500_000_000


def test_a_log_that_goes_on_in_a_new_year(tmp_path: Path) -> None:
    last = build.started("0/0").replace("V1122 09:59:18", "V1231 23:59:59")
    first = build.started("1/0").replace("V1122 09:59:18", "V0101 00:00:01")
    assert read(tmp_path, last + first).span_ns == 2_000_000_000


def test_the_reasons_of_a_recompilation_come_before_its_start(tmp_path: Path) -> None:
    """Torch writes them first; they begin no compilation of their own."""
    text = build.recompiled("0/1", "0/0: L['n'] == 3") + build.started("0/1") + build.measured("0/1", "f", "f.py", 1, 1)
    (found,) = read(tmp_path, text).compilations
    assert (found.id, found.reasons, found.duration_ns) == ("0/1", ("L['n'] == 3",), 1_000_000_000)
    again = read(tmp_path, text + text).compilations
    assert [(c.reasons, c.duration_ns) for c in again] == [(("L['n'] == 3",), 1_000_000_000)] * 2, "after a reset"


def test_the_caller_is_the_last_line_of_the_user(tmp_path: Path) -> None:
    """Some versions end the stack with the function itself, others with its caller; wrappers of torch are neither."""
    files = build.interned({0: "/work/train.py", 1: "/lib/site-packages/torch/_dynamo/external_utils.py"})
    wrapper = "/lib/site-packages/torch/_dynamo/external_utils.py"
    stack = [(0, 40, "main"), (1, 68, "inner")]
    log = read(tmp_path, files + build.started("0/0", stack) + build.measured("0/0", "inner", wrapper, 66, 1))
    assert log.compilations[0].caller == SourceLine("/work/train.py", 40, "main")
    stack = [(0, 40, "main"), (1, 68, "_fn"), (0, 9, "f")]
    called = build.started("0/0", stack) + build.measured(
        "0/0", "torch_dynamo_resume_in_f_at_9", "/work/train.py", 9, 1
    )
    assert read(tmp_path, files + called).compilations[0].caller == SourceLine("/work/train.py", 9, "f")


def test_parts_of_the_time(tmp_path: Path) -> None:
    figures = {"duration_us": 10_000, "aot_autograd_cumulative_compile_time_us": 8000}
    text = build.measured("0/0", "f", "f.py", 1, 1, **figures, inductor_cumulative_compile_time_us=5000)
    (found,) = read(tmp_path, text).compilations
    assert (found.duration_ns, found.backend_ns, found.inductor_ns) == (10_000_000, 8_000_000, 5_000_000)
    old = {"backend_compile_time_s": 0.5, "inductor_compile_time_s": 0.25}
    (found,) = read(tmp_path, build.measured("0/0", "f", "f.py", 1, 1, **old)).compilations
    assert (found.backend_ns, found.inductor_ns) == (500_000_000, 250_000_000)


def test_without_figures_the_clock_of_the_lines_tells_the_time(tmp_path: Path) -> None:
    end = build.entry("dynamo_guards", {}, "0/0")
    (found,) = read(tmp_path, build.at(build.started("0/0"), 1) + build.at(end, 3.5)).compilations
    assert (found.duration_ns, found.logged_ns) == (None, 2_500_000_000)


BREAK = """Graph break in user code at {file}:{line}
Reason: Unsupported: print
User code traceback:
  File "/work/train.py", line 4, in <module>
    f(x)
  File "{file}", line {line}, in {function}
    print(x)
    ^^^^^^^^
Traceback (most recent call last):
  File "/lib/torch/_dynamo/symbolic_convert.py", line 632, in wrapper
    return inner_fn(self, inst)"""


def broken(line: int, resumed: int, function: str = "f", ident: str = "0/0") -> str:
    """A function that breaks at a line, and the function that continues after it."""
    text = BREAK.format(file="/work/train.py", line=line, function=function)
    first = build.entry("dynamo_graph_break_reason", {}, ident, text) + build.measured(
        ident, "f", "/work/train.py", 8, 1
    )
    name = f"torch_dynamo_resume_in_f_at_{resumed}"
    return build.started(ident) + first + build.measured("1/0", name, "/work/train.py", resumed, 1)


def test_breaks_as_entries_of_their_own_kind(tmp_path: Path) -> None:
    """Torch 2.3 writes no artifact, and repeats the break among the reasons to start again."""
    (found,) = read(tmp_path, broken(9, 9)).breaks
    assert (found.at, found.code) == (SourceLine("/work/train.py", 9, "f"), "print(x)")
    assert found.function == SourceLine("/work/train.py", 8, "f")


def test_the_function_that_continues_tells_the_line_of_a_break(tmp_path: Path) -> None:
    log = read(tmp_path, broken(99, 9))
    assert log.breaks[0].at == SourceLine("/work/train.py", 9, "f")
    assert [(loss.id, loss.count) for loss in log.losses] == [("read-compile-log-lines", 1)]


def test_a_break_in_a_function_that_was_inlined_is_where_the_text_says(tmp_path: Path) -> None:
    log = read(tmp_path, broken(99, 9, "helper"))
    assert (log.breaks[0].at, log.losses) == (SourceLine("/work/train.py", 99, "helper"), ())


def test_a_log_that_ends_within_a_compilation(tmp_path: Path) -> None:
    log = read(tmp_path, build.started("0/0") + build.measured("0/0", "f", "f.py", 1, 1) + build.started("1/0"))
    assert [(loss.id, loss.count) for loss in log.losses] == [("read-compile-log-unfinished", 1)]


def test_damaged_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    good = build.broke("0/0", "train.py", 9, "why")
    log = read(tmp_path, good + "not a line of a log\n" + good[:60] + "\n\n" + good)
    assert len(log.breaks) == 2
    assert [(loss.id, loss.count, loss.params["line"]) for loss in log.losses] == [("read-compile-log-damaged", 2, 7)]


_MANY = "9" * 5000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fx_graph_cache_bypass", '{"cache_bypass_reason": "not \\x JSON"}'),
        ("fx_graph_cache_miss", f'{{"time_taken_ns": {_MANY}}}'),
        ("recompile_reasons", "[" * 5000),
        ("dynamo_graph_break_reason", f"Graph break in user code at a.py:{_MANY}"),
    ],
)
def test_texts_of_an_entry_that_cannot_be_read_say_nothing(tmp_path: Path, name: str, text: str) -> None:
    log = read(tmp_path, build.entry("artifact", {"name": name}, "0/0", text) + build.broke("0/0", "a.py", 9, "why"))
    assert log.entries == 2
    assert log.breaks[-1].at == SourceLine("a.py", 9, "f")


@pytest.mark.parametrize("data", ['{"a": ' + "[" * 5000, '{"a": ' + _MANY + "}"])
def test_an_entry_that_cannot_be_decoded_is_counted(tmp_path: Path, data: str) -> None:
    good = build.broke("0/0", "train.py", 9, "why")
    log = read(tmp_path, good + good[: good.index("{")] + data + "\n")
    assert [(loss.id, loss.count) for loss in log.losses] == [("read-compile-log-damaged", 1)]


@pytest.mark.parametrize("text", ["hello\n", "{}", "V1122 no entry\n"])
def test_a_file_that_is_no_compile_log(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnusableInputError, match="is not a structured compile log of torch") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_folder_is_read_whole_and_gzip_as_well(tmp_path: Path) -> None:
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(build.broke("1/0", "b.py", 1, "b").encode()))
    (tmp_path / "a.log").write_text(build.broke("0/0", "a.py", 1, "a"), "utf-8")
    (tmp_path / "readme.md").write_text("not a log", "utf-8")
    assert [log.breaks[0].reason for log in opening.read_compile_logs([tmp_path])] == ["a", "b"]


def test_a_folder_without_logs(tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError, match="contains no compile log"):
        opening.read_compile_logs([tmp_path])


def test_entries_that_are_nested_too_deep_are_counted_as_unreadable(tmp_path: Path) -> None:
    prefix = build.measured("0/0", "f", "f.py", 1, 1.5)
    head = prefix[: prefix.index("{")]
    log = read(tmp_path, prefix + head + '{"compilation_metrics": ' + 100_000 * "[" + 100_000 * "]" + "}\n")
    assert len(log.compilations) == 1
    assert log.losses
