"""Names of kernels that the writer left mangled: Windows has no function for it, and cuDNN hides some symbols."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built, table_rows
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.knowledge.kernel_names import is_communication, uses_tensor_cores
from traceanalyzer.report.names import clean

MANGLED = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi1EEEEEviT0_T1_"
READABLE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >"
    "(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)"
)


def with_kernels(*names: str) -> TraceBuilder:
    trace = TraceBuilder()
    trace.op("aten::fill_", 0, 100)
    for number, name in enumerate(names):
        trace.launch_kernel(name, 100 + 50 * number, 40, at=10 + 10 * number)
    return trace


def test_names_stay_as_recorded_and_are_shown_as_cplusplus_has_them() -> None:
    trace = read_built(with_kernels(MANGLED, "gemm"))
    assert [row["name"] for row in table_rows(trace, "device")] == [MANGLED, "gemm"]
    assert clean(MANGLED) == READABLE
    assert clean("_Znot_mangled") == "_Znot_mangled"


@pytest.mark.parametrize("kind", [kernel_class, uses_tensor_cores, is_communication])
def test_both_spellings_are_of_one_kind(kind: Callable[[str], object]) -> None:
    assert kind(MANGLED) == kind(READABLE)
    assert kernel_class(MANGLED) == KernelClass.COPY  # it fills


@pytest.mark.parametrize(("name", "is_loaded"), [(MANGLED, "True"), (READABLE, "False")])
def test_what_demangles_is_loaded_only_where_a_name_is_mangled(name: str, is_loaded: str, tmp_path: Path) -> None:
    path = with_kernels(name).write(tmp_path / "trace.json")
    code = f"import sys, traceanalyzer as ta; ta.analyze(ta.load({str(path)!r})); print('demangle' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == is_loaded
