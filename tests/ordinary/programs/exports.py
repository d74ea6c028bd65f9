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

    The legacy profiler measures each operator between two events of the device. So what it lists there has the names of
    operators, and that of an operator contains that of those inside it.
    """
    events = trace.build()["traceEvents"]
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    spans = _on_device(operators, events) if device else {}
    begin = min(event["ts"] for event in operators)
    threads: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for event in operators:
        own = {"name": event["name"], "args": {}}
        here = {"pid": "CPU functions", "tid": threads.setdefault(event["tid"], len(threads) + 1)}
        there = {"pid": "CUDA functions", "tid": 0}
        rows.append(own | here | {"ph": "X", "ts": event["ts"] - begin, "dur": event["dur"]})
        if (span := spans.get(event["args"]["External id"])) is not None:
            flow = own | {"id": len(rows), "cat": "cpu_to_cuda"}
            rows.append(flow | here | {"ph": "s", "ts": event["ts"] - begin})
            rows.append(flow | there | {"ph": "f", "ts": span[0] - begin})
            rows.append(own | there | {"ph": "X", "ts": span[0] - begin, "dur": span[1] - span[0]})
    return json.dumps(rows, default=_number)


def _on_device(operators: list[Any], events: list[Any]) -> dict[int, tuple[Decimal, Decimal]]:
    """Begin and end of what operators and those inside them ran on the device, by their ids."""
    around: dict[int, int | None] = {}
    opened: list[Any] = []
    for event in sorted(operators, key=lambda one: (one["tid"], one["ts"], -one["dur"])):
        while opened and (opened[-1]["tid"], opened[-1]["ts"] + opened[-1]["dur"]) <= (event["tid"], event["ts"]):
            opened.pop()
        around[event["args"]["External id"]] = opened[-1]["args"]["External id"] if opened else None
        opened.append(event)
    spans: dict[int, tuple[Decimal, Decimal]] = {}
    for event in events:
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            owner = event["args"].get("External id")
            while owner is not None:
                first, last = spans.get(owner, (event["ts"], event["ts"]))
                spans[owner] = min(first, event["ts"]), max(last, event["ts"] + event["dur"])
                owner = around.get(owner)
    return spans


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
