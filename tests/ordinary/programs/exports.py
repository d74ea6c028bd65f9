"""Files that torch.profiler does not write itself: exports of the legacy profiler, and ranks merged into one file."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from tests.builders import TraceBuilder, distributed_info

from .cards import BIG, T4
from .layers import convnet, cross_entropy, perceptron
from .program import program
from .ranks import Rank, together
from .script import Script


def legacy(trace: TraceBuilder, *, device: bool) -> str:
    """The list that `torch.autograd.profiler` exports: operators, and what each ran on the device, without categories.

    A kernel has the name of its operator, as the legacy profiler measures operators between two events of the device.
    """
    rows: list[dict[str, Any]] = []
    events = trace.build()["traceEvents"]
    begin = min(event["ts"] for event in events if event.get("cat") == "cpu_op")
    operators = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op"}
    threads: dict[int, int] = {}
    flow = 0
    for event in operators.values():
        row = {"name": event["name"], "ph": "X", "ts": event["ts"] - begin, "dur": event["dur"]}
        tid = threads.setdefault(event["tid"], len(threads) + 1)
        rows.append(row | {"tid": tid, "pid": "CPU functions", "args": {}})
    for event in events if device else ():
        if event.get("cat") not in {"kernel", "gpu_memcpy", "gpu_memset"}:
            continue
        owner = operators.get(event["args"].get("External id"))
        if owner is None:
            continue
        ends = {"name": owner["name"], "id": flow, "cat": "cpu_to_cuda", "args": {}}
        rows.append(ends | {"ph": "s", "ts": owner["ts"] - begin, "tid": threads[owner["tid"]], "pid": "CPU functions"})
        rows.append(ends | {"ph": "f", "ts": event["ts"] - begin, "tid": 0, "pid": "CUDA functions"})
        row = {"name": owner["name"], "ph": "X", "ts": event["ts"] - begin, "dur": event["dur"]}
        rows.append(row | {"tid": 0, "pid": "CUDA functions", "args": {}})
        flow += 1
    return json.dumps(rows, default=_number)


def _number(value: object) -> float:
    assert isinstance(value, Decimal)
    return float(value)


def merged(parts: list[TraceBuilder], *, numbered: bool) -> str:
    """The events of several ranks in one file; where numbered, each has its rank and a process of its own.

    Without numbers the processes of the ranks tell them apart, and GPUs are processes 0, 1, ...
    """
    rows: list[dict[str, Any]] = []
    header: dict[str, Any] = {}
    for rank, trace in enumerate(parts):
        content = trace.build()
        header = header or {key: value for key, value in content.items() if key != "traceEvents"}
        for event in content["traceEvents"]:
            if numbered:
                if isinstance(event["pid"], int):
                    event["pid"] += (rank + 1) * 1_000_000
                event["args"] = event.get("args", {}) | {"rank": rank}
                if event["ph"] in {"s", "f"}:
                    event["id"] += rank * 10_000_000
            rows.append(event)
    header.pop("distributedInfo", None)
    return json.dumps(header | {"traceEvents": rows}, default=_number)


@program("legacy", "The legacy profiler's list of a warm model on the GPU: `CPU functions` and `CUDA functions`")
def legacy_passes_on_the_gpu() -> str:
    script = Script(T4, seed=61, speed=220, shapes=False)
    layers = convnet(T4, 64, 6, side=112, width=64, training=False)
    for _ in range(6):
        script.forward(layers, grad=False)
        script.to_host((64, 10))
    return legacy(script.finish(), device=True)


@program("legacy", "The legacy profiler's list of a training on the CPU")
def legacy_training_on_the_cpu() -> str:
    script = Script(None, seed=62, speed=100, shapes=False)
    for _ in range(5):
        for name, cpu in (
            ("aten::mkldnn_convolution", 11_400),
            ("aten::native_batch_norm", 1_900),
            ("aten::max_pool2d_with_indices", 1_300),
        ):
            with script.host.op(name.replace("mkldnn_", "").replace("native_", "").replace("_with_indices", ""), 4, 2):
                script.host.leaf(name, cpu)
        with script.host.op("aten::linear", 3, 1):
            script.host.leaf("aten::addmm", 420)
        script.host.leaf("aten::cross_entropy_loss", 60)
        script.engine.now = script.host.now + 30_000
        for node, inner, cpu in (
            ("AddmmBackward0", "aten::mm", 800),
            ("ConvolutionBackward0", "aten::convolution_backward", 24_300),
        ):
            with script.engine.op(node, 4, 2):
                script.engine.leaf(inner, cpu)
        script.host.now = script.engine.now + 20_000
        for _ in range(8):
            script.host.leaf("aten::add_", 24)
        script.host.work(40)
    return legacy(script.finish(), device=False)


@program("legacy", "The legacy profiler's list of a small training on the GPU: the CPU takes twenty times as long")
def legacy_training_of_a_slow_host() -> str:
    script = Script(T4, seed=63, is_old=True, speed=300, shapes=False)
    layers = [*perceptron(T4, 64, (64, 128, 128, 128, 10)), cross_entropy(T4, 64, 10)]
    for _ in range(14):
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.item()
    return legacy(script.finish(), device=True)


@program("merged ranks", "Four ranks in one file, each with its number; the third computes for longer than the others")
def four_ranks_in_one_file() -> str:
    ranks = [Rank(number, 4, seed=64) for number in range(4)]
    for _ in range(5):
        together(ranks, compute=lambda rank, layer: 5_600 if rank == 2 else 4_100, layers=5, transfer=700)
    return merged([rank.finish() for rank in ranks], numbered=True)


@program(
    "merged ranks", "Two processes in one file that nobody numbered: the same training on two GPUs, without messages"
)
def two_processes_in_one_file() -> str:
    parts = []
    for device in range(2):
        header: dict[str, Any] = {"devices": (BIG.device,) * 2, "distributed": distributed_info(device, 2)}
        script = Script(BIG, seed=65, speed=150, pid=9_400 + device, **header)
        script.stream.device = device
        layers = [*convnet(BIG, 128, 6, side=64, width=128), cross_entropy(BIG, 128, 10)]
        for _ in range(5):
            script.forward(layers)
            script.backward()
            script.update(layers)
            script.item()
        parts.append(script.finish())
    return merged(parts, numbered=False)
