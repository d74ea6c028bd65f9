"""Loaders without workers, waited for and not."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.judging import table
from tests.rules.situations.dataloader_bound import WORKERS, training

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def fires() -> TraceBuilder:
    """Each step prepares its batch for 4 ms and computes for 6 ms."""
    return training(4000, 6000, name=LOADER)


def fires_in_a_table() -> str:
    """Most host time is in the loader's row; its name is cut."""
    return printed("enumerate(DataLoader)#_SingleProcessDataLoaderIter....")


def quiet() -> TraceBuilder:
    """Workers prepare the batches, too slowly: that is dataloader-bound alone."""
    return training(4000, 6000, name=WORKERS)


def quiet_in_a_table() -> str:
    """The same program in a printed table."""
    return printed(WORKERS)


def trap_tiny_data() -> TraceBuilder:
    """The data lies in memory: a batch takes 20 us of a step of 6 ms."""
    return training(20, 6000, name=LOADER)


def trap_hidden_preparation() -> TraceBuilder:
    """The program prepares the next batch while the GPU computes."""
    return training(4000, 6000, wait_first=False, name=LOADER)


def printed(loader: str) -> str:
    """A table in which the loader takes nine tenths of the host time."""
    rows = [
        {"Name": loader, "Self CPU": "900.000ms", "CPU total": "900.000ms", "Self CUDA": "0.000us", "# of Calls": 10},
        {
            "Name": "aten::mm",
            "Self CPU": "100.000ms",
            "CPU total": "100.000ms",
            "Self CUDA": "200.000ms",
            "# of Calls": 10,
        },
    ]
    return table(rows, cpu="1.000s", device="200.000ms")
