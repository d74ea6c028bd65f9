"""Rates in the text around tables: how they are written, and which table they stand beside."""

from __future__ import annotations

import pytest

from traceanalyzer.readers import key_averages
from traceanalyzer.readers.key_averages.surroundings import KEPT
from traceanalyzer.trace.document import PrintedRate, TableDocument

TABLE = """\
-------------  ------------  ------------
         Name    Self CPU %      Self CPU
-------------  ------------  ------------
  8.0 steps/s        50.00%       1.000ms
     aten::mm        50.00%       1.000ms
-------------  ------------  ------------
Self CPU time total: 2.000ms
"""


def read(*parts: str) -> TableDocument:
    """A document of lines and tables."""
    return key_averages.read("\n".join(parts), "notes.md", None)


def rate_of(line: str) -> PrintedRate:
    (found,) = read(line, TABLE).rates
    return found


@pytest.mark.parametrize(
    ("line", "value", "unit"),
    [
        ("[Throughput during profiled window] ~4.9 samples/sec", 4.9, "samples"),
        ("- throughput: 7.8 samples/s", 7.8, "samples"),
        ("1234 tokens/s", 1234, "tokens"),
        ("generation: 1,234.5 tok/s", 1234.5, "tokens"),
        ("speed 4,9 samples per second", 4.9, "samples"),
        ("12,345 images/sec", 12345, "images"),
        ("1,2345.5 images/sec", 12345.5, "images"),
        ("1,2,3 images/sec", 1.23, "images"),
        ("56.7 imgs/sec", 56.7, "images"),
        ("Throughput (img/s): 310.2", 310.2, "images"),
        ("lr 0.1 steps/second: 12", 12, "steps"),
        ("{'train_samples_per_second': 12.3}", 12.3, "samples"),
        ("tokens_per_second = 99.5", 99.5, "tokens"),
        ("100%|##########| 50/50 [00:10<00:00,  4.90it/s]", 4.9, "iterations"),
        ("100%|##########| 50/50 [00:10<00:00,  1.02kit/s]", 1020, "iterations"),
        ("2.5 batches/s, loss 0.1", 2.5, "batches"),
        ("**1.5k tokens/s**", 1500, "tokens"),
        ("3 steps/s", 3, "steps"),
        ("20 requests/s", 20, "requests"),
        ("~ 25 frames per second", 25, "frames"),
        ("41 sequences/s", 41, "sequences"),
    ],
)
def test_how_rates_are_written(line: str, value: float, unit: str) -> None:
    found = rate_of(line)
    assert (found.per_s, found.unit) == (pytest.approx(value), unit)


@pytest.mark.parametrize(
    "line",
    [
        "4.9 samples",
        "900 GB/s",
        "8.0 TFLOP/s",
        "it/s",
        "s/it: 1.5",
        "5 mins/s",
        "batch 4 steps / save",
        "v1.2it/s",
        "bits/s: 5",
        "3,000 tok/s/gpu",
    ],
)
def test_what_is_no_rate(line: str) -> None:
    assert read(line, TABLE).rates == ()


def test_a_line_may_give_several() -> None:
    found = read("{'train_samples_per_second': 12.3, 'train_steps_per_second': 1.5}", TABLE).rates
    assert [(rate.per_s, rate.unit) for rate in found] == [(12.3, "samples"), (1.5, "steps")]


def test_words_are_kept_as_printed_without_markup() -> None:
    found = rate_of("  - **[Throughput]**  ~4.9   samples/sec (batch 8)")
    assert (found.words, found.printed) == ("[Throughput] ~4.9 samples/sec (batch 8)", "~4.9 samples/sec")
    assert found.line == 1


def test_rows_of_tables_are_not_searched() -> None:
    assert read(TABLE, TABLE).rates == ()


def test_which_tables_a_rate_stands_beside() -> None:
    text = ["# First", "1 it/s", TABLE, "2 it/s", TABLE, "3 it/s", "# Second", "4 it/s", TABLE, "## Third", "5 it/s"]
    near = [(rate.per_s, rate.after_table, rate.before_table) for rate in read(*text).rates]
    assert near == [(1, None, 0), (2, 0, 1), (3, 1, None), (4, None, 2), (5, None, None)]


def test_rates_beyond_the_limit_are_counted() -> None:
    found = read(*["5 it/s"] * (KEPT + 2), TABLE)
    assert len(found.rates) == KEPT
    assert [(loss.id, loss.count, loss.params["kept"]) for loss in found.losses] == [("read-many-rates", 2, KEPT)]
