"""What torch's own writers make of a recording, against the builders that imitate them, and against Kineto's report."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.fixture_set import FOLDER
from tests.builders.writers import LOST_BY_CUSPY, cupti_monitor, encoded, parsed, python_exporter
from tests.readers.kineto.test_writers import facts_of
from tests.reading import read
from traceanalyzer.analyzers.modules.labels import LabelledGraphs
from traceanalyzer.inputs.opening import load
from traceanalyzer.knowledge import gpu_clocks
from traceanalyzer.pipeline import analyze

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

TRAINING = FOLDER / "synthetic" / "gpu_training.json.gz"


class Activity(SimpleNamespace):
    """An event as the profiler's results have it; every value is a function."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: self.__dict__["_values"].get(name, 0)


def activities(trace: dict[str, Any]) -> Iterator[Activity]:
    """The events of a trace as the exporter gets them."""
    base = trace["baseTimeNanoseconds"]
    for event in trace["traceEvents"]:
        if event["ph"] not in "Xi" or not event.get("cat") or event["cat"] == "Trace":
            continue
        args = dict(event.get("args", {}))
        linked = args.pop("External id", 0)
        values = {
            "device_id": event["pid"],
            "resource_id": event["tid"],
            "timestamp": base + int(event["ts"] * 1000),
            "duration": int(event.get("dur", 0) * 1000),
            "type": event["cat"],
            "name": event["name"],
            "linked_correlation_id": linked,
            "metadata_json": json.dumps(args, default=float)[1:-1],
            "linked_activity": None,
        }
        yield Activity(_values=values)


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch", reason="torch is not installed")
    if tuple(map(int, module.__version__.split(".")[:2])) < (2, 13):
        pytest.skip(f"torch {module.__version__} has only one writer")
    module.optim.SGD([module.zeros(1)], lr=0.1)  # the first optimizer sets an environment variable
    return module


