"""The scratch database of a batch: what is taken next, at a cost that does not grow with the number of files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from traceanalyzer.batching import catalog as catalogs
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.inputs.discovery import FoundFile


def filled(catalog: Catalog, files: int) -> None:
    for number in range(files):
        name = f"{number:05}.json"
        found = FoundFile(f"/in/{name}", name, 100, "1", False, name)
        added = catalog.add(found, "f")
        assert added is not None
        catalog.wait(added, 1000 + number % 3, may_be_nothing=False)


def work_of_taking(files: int) -> int:
    """Instructions of the database's machine for taking twenty files."""
    with catalogs.opened() as catalog:
        filled(catalog, files)
        count = 0

        def tick() -> int:
            nonlocal count
            count += 1
            return 0

        catalog.database.set_progress_handler(tick, 100)
        for _ in range(20):
            assert catalog.take(5000) is not None
        return count


def test_the_largest_comes_first_then_in_the_order_of_names() -> None:
    with catalogs.opened() as catalog:
        filled(catalog, 9)
        taken = [catalog.take(5000) for _ in range(9)]
        assert [file.name[:5] for file in taken if file] == [f"{n:05}" for n in (2, 5, 8, 1, 4, 7, 0, 3, 6)]
        assert catalog.take(5000) is None


def test_taking_a_file_costs_the_same_however_many_wait() -> None:
    assert work_of_taking(4000) <= 2 * work_of_taking(400) + 5


def test_no_file_of_the_database_has_a_name_even_while_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed cannot remove a file; the system frees one without a name."""
    for name in ("TMPDIR", "SQLITE_TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with catalogs.opened() as catalog:
        filled(catalog, 10_000)
        assert len([catalog.take(5000) for _ in range(10)]) == 10
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_large_database_is_on_disk_not_in_memory() -> None:
    program = """
import os
from traceanalyzer.batching import catalog
with catalog.opened() as opened:
    opened.database.execute("CREATE TABLE large (content BLOB)")
    opened.database.execute("INSERT INTO large VALUES (zeroblob(60000000))")
    sizes = []
    for number in os.listdir("/proc/self/fd"):
        try:
            sizes.append(os.stat(f"/proc/self/fd/{number}").st_size)
        except OSError:
            pass
    print(max(sizes))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert int(done.stdout) > 40_000_000
