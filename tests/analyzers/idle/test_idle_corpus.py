"""Idle time of real traces beside Holistic Trace Analysis 0.5.0 (`hta` in the expected files).

HTA measures from the first to the last GPU event, so the window is widened to that here. Tolerances: HTA computes
in float64 microseconds (each time is off by up to a quantum that grows with the timestamps) and its tables are
rounded to 0.01 us.
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests import corpus_files
from traceanalyzer.analyzers import idle
from traceanalyzer.analyzers.idle import gpu, streams_of
from traceanalyzer.structure import gaps
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT

pytestmark = pytest.mark.corpus

GPU_EVENTS_DIFFER = {
    "mtia_inference": "mtia_ccp_events are no device activity for us",
}
"""HTA takes every event with a stream argument for GPU activity."""
BUSIER_IN_HTA = {
    "alexnet_a100_cuda_sync": "cuda_sync records count as GPU activity in HTA",
    "event_sync_multi_stream_a100": "cuda_sync records count as GPU activity in HTA",
    "torch_compile_triton_mi300": "operators of Triton have a stream argument and count as GPU activity in HTA",
    "triton_op_a100": "operators of Triton have a stream argument and count as GPU activity in HTA",
}
ONLY_LAUNCHED = {
    "resnet50_v100_workers0_golden": "HTA leaves out the kernels whose launch is not in the trace",
    "resnet50_v100_workers4_golden": "HTA leaves out the kernels whose launch is not in the trace",
}
CAUSES_DIFFER = {
    "train_v100_ns_timestamps": "a quarter of a microsecond of float noise decides what was launched in time",
    "qwen_0_5b_h100_inference": "HTA counts 7 short gaps before kernels without a launch (9.1 us) as host wait",
    "owlv2_mi300_inference": "HTA adds the negative gaps of overlapping kernels to kernel wait (-2.9 us)",
}


def read(corpus: Path, name: str) -> tuple[Context, dict[str, Any]]:
    with gzip.open(corpus / "expected" / f"{name}.json.gz") as file:
        hta = json.load(file).get("hta")
    context = corpus_files.context_of(corpus / "corpus" / f"{name}.json.gz")
    if not hta or not hta["temporal_breakdown"] or name in GPU_EVENTS_DIFFER or not len(context.trace.device):
        pytest.skip("nothing to compare: " + GPU_EVENTS_DIFFER.get(name, "no GPU activity for HTA or for us"))
    return context, hta


def compared(context: Context, name: str) -> tuple[I64, tuple[int, int]]:
    """The device events that HTA counts, and the window that they span."""
    device = context.trace.device
    rows = np.arange(len(device))
    if name in ONLY_LAUNCHED:
        rows = np.flatnonzero(context.links.launch != NO_PARENT)
    return rows, (int(device.start_ns[rows].min()), int((device.start_ns + device.dur_ns)[rows].max()))


def noise_us(trace: Trace, events: int) -> float:
    """How far sums over some events may be off in float64 microseconds since the origin of the file."""
    quantum = 2.0 ** (math.floor(math.log2(max(trace.info.origin_ns / 1000, 1))) - 52)
    return 6 * quantum * math.sqrt(events) + 0.011


def test_idle_time_equals_that_of_hta_over_its_window(corpus: Path, corpus_name: str) -> None:
    context, hta = read(corpus, corpus_name)
    rows, window = compared(context, corpus_name)
    (wanted,) = hta["temporal_breakdown"]
    found = gaps.find(context, rows, window)
    if corpus_name in BUSIER_IN_HTA:
        assert wanted["kernel_time(us)"] - wanted["idle_time(us)"] > (window[1] - window[0] - found.length.sum()) / 1000
        return
    tolerance = noise_us(context.trace, len(rows))
    assert (window[1] - window[0]) / 1000 == pytest.approx(wanted["kernel_time(us)"], abs=tolerance)
    assert int(found.length.sum()) / 1000 == pytest.approx(wanted["idle_time(us)"], abs=tolerance)


def test_idle_time_of_streams_equals_that_of_hta_by_cause(corpus: Path, corpus_name: str) -> None:
    context, hta = read(corpus, corpus_name)
    rows, window = compared(context, corpus_name)
    if corpus_name in ONLY_LAUNCHED:
        trace = context.trace
        context = Context(replace(trace, device=trace.device.take(rows)))
    wanted: dict[int, dict[str, float]] = {}
    for row in hta["idle_time_breakdown"]["per_stream"]:
        wanted.setdefault(row["stream"], {})[row["idle_category"]] = row["idle_time"]
    device = context.trace.device
    (number,) = np.unique(device.device).tolist()
    found = {stream.stream: stream for stream in streams_of(context, number, window)}
    assert set(wanted) <= set(found)  # HTA's table leaves out streams with nothing to say
    for stream, causes in wanted.items():
        here = np.flatnonzero(device.stream == stream)
        tolerance = noise_us(context.trace, len(here))
        parts = {cause: getattr(found[stream], cause).time_ns / 1000 for cause in ("host_wait", "kernel_wait", "other")}
        starts, ends = device.start_ns[here], device.start_ns[here] + device.dur_ns[here]
        overlap = int(np.minimum(starts[1:] - ends[:-1], 0).sum()) / 1000
        assert sum(parts.values()) + overlap == pytest.approx(sum(causes.values()), abs=tolerance)
        if corpus_name not in CAUSES_DIFFER:
            for cause, time in parts.items():
                assert time == pytest.approx(causes.get(cause, 0), abs=tolerance), (stream, cause)


def test_causes_sum_to_the_idle_time(corpus: Path, corpus_name: str) -> None:
    context = corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    if idle.ANALYSES[0].missing(context) is not None:
        pytest.skip("nothing to compare: no kernels")
    busy = {device.device: device.busy_share for device in gpu.analyze(context).devices}
    assert busy
    for device in idle.analyze(context).devices:
        assert sum(cause.time_ns for cause in device.causes) == device.idle_ns
        assert device.busy_ns / device.window_ns == pytest.approx(busy[device.device], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("owlv2_h100_inference", "dataloader"),
        ("resnet50_v100_workers0_memory", "dataloader"),
        ("ddp_a100_nccl_rank0", "launch_bound"),
        ("bert_small_mi300_inference", "launch_bound"),
        ("train_v100_ns_timestamps", "device_gap"),
        ("normalization_layers_mi300", "compilation"),
    ],
)
def test_the_main_cause_is_the_one_that_reading_the_trace_gives(corpus: Path, name: str, cause: str) -> None:
    """Loaders that nothing hides, small kernels in eager mode, a full queue, first uses of every kernel."""
    (device,) = idle.analyze(corpus_files.context_of(corpus / "corpus" / f"{name}.json.gz")).devices
    assert max(device.causes, key=lambda row: row.time_ns).cause == cause
