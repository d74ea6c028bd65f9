"""How far are reproduced and recorded times apart? Records operators on the CPU, reproduces each, and compares.

What is reproduced is measured as CPU time of the thread, so that other programs on the machine count less; so use one
thread.

python -m scripts.reproduced            record, reproduce, and print a table
OMP_NUM_THREADS=1 python -m scripts.reproduced --seconds 0.5
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import traceanalyzer as ta
from traceanalyzer.reproduction import reproduce

REPETITIONS = 30


def operators(torch: Any) -> dict[str, Callable[[], Any]]:
    """Forty operators by the name that is recorded, and a call of each."""
    functional = torch.nn.functional
    a, b = torch.randn(256, 512), torch.randn(512, 384)
    image, filters = torch.randn(4, 16, 56, 56), torch.randn(32, 16, 3, 3)
    batch, other = torch.randn(8, 64, 96), torch.randn(8, 96, 80)
    rows, classes = torch.randn(128, 1000), torch.randint(1000, (128,))
    table, words = torch.randn(5000, 64), torch.randint(5000, (16, 64))
    vector, scale = torch.randn(512), torch.randn(64)
    q = torch.randn(2, 4, 64, 32)
    chosen = torch.randint(256, (100,))
    positions = torch.randint(512, (256, 32))
    many = [torch.randn(300, 40) for _ in range(6)]
    flags = torch.rand(256, 512) > 0.5
    return {
        "aten::mm": lambda: torch.mm(a, b),
        "aten::addmm": lambda: torch.addmm(torch.ones(384), a, b),
        "aten::bmm": lambda: torch.bmm(batch, other),
        "aten::baddbmm": lambda: torch.baddbmm(torch.ones(8, 64, 80), batch, other),
        "aten::linear": lambda: functional.linear(a, b.t()),
        "aten::mv": lambda: torch.mv(a, vector),
        "aten::dot": lambda: torch.dot(vector, vector),
        "aten::conv2d": lambda: functional.conv2d(image, filters, padding=1),
        "aten::convolution": lambda: functional.conv2d(image, filters, stride=2),
        "aten::conv1d": lambda: functional.conv1d(batch, torch.randn(32, 64, 3)),
        "aten::max_pool2d": lambda: functional.max_pool2d(image, 2),
        "aten::avg_pool2d": lambda: functional.avg_pool2d(image, 2),
        "aten::batch_norm": lambda: functional.batch_norm(image, torch.zeros(16), torch.ones(16)),
        "aten::layer_norm": lambda: functional.layer_norm(a, (512,)),
        "aten::native_layer_norm": lambda: functional.layer_norm(a, (512,), vector, vector),
        "aten::group_norm": lambda: functional.group_norm(image, 4),
        "aten::relu": lambda: torch.relu(image),
        "aten::gelu": lambda: functional.gelu(a),
        "aten::silu": lambda: functional.silu(a),
        "aten::sigmoid": lambda: torch.sigmoid(a),
        "aten::tanh": lambda: torch.tanh(a),
        "aten::exp": lambda: torch.exp(a),
        "aten::add": lambda: a + a,
        "aten::mul": lambda: a.t() * a.t(),
        "aten::div": lambda: a / vector,
        "aten::sub": lambda: torch.sub(a, 1.5, alpha=2),
        "aten::addcmul": lambda: torch.addcmul(a, a, a, value=0.5),
        "aten::where": lambda: torch.where(flags, a, a),
        "aten::masked_fill": lambda: a.masked_fill(flags, 0.0),
        "aten::clamp": lambda: a.clamp(-1, 1),
        "aten::sum": lambda: a.sum(1),
        "aten::mean": lambda: a.mean(0, keepdim=True),
        "aten::var": lambda: a.var(1),
        "aten::argmax": lambda: rows.argmax(1),
        "aten::topk": lambda: rows.topk(5, 1),
        "aten::sort": lambda: rows.sort(1),
        "aten::cumsum": lambda: a.cumsum(1),
        "aten::_softmax": lambda: rows.softmax(1),
        "aten::_log_softmax": lambda: rows.log_softmax(1),
        "aten::nll_loss": lambda: functional.nll_loss(rows, classes),
        "aten::cross_entropy_loss": lambda: functional.cross_entropy(rows, classes, label_smoothing=0.1),
        "aten::embedding": lambda: functional.embedding(words, table),
        "aten::index_select": lambda: a.index_select(0, chosen),
        "aten::gather": lambda: a.gather(1, positions),
        "aten::index": lambda: a[chosen],
        "aten::cat": lambda: torch.cat(many, 1),
        "aten::stack": lambda: torch.stack(many),
        "aten::copy_": lambda: a.t().contiguous(),
        "aten::_to_copy": lambda: a.to(torch.float64),
        "aten::scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(q, q, q),
        "aten::_foreach_mul_": lambda: torch._foreach_mul_(many, 1.0),
        "aten::add_": lambda: a.add_(0.0),
        "aten::outer": lambda: torch.outer(vector, scale),
        "aten::einsum": lambda: torch.einsum("bij,bjk->bik", batch, other),
    }


def record(torch: Any, file: Path) -> list[str]:
    """Record all operators, and return their names."""
    known = operators(torch)
    torch.set_grad_enabled(False)
    for call in known.values():
        call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(REPETITIONS):
            for call in known.values():
                call()
    profiler.export_chrome_trace(str(file))
    torch.set_grad_enabled(True)
    return list(known)


def run(text: str, seconds: float) -> dict[str, float | None]:
    """What a program prints, measured for so many seconds: times in us, None for what is not possible."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = text.replace("min_run_time=0.5", f"min_run_time={seconds}").replace("sys.argv", "['x']")
        code = code.replace("num_threads=", "timer=__import__('time').thread_time, num_threads=")
        exec(compile(code, "reproduced.py", "exec"), {"__name__": "reproduced"})
    times: dict[str, float | None] = {}
    for line in out.getvalue().splitlines():
        label, rest = line[:32].strip(), line[33:].split()
        times[label] = float(rest[0]) if rest[-1] == "us" else None
    return times


def main() -> None:
    """Print a row for each operator, and how far the times are apart."""
    torch = importlib.import_module("torch")
    parser = argparse.ArgumentParser(description=str(__doc__))
    parser.add_argument("--seconds", type=float, default=0.2)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        names = record(torch, file)
        trace = ta.load(file)
    ratios = []
    print(f"{'operator':38} {'recorded':>10} {'reproduced':>10} ratio")
    for name in names:
        try:
            times = run(reproduce(trace, name), seconds)
        except SystemExit as end:
            print(end)
            continue
        recorded, reproduced = times["recorded on the host"], times["reproduced on cpu"]
        if recorded is None or reproduced is None:
            print(f"{name:38} not possible")
            continue
        ratios.append(reproduced / recorded)
        print(f"{name:38} {recorded:10.1f} {reproduced:10.1f} {ratios[-1]:.2f}")
    middle = statistics.quantiles(ratios, n=4)
    near = sum(0.8 <= ratio <= 1.25 for ratio in ratios)
    spread = f"half of them {middle[0]:.2f} to {middle[2]:.2f}, {near} within 25 %"
    print(f"{len(ratios)} operators: median {middle[1]:.2f}, {spread}")


if __name__ == "__main__":
    main()
