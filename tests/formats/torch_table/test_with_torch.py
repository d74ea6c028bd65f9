"""Against torch itself, where it is installed: profiles recorded now, and traces of GPUs through its classes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.formats.torch_table.printed import CAPTURED
from tests.formats.torch_table.torch_events import torch_events
from traceanalyzer.analyzers.operators import key_averages
from traceanalyzer.formats.torch_table import render
from traceanalyzer.structure.context import Context

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SYNTHETIC = CAPTURED.parent / "synthetic"
ON_GPU = (
    "gpu_training.json.gz",
    "ddp_nccl.json.gz",
    "no_profiler_step.json.gz",
    "rocm_training.json.gz",
    "overlapping_slices.json",
    "kernels_without_launch.json",
    "gpu_step_annotations.json",
    "cuda_driver_launches.json",
    "streams_shared_by_devices.json",
)
OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"record_shapes": True, "profile_memory": True, "with_flops": True},
    {"with_stack": True, "profile_memory": True, "with_modules": True},
)
ORDERS = (None, "cpu_time", "self_cpu_time_total", "cpu_memory_usage", "count", "device_time_total")


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch", reason="torch is not installed")
    if not module.__version__.startswith(("2.13", "2.14")):
        pytest.skip(f"torch {module.__version__} prints other tables than 2.13 and 2.14")
    module.optim.SGD([module.zeros(1)], lr=0.1)  # the first optimizer sets an environment variable
    return module


def lists_functions() -> bool:
    """Whether Python functions have rows in the tables of the installed release."""
    version: str = import_module("torch").__version__
    return version.startswith("2.13")


def assert_equal_tables(events: Any, path: Path) -> None:
    """All orders, by name and by shape."""
    trace = ta.load(path)
    assert isinstance(trace, ta.Trace)
    context = Context(trace)
    for by_shape in (False, True):
        torchs = events.key_averages(by_shape)
        ours = key_averages.analyze(context, by_shape=by_shape, python_functions=lists_functions())
        for order in ORDERS:
            expected = torchs.table(order, row_limit=-1)
            assert render(ours, sort_by=order, row_limit=-1).splitlines() == expected.splitlines(), (by_shape, order)


@pytest.mark.parametrize("recorded", OPTIONS, ids=lambda options: "+".join(options) or "plain")
def test_a_profile_recorded_now_has_the_same_table(torch: Any, recorded: dict[str, bool], tmp_path: Path) -> None:
    nn, profiler = torch.nn, torch.profiler
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    activities = [profiler.ProfilerActivity.CPU]
    with profiler.profile(
        activities=activities, schedule=profiler.schedule(wait=0, warmup=1, active=3, repeat=1), **recorded
    ) as p:
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            p.step()
    path = tmp_path / "trace.json"
    p.export_chrome_trace(str(path))
    assert_equal_tables(p.events(), path)


@pytest.mark.parametrize("name", ON_GPU)
def test_a_trace_of_a_gpu_has_the_table_that_torchs_classes_give(torch: Any, name: str) -> None:
    del torch
    assert_equal_tables(torch_events(SYNTHETIC / name), SYNTHETIC / name)
