"""What kernels do, by examples of every library: at least one for each line of the table."""

from __future__ import annotations

import pytest
from class_examples import ALL, EXAMPLES
from kernel_examples import MATRIX_UNITS, PLAIN_ARITHMETIC

from traceanalyzer.knowledge import kernel_classes
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_patterns import KernelClass


@pytest.mark.parametrize(("wanted", "name"), [(k, name) for k, names in EXAMPLES.items() for name in names])
def test_class(wanted: str, name: str) -> None:
    assert kernel_class(name).value == wanted


def test_every_class_has_examples() -> None:
    assert set(EXAMPLES) == {found.value for found in KernelClass}


@pytest.mark.parametrize("line", range(len(kernel_classes._TABLE.patterns)))
def test_every_line_of_the_table_decides_about_an_example(line: int) -> None:
    def decides(name: str) -> bool:
        return next((i for i, (p, _) in enumerate(kernel_classes._TABLE.patterns) if p.search(name)), None) == line

    assert any(map(decides, ALL)), kernel_classes._TABLE.patterns[line][0].pattern


@pytest.mark.parametrize("name", ["my_kernel", "", "kernel", "{lambda(int)#1}", "unknown"])
def test_names_that_do_not_tell(name: str) -> None:
    assert kernel_class(name) is KernelClass.OTHER


@pytest.mark.parametrize("name", [name for names in MATRIX_UNITS.values() for name in names])
def test_what_uses_matrix_units_multiplies(name: str) -> None:
    multiplies = (KernelClass.GEMM, KernelClass.MOE, KernelClass.CONVOLUTION, KernelClass.ATTENTION)
    assert kernel_class(name) in multiplies


@pytest.mark.parametrize(
    "name", [name for names in PLAIN_ARITHMETIC.values() for name in names if "thrust" not in name]
)
def test_known_kernels_have_a_class(name: str) -> None:
    assert kernel_class(name) is not KernelClass.OTHER
