"""What a cut or disturbed table still says: calls from totals and means, rows lost to other lines, mixed processes."""

from __future__ import annotations

import pytest

from tests.readers.forms.test_forms import document_of
from tests.rules.judging import table
from traceanalyzer.errors import UnusableInputError


def rows(*values: tuple[str, str, str]) -> str:
    """A table whose last columns are cut: names, CPU totals and means."""
    cells = [
        {"Name": name, "Self CPU": total, "CPU total": total, "CPU time avg": mean} for name, total, mean in values
    ]
    return table(cells, cpu="1.000s")


@pytest.mark.parametrize(
    ("total", "mean", "calls"),
    [
        ("500.000ms", "5.000ms", 100),
        ("1.000ms", "333.333us", 3),
        ("12.345ms", "12.345ms", 1),
        ("500.000ms", "1.001us", None),  # 499,250 to 499,750
        ("0.000us", "0.000us", None),
        ("10.000ms", "4.000ms", None),  # two and a half
    ],
)
def test_calls_follow_from_total_and_mean(total: str, mean: str, calls: int | None) -> None:
    (printed,) = document_of(rows(("aten::mm", total, mean))).tables
    assert (printed.rows[0].calls, "calls" in printed.columns) == (calls, False)


WHOLE = rows(
    ("aten::mm", "500.000ms", "5.000ms"),
    ("aten::add", "300.000ms", "3.000ms"),
    ("aten::mul", "1.000ms", "1.000ms"),
)
BAR = "Epoch 1:  50%|#####     | 5/10 [00:01<00:01,  5.0it/s]"


@pytest.mark.parametrize("mark", [BAR, "step 5 loss 1.2", "WARNING: slow"])
def test_a_row_that_another_line_cuts_is_counted(mark: str) -> None:
    at = WHOLE.index("aten::add") + 12
    found = document_of(WHOLE[:at] + mark + WHOLE[at:])
    assert [row.name for row in found.tables[0].rows if row.name in ("aten::mm", "aten::mul")] == [
        "aten::mm",
        "aten::mul",
    ]
    kept = [row for row in found.tables[0].rows if "aten::add" in row.name]
    assert found.losses or [row.cpu_total_ns for row in kept] == [300_000_000]


def test_lines_of_several_processes_without_labels_are_refused() -> None:
    other = WHOLE.replace("500.000ms", "490.000ms")
    mixed = "\n".join(line for pair in zip(WHOLE.splitlines(), other.splitlines(), strict=True) for line in pair)
    with pytest.raises(UnusableInputError, match="several processes, mixed, from line 3 on"):
        document_of(mixed)


def test_tables_one_after_another_are_not_mixed() -> None:
    assert len(document_of(WHOLE + "\n" + WHOLE.replace("500", "490")).tables) == 2
