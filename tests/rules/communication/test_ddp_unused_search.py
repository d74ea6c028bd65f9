"""ddp-unused-search.

The programs: steps of DistributedDataParallel that look for parameters without a gradient, or not.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import EVALUATION
from tests.builders.timeline import Host, Stream, finish
from tests.rules.host_work import compute
from tests.rules.judging import findings, table

REDUCER = "torch.distributed.ddp.reducer::"
PARAMETERS = 10


def training(
    search: int | None = 200,
    *,
    used: int = PARAMETERS,
    notes: bool = True,
    shapes: bool = True,
    copies: bool = True,
    gpu: bool = False,
    passes: int = 1,
) -> TraceBuilder:
    """Three steps of 5 ms of a model with ten parameters, of which so many get a gradient.

    Args:
        search: Time of the walk through the graph in us; None without one.
        used: Number of parameters that get a gradient.
        notes: Whether the reducer reads its list of used parameters, as with a search or a static graph.
        shapes: Whether shapes were recorded.
        copies: Whether gradients are copied out of buckets.
        gpu: Whether kernels run that are shorter than the host needs to launch them.
        passes: Backward passes of a step, of which only the last one exchanges gradients.
    """
    trace = TraceBuilder() if gpu else TraceBuilder(devices=())
    host, stream = Host(trace, at=10), Stream()
    listed = {"shapes": [[PARAMETERS], [], []], "types": ["int", "Scalar", "Scalar"]} if shapes else {}
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for backward in range(passes):
                is_last = backward == passes - 1
                with host.annotation("DistributedDataParallel.forward"):
                    compute(host, stream, 10) if gpu else host.leaf("aten::linear", 2000, sequence=number)
                    host.work(1000)
                    if search and is_last:
                        host.leaf(REDUCER + "search_unused_parameters", search)
                        host.leaf("_DDPSink", 20, sequence=number)
                for _ in range(used):
                    with host.op(EVALUATION + "torch::autograd::AccumulateGrad"):
                        host.leaf("torch::autograd::AccumulateGrad", 100)
                        if search and is_last:
                            host.leaf("aten::select", 4, **listed)
            host.leaf("c10d::allreduce_", 5)
            for parameter in range(PARAMETERS):
                if notes:
                    host.leaf("aten::select", 4, **listed)
                    host.leaf("aten::item", 1)
                    if parameter >= used:
                        host.leaf("aten::item", 1)
                if copies:
                    host.leaf(REDUCER + "copy_bucket_to_grad", 3)
            with host.annotation("Optimizer.step#SGD.step"):
                host.leaf("aten::add_", 20)
    return finish(trace)


def fires() -> TraceBuilder:
    """The walk takes 200 us; all ten parameters have a gradient."""
    return training()


def fires_beside_a_gpu() -> TraceBuilder:
    """The GPU waits meanwhile."""
    return training(gpu=True)


def fires_on_views_of_buckets() -> TraceBuilder:
    """Gradients are views of buckets, so that nothing is copied; shapes show the number of parameters."""
    return training(copies=False)


def fires_without_shapes() -> TraceBuilder:
    """Only the copies show the number of parameters."""
    return training(shapes=False)


def fires_without_a_number() -> TraceBuilder:
    """Neither copies nor shapes were recorded."""
    return training(shapes=False, copies=False)


def fires_with_accumulation() -> TraceBuilder:
    """Two backward passes add gradients for each exchange."""
    return training(passes=2)


def fires_in_a_table() -> str:
    """A printed table."""
    rows = [(REDUCER + "search_unused_parameters", 40), ("aten::linear", 400), ("aten::mm", 560)]
    shown = [
        {"Name": name, "Self CPU": f"{time}.000ms", "CPU total": f"{time}.000ms", "# of Calls": 10}
        for name, time in rows
    ]
    return table(shown, cpu="1000.000ms")


def quiet() -> TraceBuilder:
    """An ordinary program."""
    return training(None, notes=False)


def trap_some_are_unused() -> TraceBuilder:
    """Two of ten parameters have no gradient."""
    return training(used=8)


def trap_some_are_unused_with_views_of_buckets() -> TraceBuilder:
    """The same where only shapes show the number of parameters."""
    return training(used=8, copies=False)


def trap_static_graph() -> TraceBuilder:
    """The reducer reads its list, but does not search."""
    return training(None)


def trap_short() -> TraceBuilder:
    """The walk takes 5 us of 5 ms."""
    return training(5, shapes=False)


RULE = "ddp-unused-search"
ALL_USED = "ddp-unused-search-summary"
UNKNOWN = "ddp-unused-search-summary-unknown"


def test_from_the_walk_to_all_that_belongs_to_it() -> None:
    """200 us of walk, 20 to pass outputs on, and 20 notes of 4 us."""
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (200_000, 300_000)
    assert finding.summary.params["parameters"] == 10
    assert (finding.summary.id, finding.confidence, finding.stage) == (ALL_USED, "A", "preview")
    names = [place.name.rpartition("::")[2] for place in finding.evidence[0].where]
    assert names == ["search_unused_parameters", "_DDPSink", "select"]
    assert "find_unused_parameters=False" in (finding.code or "")


def test_a_gpu_that_waits_gains_as_much() -> None:
    (finding,) = findings(fires_beside_a_gpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(300_000, rel=0.05)


@pytest.mark.parametrize(
    ("build", "summary", "most"),
    [
        (fires_on_views_of_buckets, ALL_USED, 300_000),
        (fires_without_shapes, ALL_USED, 220_000),
        (fires_without_a_number, UNKNOWN, 220_000),
        (fires_with_accumulation, UNKNOWN, 300_000),
    ],
)
def test_says_only_what_the_recording_shows(build, summary: str, most: int) -> None:  # type: ignore[no-untyped-def]
    (finding,) = findings(build(), RULE)
    assert finding.summary.id == summary
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (200_000, most)
    assert ("parameters" in finding.summary.params) == (summary == ALL_USED)


def test_a_table_shows_the_walk() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.summary.id == UNKNOWN
    assert finding.evidence[0].observed == pytest.approx(0.04)
