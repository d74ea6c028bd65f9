"""A large batch that is not interrupted, made once for all tests that compare with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.batching.making import Counted, batch, population
from traceanalyzer.batching.catalog import Counts

GOOD, BAD = (1980, 20) if os.environ.get("TRACEANALYZER_FULL") == "1" else (196, 4)


@dataclass(frozen=True)
class Finished:
    """A folder of traces, the output of a batch, and its messages."""

    source: Path
    target: Path
    good: int
    bad: int
    counts: Counts
    told: Counted


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Thousands of traces with bad ones among them, and their reports."""
    folder = tmp_path_factory.mktemp("population")
    source = population(folder / "in", GOOD, BAD)
    counts, told = batch(source, folder / "out")
    return Finished(source, folder / "out", GOOD, BAD, counts, told)
