"""A rank of a run of gloo that goes wrong in a planted way and writes the dump of its recorder.

python gloo_ranks.py FAULT RANK RANKS FOLDER
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

SLEEPS = 4.0
"""Seconds after which ranks write their dumps, in which the others come to where they wait."""


def main() -> None:
    """Run one rank; it ends by itself, though its operations do not."""
    fault, rank, ranks, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
    os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")

    import torch  # noqa: PLC0415 - reads the environment
    from torch import distributed  # noqa: PLC0415

    distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=ranks)
    for _ in range(5):
        distributed.all_reduce(torch.ones(16))
        distributed.all_gather([torch.ones(4) for _ in range(ranks)], torch.ones(4))
    works = list(_plant(fault, rank, ranks, torch, distributed))
    time.sleep(SLEEPS)
    if not (fault == "killed" and rank == ranks - 1):
        (folder / f"comm_lib_trace_rank_{rank}.part").write_bytes(torch._C._distributed_c10d._dump_fr_trace())
        (folder / f"comm_lib_trace_rank_{rank}.part").rename(folder / f"comm_lib_trace_rank_{rank}")
    (folder / f"done_{rank}").touch()
    while not all((folder / f"done_{other}").exists() for other in range(ranks)):
        time.sleep(0.05)
    del works
    os._exit(0)


def _plant(fault: str, rank: int, ranks: int, torch, distributed):  # type: ignore[no-untyped-def]
    """Call what a rank calls in a run with a fault, without waiting for its end; yields what is to be kept alive."""
    last = ranks - 1
    if fault in ("killed", "sleeping"):
        if rank != last:
            yield distributed.all_reduce(torch.ones(32), async_op=True)
    elif fault == "order":
        calls = [lambda: distributed.all_reduce(torch.ones(32), async_op=True), lambda: _gather(torch, distributed)]
        for call in reversed(calls) if rank == 1 else calls:
            yield call()
    elif fault == "shape":
        yield distributed.all_reduce(torch.ones(7 if rank == 1 else 32), async_op=True)
    elif fault == "recv":
        if rank == 0:
            yield distributed.irecv(torch.ones(4), src=last)
        else:
            yield distributed.all_reduce(torch.ones(32), async_op=True)
    elif fault == "sends":
        tensor = torch.ones(1 << 22)
        yield tensor, distributed.isend(tensor, (rank + 1) % ranks)


def _gather(torch, distributed):  # type: ignore[no-untyped-def]
    kept = [torch.ones(8) for _ in range(distributed.get_world_size())]
    return kept, distributed.all_gather(kept, torch.ones(8), async_op=True)


if __name__ == "__main__":
    main()
