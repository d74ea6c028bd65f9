"""Tests of the rule `preprocessing-in-step`: numbers worked out by hand.

The programs: inputs that are prepared while the GPU waits, or in time.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host.test_host_waits_or_logs import on_cpu
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report

PROCESSOR = "transformers/models/vit/image_processing_vit.py(150): preprocess"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def preparing(function: str, dur: int, *, kernels: int = 20, before: int = 0) -> TraceBuilder:
    """Steps that launch some kernels of 100 us, prepare inputs in a function, and launch 20 kernels."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(before):
            compute(host, stream, 100)
        with host.frame(function):
            host.work(dur)
        for _ in range(kernels):
            compute(host, stream, 100)

    return looping(step)


def fires() -> TraceBuilder:
    """Each step prepares images for 4 ms; the kernels of the step before take 2 ms."""
    return preparing(PROCESSOR, 4000)


def fires_in_a_function_of_the_program() -> TraceBuilder:
    """Preprocessing in a function of the program."""
    return preparing("train.py(40): preprocess_images", 4000)


def fires_in_a_pipeline() -> TraceBuilder:
    """A library's pipeline prepares inputs in its own loader."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.annotation(LOADER), host.frame("transformers/pipelines/image_classification.py(150): preprocess"):
            host.work(2000)
            with host.frame(PROCESSOR):
                host.work(2000)
        for _ in range(20):
            compute(host, stream, 100)

    return looping(step)


def quiet() -> TraceBuilder:
    """Preparing takes 50 us."""
    return preparing(PROCESSOR, 50)


def trap_hidden_by_the_gpu() -> TraceBuilder:
    """Inputs are prepared for 4 ms while kernels of 10 ms are queued."""
    return preparing(PROCESSOR, 4000, before=100)


def trap_in_the_loader() -> TraceBuilder:
    """The program's own loader prepares inputs: dataloader-bound."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.annotation(LOADER), host.frame("train.py(40): preprocess_images"):
            host.work(4000)
        for _ in range(20):
            compute(host, stream, 100)

    return looping(step)


def on_the_cpu(dur: int, *, loads: bool = False) -> TraceBuilder:
    """Steps of 2 ms on a CPU, in each of which a function prepares images for so many us, or the program's loader."""

    def body(host: Host, number: int) -> None:
        around = host.annotation(LOADER, 0, 0) if loads else nullcontext()
        with around, host.frame("train.py(40): preprocess_images", before=0, after=0):
            host.leaf("aten::div", dur)

    return on_cpu(body, options=("with_stack",))


def fires_on_a_cpu() -> TraceBuilder:
    """A third of the step."""
    return on_the_cpu(1000)


def quiet_on_a_cpu() -> TraceBuilder:
    """Preparing takes 50 us of 2 ms."""
    return on_the_cpu(50)


def trap_in_the_loader_on_a_cpu() -> TraceBuilder:
    """The program's own loader prepares inputs."""
    return on_the_cpu(1000, loads=True)


RULE = "preprocessing-in-step"


def test_the_processor_is_named_and_worth_at_most_the_idle_time() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    step = report(fires()).headlines[0].resources.step_ns
    low, high = finding.saving.direct_ns_per_step
    # of 4 ms some are hidden by the kernels of the step before; the first of four steps has none of these
    assert 2_000_000 < high <= 4_004_000
    assert low == pytest.approx(0.5 * 0.69 * min(high, step - high))
    assert finding.evidence[0].where[0].name == "transformers/models/vit/image_processing_vit.py(150): preprocess"
    assert "`image_processing_vit.py: preprocess`" in finding.summary.text
    assert "use_fast=True" in (finding.code or "")


def test_a_function_of_the_program_gets_no_code_of_a_library() -> None:
    (finding,) = findings(fires_in_a_function_of_the_program(), RULE)
    assert not finding.code
    assert "`train.py: preprocess_images`" in report(fires_in_a_function_of_the_program()).headlines[0].text


def test_what_a_pipeline_loads_is_said_once() -> None:
    rules = [finding.rule for finding in report(fires_in_a_pipeline()).findings]
    assert RULE in rules
    assert not {"dataloader-bound", "dataloader-single-process", "host-python-gap"} & set(rules)


def test_on_a_cpu_it_is_worth_at_most_its_time() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 1_000_000)
    assert "`train.py: preprocess_images`" in finding.summary.text
    assert "GPU" not in "".join(
        text.text for text in (finding.title, finding.summary, finding.advice, finding.not_when)
    )
