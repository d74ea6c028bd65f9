"""The causal model on real traces: how far its unchanged replay is from the recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts import whatif_steps
from tests import corpus_files
from traceanalyzer.simulation import critical_path, model, replay_error
from traceanalyzer.simulation.edits import LoaderEdit

pytestmark = pytest.mark.corpus


def test_the_replay_is_near_the_recording(corpus: Path, corpus_name: str) -> None:
    context = corpus_files.context_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    result = replay_error.analyze(context)
    assert not result.abstained
    assert result.error_share <= (0.03 if corpus_name == "sglang_decode_graph_mi300" else 0.01)
    assert result.dropped_edges == 0
    path = critical_path.analyze(context)
    assert sum(part.ns_per_step for part in path.parts) == pytest.approx(path.step_ns)


@pytest.mark.parametrize(
    ("before", "after"), [("workers0_golden", "workers4_golden"), ("workers0_memory", "workers4_memory")]
)
def test_the_loader_of_a_real_pair_is_worth_what_was_measured(corpus: Path, before: str, after: str) -> None:
    one, other = (
        model.require(corpus_files.context_of(corpus / "corpus" / f"resnet50_v100_{name}.json.gz"))
        for name in (before, after)
    )
    predicted = one.what_if([LoaderEdit(0)]).predicted_ns[1]
    assert predicted == pytest.approx(other.recorded_ns, rel=0.15)


def test_steps_are_predicted_from_others_within_three_percent(corpus: Path) -> None:
    names = ("ddp_a100_nccl_rank0", "resnet50_v100_workers0_memory", "resnet50_v100_workers4_golden")
    found = [
        prediction
        for name in names
        for prediction in whatif_steps.predictions(corpus_files.context_of(corpus / "corpus" / f"{name}.json.gz"))
    ]
    errors = np.median([each.error_share for each in found])
    assert errors <= 0.03
    assert errors < np.median([each.naive_error_share for each in found])
