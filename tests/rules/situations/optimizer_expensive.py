"""A step of work on the host, followed by an optimizer."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import Body, compute, looping


def model(host_us: int, *, name: str = "Optimizer.step#Shampoo.step", busy_us: int = 0) -> TraceBuilder:
    """A product of 1000 us that is waited for, then an optimizer that launches one kernel of `busy_us` first."""

    def body(host: Host, stream: Stream, _: int) -> None:
        compute(host, stream, 1000)
        host.wait(stream)
        with host.annotation(name, 0, 0):
            with host.op("aten::linalg_eigh", 5, 5):
                host.launch(Work("void syevd_kernel<float>", 10 + busy_us), stream)
            host.work(host_us - 20)
            compute(host, stream, 10)

    return looping(_with_wait(body))


def _with_wait(body: Body) -> Body:
    def waiting(host: Host, stream: Stream, number: int) -> None:
        body(host, stream, number)
        host.wait(stream)

    return waiting


def fires() -> TraceBuilder:
    """Preconditioners are computed on the host in each step."""
    return model(1000)


def quiet() -> TraceBuilder:
    """The optimizer takes little."""
    return model(60)


def trap_hidden_by_the_device() -> TraceBuilder:
    """The device works all the while."""
    return model(1000, busy_us=2000)
