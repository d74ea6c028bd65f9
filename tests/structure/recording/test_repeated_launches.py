"""Passes of programs of which only the device was recorded, told from the layers of one pass."""

from __future__ import annotations

import numpy as np
import pytest

from tests.structure.recording.unmarked import WHOLE, Unmarked, found

RES = "norm silu conv add norm silu conv add "


def attention(width: int) -> str:
    return f"layer_norm gemm gemm flash_{width} gemm add gelu gemm add "


DENOISING = (RES + attention(64)) * 4 + (RES + attention(128)) * 3 + RES * 6 + (RES + attention(64)) * 4 + "mul mul "
"""A U-Net: blocks in runs of several kinds, none of which is half of it."""
ENCODER = "layer_norm gemm gemm softmax gemm gelu gemm "
TOKEN = "index_select " + (ENCODER + "cat cat ") * 6 + "gemv argmax "
IMAGE = "conv relu " * 4 + "dgrad wgrad relu_backward " * 4 + "multi_tensor_apply_kernel<Adam> " * 3
LAYERS = "embedding " + ENCODER * 12 + "gemm softmax "


class Program(Unmarked):
    """Launches of 5 us, each 10 us after the one before; kernels of 8 us."""

    def launches(self, names: str, pause: int = 0) -> Program:
        """Launch kernels of some names, after a pause of the host."""
        self.at += pause
        for name in names.split():
            self.trace.launch_kernel(name, self.at + 6, 8, at=self.at, call_dur=5)
            self.at += 15
        return self

    def times(self, count: int, names: str, pause: int = 0) -> Program:
        """Do so several times."""
        for _ in range(count):
            self.launches(names, pause)
        return self

    def waits(self) -> Program:
        """Wait for the device, as the profiler does at the end."""
        self.trace.launch("cudaDeviceSynchronize", self.at, 20)
        self.at += 25
        return self


def test_a_model_of_several_runs_of_blocks_is_called_again_and_again() -> None:
    steps = Program().times(12, DENOISING).waits().steps()
    assert (steps.found_by, len(steps)) == ("repeated kernels", 12)
    assert steps.start_ns[0] == 0


@pytest.mark.parametrize("encoder", ["", LAYERS, "norm " + LAYERS * 2], ids=["none", "short", "long"])
@pytest.mark.parametrize(
    "decoder", ["", "conv silu upsample " * 9, "norm silu conv2 add " * 5], ids=["none", "other", "alike"]
)
def test_what_comes_before_and_after_is_no_step(encoder: str, decoder: str) -> None:
    """The host pauses for 90 us before each step, as a scheduler does, which is longer than between launches."""
    program = Program().launches(encoder)
    first = 0 if encoder else 90  # times count from the first launch
    begins = program.at + 90
    program.times(12, DENOISING, pause=90)
    ends = program.at - first
    steps = program.launches(decoder, pause=40).waits().steps()
    assert (steps.found_by, len(steps)) == ("repeated kernels", 12)
    assert steps.start_ns[0] == (begins - first) * 1000
    assert set(np.diff(steps.start_ns).tolist()) == {(90 + 15 * len(DENOISING.split())) * 1000}
    assert 0 <= int(steps.end_ns[-1]) // 1000 - ends <= 60


@pytest.mark.parametrize("before", ["", "fill rand rand", "conv_tune " * 30 + IMAGE.replace("relu", "relu_cold")])
def test_a_training_updates_parameters_in_each_step(before: str) -> None:
    """Whatever comes before, such as the first step, and after, such as an evaluation."""
    assert found(Program().launches(before).times(6, IMAGE).launches("conv relu " * 4)) == ("repeated kernels", 6)


def test_where_nothing_else_was_recorded_the_first_launch_begins_a_pass() -> None:
    """Although the host pauses longest after the copy of each batch."""
    program = Program()
    for _ in range(6):
        program.trace.memcpy("HtoD", 4096, program.at + 6, 8, at=program.at, call_dur=5)
        program.at += 15
        program.launches(IMAGE, pause=200)
    steps = program.waits().steps()
    assert (steps.found_by, len(steps), int(steps.start_ns[0])) == ("repeated kernels", 6, 0)


def test_updates_alone_are_no_steps() -> None:
    """One step of a training, most of which updates parameters, list by list."""
    update = "multi_tensor_apply_kernel<Mul> multi_tensor_apply_kernel<Add> multi_tensor_apply_kernel<Div> "
    assert found(Program().launches("conv relu gemm dgrad wgrad").times(9, update * 2 + "fill ")) == WHOLE


def test_tokens_are_generated_after_the_prompt() -> None:
    program = Program().launches("index_select " + ENCODER.replace("gemm", "gemm_128") * 6 + "gemm argmax")
    steps = program.times(15, TOKEN, pause=120).waits().steps()
    assert (steps.found_by, len(steps)) == ("repeated kernels", 15)


def test_attention_changes_with_the_length_of_a_text() -> None:
    """The first tokens need no combination of partial results; of later ones it has two names."""
    program = Program().launches("index_select " + ENCODER.replace("gemm", "gemm_128") * 6 + "gemm argmax")
    for number in range(30):
        combine = "" if number < 10 else f"softmax_combine_{number // 20} "
        program.launches(TOKEN.replace("softmax ", "softmax " + combine), pause=120)
        program.waits()
    steps = program.steps()
    assert (steps.found_by, len(steps)) == ("repeated kernels", 30)


@pytest.mark.parametrize(("pause", "says"), [(120, ("repeated kernels", 12)), (0, WHOLE)])
def test_a_loss_that_is_read_now_and_then_needs_pauses(pause: int, says: tuple[str, int]) -> None:
    """Without updates by list, and without pauses, it may be a layer that is read."""
    program = Program()
    for number in range(12):
        program.launches("conv relu " * 8 + "dgrad wgrad relu_backward " * 8 + "mul add " * 9, pause)
        if number in {3, 7}:
            program.waits()
    assert found(program) == says


@pytest.mark.parametrize(
    "names",
    [
        LAYERS,
        "embedding " + (ENCODER + "expert_gemm silu " * 6) * 8 + "norm gemm ",
        DENOISING,
        "conv relu pool " * 2 + "gemm softmax ",
        DENOISING + LAYERS + IMAGE,
    ],
    ids=["layers", "experts", "blocks", "small", "one after another"],
)
def test_one_pass_is_one_step(names: str) -> None:
    assert found(Program().launches(names).waits()) == WHOLE


def test_passes_that_are_all_different_are_one_step() -> None:
    program = Program()
    for number in range(12):
        program.launches(f"gemm_{number} relu_{number * 7 % 5} conv_{number % 7} norm add_{number}", pause=90)
    assert found(program.waits()) == WHOLE


def test_pauses_between_layers_are_short() -> None:
    """Modules of Python take some time between layers, too; and a model begins and ends with something else."""
    program = Program().launches("embedding")
    program.times(12, ENCODER * 2 + "add ", pause=25)
    assert found(program.launches("norm gemm softmax", pause=25).waits()) == WHOLE
