"""Tests of the rule `dataloader-bound`: numbers worked out by hand, and edges of thresholds.

The programs: waiting for batches, exposed and hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.values import Time
from tests.reading import read_built
from tests.rules.host_work import compute
from tests.rules.judging import findings, report, table
from traceanalyzer.prediction import whatif

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(loader: Time, gpu: Time, *, steps: int = 3, wait_first: bool = True, name: str = LOADER) -> TraceBuilder:
    """Steps that load a batch, compute on it, and wait for the result; or that load while the GPU computes."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            if wait_first:
                host.range(name, loader)
            with host.op("aten::mm", 5, 5):
                host.launch(Work("ampere_sgemm_128x64_nn", gpu), stream)
            if not wait_first:
                host.range(name, loader)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Each step waits 4 ms for its batch and computes for 6 ms."""
    return training(4000, 6000)


def on_the_host(name: str = LOADER, wait: Time = 4000) -> TraceBuilder:
    """The same training without a GPU."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            host.range(name, wait)
            with host.op("aten::mm", 5, 6000):
                pass
    return finish(trace)


def drawing(operator: str, *, epochs: int = 3, each: bool = False, frames: bool = False) -> TraceBuilder:
    """Epochs of four steps on the CPU; before the first batch of each (or before each) an operator takes 20 ms.

    Args:
        operator: What takes so long.
        epochs: How many.
        each: Whether it is called for each batch.
        frames: Whether frames are recorded, those of the sampler around the operator.
    """
    trace = TraceBuilder(devices=(), options=("with_stack",) if frames else ())
    host = Host(trace, at=10)
    sampler = "torch/utils/data/sampler.py(276): __iter__"
    for number in range(4 * epochs):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation(LOADER):
                if each or number % 4 == 0:
                    with host.frame(sampler) if frames else nullcontext():
                        host.leaf(operator, 20_000)
                host.leaf("aten::stack", 200)
            host.leaf("aten::mm", 1000)
    return finish(trace)


def fires_on_a_sampler() -> TraceBuilder:
    """The order of the samples is drawn at the start of each epoch."""
    return drawing("aten::multinomial")


def fires_on_a_sampler_with_frames() -> TraceBuilder:
    """The same, where frames show whose call it is."""
    return drawing("aten::randperm", frames=True)


def with_frames(frame: str, *, cpus: int = 2) -> TraceBuilder:
    """Steps on the CPU that load for 8 ms, in a call of a built-in function, and compute for 12 ms."""
    trace = TraceBuilder(devices=(), options=("with_stack",))
    trace.metadata["traceanalyzer"] = {"version": 1, "host": {"cpus": cpus, "threads": 1}}
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation(LOADER), host.frame(frame, before=8000):
                pass
            with host.op("aten::mm", 5, 12_000):
                pass
    return finish(trace)


def with_capture(*fetching: dict[str, int | None] | None, loads: Sequence[Time] = (8000,) * 3) -> TraceBuilder:
    """Steps on one of two cores that load without workers, and compute for 12 ms; what loading took by a capture.

    Args:
        fetching: Of each loader, what it took to prepare its batches; None if that is unknown.
        loads: Time of each step to load, in us.
    """
    trace = TraceBuilder(devices=())
    trace.metadata["traceanalyzer"] = {
        "version": 1,
        "host": {"cpus": 2, "threads": 1},
        "loaders": [{"workers": 0, "epochs": 1, "fetching": each} for each in fetching],
        "timing": {"profiled": {"steps": len(loads), "mean_ns": 20_000_000, "median_ns": 20_000_000}},
    }
    host = Host(trace, at=10)
    for number, load in enumerate(loads):
        with host.annotation(f"ProfilerStep#{number}"):
            host.range(LOADER, load)
            with host.op("aten::mm", 5, 12_000):
                pass
    return finish(trace)


