"""Tests of the rule `memory-headroom`: numbers worked out by hand, and edges of thresholds.

The programs: free memory beside an idle GPU.
"""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.allocator import Allocator
from tests.builders.hardware import A100
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import LOADER, fires_in_a_table


def training(*, used: float, gpu: int, host: int = 3000, loader: int = 0) -> TraceBuilder:
    """Steps that use a share of the memory, and keep the host and the GPU busy for some microseconds each."""
    trace = TraceBuilder(options=("profile_memory",))
    thread, stream, memory = Host(trace, at=10), Stream(), Allocator(0)
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            if loader:
                thread.range(LOADER, loader)
            with thread.op("aten::mm", host, 2):
                address = memory.allocate(thread, int(used * A100.memory))
                thread.launch(Work("ampere_sgemm_128x64_nn", gpu), stream)
            thread.wait(stream)
            memory.free(thread, address)
    return finish(trace)


def fires() -> TraceBuilder:
    """A small batch: the host takes longer to launch it than the GPU to compute it."""
    return training(used=0.02, gpu=1000)


def quiet() -> TraceBuilder:
    """The GPU is busy: more samples would take more time."""
    return training(used=0.02, gpu=50_000)


def trap_memory_is_used() -> TraceBuilder:
    """The GPU is idle, but its memory is mostly taken."""
    return training(used=0.7, gpu=1000)


def trap_the_loader_is_slow() -> TraceBuilder:
    """A larger batch would take longer to load."""
    return training(used=0.02, gpu=1000, loader=5000)


def trap_no_totals() -> TraceBuilder:
    """Records of memory without levels: the peak is not known."""
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.op("aten::empty", 10, 20)
    trace.launch_kernel("fill_kernel", 40, 20, at=15)
    trace.memory(512, at=20, device=0)
    return trace


def trap_mostly_start_up() -> TraceBuilder:
    """The first launch loads the code of the kernel, and takes nearly all of the time."""
    trace = TraceBuilder(options=("profile_memory",))
    thread, stream, memory = Host(trace, at=10), Stream(), Allocator(0)
    with thread.annotation("ProfilerStep#0"):
        with thread.op("aten::mm"):
            memory.allocate(thread, 512)
            thread.launch(Work("ampere_sgemm_128x64_nn", 100), stream, call_dur=50_000)
        thread.wait(stream)
    return finish(trace)


RULE = "memory-headroom"


def test_says_what_more_samples_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None, "a larger batch makes no step shorter"
    assert finding.severity == "info"
    assert "times" not in finding.advice.text, "how many samples fit, memory alone does not tell"
    assert finding.advice.params["idle"] > 0


def test_edge_used_share() -> None:
    assert findings(training(used=0.395, gpu=1000), RULE), "twice as much would fit"
    assert findings(training(used=0.5, gpu=1000), RULE) == []


def test_edge_loader_share() -> None:
    slow = training(used=0.02, gpu=1000, loader=1000)
    assert findings(slow, RULE, {"loader_share": 0.3})
    assert findings(slow, RULE, {"loader_share": 0.1}) == []


def test_says_why_it_cannot_judge() -> None:
    assert "not known" in (skipped(trap_no_totals(), RULE) or "")
    assert "does not show the peak" in (skipped(fires_in_a_table(), RULE) or "")
