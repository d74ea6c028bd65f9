"""Which package a Python frame belongs to."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge import python_frames
from traceanalyzer.knowledge.python_frames import PythonFrame

OWN = (
    "train.py(12): main",
    "src/model/layers.py(3): forward",
    "/home/me/project/train.py(1): <module>",
    "C:\\work\\train.py(9): step",
    "/workspace/vllm/vllm/v1/worker/gpu_model_runner.py(33): execute_model",
    "<ipython-input-5-ab>(3): fit",
    "models/transformer.py(8): __call__",
)
TELLING = (
    "transformers/generation/utils.py(9): generate",
    "/usr/lib/python3/dist-packages/PIL/Image.py(4): resize",
    "/opt/conda/lib/python3.10/site-packages/vllm/engine.py(4): step",
    "vllm\\worker\\worker.py(4): execute_model",
    "torch/optim/adam.py(5): step",
)
NEITHER = (
    "<built-in method run_backward of object at 0x1>",
    "nn.Module: Linear_0",
    "threading.py(1032): _bootstrap",
    "/usr/lib/python3.11/json/decoder.py(3): decode",
    "<string>(1): <module>",
    "<frozen importlib._bootstrap>(9): _find",
    "torch/nn/modules/module.py(1743): _call_impl",
    "torch/utils/_contextlib.py(117): decorate_context",
    "torch/nn/functional.py(2811): batch_norm",
    "train.py(12): <lambda>",
    "transformers/utils/generic.py(824): wrapper",
    "train.py",
    "no line(x): f",
    "/opt/torch/nn/modules/module.py(3): __call__",
)


@pytest.mark.parametrize("name", OWN)
def test_code_of_the_program(name: str) -> None:
    assert python_frames.is_own(name)
    assert not python_frames.is_telling_library(name)


@pytest.mark.parametrize("name", TELLING)
def test_telling_functions_of_libraries(name: str) -> None:
    assert python_frames.is_telling_library(name)
    assert not python_frames.is_own(name)


@pytest.mark.parametrize("name", NEITHER)
def test_frames_that_are_no_owners(name: str) -> None:
    assert not python_frames.is_own(name)
    assert not python_frames.is_telling_library(name)


def test_a_frame_is_taken_apart_at_its_line() -> None:
    assert python_frames.parse("a (1)/b.py(23): f(x): y") == PythonFrame("a (1)/b.py", 23, "f(x): y")
    assert python_frames.parse("<built-in method f(3): of x>") is None
    assert python_frames.parse("a.py(99999999999): f") is None
