"""Record the traces in `fixtures/captured` with torch on a CPU, and strip them of names and paths.

Needs torch 2.13. Run from anywhere: `python scripts/capture_cpu_fixtures.py`, then `make_fixtures.py`.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]
from torch import nn  # type: ignore[import-not-found,unused-ignore]
from torch.profiler import ProfilerActivity, profile, schedule  # type: ignore[import-not-found,unused-ignore]

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.builders.scrub import scrub, scrub_paths

Handler = Callable[[Any], None]
FOLDER = Path(__file__).parents[1] / "fixtures" / "captured"


def main() -> None:
    """Record everything."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for record in (training_workers, modules_and_stacks, inference_flops, plain):
        record(partial(save, record.__name__))


def save(name: str, recorded: Any) -> None:
    """Write the trace and the tables of a profile that has just ended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        text = path.read_text(encoding="utf-8")
    data = gzip.compress(scrub(text).encode(), 9, mtime=0)
    (FOLDER / f"{name}.json.gz").write_bytes(data)
    tables = scrub_paths(_tables(recorded, stacks=name == "modules_and_stacks"))
    (FOLDER / f"{name}.key_averages.txt").write_text(tables, encoding="utf-8")
    print(f"{name}: {len(data):,} bytes compressed, {len(text):,} as written")


def _tables(recorded: Any, *, stacks: bool) -> str:
    """Several tables of one profile, each under a heading."""
    averages = recorded.key_averages()
    if stacks:  # frames are rows, too, with long names: two cut tables are enough
        by_stack = recorded.key_averages(group_by_stack_n=3)
        parts = {
            "sort_by=self_cpu_time_total, row_limit=50": averages.table("self_cpu_time_total", row_limit=50),
            "group_by_stack_n=3, row_limit=12": by_stack.table("self_cpu_time_total", row_limit=12),
        }
    else:
        by_shape = recorded.key_averages(group_by_input_shape=True)
        whole = {"row_limit": -1, "max_name_column_width": None, "max_shapes_column_width": None}
        parts = {
            "sort_by=self_cpu_time_total": averages.table("self_cpu_time_total", row_limit=-1),
            "sort_by=cpu_time_total, whole names": averages.table("cpu_time_total", **whole),
            "group_by_input_shape, whole shapes": by_shape.table("cpu_time_total", **whole),
        }
    return "\n".join(f"# {title}\n\n{table}" for title, table in parts.items())


def training_workers(save: Handler) -> None:
    """Train on batches from two worker processes; three active steps."""
    images = torch.utils.data.TensorDataset(torch.randn(48, 3, 16, 16), torch.randint(0, 10, (48,)))
    loader = torch.utils.data.DataLoader(images, batch_size=8, num_workers=2)
    model, optimizer = _network()
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        record_shapes=True,
        profile_memory=True,
        on_trace_ready=save,
    ) as recorded:
        for batch in loader:
            _step(model, optimizer, *batch)
            recorded.step()


def modules_and_stacks(save: Handler) -> None:
    """Two steps with Python frames and modules."""
    model, optimizer = _network()
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    _step(model, optimizer, images, labels)
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        with_stack=True,
        with_modules=True,
        experimental_config=verbose,
        on_trace_ready=save,
    ) as recorded:
        for _ in range(2):
            _step(model, optimizer, images, labels)
            recorded.step()


def inference_flops(save: Handler) -> None:
    """One transformer layer without gradients."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    tokens = torch.randn(2, 16, 64)
    with torch.no_grad():
        layer(tokens)
        with profile(activities=[ProfilerActivity.CPU], with_flops=True, record_shapes=True, on_trace_ready=save):
            for _ in range(3):
                layer(tokens)


def plain(save: Handler) -> None:
    """A few operators."""
    left, right = torch.randn(64, 64), torch.randn(64, 64)
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=save):
        for _ in range(4):
            left = (left @ right).relu().softmax(dim=-1)


def _network() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


if __name__ == "__main__":
    main()
