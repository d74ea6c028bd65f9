"""Finds the kind of each printed row: tables mix operators, the kernels that they launch, annotations and calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum

from traceanalyzer.knowledge import marks
from traceanalyzer.structure import host_activity
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
    PHASE = "phase"
    """A part of the program, a function or a line in the table of another tool."""
    OVERHEAD = "overhead"
    """Work of the profiler or of the driver, which CUPTI reports as overhead."""


_ON_DEVICE = frozenset({RowKind.KERNEL, RowKind.COPY})
_COPY = re.compile(r"(Memcpy|Memset) ")
_RUNTIME = re.compile(r"(cuda|hip|cu|xpu|ze|ur|mtia|aclrt|musa)[A-Z]\w*$")
_KERNEL = re.compile(
    r"<|\((?![0-9]+\))|::|kernel|gemm|gemv|nccl|rccl|cudnn|cutlass|triton|fmha|flash|elementwise|reduce|Cijk|"
    r"^void |_\d+x\d+|^sm\d",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"\w+")
"""A name in code, as kernels of Triton have; annotations may have one, too."""
_PASSES = frozenset({"kernel", "forward", "backward", "fwd", "bwd"})
"""Words of which kernels of extensions have one, beside what they compute."""
_GENERAL = "pass step train training model loss batch epoch optimizer zero grad data and eval inference iteration"
_PHASES = frozenset(_GENERAL.split())
"""Words of names of annotations: `forward_pass`, `forward_and_backward`."""
_SUM_OF_ROUNDED = 1.01
"""By what rounded times of rows may exceed the total (own choice)."""
_OPERATOR = re.compile(r"::|Backward\d*$|^\w+_$")
MARKS = ("ProfilerStep", "Optimizer.", "enumerate(", "nccl:", "gloo:", "[pl]", "## ", "DataParallel.", "Distributed")
"""First words of names of annotations that torch and Lightning make."""
_NAMESPACES = ("aten::", "c10d::")
"""Namespaces of operators only: one that took no time on the host, or whose time there is not printed, is no kernel."""
_OVERHEADS = frozenset(
    {
        "Activity Buffer Request",
        "Buffer Flush",
        "Command Buffer Full",
        "Driver Compiler",
        "Instrumentation",
        "Lazy Function Loading",
        "Resource",
        "Runtime Triggered Module Loading",
        "UVM Activity Init",
        "Unrecognized",
    }
)
"""Names of CUPTI's kinds of overhead, as kineto prints them (`overheadKindString` in libkineto)."""


def is_sync(name: str) -> bool:
    """Whether it is a runtime call in which the host waits for the device."""
    return host_activity.is_synchronization(name)


def is_dataloader(row: TableRow) -> bool:
    """Whether the row is the wait for a batch, its name whole or cut."""
    if row.form_row is not None or row.part is not None:
        return row.part == "loader"
    if row.name_truncated:
        return row.name.startswith(("enumerate(DataLoader)#", "enumerate(DataPipe)#"))
    return marks.is_dataloader(row.name)


def classify(rows: Iterable[TableRow], operators: Collection[str] = ()) -> list[RowKind]:
    """The kind of each row of one table.

    A row without host time is of the device: a copy, a kernel, or the projection of an annotation, which has a host row
    of the same name or a name that no kernel has. Other names are those of kernels if one operator has exactly as many
    calls and exactly the same device time, or if they are names in code and their times fit.

    Args:
        rows: All rows of the table.
        operators: Names that other columns or tables of the same profile show to be operators.
    """
    rows = list(rows)
    on_host = {row.name: row for row in rows if not is_device_row(row)}
    kinds = [
        _kind(row, on_host, operators) if row.form_row is None else _OF_FORMS.get(row.form_row, RowKind.PHASE)
        for row in rows
    ]
    unassigned = _operators_without_kernel(rows, kinds)
    for position, row in enumerate(rows):
        if kinds[position] is not RowKind.ANNOTATION or not is_device_row(row) or row.name.startswith(MARKS):
            continue
        host = on_host.get(row.name)
        if unassigned[_on_device(row)] > 0 and (host is None or _on_device(host) == _on_device(row)):
            unassigned[_on_device(row)] -= 1
            kinds[position] = RowKind.KERNEL
    for position in _kernels_by_time(rows, kinds, on_host):
        kinds[position] = RowKind.KERNEL
    return kinds


