"""Names of kernels that the writer left mangled: Windows has no function for it, and cuDNN hides some symbols."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built, table_rows

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


def test_both_spellings_of_a_name_are_one() -> None:
    trace = read_built(with_kernels(MANGLED, "gemm", READABLE, MANGLED))
    assert [row["name"] for row in table_rows(trace, "device")] == [READABLE, "gemm", READABLE, READABLE]
    assert len(set(trace.device.name.tolist())) == 2
    assert sorted(trace.names) == sorted(set(trace.names))


def test_which_name_comes_first_does_not_matter() -> None:
    trace = read_built(with_kernels(READABLE, MANGLED))
    assert [row["name"] for row in table_rows(trace, "device")] == [READABLE, READABLE]


@pytest.mark.parametrize(("name", "is_loaded"), [(MANGLED, "True"), (READABLE, "False")])
def test_what_demangles_is_loaded_only_where_a_name_is_mangled(name: str, is_loaded: str, tmp_path: Path) -> None:
    path = with_kernels(name).write(tmp_path / "trace.json")
    code = f"import sys, traceanalyzer as ta; ta.load({str(path)!r}); print('demangle' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == is_loaded
