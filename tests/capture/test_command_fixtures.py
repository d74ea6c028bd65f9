"""Reports on real captures: `fixtures/captured/command_*`."""

from __future__ import annotations

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests import corpus_files
from tests.builders.captured import COMMANDED
from tests.builders.fixture_set import FOLDER
from tests.capture.capturing import facts
from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.model import Report
from traceanalyzer.structure.context import Context


def trace(name: str) -> ta.Trace:
    loaded = ta.load(FOLDER / "captured" / f"{name}.json.gz")
    assert isinstance(loaded, ta.Trace)
    return loaded


def report(name: str) -> Report:
    return ta.analyze(trace(name))


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDED])
def test_a_capture_is_complete_and_knows_its_overhead(name: str) -> None:
    found = facts(FOLDER / "captured" / f"{name}.json.gz")
    assert (found.ended, found.steps_from) == ("complete", "optimizer")
    assert (found.versions.torch or "").startswith("2.13")
    capture = report(name).result("capture", Capture)
    assert capture is not None
    assert capture.overhead_share is not None


def test_the_settings_of_loader_optimizer_and_autocast_are_there() -> None:
    found = facts(FOLDER / "captured" / "command_workers.json.gz")
    assert found.loaders is not None
    assert (found.loaders[0].workers, found.loaders[0].batch_size) == (2, 8)
    assert [optimizer.name for optimizer in found.optimizers] == ["AdamW"]
    assert found.autocast is not None
    assert (found.autocast[0].device, found.autocast[0].dtype) == ("cpu", "bfloat16")


def test_frames_are_relative_and_modules_are_there() -> None:
    frames = Context(trace("command_stacks")).trace
    names = {frames.names[code] for code in frames.frames.name.tolist()}
    assert any(name.startswith("training.py(") for name in names)
    assert any(name.startswith("nn.Module: Conv2d") for name in names)
    assert not [name for name in names if name.startswith("/")]


def test_the_ranks_exchange_gradients_in_every_pass() -> None:
    for rank in (0, 1):
        name = f"command_rank{rank}"
        found = facts(FOLDER / "captured" / f"{name}.json.gz")
        assert found.distributed is not None
        assert (found.distributed.rank, found.distributed.world_size) == (rank, 2)
        assert found.backward_per_step == 2
        (finding,) = (finding for finding in report(name).findings if finding.rule == "ddp-sync-in-accumulation")
        assert finding.saving is not None
        assert finding.saving.resource == "host", "threads of gloo take cores from the program"
        assert 0 < finding.saving.direct_ns_per_step[0] < finding.saving.direct_ns_per_step[1]


def test_the_compiled_network_is_known_as_such() -> None:
    assert facts(FOLDER / "captured" / "command_compiled.json.gz").is_compiled is True
    assert facts(FOLDER / "captured" / "command_workers.json.gz").is_compiled is False


FOUND = {
    "autocast_stacks": {"optimizer-not-fused"},
    "command_compiled": {"optimizer-not-fused"},
    "command_rank0": {"ddp-sync-in-accumulation"},
    "command_rank1": {"ddp-sync-in-accumulation"},
    "command_stacks": {"dataloader-bound", "optimizer-not-fused"},
    "command_workers": {"dataloader-bound", "optimizer-not-fused"},
    "transformer_memory": {"batch-norm-not-eval"},
    "two_threads": {"step-time-outliers"},
}
"""The faults of the captured programs; other programs have none."""


@pytest.mark.parametrize("path", sorted((FOLDER / "captured").glob("*.json.gz")), ids=lambda path: path.name)
def test_real_captures_have_the_findings_that_they_should(path: Path) -> None:
    found = {finding.rule for finding in corpus_files.report_of(path).findings}
    assert found == FOUND.get(path.name.removesuffix(".json.gz"), set())


def test_the_report_on_the_ranks_says_what_a_step_takes_without_the_profiler() -> None:
    joint = ta.ranks([FOLDER / "captured" / f"command_rank{rank}.json.gz" for rank in (0, 1)])
    own = [report(f"command_rank{rank}").result("capture", Capture) for rank in (0, 1)]
    control = [capture.control_step_ns for capture in own if capture is not None and capture.control_step_ns]
    run = joint.result("ranks", Ranks)
    assert run is not None
    assert len(control) == 2
    assert run.control_step_ns == sum(control) / 2
    first = ta.render(joint, "terminal").splitlines()
    assert first[first.index("The step without the profiler") + 1].startswith("  A step takes 3.9 ms without")