def with_samples(
    samples: dict[str, Any] | None, *, workers: int = 0, wait: Time = 8000, name: str = LOADER
) -> TraceBuilder:
    """Steps on two cores that wait for a batch and compute for 12 ms; what samples cost by a capture."""
    trace = on_the_host(name, wait)
    trace.metadata["traceanalyzer"] = {
        "version": 1,
        "batches_per_step": 1.0,
        "host": {"cpus": 2, "threads": 2},
        "loaders": [{"workers": workers, "epochs": 1, "samples": samples}],
    }
    return trace


def slow(ns: int = 24_000_000, collate_ns: int = 2_000_000, **names: str | None) -> dict[str, Any]:
    """Three batches of eight samples; by default `Words.__getitem__` takes 22 of 24 ms."""
    measured = {"batches": 3, "samples": 24, "ns": ns, "collate_ns": collate_ns}
    return measured | {"function": "data.py(7): Words.__getitem__", "collate": "data.py(30): pad"} | names


def fires_on_a_slow_function() -> TraceBuilder:
    """The function of the dataset takes most of each batch."""
    return with_samples(slow())


def trap_ready_batches() -> TraceBuilder:
    """Workers have each batch ready; to fetch it takes 1.5 ms of a step of 7.5."""
    return training(1500, 6000, name=WORKERS)


def fires_in_a_table() -> str:
    """Most host time is in the loader's row, and the GPU has little to do."""
    return _table(loader="900.000ms", others="100.000ms", device="200.000ms")


def quiet() -> TraceBuilder:
    """Batches are ready when they are asked for."""
    return training(20, 6000)


def quiet_in_a_table() -> str:
    """The loader's row is small."""
    return _table(loader="10.000ms", others="990.000ms", device="950.000ms")


def trap_hidden_wait() -> TraceBuilder:
    """The program waits long for the next batch, but the GPU works all the while."""
    return training(4000, 6000, wait_first=False)


def _table(loader: str, others: str, device: str) -> str:
    rows = [
        {"Name": LOADER, "Self CPU": loader, "CPU total": loader, "Self CUDA": "0.000us", "# of Calls": 10},
        {"Name": "aten::mm", "Self CPU": others, "CPU total": others, "Self CUDA": device, "# of Calls": 10},
    ]
    return table(rows, cpu="1.000s", device=device)


RULE = "dataloader-bound"


def test_the_wait_is_bounded_by_what_one_worker_could_hide() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(4_000_000, rel=0.01)
    assert low == pytest.approx(4_000_000 - 1_500_000 - 0.31 * 4_000_000, rel=0.01)
    assert finding.severity == "critical"
    assert report(fires(), RULE).headlines[0].bound == "input"


def test_a_loader_slower_than_the_rest_is_not_hidden_by_one_worker() -> None:
    """One worker would save the 8 ms of the rest, less 1.5 to fetch a batch and 0.31 of the 12 that it loads."""
    (finding,) = findings(training(12_000, 8000), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(12_000_000, rel=0.01)
    assert low == pytest.approx(8_000_000 - 1_500_000 - 0.31 * 12_000_000, rel=0.02)


def test_without_a_gpu_there_is_nothing_to_pin_for() -> None:
    (finding,) = findings(on_the_host(), RULE)
    assert finding.advice.id == "dataloader-bound-advice-host"
    assert finding.code is not None
    assert "num_workers" in finding.code
    assert "pin_memory" not in finding.code
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_a_table_tells_what_one_worker_hides_and_what_nothing_can() -> None:
    """Of 1,000 ms the loader takes 900: one worker hides the other 100, and the GPU's 200 remain with any number."""
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_share == pytest.approx((0.1, 0.8))
    arithmetic = finding.saving.arithmetic
    assert arithmetic is not None
    assert arithmetic.result_ns == arithmetic.minuend.ns - max(o.ns for o in arithmetic.subtrahends)
    assert report(fires_in_a_table(), RULE).headlines[0].bound == "input"


def test_edge_host_share() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.9}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.899})


