"""A small training with faults that profilers should find, on synthetic data.

    python examples/planted_faults.py trace.json.gz
    traceanalyzer report trace.json.gz

Each fault is one function or one marked line. These must be found on a GPU: values that are read on the host three
times per step, with a pause (`sync-item-frequent`, `host-python-gap`), a tensor made on the CPU and moved
(`tensor-created-on-cpu`), clones that are thrown away (`copies-materialized`), passes over a part of the batch that no
optimizer step uses (`redundant-passes`), DataParallel on one GPU (`dataparallel`), single precision without tensor
cores (`tensor-cores-unused`). On a CPU only the faults that need no device exist; the rules about the other faults are
skipped.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset

STEPS = 5


def model() -> nn.Module:
    """Three convolutions with batch norm, and a classifier."""

    def block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    body = nn.Sequential(block(3, 32), nn.MaxPool2d(2), block(32, 64), nn.MaxPool2d(2), block(64, 128))
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def read_on_the_host(inputs: torch.Tensor) -> None:
    """Fault: three values per step are read on the host, each time after a pause."""
    for _ in range(3):
        inputs.sum().item()
        time.sleep(0.001)


def made_on_the_cpu(device: torch.device) -> torch.Tensor:
    """Fault: a tensor of zeros is made on the CPU and moved; then five additions whose results are not used."""
    large = torch.zeros(1000, 1000).to(device)
    for _ in range(5):
        large = large + 0.1
    return large


def cloned_for_nothing(inputs: torch.Tensor) -> None:
    """Fault: ten copies of the batch are made and thrown away."""
    copies = [inputs.clone() for _ in range(10)]
    del copies


def passes_for_nothing(net: nn.Module, criterion: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Fault: two passes over a quarter of the batch, whose gradients are cleared before the optimizer steps."""
    for _ in range(2):
        quarter = len(inputs) // 4
        criterion(net(inputs[:quarter]), targets[:quarter]).backward(retain_graph=True)


def train(device: torch.device, path: str, *, batch: int, faults: bool) -> None:
    """A few profiled steps."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not faults  # fault: no tensor cores
    net = model().to(device)
    if device.type == "cuda" and faults:
        net = nn.DataParallel(net)  # fault: it checks every parameter and scatters even on one GPU
    samples = torch.randn(batch * (STEPS + 3), 3, 32, 32)
    loader = DataLoader(TensorDataset(samples, torch.randint(10, (len(samples),))), batch_size=batch)
    criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    plan = schedule(wait=1, warmup=1, active=STEPS, repeat=1)
    with profile(
        activities=activities, schedule=plan, on_trace_ready=lambda p: p.export_chrome_trace(path), **options
    ) as recording:
        for images, labels in loader:
            inputs, targets = images.to(device), labels.to(device)
            if faults:
                read_on_the_host(inputs)
                made_on_the_cpu(device)
                cloned_for_nothing(inputs)
                passes_for_nothing(net, criterion, inputs, targets)
            optimizer.zero_grad()
            loss = criterion(net(inputs), targets)
            loss.backward()
            optimizer.step()
            recording.step()


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", help="where to write the trace, such as trace.json.gz")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--clean", action="store_true", help="without the faults, to compare")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train(device, arguments.trace, batch=arguments.batch, faults=not arguments.clean)


if __name__ == "__main__":
    main()
