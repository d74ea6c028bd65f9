"""Inputs that are prepared while the GPU waits, or in time."""

from __future__ import annotations

from contextlib import nullcontext

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.situations.host_waits_or_logs import on_cpu

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
