"""Anonymized traces: no private name remains, and reports have the same content."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.clocks import clocked
from tests.builders.writers import cupti_monitor, labelled
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call
from tests.formats.samples import report_of
from traceanalyzer.analyzers.kernels.clocks import Clocks
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.rewrite.anonymize import anonymize
from traceanalyzer.rewrite.hashed import Secret
from traceanalyzer.structure.recording import Recording

SECRET = "zebra"
"""In every name that must not remain."""

SOUND = sorted([*FIXTURES.glob("synthetic/*.json*"), *FIXTURES.glob("captured/*.json.gz")])


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


_WORDS = ("source", "fused_operators", "backend", "source_file", "source_hash", "torch_version", "writer")
_OF_NAMES = ("host_owners", "owners", "gap_owners", "launching_owners", "typical_other_gap_ns", "made_by")
"""Owners of host time depend on names of functions and their roles, so they may differ."""
_BY_PURPOSE = {"preprocessing-in-step": "dataloader-bound"}
"""What a finding becomes where no name says what a function is for: preparing inputs looks like loading them."""
_BY_NAME_ALONE = "postprocessing-in-step"
"""Without the names of functions nothing shows what they do with results."""


def numbers(value: Any) -> Any:
    """A report without its words; rows of equal figures may change places when their names do."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items() if key not in (*_WORDS, *_OF_NAMES)}
    if isinstance(value, list | tuple):
        return sorted((numbers(item) for item in value), key=repr)
    return "" if isinstance(value, str) else value


def said(path: Path, report: Report | None = None) -> tuple[Any, list[tuple[Any, ...]], list[tuple[str, str, int]]]:
    """The numbers of the analyses, what bounds the step, the findings, and the frameworks that were found."""
    report = report or analyze(load(path))
    recording = report.result("recording", Recording)
    found = [(evidence.id, evidence.kind, evidence.events) for evidence in recording.frameworks] if recording else []
    plain = msgspec.to_builtins(report)
    _without_positions(plain["analyses"])
    told = [numbers(plain[key]) for key in ("trace", "warnings", "analyses")]
    return (
        [told, [headline.bound for headline in report.headlines]],
        sorted((_said(one) for one in report.findings if one.rule != _BY_NAME_ALONE), key=repr),
        found,
    )


def _without_positions(analyses: dict[str, Any]) -> None:
    """Take out what depends on owners or on the order of names: each lane numbers its names as they come."""
    if slices := analyses.get("slices"):
        slices["names"] = []
        for time in slices["times"]:
            time["lanes"] = [lane for lane in time["lanes"] if lane["kind"] != "owners"]
            for lane in time["lanes"]:
                own = list(dict.fromkeys(lane["name"]))
                lane["name"] = [own.index(name) for name in lane["name"]]
    if flames := analyses.get("flame_frames"):
        flames["frames"] = []
        for graph in flames["graphs"]:
            outermost = [ns for depth, ns in zip(graph["depth"], graph["ns"], strict=True) if depth == 0]
            graph.update(frame=[], depth=[], count=[], ns=sum(outermost))


def _said(finding: Finding) -> tuple[Any, ...]:
    """Rule, severity and saving of a finding; the saving only where it does not depend on names."""
    rule = _BY_PURPOSE.get(finding.rule, finding.rule)
    is_of_names = rule in _BY_PURPOSE.values() or finding.saving is None
    return rule, finding.severity, None if is_of_names else finding.saving.direct_ns_per_step


def telling() -> TraceBuilder:
    """A revealing name of every kind."""
    trace = TraceBuilder(
        options=("with_stack",),
        metadata={"hostname": "zebra-node-7", "INFO": "zebra log", "with_modules": 1},
        trace_name="/home/zebra/trace.json",
        distributed={"rank": 0, "world_size": 2, "backend": "nccl", "pg_config": [{"pg_name": "zebra", "pg_size": 2}]},
        process="zebra-train",
    )
    trace.step(1, 0, 1000)
    trace.annotation("zebra epoch", 5, 900)
    trace.annotation("Optimizer.step#zebraOpt.step", 800, 50)
    trace.annotation("enumerate(DataLoader)#_zebraIter.__next__", 10, 20)
    trace.op("zebra::fused_op", 40, 20)
    trace.op("zebraFnBackward", 70, 20)
    trace.op("autograd::engine::evaluate_function: zebraFnBackward", 65, 30)
    trace.op("aten::mm", 100, 40, shapes=[[8, 8], [8, 8]], args={"zebra": "zebra", "Call stack": "zebra.py"})
    trace.op("aten::linear", 150, 40, concrete=["", "/home/zebra/data", "1"])
    trace.launch_kernel("ampere_sgemm_128x64_nn", 120, 100, at=110)
    outer = trace.python_function("/home/zebra/project/train.py(12): zebra_main", 0, 1000)
    trace.python_function("torch/nn/modules/module.py(1501): _call_impl", 30, 500, parent=outer)
    trace.instant("zebra happened", 500)
    return trace


@pytest.fixture
def shared(tmp_path: Path) -> tuple[Path, Path]:
    source = telling().write(tmp_path / "zebra.json")
    target = tmp_path / "shared.json"
    anonymize(str(source), target)
    return source, target


def test_no_name_remains(shared: tuple[Path, Path]) -> None:
    source, target = shared
    assert len(re.findall(SECRET, text_of(source), re.IGNORECASE)) > 15
    assert SECRET not in text_of(target).lower()
    assert "/home" not in text_of(target)


