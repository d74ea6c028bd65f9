"""Record the traces in `fixtures/captured` with torch on a CPU, and strip them of names and paths.

Needs torch 2.13. Run from anywhere: `python scripts/capture_cpu_fixtures.py [NAME ...]`, then `make_fixtures.py`.
Without names it records all of them again.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

# mypy checks this file both with and without torch
import torch  # type: ignore[import-not-found,unused-ignore]
from torch import nn  # type: ignore[import-not-found,unused-ignore]
from torch.profiler import ProfilerActivity, profile, schedule  # type: ignore[import-not-found,unused-ignore]

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.builders.scrub import scrub, scrub_paths

Handler = Callable[[Any], None]
FOLDER = Path(__file__).parents[1] / "fixtures" / "captured"
SORT_KEYS = ("cpu_time", "cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "count", "flops")


def main() -> None:
    """Record all fixtures, or those named on the command line."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = set(sys.argv[1:])
    for record in (training_workers, modules_and_stacks, inference_flops, plain):
        if not wanted or record.__name__ in wanted:
            record(partial(save, record.__name__))
    for record in (convnet_everything, autocast_stacks, transformer_memory, lstm_embedding, two_threads):
        if not wanted or record.__name__ in wanted:
            record(partial(save, record.__name__, tables=_in_every_order))


def save(name: str, recorded: Any, tables: Callable[[Any], str] | None = None) -> None:
    """Write the trace and the tables of a profile that has just ended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        text = path.read_text(encoding="utf-8")
    data = gzip.compress(scrub(text).encode(), 9, mtime=0)
    (FOLDER / f"{name}.json.gz").write_bytes(data)
    printed = tables(recorded) if tables else _tables(recorded, stacks=name == "modules_and_stacks")
    (FOLDER / f"{name}.key_averages.txt").write_text(scrub_paths(printed), encoding="utf-8")
    print(f"{name}: {len(data):,} bytes compressed, {len(text):,} as written")


def _tables(recorded: Any, *, stacks: bool) -> str:
    """Several tables of one profile, each under a heading."""
    averages = recorded.key_averages()
    if stacks:  # Python frames add many rows with long names: two shortened tables are enough
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
    return _headed(parts)


def _in_every_order(recorded: Any) -> str:
    """The whole table, its first rows in every order for which the CPU has numbers, and the table by input shapes."""
    averages, by_shape = recorded.key_averages(), recorded.key_averages(group_by_input_shape=True)
    parts = {"sort_by=self_cpu_time_total, row_limit=-1": averages.table("self_cpu_time_total", row_limit=-1)}
    parts["sort_by=None, row_limit=12"] = averages.table(row_limit=12)
    for key in SORT_KEYS:
        parts[f"sort_by={key}, row_limit=12"] = averages.table(key, row_limit=12)
    parts["group_by_input_shape, sort_by=cpu_time_total, row_limit=40"] = by_shape.table("cpu_time_total", row_limit=40)
    parts["group_by_input_shape, sort_by=count, row_limit=12"] = by_shape.table("count", row_limit=12)
    return _headed(parts)


def _headed(tables: dict[str, str]) -> str:
    return "\n".join(f"# {title}\n\n{table}" for title, table in tables.items())


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
    """Run a few operators without any option."""
    left, right = torch.randn(64, 64), torch.randn(64, 64)
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=save):
        for _ in range(4):
            left = (left @ right).relu().softmax(dim=-1)


def convnet_everything(save: Handler) -> None:
    """Train convolutions of all kinds with all profiler options; one active step."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=4, dilation=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 12, (3, 1), padding="same"),
        nn.Flatten(),
        nn.Linear(12 * 8 * 8, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(4, 4, 16, 16), torch.randint(0, 10, (4,))
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_flops=True,
        on_trace_ready=save,
    ) as recorded:
        for _ in range(2):
            _step(model, optimizer, images, labels)
            recorded.step()


def autocast_stacks(save: Handler) -> None:
    """Train an MLP in bfloat16 by autocast, with memory and Python frames."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    inputs, labels = torch.randn(16, 64), torch.randint(0, 10, (16,))
    with profile(
        activities=[ProfilerActivity.CPU],
        profile_memory=True,
        with_stack=True,
        on_trace_ready=save,
    ) as recorded:
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        recorded.step()


def transformer_memory(save: Handler) -> None:
    """Two transformer layers by their operators, without the fused path: shapes, memory, FLOPs."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()
    tokens = torch.randn(2, 12, 32)
    with (
        torch.no_grad(),
        profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            profile_memory=True,
            with_flops=True,
            on_trace_ready=save,
        ),
    ):
        for _ in range(3):
            encoder(tokens)
            torch.baddbmm(torch.ones(2, 12, 8), tokens, torch.ones(2, 32, 8))


def lstm_embedding(save: Handler) -> None:
    """Train an embedding and an LSTM with Adam over lists of tensors; two active steps."""
    torch.manual_seed(0)
    embedding, lstm, head = nn.Embedding(50, 16), nn.LSTM(16, 24, batch_first=True), nn.Linear(24, 50)
    model = nn.ModuleList([embedding, lstm, head])
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    tokens = torch.randint(0, 50, (4, 9))
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        record_shapes=True,
        profile_memory=True,
        on_trace_ready=save,
    ) as recorded:
        for _ in range(3):
            with torch.profiler.record_function("forward"):
                states, _ = lstm(embedding(tokens[:, :-1]))
                loss = nn.functional.cross_entropy(head(states).transpose(1, 2), tokens[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recorded.step()


def two_threads(save: Handler) -> None:
    """Two threads that work at the same time: each counts the memory of both."""
    matrix = torch.randn(48, 48)

    def work(_: int) -> None:
        for _ in range(6):
            with torch.profiler.record_function("product"):
                (matrix @ matrix).relu()

    everywhere = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with (
        ThreadPoolExecutor(2) as pool,
        profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            profile_memory=True,
            experimental_config=everywhere,
            on_trace_ready=save,
        ),
    ):
        list(pool.map(work, range(4)))
        work(0)


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
