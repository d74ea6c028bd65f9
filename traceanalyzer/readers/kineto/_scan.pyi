from typing import Any

KINDS: tuple[str, ...]
"""Names of the kinds of columns, by number."""

CHECKSUM: int
"""CRC-32 of the source (`_scan.c`)."""

def scan(
    text: memoryview,
    borders: list[int],
    categories: tuple[tuple[bytes, int], ...],
    tables: tuple[tuple[tuple[Any, ...], ...], ...],
    begins_empty: tuple[bool, ...],
    seed: int,
    /,
) -> tuple[int, list[tuple[int, int]], list[list[bytes]], list[list[tuple[bytes, bytes]]], int]:
    """The columns of the events between borders, up to the first event that is not plain, and its place.

    Args:
        text: The text with the events.
        borders: Offset of the byte before each list of events, and of the one after the last list.
        categories: The text of each category with its quotes, and the number of its table or -1; the empty text is that
            of counters, which have none.
        tables: The columns of each table, as of `scanning._packed`.
        begins_empty: For each pool whether code 0 is the empty text.
        seed: Of the hash that finds the codes of texts; what is read does not depend on it.

    Returns:
        The number of events; for each category the number of its events, and that of the first of them; the columns of
        each table, as bytes; the texts of each pool by code, the second of each is empty but for pairs; all of the
        events before the first that is not plain, whose offset is the last value: -1 if all are, 0 if borders are none.
    """
