"""No program is given advice that was made for another kind of program.

Every situation in which a rule fires is recorded once more as a program of another kind; then everything that any rule
says of it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.builders import TraceBuilder
from tests.builders.values import Event
from tests.rules.judging import functions, report, situations
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.rules.engine.selection import builtin

OF_A_LOOP = re.compile(
    r"\b(optimizers?|loss|checkpointing|DataLoader|DistributedDataParallel|num_workers|batch size|epoch)\b",
    re.IGNORECASE,
)
"""Words about a training loop, which the users of a server do not have."""
COMPILE = re.compile(r"= torch\.compile\((?!.*(fullgraph|max-autotune))")

TAGS = {rule.id: rule.tags for rule in builtin()}
ABOUT_TRAINING = {rule for rule, tags in TAGS.items() if "training" in tags or "input" in tags}
"""Rules that fire on events which only a training has, such as those of an optimizer or of a DataLoader."""


def built() -> Iterator[tuple[str, TraceBuilder]]:
    """One situation in which each rule of traces fires."""
    for rule in builtin():
        for name, build in functions(situations(rule.id), "fires").items():
            trace = build()
            if rule.id not in ABOUT_TRAINING and isinstance(trace, TraceBuilder):
                yield f"{rule.id}: {name}", trace
                break


def named(trace: TraceBuilder, name: Callable[[Event], str | None]) -> TraceBuilder:
    """A trace with other names for some events."""
    for event in trace.events:
        event["name"] = name(event) or event["name"]
    return trace


def served(mark: str) -> Callable[[Event], str | None]:
    """Steps are marked as a server marks them."""
    return lambda event: mark if str(event.get("name", "")).startswith("ProfilerStep#") else None


def is_gpu_alone(trace: TraceBuilder) -> bool:
    """Whether there are kernels, and nothing of the program but calls of the runtime."""
    categories = {event.get("cat") for event in trace.events}
    return "kernel" in categories and not categories & {"cpu_op", "user_annotation", "python_function"}


def said(finding: Finding) -> str:
    """Everything that a reader sees of a finding."""
    return "\n".join((finding.title.text, finding.summary.text, finding.advice.text, finding.code or ""))


def unfit(found: Report, words: re.Pattern[str]) -> list[tuple[str, str]]:
    """Texts of findings that do not fit the program, with the rule's id."""
    texts = [(finding.rule, said(finding)) for finding in found.findings if finding.rule not in ABOUT_TRAINING]
    return [(rule, text) for rule, text in texts if words.search(text)]


@pytest.mark.parametrize("mark", ["execute_context_0(0)_generation_32(32)", "step[DECODE bs=32]"])
def test_servers_are_told_nothing_about_training_loops(mark: str) -> None:
    traces = {name: named(trace, served(mark)) for name, trace in built()}
    # where only the GPU was recorded there are no marks, so nothing tells that it is a server
    reports = {name: report(trace) for name, trace in traces.items() if not is_gpu_alone(trace)}
    kinds = [found.analyses["recording"].workload for found in reports.values() if "recording" in found.analyses]
    assert kinds.count("serving") > 25, "else this test compares nothing"
    wrong = {name: bad for name, found in reports.items() if (bad := unfit(found, OF_A_LOOP))}
    assert not wrong


def test_compiled_programs_are_not_told_to_compile() -> None:
    reports = {}
    for name, trace in built():
        starts = [event["ts"] for event in trace.events if str(event.get("name", "")).startswith("ProfilerStep#")]
        for start in starts:
            trace.op("Torch-Compiled Region: 0/0", start, 1)
        if starts:
            reports[name] = report(trace)
    compiled = [found for found in reports.values() if "compilation" in found.analyses]
    assert len(compiled) > 25, "else this test compares nothing"
    wrong = {name: bad for name, found in reports.items() if (bad := unfit(found, COMPILE))}
    assert not wrong


def test_a_framework_of_each_serving_kind_is_tried() -> None:
    """The marks above are of frameworks that the table calls serving."""
    serving = {framework.id for framework in FRAMEWORKS if framework.role == "serving"}
    assert {"vllm", "sglang"} <= serving
