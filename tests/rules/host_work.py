"""Steps of a program, as situations for rules about the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.builders import TraceBuilder
from tests.builders.dialects import MODERN, Dialect
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.values import Time

Body = Callable[[Host, Stream, int], None]
"""What a step does; its number counts from 0."""


def looping(
    body: Body, *, steps: int = 4, options: Iterable[str] = (), dialect: Dialect = MODERN, prepare: Body | None = None
) -> TraceBuilder:
    """A trace of marked steps, with something before them where asked."""
    trace = TraceBuilder(dialect, options=options)
    host, stream = Host(trace, at=10), Stream()
    if prepare is not None:
        prepare(host, stream, -1)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            body(host, stream, number)
    return finish(trace)


def compute(host: Host, stream: Stream, dur: Time, name: str = "aten::mm") -> None:
    """One operator with one kernel."""
    with host.op(name, 5, 5):
        host.launch(Work("ampere_sgemm_128x64_nn", dur), stream)


def read_value(host: Host, stream: Stream) -> None:
    """`.item()`: copies a value to the host and waits for it."""
    with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        host.copy("DtoH", 4, stream, dur=1, wait=True)
