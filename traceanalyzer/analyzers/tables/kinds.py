"""Tells what a printed row is: tables mix operators, the kernels that they launch, annotations, runtime calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum

from traceanalyzer.knowledge import marks
from traceanalyzer.trace.document import TableRow


class RowKind(StrEnum):
    """Kinds of rows. Device time stands in operator rows and again in kernel rows; annotations are spans with gaps."""

    OPERATOR = "operator"
    KERNEL = "kernel"
    COPY = "copy"
    """Memcpy and Memset rows of the device."""
    ANNOTATION = "annotation"
    """A user range, on the host or projected onto the device."""
    RUNTIME = "runtime"
    """A call into the device's runtime."""


_COPY = re.compile(r"(Memcpy|Memset) ")
_RUNTIME = re.compile(r"(cuda|hip|cu|xpu|ze|ur|mtia|aclrt|musa)[A-Z]\w*$")
_KERNEL = re.compile(
    r"[<(]|::|kernel|gemm|gemv|nccl|rccl|cudnn|cutlass|triton|fmha|flash|elementwise|reduce|Cijk|^void |_\d+x\d+|^sm\d",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"::|Backward\d*$|^\w+_$")
_MARKS = ("ProfilerStep", "Optimizer.", "enumerate(", "nccl:", "gloo:", "[pl]", "## ", "DataParallel.", "Distributed")
_SYNC = re.compile(r"(cuda|hip|aclrt|musa|xpu)\w*Synchronize$")


def is_sync(name: str) -> bool:
    """Whether it is a runtime call in which the host waits for the device."""
    return _SYNC.match(name) is not None


def is_dataloader(row: TableRow) -> bool:
    """Whether the row is the wait for a batch, its name whole or cut."""
    if row.name_truncated:
        return row.name.startswith(("enumerate(DataLoader)#", "enumerate(DataPipe)#"))
    return marks.is_dataloader(row.name)


def classify(rows: Iterable[TableRow], shaped: Collection[str] = ()) -> list[RowKind]:
    """The kind of each row of one table.

    A row without host time is of the device: a copy, a kernel, or the projection of an annotation, which has
    a host row of the same name or a name that no kernel has.

    Args:
        rows: All rows of the table.
        shaped: Names that have shapes in another table of the same profile.
    """
    rows = list(rows)
    on_host = {row.name for row in rows if not is_device_row(row)}
    return [_kind(row, on_host, shaped) for row in rows]


def is_device_row(row: TableRow) -> bool:
    """Nothing of it ran on the host."""
    return not row.self_cpu_ns and not row.cpu_total_ns and bool(row.self_device_ns or row.device_total_ns)


def _kind(row: TableRow, on_host: set[str], shaped: Collection[str]) -> RowKind:
    if _COPY.match(row.name):
        return RowKind.COPY
    if row.name.startswith(_MARKS):
        return RowKind.ANNOTATION
    if is_device_row(row):
        is_kernel = row.name not in on_host and _KERNEL.search(row.name)
        return RowKind.KERNEL if is_kernel else RowKind.ANNOTATION
    if _RUNTIME.match(row.name):
        return RowKind.RUNTIME
    # Until torch 1.7 operators had no namespace; a row with shapes is an operator, whatever its name.
    has_shapes = row.input_shapes not in (None, "[]", "") or row.name in shaped
    return RowKind.OPERATOR if _OPERATOR.search(row.name) or has_shapes else RowKind.ANNOTATION
