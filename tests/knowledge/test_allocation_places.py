"""Which part of a program a stack belongs to."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.allocation_places import AllocationPlace, frees_gradients, is_within_backward, place_of

SITE = "/usr/lib/python3/site-packages/torch/"
MAIN = ("train.py", 1, "main")
MODULE = (f"{SITE}nn/modules/module.py", 1, "_call_impl")
ENGINE = ("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)")
STEP = (f"{SITE}optim/adamw.py", 1, "step")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ((), AllocationPlace.UNKNOWN),
        ((MAIN,), AllocationPlace.OTHER),
        ((("model.py", 1, "forward"), MODULE, MAIN), AllocationPlace.FORWARD),
        ((("model.py", 1, "helper"), MODULE, MAIN), AllocationPlace.FORWARD),
        (((f"{SITE}nn/functional.py", 1, "cross_entropy"), MAIN), AllocationPlace.FORWARD),
        ((ENGINE,), AllocationPlace.BACKWARD),
        ((("??", 0, "torch::autograd::python::PythonEngine::thread_init(int)"),), AllocationPlace.BACKWARD),
        (((f"{SITE}autograd/graph.py", 1, "_engine_run_backward"), MAIN), AllocationPlace.BACKWARD),
        ((("kernels.py", 1, "backward"), ENGINE), AllocationPlace.BACKWARD),
        ((("??", 0, "torch::autograd::VariableType::mul_Tensor(int)"), MAIN), AllocationPlace.OTHER),
        ((STEP, MAIN), AllocationPlace.OPTIMIZER),
        ((("mine.py", 1, "step"), (f"{SITE}optim/optimizer.py", 1, "wrapper"), MAIN), AllocationPlace.OPTIMIZER),
        ((("apex/optimizers/fused_adam.py", 1, "step"), MAIN), AllocationPlace.OPTIMIZER),
        ((("C:\\torch\\optim\\sgd.py", 1, "step"), MAIN), AllocationPlace.OPTIMIZER),
        ((("optimizer_test.py", 1, "main"), ("optimizer_test.py", 1, "<module>")), AllocationPlace.OTHER),
        # A closure runs within the step.
        ((("model.py", 1, "forward"), MODULE, STEP, MAIN), AllocationPlace.FORWARD),
        (((f"{SITE}nn/modules/module.py", 1, "_apply"), MAIN), AllocationPlace.SETUP),
        (((f"{SITE}nn/init.py", 1, "uniform_"), MAIN), AllocationPlace.SETUP),
        ((("model.py", 1, "__init__"), MAIN), AllocationPlace.SETUP),
        ((("modeling_utils.py", 1, "from_pretrained"), MAIN), AllocationPlace.SETUP),
        # What is made while the model runs is no parameter.
        ((("rope.py", 1, "__init__"), ("model.py", 1, "forward"), MAIN), AllocationPlace.FORWARD),
    ],
)
def test_places(frames: tuple[tuple[str, int, str], ...], expected: AllocationPlace) -> None:
    assert place_of(frames) is expected


def test_activations_that_are_computed_again() -> None:
    again = (("model.py", 1, "forward"), MODULE, (f"{SITE}utils/checkpoint.py", 1, "backward"), ENGINE)
    assert place_of(again) is AllocationPlace.FORWARD
    assert is_within_backward(again)
    assert not is_within_backward((MODULE, MAIN))


def test_who_frees_gradients() -> None:
    assert frees_gradients(((f"{SITE}optim/optimizer.py", 1, "zero_grad"), MAIN))
    assert not frees_gradients((STEP, MAIN))
    assert not frees_gradients(())
