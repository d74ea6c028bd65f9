"""Policies whose distributions check their arguments, on a CPU and with a GPU."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish

MADE = "torch/distributions/distribution.py(46): __init__"
SAMPLED = "torch/distributions/distribution.py(280): _validate_sample"
ENVIRONMENT = "envs/point_env.py(4): step"


def validate(host: Host, frame: str = MADE, *, operators: int = 2, reads: bool = True) -> None:
    """A check of 3 us in Python, operators of 5 us, and a reading of 4 us in two operators."""
    with host.frame(frame, before=3, after=0):
        for _ in range(operators):
            host.leaf("aten::ge", 5)
        host.leaf("aten::_is_all_true", 5)
        if reads:
            with host.op("aten::is_nonzero", 1, 0):
                host.leaf("aten::_local_scalar_dense", 3)


def acting(
    checks: int,
    *,
    frame: str = MADE,
    reads: bool = True,
    environment: str | None = ENVIRONMENT,
    steps: int = 4,
    readings: int = 1,
) -> TraceBuilder:
    """Steps of ten actions on a CPU; for each a layer of 50 us, checks, readings, and the environment."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}", 0, 0), host.frame("train.py(20): rollout", before=0, after=0):
            for _ in range(10):
                host.leaf("aten::addmm", 50)
                for _ in range(checks):
                    validate(host, frame, reads=reads)
                for _ in range(readings):
                    with host.op("aten::item", 1, 0):
                        host.leaf("aten::_local_scalar_dense", 2)
                if environment is not None:
                    with host.frame(environment):
                        host.work(20)
    return finish(trace)


def with_gpu(checks: int, frame: str = MADE) -> TraceBuilder:
    """Three steps with a kernel of 500 us, behind which the program makes distributions."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}", 0, 0), host.frame("train.py(20): rollout", before=0, after=0):
            with host.op("aten::mm"):
                host.launch(Work("gemm", 500), stream)
            for _ in range(checks):
                validate(host, frame)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Two checks for each action: when the distribution is made, and when the probability is asked for."""
    return acting(2)


def fires_with_a_gpu() -> TraceBuilder:
    """Twelve checks in each step."""
    return with_gpu(12)


def fires_with_a_gpu_without_frames() -> TraceBuilder:
    """Twelve checks that only operators show."""
    return with_gpu(12, "train.py(30): act")


def quiet() -> TraceBuilder:
    """The checks are switched off."""
    return acting(0)


def trap_nothing_is_read() -> TraceBuilder:
    """Constraints that cannot be checked read nothing."""
    return acting(2, reads=False)


def trap_a_function_of_the_program() -> TraceBuilder:
    """The program checks its own values."""
    return acting(2, frame="policy/distribution.py(46): __init__")


def trap_a_few_with_a_gpu() -> TraceBuilder:
    """A training that makes four distributions per step."""
    return with_gpu(4)


def trap_results_that_are_used_later() -> TraceBuilder:
    """The program reads much later whether all values are valid, and something else."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            with host.op("aten::mm"):
                host.launch(Work("gemm", 500), stream)
            for _ in range(12):
                host.leaf("aten::_is_all_true", 5)
                host.work(60)
                with host.op("aten::is_nonzero", 1, 0):
                    host.leaf("aten::_local_scalar_dense", 3)
            host.wait(stream)
    return finish(trace)
