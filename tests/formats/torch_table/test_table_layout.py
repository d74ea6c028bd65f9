"""The layout of a table, on rows made by hand."""

from __future__ import annotations

import pytest

from tests.formats.torch_table.averages import averages, row
from traceanalyzer.errors import UsageError
from traceanalyzer.formats.torch_table import SORT_KEYS, render


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_a_table_without_events_is_empty() -> None:
    assert render(averages()) == ""


def test_a_table_is_dashes_header_rows_and_totals() -> None:
    table = averages(row("a", self_cpu_us=1.5, cpu_total_us=2.0, calls=2), row("bcd", self_cpu_us=0.5))
    assert render(table) == (
        "-------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "   Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n"
        "-------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "      a        75.00%       1.500us       100.00%       2.000us       1.000us             2  \n"
        "    bcd        25.00%       0.500us         0.00%       0.000us       0.000us             1  \n"
        "-------  ------------  ------------  ------------  ------------  ------------  ------------  \n"
        "Self CPU time total: 2.000us\n"
    )


@pytest.mark.parametrize(
    ("us", "text"),
    [(0.0, "0.000us"), (999.9994, "999.999us"), (999.9996, "1000.000us"), (1000, "1.000ms"), (1e6, "1.000s")],
)
def test_units_of_time(us: float, text: str) -> None:
    assert cells(render(averages(row("a", self_cpu_us=us))).splitlines()[3])[2] == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (-1023, "-1023 B"), (1024, "1.00 KB"), (-(2**20), "-1.00 MB"), (3 * 2**29, "1.50 GB")],
)
def test_units_of_memory(size: int, text: str) -> None:
    line = render(averages(row("a", cpu_mem_bytes=size), memory=True)).splitlines()[3]
    assert cells(line)[-3] == text


def test_shares_of_nothing_are_no_numbers() -> None:
    assert cells(render(averages(row("a"))).splitlines()[3])[1] == "NaN"


@pytest.mark.parametrize(("length", "printed"), [(51, 51), (52, 55), (53, 55), (99, 55)])
def test_long_names_are_cut(length: int, printed: int) -> None:
    name = cells(render(averages(row("x" * length))).splitlines()[3])[0]
    assert len(name) == printed
    assert name.endswith("...") == (length > 51)
    assert cells(render(averages(row("x" * length)), name_width=None).splitlines()[3])[0] == "x" * length


def test_long_shapes_are_cut_without_dots() -> None:
    shapes = str([[100, 200]] * 20)
    last = cells(render(averages(row("a", input_shapes=shapes))).splitlines()[3])[-1]
    assert last == shapes[:80]


def test_a_column_of_empty_shapes_is_left_out() -> None:
    assert "Input Shapes" not in render(averages(row("a", input_shapes="[]")))


def test_device_columns_come_with_device_time() -> None:
    kernel = row("k", on_device=True, self_device_us=3.0, device_total_us=3.0)
    range_ = row("step", on_device=True, is_user_annotation=True, self_device_us=6.0, device_total_us=6.0)
    text = render(averages(row("a", device_total_us=3.0, self_device_us=3.0), kernel, range_, device="XPU"))
    lines = text.splitlines()
    assert cells(lines[1])[6:] == ["Self XPU", "Self XPU %", "XPU total", "XPU time avg", "# of Calls"]
    assert [cells(line)[7] for line in lines[3:6]] == ["100.00%", "100.00%", "200.00%"]
    assert lines[-1] == "Self XPU time total: 3.000us"


def test_device_memory_comes_with_memory_that_some_event_holds_itself() -> None:
    held = row("a", device_mem_bytes=2048, self_device_mem_bytes=2048)
    freed = row("a", device_mem_bytes=-2048, self_device_mem_bytes=-2048)
    assert "Self CUDA Mem" in render(averages(held, device="CUDA", memory=True))
    assert "Self CUDA Mem" not in render(averages(freed, device="CUDA", memory=True))
    assert "Self CUDA Mem" not in render(averages(held, memory=True))


def test_the_unit_of_flops_is_that_of_the_smallest() -> None:
    table = averages(row("a", flops=2_500_000), row("b", flops=7_000), row("c"), flops=True)
    lines = render(table).splitlines()
    assert cells(lines[1])[-1] == "Total KFLOPs"
    assert [cells(line)[-1] for line in lines[3:6]] == ["2500.000", "7.000", "--"]


def test_asynchronous_events_have_no_share_of_the_total() -> None:
    line = render(averages(row("a", self_cpu_us=1.0), row("b", cpu_total_us=5.0, is_async=True))).splitlines()[4]
    assert cells(line)[3:5] == ["0", "5.000us"]


@pytest.mark.parametrize(("limit", "shown"), [(-1, 3), (0, 0), (2, 2), (9, 3)])
def test_row_limit(limit: int, shown: int) -> None:
    rows = [row(name, self_cpu_us=1.0) for name in "abc"]
    lines = render(averages(*rows), row_limit=limit).splitlines()
    assert len(lines) == 3 + shown + 2
    assert lines[-1] == "Self CPU time total: 3.000us"


def test_rows_that_are_equal_keep_their_order() -> None:
    rows = [row(name, calls=calls) for name, calls in (("a", 1), ("b", 2), ("c", 1), ("d", 2))]
    lines = render(averages(*rows), sort_by="count").splitlines()[3:7]
    assert [cells(line)[0] for line in lines] == ["b", "d", "a", "c"]


@pytest.mark.parametrize("key", ["cuda_time_total", "xpu_time_total", "privateuse1_time_total", "device_time_total"])
def test_every_word_for_the_device_sorts_by_the_device(key: str) -> None:
    rows = [row("a", device_total_us=1.0), row("b", device_total_us=2.0)]
    assert cells(render(averages(*rows), sort_by=key).splitlines()[3])[0] == "b"


def test_an_unknown_key_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="self_cuda_time_total") as caught:
        render(averages(row("a")), sort_by="time")
    assert all(key in str(caught.value) for key in SORT_KEYS)


def test_an_unknown_key_is_an_error_without_rows_too() -> None:
    with pytest.raises(UsageError):
        render(averages(), sort_by="time")
