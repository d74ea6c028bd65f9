"""Traces of arbitrary shape, for laws about all traces."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.builders import TraceBuilder

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
KERNELS = (
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn",
    "volta_sgemm_128x64_nn",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "my_kernel",
)
_LENGTH = 400

time = st.integers(0, _LENGTH)
duration = st.integers(0, 120)
thread = st.sampled_from([4201, 4202])


@dataclass(frozen=True)
class Plan:
    """What happens in a trace; times in microseconds."""

    steps: tuple[int, ...]
    """Borders between steps."""
    ranges: tuple[tuple[str, int, int, int], ...]
    """Name, start, duration and thread of operators and annotations."""
    launches: tuple[tuple[str, int, int, int, int, int, int], ...]
    """Kernel, time and duration of the call, thread, delay and duration on the device, stream."""
    copies: tuple[tuple[int, int, int], ...]
    """Start, duration and device of copies without a launch."""

    def build(self, origin: int = 0) -> TraceBuilder:
        """The trace, its clock begun at another time."""
        trace = TraceBuilder(origin=origin)
        trace.op("aten::first", -1, 1)
        for number, (start, end) in enumerate(zip(self.steps, self.steps[1:], strict=False)):
            trace.step(number, start, end - start)
        for name, start, dur, tid in self.ranges:
            if name.startswith("aten::"):
                trace.op(name, start, dur, tid=tid, shapes=[[dur % 3, 2]])
            else:
                trace.annotation(name, start, dur, tid=tid)
        for name, at, call, tid, delay, dur, stream in self.launches:
            trace.launch_kernel(
                name, at + delay, dur, at=at, call_dur=call, tid=tid, stream=stream, grid=(dur + 1, 1, 1)
            )
        for start, dur, device in self.copies:
            trace.memcpy("HtoD", 4096, start, dur, device=device)
        return trace


names = st.sampled_from(
    ["aten::a", "aten::b", "aten::c", "my range", LOADER, "Optimizer.step#SGD.step", "nccl:all_reduce"]
)
plans = st.builds(
    Plan,
    steps=st.lists(time, max_size=4, unique=True).map(lambda found: tuple(sorted(found))),
    ranges=st.lists(st.tuples(names, time, duration, thread), max_size=12).map(tuple),
    launches=st.lists(
        st.tuples(
            st.sampled_from(KERNELS), time, st.integers(0, 10), thread, st.integers(-5, 80), duration, st.integers(7, 9)
        ),
        max_size=10,
    ).map(tuple),
    copies=st.lists(st.tuples(time, duration, st.integers(0, 1)), max_size=4).map(tuple),
)
