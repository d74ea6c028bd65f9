"""Owners in real traces, against times that were read in them by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from traceanalyzer.analyzers.host import HostOwners

pytestmark = pytest.mark.corpus


def owners_of(corpus: Path, name: str) -> HostOwners:
    found = corpus_files.report_of(corpus / "corpus" / f"{name}.json.gz").result("host_owners", HostOwners)
    assert found is not None
    return found


def test_preprocessing_inside_a_step_is_told_with_its_parts(corpus: Path) -> None:
    """217.5 of 382.5 ms: the image processor 178 (per frame normalize 0.83 and rescale 0.26), reading the video 36."""
    found = owners_of(corpus, "timesformer_h100_inference")
    (role,) = [role for role in found.roles if role.role == "preprocessing"]
    assert role.host_ns / 1e6 == pytest.approx(217.5, abs=0.1)
    assert role.idle_ns == role.host_ns
    assert found.rows[role.owner].name == "preprocess"
    rows = {(row.name, (row.file or "").split("/")[-1]): row for row in found.rows}
    assert rows["preprocess", "image_processing_videomae.py"].host_ns / 1e6 == pytest.approx(178, abs=0.5)
    assert rows["read_video_pyav", "video_classification.py"].host_ns / 1e6 == pytest.approx(36, abs=0.1)
    assert rows["normalize", "image_processing_utils.py"].host_ns / 128e6 == pytest.approx(0.83, abs=0.01)
    assert rows["rescale", "image_processing_utils.py"].host_ns / 128e6 == pytest.approx(0.26, abs=0.01)
    copy = rows["_ensure_tensor_on_device", "base.py"].longest_call
    assert copy is not None
    assert (copy.name, copy.waits_for) == ("aten::to", "work")


def test_the_broadcast_of_buffers_is_told_with_its_time(corpus: Path) -> None:
    """38.5 to 39.3 of 222 ms per step: flatten 6.2, unflatten 22.4, copies 5.8 ms."""
    found = owners_of(corpus, "ddp_a100_nccl_rank0")
    (role,) = found.roles
    assert role.role == "buffer-broadcast"
    assert role.host_ns_per_step / 1e6 == pytest.approx(38.9, abs=0.4)
    parts = {part.name: part.host_ns / found.steps / 1e6 for part in found.rows[role.owner].parts}
    assert parts["aten::unflatten_dense_tensors"] == pytest.approx(22.4, abs=0.2)
    assert "aten::slice" not in {row.name for row in found.rows}


@pytest.mark.parametrize("name", ["sampled_rank0_of_128", "sampled_rank1_of_128"])
def test_marks_own_the_time_of_thinned_traces(corpus: Path, name: str) -> None:
    found = owners_of(corpus, name)
    largest = {row.name: row.kind for row in found.rows[:4]}
    assert largest.items() >= {
        ("Optimizer.step#Shampoo.step", "mark"),
        ("DistributedDataParallel.forward", "mark"),
        ("Optimizer.step#EMAOptimizer.step", "mark"),
    }
    assert not {"aten::slice", "aten::to"} & {row.name for row in found.rows[:10]}