def test_workers_that_exist_promise_nothing() -> None:
    (finding,) = findings(training(4000, 6000, name=WORKERS), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0
    assert finding.advice.id == "dataloader-bound-advice-some-workers"
    assert "pin_memory" not in (finding.code or "")


def test_that_the_program_prepares_batches_itself_is_evidence() -> None:
    (finding,) = findings(fires(), RULE)
    wait, own = finding.evidence
    assert own.observed == pytest.approx(wait.observed)
    assert own.subject.id == "dataloader-bound-subject-own"


def test_waits_of_less_than_a_millisecond_promise_nothing() -> None:
    (finding,) = findings(training(900, 1000), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0


def test_a_loader_that_a_library_makes_has_no_code_to_change() -> None:
    trace = TraceBuilder(options=("with_stack",))
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.frame("transformers/pipelines/pt_utils.py(117): __next__"):
                host.range(LOADER, 4000)
            compute(host, stream, 6000)
            host.wait(stream)
    (finding,) = findings(finish(trace), RULE)
    assert finding.advice.params["library"] == "transformers.pipeline"
    assert finding.code is None


SLEEP, SUM = "<built-in function sleep>", "<built-in function sum>"


@pytest.mark.parametrize(
    ("frame", "cpus", "low", "basis"),
    [
        (SUM, 2, 0, "loader-basis-busy"),
        (SUM, 4, 8.0 - 1.5 - 0.31 * 8.0, "loader-basis-free"),
        (SLEEP, 2, 8.0 - 1.5, "loader-basis-side-by-side"),
    ],
    ids=["work-on-two", "work-on-four", "sleep-on-two"],
)
def test_what_a_worker_costs_depends_on_the_cores(frame: str, cpus: int, low: float, basis: str) -> None:
    """A thread of the program and a worker need a core each, which has two hardware threads."""
    (finding,) = findings(with_frames(frame, cpus=cpus), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((low * 1e6, 8e6), rel=0.01)
    assert finding.saving.basis.id.startswith(basis) or basis in str(finding.saving.basis.params)


def fetched(ms: float, cpu_ms: float, queued_ms: float | None = 0) -> dict[str, int | None]:
    """What a capture records of the batches of three steps."""
    queued = None if queued_ms is None else int(queued_ms * 1e6)
    return {"batches": 3, "ns": int(ms * 1e6), "cpu_ns": int(cpu_ms * 1e6), "queued_ns": queued}


@pytest.mark.parametrize(
    ("fetching", "low", "basis"),
    [
        ([fetched(24, 0)], 8 - 1.5, "side-by-side"),
        ([fetched(24, 6)], 6 - 1.5 - 0.31 * 2, "side-by-side"),
        ([fetched(24, 3, 3)], 6 - 1.5 - 0.31 * 2, "side-by-side"),
        ([fetched(24, 16.5)], 0, "busy"),  # of 2.5 ms that need no core, 1.5 and 0.31 * 5.5 are lost
        ([fetched(24, 14)], 10 / 3 - 1.5 - 0.31 * 14 / 3, "side-by-side"),  # hardly more than nothing
        ([fetched(24, 48)], 0, "busy"),
        ([fetched(24, 0, None)], 0, "busy"),
        ([None], 0, "busy"),
        ([], 0, "busy"),
        ([fetched(18, 0), fetched(6, 12)], 6 - 1.5 - 0.31 * 2, "side-by-side"),
        ([fetched(240, 12)], 4 - 1.5 - 0.31 * 4, "side-by-side"),  # other steps slept for long
        ([fetched(24, 0), None], 8 - 1.5, "side-by-side"),
    ],
    ids=[
        "asleep",
        "a quarter works",
        "and waits for a core",
        "too little sleep",
        "part asleep",
        "several threads",
        "queue unknown",
        "old capture",
        "no loader",
        "two loaders",
        "not typical",
        "one of two unread",
    ],
)
def test_a_capture_shows_what_needs_no_core(
    fetching: list[dict[str, int | None] | None], low: float, basis: str
) -> None:
    """Each step loads for 8 ms and computes for 12, on two hardware threads: a worker has no core of its own."""
    trace = with_capture(*fetching)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((low * 1e6, 8e6), rel=0.02)
    assert finding.saving.basis.id == f"loader-basis-{basis}"
    least, _, most = whatif(read_built(trace), loader=0).saving_ns
    assert (least, most) == pytest.approx(finding.saving.direct_ns_per_step, rel=0.02, abs=1e4)


def test_as_many_workers_are_started_and_priced_as_wait_side_by_side() -> None:
    """Each step loads for 48 ms, asleep for 42 of them, and computes for 12, with two hardware threads."""
    (finding,) = findings(with_capture(fetched(144, 18), loads=(48_000,) * 3), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((42e6 - 1.5e6 - 0.31 * 6e6, 48e6), rel=0.02)
    assert finding.saving.basis.params["workers"] == 4
    assert finding.code == "DataLoader(dataset, num_workers=4, persistent_workers=True)"
    assert finding.advice.id == "dataloader-bound-advice-asleep"


@pytest.mark.parametrize("frames", [True, False])
def test_waiting_for_workers_is_no_sleep_of_the_loader(frames: bool) -> None:
    """8 ms of sleep in the program and 8 ms of waiting for workers of another loader, which get no faster."""
    trace = TraceBuilder(devices=(), options=("with_stack",) if frames else ())
    slept = {"workers": 0, "epochs": 1, "fetching": fetched(24, 0)}
    trace.metadata["traceanalyzer"] = {
        "version": 1,
        "host": {"cpus": 2, "threads": 1},
        "loaders": [slept, {"workers": 2, "epochs": 1}],
        "timing": {"profiled": {"steps": 3, "mean_ns": 28_000_000, "median_ns": 28_000_000}},
    }
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for name in (LOADER, WORKERS):
                with host.annotation(name), host.frame(SLEEP, before=8000) if frames else nullcontext():
                    host.work(0 if frames else 8000)
            with host.op("aten::mm", 5, 12_000):
                pass
    (finding,) = findings(finish(trace), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx(((8 - 1.5 - 0.31 * 8) * 1e6, 16e6), rel=0.02)


def test_one_worker_hides_a_long_wait_only_as_far_as_a_step_computes() -> None:
    """Every fourth of twelve batches sleeps for 32 ms, but a step computes for 12: 20 of 32 remain, 5 ms per step."""
    trace = with_capture({"batches": 12, "ns": 96_000_000, "cpu_ns": 0, "queued_ns": 0}, loads=[1, 1, 1, 32_000] * 3)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx(((8 - 5 - 1.5) * 1e6, 8e6), rel=0.02)


def test_a_program_on_the_cpu_is_taken_to_use_all_cores() -> None:
    (finding,) = findings(on_the_host(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((0, 4_000_000), rel=0.01)


def test_short_loading_on_busy_cores_promises_nothing() -> None:
    trace = on_the_host(wait=2000)
    (finding,) = findings(trace, RULE)
    assert (finding.saving, finding.severity, finding.code) == (None, "info", None)
    assert finding.advice.id == "dataloader-bound-advice-short"


def test_edge_ready_ns() -> None:
    assert findings(trap_ready_batches(), RULE) == []
    assert findings(trap_ready_batches(), RULE, {"ready_ns": 1_400_000})


def test_a_call_of_the_runtime_within_a_wait_is_no_waiting() -> None:
    """Pinning calls the runtime: the sentence and the place leave its 500 us out of each wait of 8 ms."""
    trace = training(8000, 5000)
    for event in [event for event in trace.events if event["name"] == LOADER]:
        trace.launch("cudaHostAlloc", str(event["ts"] + 1000), 500)
    (finding,) = findings(trace, RULE)
    (place,) = finding.where
    assert finding.summary.params["wait"] == pytest.approx(7_500_000, rel=0.02)
    assert place.ns_per_step == pytest.approx(finding.summary.params["wait"])