def _operators_without_kernel(
    rows: Sequence[TableRow], kinds: Sequence[RowKind]
) -> Counter[tuple[int | None, int | None]]:
    """How many operators of each device time and number of calls have no kernel with the same ones."""
    operators: Counter[tuple[int | None, int | None]] = Counter()
    for row, kind in zip(rows, kinds, strict=True):
        if kind is RowKind.OPERATOR and row.self_device_ns:
            operators[_on_device(row)] += 1
        elif kind is RowKind.KERNEL:
            operators[_on_device(row)] -= 1
    return operators


def _kernels_by_time(rows: Sequence[TableRow], kinds: Sequence[RowKind], on_host: Collection[str]) -> Iterator[int]:
    """Rows of the device whose names could be those of annotations, but whose times are those of kernels.

    They fit into the total with the other kernels, and are shorter than those together: an annotation spans the kernels
    of its range.
    """
    kernels = sum(row.self_device_ns or 0 for row, kind in zip(rows, kinds, strict=True) if kind in _ON_DEVICE)
    counted = kernels
    most = _SUM_OF_ROUNDED * _total_by_share(rows)
    for position, row in enumerate(rows):
        if kinds[position] is not RowKind.ANNOTATION or not is_device_row(row) or row.name in on_host:
            continue
        time = row.self_device_ns or 0
        is_short = time < kernels or _names_kernel(row.name)
        if _is_name_in_code(row.name) and is_short and counted + time <= most:
            counted += time
            yield position


def _total_by_share(rows: Sequence[TableRow]) -> float:
    """The device time of the whole table, by the row with the largest share of it; infinite if none has one."""
    shares = [(row.self_device_share or 0.0, row.self_device_ns or 0) for row in rows]
    share, time = max(shares, default=(0.0, 0))
    return time / share if share else float("inf")


def _is_name_in_code(name: str) -> bool:
    """Whether it could be the name of a kernel: an identifier of several words, and no mark."""
    return "_" in name and _IDENTIFIER.fullmatch(name) is not None and not name.startswith(MARKS)


def _names_kernel(name: str) -> bool:
    """Whether a name in code says that it is a kernel: what is computed, and in which pass."""
    words = set(name.lower().split("_")) - {""}
    return bool(words & _PASSES) and bool(words - _PASSES - _PHASES)


def is_device_row(row: TableRow) -> bool:
    """The row has no host time."""
    return not row.self_cpu_ns and not row.cpu_total_ns and bool(row.self_device_ns or row.device_total_ns)


def _on_device(row: TableRow) -> tuple[int | None, int | None]:
    """Self time on the device, and calls: what an operator and its only kernel have in common."""
    return row.self_device_ns, row.calls


_OF_FORMS = {
    "kernel": RowKind.KERNEL,
    "copy": RowKind.COPY,
    "call": RowKind.RUNTIME,
    "operator": RowKind.OPERATOR,
}
"""Kinds of rows of other tools' tables; all others are parts of the program."""


def _kind(row: TableRow, on_host: Collection[str], operators: Collection[str]) -> RowKind:
    if _COPY.match(row.name):
        return RowKind.COPY
    if row.name in _OVERHEADS:
        return RowKind.OVERHEAD
    if row.name.startswith(MARKS):
        return RowKind.ANNOTATION
    if is_device_row(row) and not row.name.startswith(_NAMESPACES):
        is_kernel = row.name not in on_host and _KERNEL.search(row.name)
        return RowKind.KERNEL if is_kernel else RowKind.ANNOTATION
    if _RUNTIME.match(row.name):
        return RowKind.RUNTIME
    # Until torch 1.7 operators had no namespace; a row with shapes is an operator, whatever its name. Only what
    # launches kernels itself has self time on the device: an operator, a function of autograd, a generated kernel.
    has_shapes = row.input_shapes not in (None, "[]", "") or row.name in operators
    is_operator = _OPERATOR.search(row.name) or has_shapes or row.self_device_ns
    return RowKind.OPERATOR if is_operator else RowKind.ANNOTATION
