"""What the program called kernels of graphs is in tables, the flame graph and the warnings."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.builders.fixture_set import FOLDER
from tests.builders.writers import labelled
from tests.readers.kineto.test_writers import facts_of
from tests.reading import read, read_built
from traceanalyzer.analyzers.host.flame_frames import FlameFrames
from traceanalyzer.analyzers.modules import labels
from traceanalyzer.analyzers.modules.labels import LabelledGraphs, LabelledPlace
from traceanalyzer.formats import render
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.kineto import scanning
from traceanalyzer.sections import modules as section
from traceanalyzer.structure.context import Context

SERVING: Path = FOLDER / "synthetic" / "serving_graphs.json.gz"
LABELS = {
    0: {"module_fqn": "layers.0.norm"},
    1: {"module_fqn": "layers.0.attention", "name": "qkv", "stream": "101"},
    2: {"module_fqn": "layers.0.attention"},
    3: {"name": "all_reduce", "stream": "102"},
}


def graph(*said: Mapping[str, object]) -> TraceBuilder:
    """A graph with kernels of 10 us, each with what the program said of it."""
    trace = TraceBuilder()
    trace.op("step", 0, 20)
    launch = trace.launch("cudaGraphLaunch", 5, 10)
    for number, each in enumerate(said):
        trace.kernel("gemm", 100 + 20 * number, 10, correlation=launch)
        trace.events[-1]["args"] |= {"graph id": 3, "graph node id": number} | dict(each)  # type: ignore[operator]
    return trace


def analyzed(*said: Mapping[str, object]) -> LabelledGraphs:
    return labels.analyze(Context(read_built(graph(*said))))


def test_paths_of_modules_are_places() -> None:
    found = analyzed({"module_fqn": "a.b"}, {"module_fqn": "a.b", "name": "c"}, {"module_fqn": "a"}, {"name": "x"}, {})
    assert found.tree == (
        LabelledPlace("a", "a", None, 0, 1, 10_000, 30_000),
        LabelledPlace("a.b", "b", 0, 1, 1, 10_000, 20_000),
        LabelledPlace("a.b.c", "c", 1, 2, 1, 10_000, 10_000),
        LabelledPlace("x", "x", None, 0, 1, 10_000, 10_000),
    )
    assert (found.labelled_ns, found.unlabelled_ns) == (40_000, 10_000)


def test_other_annotations_are_labels_where_there_is_nothing_else() -> None:
    found = analyzed({"annotation": "prefill"}, {"annotation": "prefill", "name": "x"})
    assert [place.label for place in found.tree] == ["x", "prefill"]


def test_all_marks_of_a_kernel_in_one_list() -> None:
    """As the monitor of torch 2.14 writes them; any key counts, but for the stream that a viewer shows."""
    marks = [{"name": "inner", "stream": "7"}, {"module_fqn": "a.b", "dtype": "bf16", "layer": 3}]
    found = analyzed({"annotation": json.dumps(marks)}, {"annotation": json.dumps([{"region": "prefill"}])})
    assert {place.label for place in found.tree if place.events} == {"a.b.inner.dtype=bf16.layer=3", "region=prefill"}


@pytest.mark.parametrize("scan", [scanning.scan, None], ids=["scanned", "by msgspec"])
def test_keys_of_the_program_beside_those_of_the_writer(scan: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the monitor of 2.14 writes a single mark, and Python's exporter of 2.15 all of them, as texts."""
    monkeypatch.setattr(scanning, "scan", scan)
    found = analyzed(
        {"region": "prefill"},
        {"layer": "mlp", "module_fqn": "a.b"},
        {"layer": "_norm", "annotation": "old"},
        {"annotation": '[{"name": "x"}]', "dtype": "bf16"},
    )
    labels_ = {place.label for place in found.tree if place.events}
    assert labels_ == {"region=prefill", "a.b.layer=mlp", "old.layer=_norm", "x.dtype=bf16"}


MEASURED = (1.5, 3, -1, "3", "4.5 GB/s", "0x00007f3a", "[1, 2]", "N/A", "inf", "Unknown", True, None, ["a"], "a" * 501)


