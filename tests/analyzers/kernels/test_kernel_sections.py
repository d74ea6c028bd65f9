"""The sections about kernel classes, roofline and communication."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.builders import A100, TraceBuilder
from tests.builders.hardware import Device
from tests.reading import read_built
from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.kernels import classes as kernel_classes
from traceanalyzer.analyzers.kernels import roofline
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section
from traceanalyzer.sections import communication as communication_section
from traceanalyzer.sections import kernels as kernels_section
from traceanalyzer.structure.context import Context

ANALYSES: dict[str, Any] = {
    "kernel_classes": kernel_classes.analyze,
    "roofline": roofline.analyze,
    "communication": communication.on_devices,
}
BUILDERS = (kernels_section.build_classes, kernels_section.build_roofline, communication_section.build)


def built(device: Device = A100) -> TraceBuilder:
    trace = TraceBuilder(devices=(device,))
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 900)
        trace.op("aten::mm", at + 10, 50, shapes=[[512, 512], [512, 512 + number]], types=["float", "float"])
        trace.launch_kernel("ampere_sgemm_128x64_nn", at + 100, 100 + number, at=at + 20)
        trace.collective("all_reduce", at + 150, 200, at=at + 70, nelems=100 + number)
    trace.kernel("a_kernel_of_mine", 2800, 10)
    return trace


def report(trace: TraceBuilder, *keys: str) -> Report:
    """A report with these analyses and no others."""
    context = Context(read_built(trace))
    results = {key: msgspec.to_builtins(ANALYSES[key](context)) for key in keys}
    return msgspec.structs.replace(analyze(context.trace), analyses=results)


def sections(found: Report, top: int = 20) -> dict[str, Section]:
    return {section.id: section for builder in BUILDERS for section in builder(found, top)}


def test_every_analysis_has_a_section_and_none_without_it() -> None:
    assert set(sections(report(built(), *ANALYSES))) == {"kernel-classes", "roofline", "communication"}
    assert sections(report(built())) == {}


def test_all_are_details() -> None:
    assert all(section.is_detail for section in sections(report(built(), *ANALYSES)).values())


def test_classes_and_what_is_unexplained() -> None:
    section = sections(report(built(), "kernel_classes"))["kernel-classes"]
    classes, unexplained = section.tables
    assert [ENGLISH.text(row[0]) for row in classes.rows] == ["Communication", "Matrix multiplications", "Other"]
    assert unexplained.rows == (("a_kernel_of_mine", 1, 10_000, pytest.approx(10 / 913)),)
    assert [message.id for message in section.messages] == ["kernel-classes-unexplained"]


def test_every_class_has_a_label() -> None:
    assert set(kernels_section._LABELS) == {found.value for found in KernelClass}


def test_only_the_top_rows_are_shown_but_all_are_counted() -> None:
    found = sections(report(built(), *ANALYSES), top=1)
    for section, table, total in (("roofline", 0, 3), ("communication", 1, 3), ("communication", 2, 3)):
        assert (len(found[section].tables[table].rows), found[section].tables[table].total_rows) == (1, total)


def test_limits_are_named_with_their_source() -> None:
    known = sections(report(built(), "roofline"))["roofline"].messages
    assert [message.id for message in known] == ["roofline-modelled", "roofline-roof"]
    assert "A100" in known[1].text
    unknown = sections(report(built(Device("My GPU", 2**34, 50, 8, 0)), "roofline"))["roofline"]
    assert [message.id for message in unknown.messages] == ["roofline-modelled", "roofline-no-roof"]
    assert unknown.tables[0].rows[0][-1] is None


def test_collectives_without_sizes_are_told() -> None:
    trace = TraceBuilder()
    trace.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 0, 10)
    section = sections(report(trace, "communication"))["communication"]
    assert [message.id for message in section.messages] == ["communication-waiting", "communication-no-sizes"]
    titles = [column.title.id for column in section.tables[1].columns]
    assert "column-bus" not in titles  # a column that nothing is known for is not shown


def test_where_some_collectives_have_sizes_the_version_is_no_reason() -> None:
    trace, known = TraceBuilder(), {"Collective name": "allreduce", "In msg nelems": 100, "dtype": "Float"}
    trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 10, args={**known, "Out msg nelems": 100})
    trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 10)
    section = sections(report(trace, "communication"))["communication"]
    assert [message.text for message in section.messages][1:] == [
        "1 of 2 collectives has no recorded message size, so its bandwidth is unknown."
    ]
