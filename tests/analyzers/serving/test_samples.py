"""Samples per second: known where setting or shapes leave no doubt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analyzers.serving.loops import Loop, analyze
from traceanalyzer.analyzers.serving.batches import Samples

UNKNOWN = {"batch_size": None, "batches_per_step": None, "per_s": None, "source": None}


def images(*sizes: int) -> Loop:
    """A step for each batch of images with labels."""
    loop = Loop()
    for size in sizes:
        loop.begin()
        loop.batch([size, 3, 8, 8], [size])
        loop.convolution(size)
    return loop


def facts(*loaders: dict[str, Any], batches: float = 1) -> dict[str, Any]:
    """What a capture writes about loaders."""
    return {"version": 1, "loaders": list(loaders), "batches_per_step": batches}


def test_the_batch_and_the_first_layer_share_their_first_axis() -> None:
    # steps of 1 ms with 8 samples each
    assert analyze(images(8, 8, 8)).samples == Samples(8, 1, 8000, "shapes", None)


def test_samples_are_those_of_typical_steps() -> None:
    found = analyze(images(8, 8, 8, 3), reasons=(None, None, None, "edge"))
    assert found.steps == 3
    assert found.samples == Samples(8, 1, 8000, "shapes", None)


@pytest.mark.parametrize("sizes", [(8, 16, 8), (8, 8, 3)], ids=["varying", "a smaller last one"])
def test_batches_that_differ_between_steps_are_no_batch_size(sizes: tuple[int, ...]) -> None:
    assert analyze(images(*sizes)).samples == Samples(**UNKNOWN, unknown="differs")


def test_gradients_that_are_accumulated_make_several_batches_a_step() -> None:
    loop = Loop()
    for _ in range(3):
        loop.begin()
        for _ in range(4):
            loop.batch([8, 3, 8, 8], [8])
            loop.convolution(8)
    assert analyze(loop).samples == Samples(8, 4, 32_000, "shapes", None)


def test_steps_with_different_numbers_of_batches_are_not_alike() -> None:
    loop = images(8, 8)
    loop.batch([8, 3, 8, 8], [8])
    loop.convolution(8)
    assert analyze(loop).samples.unknown == "differs"


def test_a_batch_that_is_cut_into_pieces_shares_no_axis_with_the_first_layer() -> None:
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.batch([32, 3, 8, 8], [32])
        for _ in range(4):
            loop.convolution(8)
    assert analyze(loop).samples == Samples(**UNKNOWN, unknown="not-shared")


def test_tensors_of_a_batch_with_other_first_axes_leave_a_doubt() -> None:
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.batch([8, 3, 8, 8], [37, 4])
        loop.convolution(8)
    assert analyze(loop).samples.unknown == "not-shared"


def test_a_batch_of_several_inputs_with_a_pass_each_is_nested() -> None:
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.batch([8, 3, 8, 8], [8, 3, 8, 8])
        loop.convolution(8)
        loop.convolution(8)
    assert analyze(loop).samples.unknown == "nested"


def test_a_batch_of_several_tensors_for_one_pass_is_one_batch() -> None:
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.batch([8, 128], [8, 128], [8, 128])
        loop.layer("aten::embedding", [1000, 64], [8, 128], types=["float", "long int"])
    assert analyze(loop).samples == Samples(8, 1, 8000, "shapes", None)


def test_equal_layers_behind_the_first_are_no_passes_of_their_own() -> None:
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.batch([8, 64], [8])
        for _ in range(3):
            loop.layer("aten::linear", [8, 64], [64, 64], [64])
    assert analyze(loop).samples == Samples(8, 1, 8000, "shapes", None)


def test_work_that_the_device_does_later_counts_in_its_own_step() -> None:
    # the host is a step ahead: it prepares the second batch while the first step's kernel runs; that step is longer
    loop = Loop()
    for number in range(3):
        loop.begin()
        loop.batch([8, 3, 8, 8], [8])
        loop.op("aten::conv2d", loop.now, 8, shapes=[[8, 3, 8, 8], [4, 3, 3, 3]], types=["float", "float"])
        loop.launch_kernel("sm80_xmma_fprop_implicit_gemm", 600 + 1000 * number, 1000, at=loop.now + 1)
    found = analyze(loop)
    assert found.samples == Samples(8, 1, pytest.approx(2 * 8 / 2000e-6), "shapes", None)


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        (Loop(), "no-steps"),
        (images(), "no-steps"),
    ],
)
def test_without_steps_there_are_no_samples(loop: Loop, reason: str) -> None:
    loop.op("aten::add", 0, 10, shapes=[[8]])
    assert analyze(loop).samples == Samples(**UNKNOWN, unknown=reason)


def test_without_a_loader_a_first_axis_may_be_anything() -> None:
    loop = Loop()
    loop.begin()
    loop.convolution(8)
    assert analyze(loop).samples.unknown == "no-loader"


def test_without_shapes_nothing_can_be_compared() -> None:
    loop = Loop()
    loop.begin()
    loop.batch()
    loop.op("aten::conv2d", loop.now, 8)
    assert analyze(loop).samples.unknown == "no-shapes"


def test_a_batch_that_is_not_seen_on_its_way_to_the_device_is_not_shared() -> None:
    loop = Loop()
    loop.begin()
    loop.batch()
    loop.convolution(8)
    assert analyze(loop).samples.unknown == "not-shared"


def test_a_capture_knows_the_loader() -> None:
    loop = Loop(facts=facts({"batch_size": 16}, batches=2))
    loop.begin()
    loop.op("aten::add", 10, 10)
    assert analyze(loop).samples == Samples(16, 2, 32_000, "capture", None)


@pytest.mark.parametrize(
    "settings",
    [
        facts({"batch_size": None}),
        facts({"batch_size": 4}, {"batch_size": 8}),
        facts(),
        facts({"batch_size": 4}, batches=0),
    ],
    ids=["unknown", "two loaders", "no loader", "no batch"],
)
def test_a_capture_that_does_not_tell_leaves_it_to_the_shapes(settings: dict[str, Any]) -> None:
    loop = Loop(facts=settings)
    loop.begin()
    loop.batch([8, 3, 8, 8], [8])
    loop.convolution(8)
    assert analyze(loop).samples == Samples(8, 1, 8000, "shapes", None)


def test_shapes_that_contradict_the_loader_leave_a_doubt() -> None:
    loop = Loop(facts=facts({"batch_size": 16}))
    loop.begin()
    loop.batch([8, 3, 8, 8], [8])
    loop.convolution(8)
    assert analyze(loop).samples == Samples(**UNKNOWN, unknown="contradiction")


def test_a_smaller_last_batch_is_a_doubt_about_the_setting_too() -> None:
    loop = Loop(facts=facts({"batch_size": 8}))
    for size in (8, 8, 3):
        loop.begin()
        loop.batch([size, 3, 8, 8], [size])
        loop.convolution(size)
    assert analyze(loop).samples == Samples(**UNKNOWN, unknown="differs")