def test_its_exporter_in_python(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder writes the events and the devices that torch's exporter writes."""
    exporter = importlib.import_module("torch.profiler._chrome_trace_export")
    trace = parsed(TRAINING.read_bytes())
    (entry,) = trace["deviceProperties"]
    properties = SimpleNamespace(
        name=entry["name"],
        total_memory=entry["totalGlobalMem"],
        major=entry["computeMajor"],
        minor=entry["computeMinor"],
        max_threads_per_block=entry["maxThreadsPerBlock"],
        multi_processor_count=entry["numSms"],
        regs_per_multiprocessor=entry["regsPerMultiprocessor"],
        warp_size=entry["warpSize"],
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(exporter, "_trimester_base_ns", lambda: trace["baseTimeNanoseconds"])
    found = [*activities(trace)]
    exporter.export_chrome_trace(SimpleNamespace(trace_activities=lambda: found), str(tmp_path / "trace.json"))
    written, built = parsed((tmp_path / "trace.json").read_bytes()), parsed(python_exporter(TRAINING.read_bytes()))
    assert written["deviceProperties"] == built["deviceProperties"]
    assert slices(written) == slices(built)
    start = b'{\n"schemaVersion": 1,\n"deviceProperties": ['
    assert (tmp_path / "trace.json").read_bytes().startswith(start)


KINDS = {kind: number for number, kind in enumerate(("", "HtoD", "DtoH", "", "", "", "", "", "DtoD"))}
MEMORIES = ("unknown", "pageable", "pinned", "device")


def records(trace: dict[str, Any]) -> Iterator[dict[str, object]]:
    """The records of CUPTI that the monitor would have had for a trace of Kineto."""
    base = trace["baseTimeNanoseconds"]
    for event in trace["traceEvents"]:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"):
            continue
        args, start = event["args"], base + int(event["ts"] * 1000)
        record: dict[str, object] = {"kind": event["cat"], "name": event["name"], "start_ns": start}
        record |= {"end_ns": start + int(event["dur"] * 1000), "correlation_id": args["correlation"]}
        if "cbid" in args:
            yield record | {"process_id": event["pid"], "thread_id": event["tid"], "cbid": args["cbid"]}
            continue
        own = {f"{key}_id": args[key] for key in ("device", "context", "stream")}
        if event["cat"] == "gpu_memcpy":
            direction, source, target = re.fullmatch(r"Memcpy (\w+) \((\w+) -> (\w+)\)", event["name"]).groups()  # type: ignore[union-attr]
            own |= {"bytes": args["bytes"], "copy_kind": KINDS[direction], "flags": 0}
            own |= {"src_kind": MEMORIES.index(source.lower()), "dst_kind": MEMORIES.index(target.lower())}
        elif event["cat"] == "gpu_memset":
            own |= {"bytes": args["bytes"], "value": 0, "memory_kind": 3, "flags": 0}
        yield record | {"name": event["name"].split()[0] if event["cat"] != "kernel" else event["name"]} | own


def test_its_monitor_of_cupti(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder writes the copies, fills and kernels that torch's monitor writes."""
    if importlib.util.find_spec("torch.profiler._cupti_monitor_trace") is None:
        pytest.skip(f"nothing to compare: the monitor of torch {torch.__version__} writes columns")
    monitor = importlib.import_module("torch.profiler._cupti_monitor_trace")
    trace = parsed(TRAINING.read_bytes())
    calls = {
        event["args"]["cbid"]: event["name"] for event in trace["traceEvents"] if event.get("cat") == "cuda_runtime"
    }
    monkeypatch.setattr(monitor, "_ensure_cupti_python_bindings", lambda: None)
    monkeypatch.setattr(monitor, "_RUNTIME_CBID_NAMES", calls)
    monkeypatch.setattr(monitor._mon, "_require_cupti_python", lambda: None)
    host = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver")
    of_host = [event for event in trace["traceEvents"] if event.get("cat") not in host]
    (tmp_path / "cpu.json").write_bytes(encoded(trace | {"traceEvents": of_host}))
    window = {"events": [*records(trace)]}
    monitor.merge_trace_window_into_chrome_trace(tmp_path / "cpu.json", tmp_path / "trace.json", window)
    written, built = parsed((tmp_path / "trace.json").read_bytes()), parsed(cupti_monitor(TRAINING.read_bytes()))
    assert {category: of(written, category) for category in host} == {c: of(built, c) for c in host}


def of(trace: dict[str, Any], category: str) -> list[str]:
    """The events of a category, whatever their order."""
    return sorted(json.dumps(event, sort_keys=True) for event in slices(trace) if event["cat"] == category)


def slices(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The events with a duration."""
    found = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] != "Trace"]
    return [json.loads(json.dumps(event, default=float)) for event in found]


def test_one_recording_through_both_exporters(torch: Any, tmp_path: Path) -> None:
    """A program with memory, shapes, stacks and five steps."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.ones(16, 64)
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=5)
    paths = [tmp_path / "kineto.json", tmp_path / "python.json"]

    def export(profiler: Any) -> None:
        profiler.export_chrome_trace(str(paths[0]))
        profiler.export_chrome_trace(str(paths[1]), use_python_export=True)

    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with torch.profiler.profile(schedule=schedule, on_trace_ready=export, **options) as profiler:
        for _ in range(6):
            model(data).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    reports = [analyze(load(path)) for path in paths]
    assert [report.trace.writer for report in reports if report.trace] == ["kineto", "python-exporter"]
    assert facts_of(reports[0]) == facts_of(reports[1])


@pytest.fixture
def columns_writer(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The monitor of torch 2.14, which writes counters, nodes of graphs that are no work, and their dependencies."""
    if importlib.util.find_spec("torch.profiler._cupti") is None:
        pytest.skip(f"nothing to compare: the monitor of torch {torch.__version__} has no counters")
    names = SimpleNamespace(__members__={})
    monkeypatch.setitem(sys.modules, "cupti", ModuleType("cupti"))
    stub = SimpleNamespace(Driver_api_trace_cbid=names, Runtime_api_trace_cbid=names)
    monkeypatch.setitem(sys.modules, "cupti.cupti", stub)  # bindings of a library that only machines with a GPU have
    return importlib.import_module("torch.profiler._cupti.monitor_trace")


def as_trace(events: list[dict[str, Any]]) -> Any:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    found = trace.build(number=float)
    return read(encoded(found | {"traceEvents": [*found["traceEvents"], *events]}))


def test_its_counters(columns_writer: Any) -> None:
    numpy = importlib.import_module("numpy")
    kinds = [1, 3, 2]  # clocks, power, temperature
    data = [1980 | 2619 << 32, 690_500, 65]
    environment = {
        "environment_kind": numpy.array(kinds),
        "data": numpy.array(data, numpy.uint64),
        "start_ns": numpy.array([1000, 2000, 3000]),
        "device_id": numpy.zeros(3, int),
    }
    merged = columns_writer._merge_counters(columns_writer._build_gpu_counters(environment, {0}))
    found = as_trace(columns_writer._build_chrome_counters(merged, base_ns=0))
    names = [found.names[code] for code in found.counters.name.tolist()]
    values = dict(zip(names, found.counters.value.tolist(), strict=True))
    assert values == {
        gpu_clocks.SM_CLOCK: 1980,
        gpu_clocks.MEMORY_CLOCK: 2619,
        gpu_clocks.POWER: 690.5,
        gpu_clocks.TEMPERATURE: 65,
    }
    assert {gpu_clocks.device_of(found.threads[row].pid) for row in found.counters.thread.tolist()} == {0}
    assert found.losses == ()


def test_its_metrics_have_the_names_that_figures_are_made_of(columns_writer: Any) -> None:
    labels = {columns_writer._pm_label(f"{base}.avg.pct_of_peak") for base in columns_writer._PM_METRIC_LABELS}
    environment = {name for name, *_ in columns_writer._ENV_COUNTERS}
    assert labels | environment >= gpu_clocks.NAMES


def test_its_dependencies(columns_writer: Any) -> None:
    rows = [(7, 1 << 32 | 1, 0, 7, 1_000_100, 1_005_300), (7, 1 << 32 | 2, 0, 8, 1_009_700, 1_012_000)]
    arrows = columns_writer._graph_dependency_flow_events(rows, {1 << 32 | 2: [1 << 32 | 1]}, base_ns=0)
    found = as_trace(arrows)
    ends = found.dependencies
    assert (ends.start_ns + found.info.origin_ns).tolist() == [1_005_300, 1_009_700]
    assert ends.is_start.tolist() == [1, 0]


def in_graph(**said: object) -> TraceBuilder:
    """A graph with one kernel, of which the program said something."""
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.graph_launch(5, 20, [("gemm", 40, 10, {"args": said})])
    return trace


def labels_of(data: bytes) -> list[str]:
    found = analyze(read(data)).result("labelled_graphs", LabelledGraphs)
    return [place.label for place in found.tree if place.events] if found else []


def test_its_labels(columns_writer: Any) -> None:
    """A single mark becomes arguments of the kernel, several one argument."""
    marks = {"module_fqn": "layers.0", "layer": 3}
    one: dict[str, object] = {}
    several: dict[str, object] = {}
    columns_writer._annotation_to_args(one, json.dumps(marks))
    columns_writer._annotation_to_args(several, json.dumps([marks, {"name": "inner"}]))
    found = [labels_of(in_graph(**said).to_bytes()) for said in (one, several)]
    assert found == [["layers.0"], ["layers.0.inner.layer=3"]]  # a number beside others may be what a writer measured


def test_labels_that_are_joined_afterwards(torch: Any) -> None:
    """`torch.cuda._annotate_cuda_graph_trace` adds them to a trace of Kineto, as texts."""
    joiner = importlib.import_module("torch.cuda._annotate_cuda_graph_trace")
    trace = json.loads(in_graph().to_bytes())
    (node,) = (event["args"]["graph node id"] for event in trace["traceEvents"] if event.get("cat") == "kernel")
    joiner.annotate_trace(trace, {node: [{"region": "prefill", "layer": 3}, {"name": "inner"}]})
    assert labels_of(json.dumps(trace).encode()) == ["inner.region=prefill"]


def test_its_graphs(columns_writer: Any) -> None:
    """A kernel with a label, a callback that its stream waits for, and the arrow between them, as the monitor says."""
    numpy = importlib.import_module("numpy")

    def column(*rows: Any) -> Any:
        return numpy.array(rows, None if isinstance(rows[0], int) else object)

    both = dict.fromkeys(("device_id", "channel", "channel_type", "priority", "queued"), column(0))
    both |= dict.fromkeys(("context_id", "graph_id"), column(1)) | {"stream_id": column(7), "correlation_id": column(5)}
    sizes = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread")
    kernel = both | dict.fromkeys((*sizes, "static_shared_memory", "dynamic_shared_memory"), column(32))
    kernel |= {"name": column("gemm"), "start_ns": column(1_000_000), "end_ns": column(1_040_000)}
    kernel |= {"graph_node_id": column(1 << 32), "annotation": column('{"module_fqn": "a", "layer": "mlp"}')}
    node = both | {"start_ns": column(1_050_000), "end_ns": column(1_060_000), "graph_node_id": column(1 << 32 | 1)}
    node |= {"annotation": column(None), "process_id": column(1), "thread_id": column(2)}
    node |= {"host_fn": column("tell"), "host_fn_addr": column(4096)}
    window = {
        "columns": {"kernel": kernel, "graph_host_node": node},
        "graph_deps": {1 << 32 | 1: [1 << 32]},
    }
    rows, events = columns_writer._trace_window_entries(window, base_ns=0)
    (work,) = (event["args"] for event in events if event.get("cat") == "kernel")
    assert not work.keys() & {*LOST_BY_CUSPY, "blocks per SM"}
    found = as_trace([*rows, *events])
    assert [found.names[code] for code in found.graph_nodes.name.tolist()] == ["HostNode: tell"]
    assert found.device.graph_node.tolist() == [1 << 32]
    assert [(found.details[code].module, found.details[code].annotation) for code in found.device.detail.tolist()] == [
        ("a", '[{"layer":"mlp"}]')
    ]
    assert found.losses == ()
    assert found.dependencies.is_start.tolist() == [1, 0]
