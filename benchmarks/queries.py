"""What a query costs beside reading: ``python -m benchmarks.queries [--mb 300]``, as CPU time of one process."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import traceanalyzer as ta
from benchmarks.grow import grow
from traceanalyzer.querying.database import import_duckdb

SOURCE = Path(__file__).parents[1] / "fixtures" / "synthetic" / "gpu_training.json.gz"
QUERIES = (
    "select count(*) from host",
    "select name, sum(dur_ns) from device group by 1",
    "select name, shapes, sum(dur_ns) from host group by all order by 3 desc limit 10",
    "select table_name, sum(dur_ns) from events group by 1",
    "select name, sum(dur_ns) from kernels where module like '%Conv%' group by 1",
    "select cause, sum(dur_ns) from gaps group by 1",
    "select name, sum(self_ns) from calls group by 1",
    "select count(*) from modules",
    "select count(*) from marks",
    "select count(*) from steps where is_typical",
)


def main() -> None:
    """Print the share of the reader's time that each query takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=300)
    import_duckdb()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.json"
        grow(SOURCE, file, parser.parse_args().mb)
        begun = time.process_time()
        trace = ta.load(file)
        reading = time.process_time() - begun
    print(f"reading: {reading:.2f} s")
    for query in QUERIES:
        begun = time.process_time()
        ta.sql(trace, query)  # type: ignore[arg-type]
        print(f"{(time.process_time() - begun) / reading:5.0%}  {query}")


if __name__ == "__main__":
    main()
