"""The scratch database of a batch: what is taken next, at a cost that does not grow with the number of files."""

from __future__ import annotations

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
