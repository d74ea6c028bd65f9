"""Ranks of one program that meet in collectives, each in a file of its own; their hosts run ahead of their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.builders import TraceBuilder, Work, distributed_info, finish, micros, ns

from . import cards
from .cards import BIG
from .layers import Op
from .program import program
from .script import Script

_BASE_NS = 1_732_000_000_000_000_000
_GROUP = "0"


class Rank(Script):
    """One process of a tensor-parallel or data-parallel program on its own GPU, with a clock that all share."""

    def __init__(self, number: int, size: int, *, seed: int, speed: int = 100) -> None:
        origin = f"{1_419_000_000_000 + 7_919_311 * seed}.5"
        super().__init__(
            BIG,
            seed=seed + number,
            speed=speed,
            pid=9_000 + 10 * number,
            origin=origin,
            base_ns=_BASE_NS,
            distributed=distributed_info(number, size),
        )
        self.number = number
        self.size = size
        self.meetings = 0

    def product(self, dur: int, usual: int) -> None:
        """A product that takes so long on the GPU, and usually `usual` us: its shapes are of that."""
        rows, side = usual * 180_000_000 // (2 * 4096 * 4096), 4096
        work = Work(cards.BIG.gemm["c10::BFloat16"].format("tn"), dur, (2048, 1, 1), (256, 1, 1), 122, 32_768, 25)
        self.run(Op("aten::mm", ((rows, side), (side, side)), (work,), ("c10::BFloat16",)))

    def finish(self) -> TraceBuilder:
        return finish(self.trace, annotations=False)


def meet(ranks: Sequence[Rank], transfer: int) -> None:
    """All ranks launch an all-reduce and go on; it begins when a rank is ready and ends `transfer` us after the last.

    It moves 60,000 elements a microsecond, as NVLink does.
    """
    called = [rank.host.now for rank in ranks]
    ready = [max(now + 60_000, rank.stream.free_ns + 900) for now, rank in zip(called, ranks, strict=True)]
    end = max(ready) + ns(transfer)
    for rank, at, start in zip(ranks, called, ready, strict=True):
        rank.meetings += 1
        own = end + 150 * rank.number
        rank.trace.collective(
            "all_reduce",
            micros(start),
            micros(own - start),
            at=micros(at),
            nelems=60_000 * transfer,
            dtype="BFloat16",
            ranks=tuple(range(rank.size)),
            group=_GROUP,
            kernel="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            sequence=rank.meetings,
            tid=rank.host.tid,
        )
        rank.host.now = at + 68_000
        rank.stream.free_ns = own


def together(
    ranks: Sequence[Rank],
    *,
    compute: Callable[[int, int], int],
    layers: int,
    transfer: int,
    host: Callable[[int, int], int] = lambda rank, layer: 40,
) -> None:
    """One iteration: for each layer the host works, launches a product and an all-reduce; at its end the loss is read.

    Args:
        ranks: Who takes part.
        compute: From rank and layer to microseconds of the product.
        layers: How many.
        transfer: Microseconds of each all-reduce.
        host: From rank and layer to microseconds in which the host does nothing that is recorded.
    """
    for layer in range(layers):
        usual = min(compute(rank.number, layer) for rank in ranks)
        for rank in ranks:
            rank.host.work(host(rank.number, layer))
            rank.product(compute(rank.number, layer), usual)
        meet(ranks, transfer)
    for rank in ranks:
        rank.item()
    for rank in ranks:
        rank.host.work(30)


def files(ranks: Sequence[Rank], kept: Sequence[int] | None = None) -> Mapping[str, TraceBuilder]:
    """A trace for each rank that was kept."""
    return {f"_rank{rank.number}": rank.finish() for rank in ranks if kept is None or rank.number in kept}


@program("ranks", "Four ranks, of which one comes 18 ms late to each iteration: its host does something else once")
def ranks_with_one_lag() -> Mapping[str, TraceBuilder]:
    ranks = [Rank(number, 4, seed=71) for number in range(4)]
    for _ in range(6):
        together(
            ranks,
            compute=lambda rank, layer: 900,
            layers=6,
            transfer=500,
            host=lambda rank, layer: 18_000 if rank == 1 and layer == 0 else 40,
        )
    return files(ranks)


@program("ranks", "Four ranks, of which one is 3 ms late in each of six layers: its host is slow everywhere")
def ranks_with_a_lag_per_layer() -> Mapping[str, TraceBuilder]:
    ranks = [Rank(number, 4, seed=72) for number in range(4)]
    for _ in range(6):
        together(
            ranks,
            compute=lambda rank, layer: 300,
            layers=6,
            transfer=250,
            host=lambda rank, layer: 3_600 if rank == 3 else 40,
        )
    return files(ranks)


@program("ranks", "Four ranks, of which one's GPU computes for 40 % longer: the others wait in their collectives")
def ranks_with_a_slower_gpu() -> Mapping[str, TraceBuilder]:
    ranks = [Rank(number, 4, seed=73) for number in range(4)]
    for _ in range(6):
        together(ranks, compute=lambda rank, layer: 5_040 if rank == 2 else 3_600, layers=6, transfer=400)
    return files(ranks)


@program("ranks", "Two of eight ranks: who is late in their collectives is not among the files")
def two_of_eight_ranks() -> Mapping[str, TraceBuilder]:
    ranks = [Rank(number, 8, seed=74) for number in range(8)]
    for _ in range(5):
        together(ranks, compute=lambda rank, layer: 4_400 if rank == 6 else 2_100, layers=6, transfer=600)
    return files(ranks, kept=(0, 1))