@pytest.mark.parametrize("scan", [scanning.scan, None], ids=["scanned", "by msgspec"])
@pytest.mark.parametrize("value", MEASURED, ids=map(str, range(len(MEASURED))))
def test_what_may_be_measured_is_no_label(value: object, scan: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument that a later writer adds to kernels of graphs, beside one that is a label."""
    monkeypatch.setattr(scanning, "scan", scan)
    found = analyzed({"something new": value}, {"something new": value, "region": "prefill"})
    assert [place.label for place in found.tree if place.events] == ["region=prefill"]


OF_KINETO = (
    *("Collective name", "dtype", "In msg nelems", "Out msg nelems", "In split size", "Out split size"),
    *("Global rank start", "Global rank stride", "Group size", "Process Group Name", "Process Group Description"),
    *("Process Group Ranks", "Rank", "Src Rank", "Dst Rank", "Seq", "Input Tensors start", "Output Tensors start"),
    *("Is asynchronized op", "Comms Id", "occupancy", "limitingFactors", "queued", "priority", "channel"),
    *("channel_type", "cuda_sync_kind", "wait_on_stream", "kernel", "src", "dst", "ptr", "hsa_queue", "cid", "kind"),
    *("appended", "submitted_rel_to_start", "l0 call", "l0 queue", "source_file_name", "context", "External id"),
    *("correlation", "stream", "device", "bytes", "memory bandwidth (GB/s)", "Call stack", "Module Hierarchy"),
    *("Backend", "CallFrom", "Input type", "Concrete Inputs", "est. achieved occupancy %", "registers per thread"),
)
"""Fields of its catalogue (`MetadataFieldCatalog.h`), and of its plugin for Intel's GPUs."""


@pytest.mark.parametrize("key", OF_KINETO)
def test_what_kineto_says_is_no_label(key: str) -> None:
    """Alone or with a collective, which torch marks in graphs, and whatever text it says."""
    found = analyzed({"Collective name": "all_reduce"} | {key: "name"}, *([] if key == "dtype" else [{key: "name"}]))
    assert found.labelled_ns == 0


@pytest.mark.parametrize(("values", "is_label"), [(100, True), (101, False)])
def test_what_numbers_events_is_no_label(values: int, is_label: bool) -> None:
    """Of a key hardly two events have the same value: it may be a handle or the id of a request."""
    found = analyzed(*({"handle": f"h{number}", "region": "decode"} for number in range(values)))
    assert ({place.name for place in found.tree} == {"region=decode"}) is not is_label


def test_many_layers_are_labels() -> None:
    """Each has two kernels."""
    found = analyzed(*({"layer": f"layer{number // 2}"} for number in range(400)))
    assert len(found.tree) == 200


def test_only_kernels_of_graphs_have_labels_beside_their_arguments() -> None:
    trace = graph({"name": "a"})
    trace.kernel("gemm", 300, 10)
    trace.events[-1]["args"] |= {"graph node id": 0, "region": "prefill"}  # type: ignore[operator]
    found = labels.analyze(Context(read_built(trace)))
    assert [place.label for place in found.tree] == ["a"]


def test_a_mark_that_is_a_text_is_a_name() -> None:
    found = analyzed({"annotation": '["decode"]'}, {"annotation": "[no list"})
    assert {place.label for place in found.tree} == {"decode", "[no list"}


def test_the_backward_pass_of_what_is_labelled_is_told_apart() -> None:
    """Torch 2.14 labels the kernels of autograd, too, if they are captured."""
    found = analyzed({"module_fqn": "a"}, {"module_fqn": "a", "autograd_phase": "backward"})
    assert found.tree == (
        LabelledPlace("a", "a", None, 0, 1, 10_000, 20_000),
        LabelledPlace("a.autograd_phase=backward", "autograd_phase=backward", 0, 1, 1, 10_000, 10_000),
    )


def test_copies_have_labels_too() -> None:
    trace = graph({"module_fqn": "a"})
    trace.memcpy("DtoD", 64, 300, 5)
    trace.events[-1]["args"] |= {"graph id": 3, "graph node id": 9, "module_fqn": "a.copy"}  # type: ignore[operator]
    assert labels.analyze(Context(read_built(trace))).tree[1].label == "a.copy"


def test_every_label_is_on_the_page() -> None:
    report = analyze(read(labelled(SERVING.read_bytes(), LABELS)))
    found = report.result("labelled_graphs", LabelledGraphs)
    frames = report.result("flame_frames", FlameFrames)
    assert found is not None
    assert frames is not None
    wanted = {"layers.0.norm", "layers.0.attention", "layers.0.attention.qkv", "all_reduce"}
    assert wanted <= {place.label for place in found.tree if place.events}
    assert {"layers", "0", "norm", "attention", "qkv", "all_reduce"} <= {frame.name for frame in frames.frames}
    assert [shown.id for shown in section.build_labels(report, 50)] == ["labelled-graphs", "labelled-graphs-tree"]


def test_without_labels_nothing_is_said() -> None:
    report = analyze(read(SERVING.read_bytes()))
    assert list(section.build_labels(report, 50)) == []
    assert "labelled_graphs" in {skipped.id for skipped in report.skipped}


def test_labelled_kernels_are_not_opaque() -> None:
    def opaque(*said: dict[str, object]) -> list[int]:
        warnings = analyze(read_built(graph(*said))).warnings
        return [warning.count for warning in warnings if warning.id == "q-graph-opaque"]

    assert opaque({}, {}) == [2]
    assert opaque({"name": "a"}, {}) == [1]
    assert opaque({"name": "a"}, {"name": "b"}) == []


@pytest.mark.parametrize("labels_", [LABELS, {1: {"name": "x"}}], ids=["streams", "no stream"])
def test_lanes_for_display_change_nothing(labels_: dict[int, dict[str, str]]) -> None:
    """Events of graphs count on the stream on which they ran, wherever they are shown."""
    data = SERVING.read_bytes()
    moved, usual = (analyze(read(labelled(data, labels_, lanes))) for lanes in ("all", "none"))
    assert facts_of(moved) == facts_of(usual)


def test_labels_and_lines_are_in_findings(tmp_path: Path) -> None:
    """A finding about kernels of graphs says what the program calls them, and which line captured them."""
    name = "my_kernel"
    trace = TraceBuilder()
    for step in range(3):
        trace.step(step, 20_000 * step, 20_000)
        ident = trace.graph_launch(
            20_000 * step + 10, 20, [(name, 20_000 * step + 50, 18_000, {"args": {"module_fqn": "layers.3.scan"}})]
        )
        trace.launch("cudaDeviceSynchronize", 20_000 * step + 40, 18_020)
    assert ident
    stacks = tmp_path / "lines.json.gz"
    stacks.write_bytes(gzip.compress(json.dumps({str(1 << 32): "model.py:12:forward"}).encode()))
    report = analyze(read_built(trace), graph_stacks=stacks)
    places = [place for finding in report.findings for place in finding.where if place.labels]
    assert places
    assert {label.name for place in places for label in place.labels} == {"layers.3.scan"}
    assert {line.name for place in places for line in place.lines} == {"model.py(12): forward"}
    page = render(report, "html", 10)
    assert "layers.3.scan" in page
