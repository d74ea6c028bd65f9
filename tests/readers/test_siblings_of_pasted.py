"""Invented siblings of what people paste: three texts of each kind with other figures, and the same right answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.readers.forms.test_forms import report_of
from tests.readers.test_pasted_texts import told
from tests.rules.judging import table

Row = Mapping[str, str | int]


def row(name: str, host: float, device: float | None = None, calls: int = 10, *, total: float | None = None) -> Row:
    """A row; times in ms."""
    whole = host if total is None else total
    cells: dict[str, str | int] = {"Name": name, "Self CPU": f"{host:.3f}ms", "CPU total": f"{whole:.3f}ms"}
    if device is not None:
        cells |= {"Self CUDA": f"{device:.3f}ms", "CUDA total": f"{device:.3f}ms"}
    return cells | {"# of Calls": calls}


def printed(rows: Sequence[Row], cpu: float, device: float | None = None) -> str:
    """The table of rows; totals in ms."""
    return table([dict(one) for one in rows], cpu=f"{cpu:.3f}ms", device=None if device is None else f"{device:.3f}ms")


def drawn(rows: Sequence[Row], cpu: float, device: float, *, bold: bool = False) -> str:
    """The same as a table of GitHub without outer bars, with its totals below."""
    heads = list(rows[0])
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    lines += [" | ".join(f"**{value}**" if bold else str(value) for value in one.values()) for one in rows]
    mark = "**" if bold else ""
    totals = [
        f"{mark}Self CPU time total: {cpu:.3f}ms{mark}",
        f"{mark}Self CUDA time total: {device:.3f}ms{mark}",
    ]
    return "\n".join([*lines, "", *totals, ""])


def gemm(scale: float) -> list[Row]:
    """A program whose GPU works on products in fp32."""
    return [
        row("aten::mm", 30 * scale, 80 * scale),
        row("ampere_sgemm_128x64_tn", 0, 80 * scale),
        row("aten::relu", 20 * scale, 5 * scale),
        row("cudaDeviceSynchronize", 40 * scale, 0),
    ]


def loader(name: str, own: float, within: float) -> str:
    """A loader in the process: what runs within it is its work."""
    rest = 100 - own - within
    rows = [
        row(f"enumerate(DataLoader)#{name}.__next__", own, total=own + within),
        row("aten::stack", within),
        row("aten::addmm", rest),
    ]
    return printed(rows, 100)


KINDS: dict[str, tuple[Callable[[float], str], tuple[float, float, float], tuple[str, ...], tuple[str, ...]]] = {
    "pipes without outer bars": (
        lambda scale: drawn(gemm(scale), 90 * scale, 85 * scale),
        (1, 10, 37),
        ("Limited by GPU compute", "ampere_sgemm_128x64_tn"),
        ("No verdict",),
    ),
    "bold cells and totals": (
        lambda scale: drawn(gemm(scale), 90 * scale, 85 * scale, bold=True),
        (1, 10, 37),
        ("Limited by GPU compute", "94 %"),
        ("does not show how long the host",),
    ),
    "loader with operators inside": (
        lambda part: loader("_SingleProcessDataLoaderIter", 5, part),
        (55, 65, 80),
        ("Waiting for data",),
        ("Limited by the CPU",),
    ),
    "GPU nearly always busy": (
        lambda device: printed([row("aten::_index_put_impl_", 50, device)], 1000, device),
        (960, 980, 999),
        ("of the run (",),
        ("No verdict", "the CPU is the limit"),
    ),
    "only the CPU of a GPU program": (
        lambda wait: printed([row("cudaMemcpyAsync", wait, calls=5), row("aten::mm", 1000 - wait)], 1000),
        (500, 700, 900),
        ("The GPU was not recorded", "in cudaMemcpyAsync", "ProfilerActivity.CUDA"),
        ("Limited by the CPU",),
    ),
    "few of the rows": (
        lambda shown: printed([row("aten::mm", shown), row("aten::add", shown / 2)], 1000),
        (10, 40, 100),
        ("No verdict", "in rows that are not printed"),
        ("Limited by", "Waiting for data"),
    ),
    "attention that is not fused": (
        lambda each: printed(
            [row("aten::bmm", 10, 4 * each, 20), row("aten::_softmax", 5, 2 * each), row("aten::div", 5, each)],
            7 * each,
            7 * each,
        ),
        (10, 100, 1000),
        ("scaled_dot_product_attention",),
        (),
    ),
    "backward of x[index]": (
        lambda each: printed(
            [row("IndexBackward0", 1, 0), row("aten::_index_put_impl_", 5, 7 * each), row("aten::mm", 5, 3 * each)],
            10 * each,
            10 * each,
        ),
        (10, 100, 1000),
        ("Replace x[index] by index_select or embedding", "index_select"),
        (),
    ),
    "totals and a row in prose": (
        lambda part: (
            f"Self CPU time total: 1000.000ms\nSelf CUDA time total: 50.000ms\n\n"
            f"enumerate(DataLoader)#_SingleProcessDataLoaderIter...   {part / 10:.2f}%  {part:.3f}ms\n"
        ),
        (600, 750, 900),
        ("Waiting for data", "that is little"),
        (),
    ),
    "columns of the GPU cut off": (
        lambda wait: printed([row("cudaDeviceSynchronize", wait), row("aten::mm", 1000 - wait)], 1000, 1100),
        (600, 800, 950),
        ("Limited by the GPU", "no columns of its times"),
        ("row_limit", "nothing ran on a GPU"),
    ),
    "one operator on the CPU": (
        lambda part: printed([row("aten::mkldnn_convolution", part), row("aten::add", 1000 - part)], 1000),
        (600, 750, 900),
        ("Limited by the CPU", "Compute this operator in bfloat16", "channels_last"),
        (),
    ),
    "a first call of seconds": (
        lambda own: printed([row("aten::cudnn_convolution", own, 20, 1), row("aten::relu", 100, 10)], own + 100, 30),
        (1000, 4000, 9000),
        ("Profile after some warm-up steps", "Run some steps of the same shapes before"),
        (),
    ),
}
CASES = [(kind, figure) for kind, (_, figures, _, _) in KINDS.items() for figure in figures]


@pytest.mark.parametrize(("kind", "figure"), CASES, ids=[f"{kind}: {figure}" for kind, figure in CASES])
def test_a_sibling_gives_the_same_answer(kind: str, figure: float) -> None:
    build, _, wanted, unwanted = KINDS[kind]
    said = told(report_of(build(figure)))
    assert {part for part in (*wanted, *unwanted) if part in said} == set(wanted), said