def test_public_names_and_numbers_remain(shared: tuple[Path, Path]) -> None:
    text = text_of(shared[1])
    for name in (
        "aten::mm",
        "ampere_sgemm_128x64_nn",
        "ProfilerStep#1",
        "torch/nn/modules/module.py(1501): _call_impl",
    ):
        assert name in text
    document = json.loads(text)
    assert document["distributedInfo"]["world_size"] == 2
    assert document["deviceProperties"][0]["name"] == json.loads(text_of(shared[0]))["deviceProperties"][0]["name"]
    assert "hostname" not in document
    assert "INFO" not in document
    assert "traceName" not in document


def test_times_remain_to_the_last_digit(shared: tuple[Path, Path]) -> None:
    times = [re.findall(r'"(?:ts|dur)": ?([\d.]+)', text_of(path)) for path in shared]
    assert sorted(times[0]) == sorted(times[1])


def test_the_report_says_the_same(shared: tuple[Path, Path]) -> None:
    assert said(shared[1]) == said(shared[0])


@pytest.mark.parametrize("caller", ["zebra::fused_op", "zebraBackward", "zebraBackwardHook", "zebra epoch", "zebra"])
def test_who_repeats_operators_stays(caller: str, tmp_path: Path) -> None:
    """An operator of a namespace and a function of autograd are told from a range of the program's own."""
    trace = TraceBuilder()
    trace.op(caller, 0, 1000)
    for turn in range(12):
        trace.op("aten::select", 20 * turn, 10)
    source, target = trace.write(tmp_path / "zebra.json"), tmp_path / "shared.json"
    anonymize(str(source), target)
    assert said(target) == said(source)


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
@pytest.mark.parametrize("hash_kernels", [False, True])
def test_the_report_on_every_fixture_says_the_same(path: Path, hash_kernels: bool, tmp_path: Path) -> None:
    target = tmp_path / "shared.json.gz"
    anonymize(str(path), target, key="k", hash_kernels=hash_kernels)
    assert said(target) == said(path, report_of(path))


@pytest.mark.some
def test_the_report_on_real_traces_says_the_same(corpus: Path, corpus_name: str, tmp_path: Path) -> None:
    source, target = corpus / "corpus" / f"{corpus_name}.json.gz", tmp_path / "shared.json"
    anonymize(str(source), target)
    assert said(target) == said(source, corpus_files.report_of(source))


def test_one_key_gives_the_same_hashes_and_no_key_other_ones(tmp_path: Path) -> None:
    source = str(telling().write(tmp_path / "t.json"))
    for name, key in (("a", "x"), ("b", "x"), ("c", "y"), ("d", None), ("e", None)):
        anonymize(source, tmp_path / f"{name}.json", key=key)
    a, b, c, d, e = (text_of(tmp_path / f"{name}.json") for name in "abcde")
    assert a == b
    assert len({a, c, d, e}) == 4


def test_a_hash_cannot_be_looked_up_without_the_key() -> None:
    assert Secret("a").hide("zebra", "range") != Secret("b").hide("zebra", "range")
    assert Secret().hide("zebra", "range") != Secret().hide("zebra", "range")
    assert re.fullmatch(r"range_[0-9a-f]{12}", Secret().hide("zebra", "range"))


def test_the_command_line(tmp_path: Path) -> None:
    target = tmp_path / "shared.json.gz"
    run = call("anonymize", TRAINING, "-o", target, "--key", "k", "--hash-kernels")
    assert (run.code, run.out) == (0, "")
    assert "Look through it" in run.err
    once = target.read_bytes()
    assert call("anonymize", TRAINING, "-o", target, "--key", "k", "--hash-kernels", "-q").err == ""
    assert target.read_bytes() == once
    assert call("anonymize", "-", "-o", target, stdin=TRAINING.read_bytes()).code == 0
    assert call("report", target).code == 0


def test_foreign_files_are_kept(tmp_path: Path) -> None:
    foreign = tmp_path / "trace.json.gz"
    foreign.write_bytes(TRAINING.read_bytes())
    assert "--force" in assert_one_line(call("anonymize", TRAINING, "-o", foreign))
    assert foreign.read_bytes() == TRAINING.read_bytes()
    assert_one_line(call("anonymize", "no.json", "-o", tmp_path / "x.json"))
    assert_one_line(call("anonymize", TRAINING, "-o", tmp_path / "x.csv"))
    (tmp_path / "notes.md").write_text("no trace")
    assert_one_line(call("anonymize", tmp_path / "notes.md", "-o", tmp_path / "x.json"))
    assert not (tmp_path / "x.json").exists()


def test_other_writers_of_torch(tmp_path: Path) -> None:
    """Directions of copies stay where they are arguments; labels of graphs are private."""
    (tmp_path / "monitor.json").write_bytes(cupti_monitor(TRAINING.read_bytes()))
    anonymize(str(tmp_path / "monitor.json"), tmp_path / "shared.json")
    assert said(tmp_path / "shared.json") == said(tmp_path / "monitor.json")
    labels = {0: {"module_fqn": f"{SECRET}.layers.0", "name": SECRET, "stream": "101"}}
    (tmp_path / "labelled.json").write_bytes(
        labelled((FIXTURES / "synthetic/serving_graphs.json.gz").read_bytes(), labels)
    )
    anonymize(str(tmp_path / "labelled.json"), tmp_path / "private.json")
    assert SECRET not in text_of(tmp_path / "private.json")


def test_counters_stay(tmp_path: Path) -> None:
    trace = clocked([1320] * 3, power=690)
    trace.counter(f"{SECRET} (%)", 5, 1)
    source, target = trace.write(tmp_path / "source.json"), tmp_path / "target.json"
    anonymize(str(source), target, key="k")
    assert SECRET not in text_of(target)
    report, usual = analyze(load(target)), analyze(load(source))
    assert report.result("clocks", Clocks) == usual.result("clocks", Clocks)
    assert report.result("clocks", Clocks) is not None
