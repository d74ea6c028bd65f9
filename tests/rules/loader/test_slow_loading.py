"""What a loader says of the function or the sampler that makes it slow (`dataloader-bound`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import findings
from tests.rules.loader.test_dataloader_bound import RULE, WORKERS, drawing, slow, with_samples


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (slow(), "data.py(7): Words.__getitem__ takes 917 us a sample, 92 % of preparing a batch: make it cheaper."),
        (slow(collate_ns=18_000_000), "data.py(30): pad takes 750 us a sample, 75 % of preparing a batch"),
        (slow(function=None), None),  # a dataset of torch, and collating costs little
        (slow(collate_ns=12_000_001, collate=None), None),  # of what is known, nothing takes half
        (slow(ns=11_000_000), None),  # a batch takes 3 ms of the 8 that are waited
        (None, None),
    ],
)
def test_the_function_that_makes_batches_slow_comes_first(samples: dict[str, Any] | None, told: str | None) -> None:
    (finding,) = findings(with_samples(samples), RULE)
    if told is None:
        assert finding.advice.id == "dataloader-bound-advice-host"
        return
    assert finding.advice.text.startswith(told)
    assert "DataLoader(dataset, num_workers=" in finding.advice.text
    assert not finding.code, "else the code alone would be shown first"


def test_a_function_in_workers_is_told_too() -> None:
    """Two workers take 22 ms for three batches, 3.7 ms a step, and 6 ms are waited."""
    (finding,) = findings(with_samples(slow(), workers=2, name=WORKERS, wait=6000), RULE)
    assert finding.advice.text.startswith("data.py(7): Words.__getitem__ takes 917 us a sample")
    assert "num_workers=4" in finding.advice.text
    (finding,) = findings(with_samples(slow(), workers=8, name=WORKERS, wait=6000), RULE)
    assert finding.advice.id == "dataloader-bound-advice-workers", "a step waits for something else"


def test_where_workers_save_nothing_a_cheaper_function_may() -> None:
    (plain,) = findings(with_samples(None, wait=2000), RULE)
    assert plain.saving is None
    (finding,) = findings(with_samples(slow(ns=6_000_000, collate_ns=0), wait=2000), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(2_000_000, rel=0.01))
    assert finding.advice.text.startswith("data.py(7): Words.__getitem__ takes 250 us a sample")
    assert "num_workers" not in finding.advice.text


@pytest.mark.parametrize("rule", [RULE, "dataloader-single-process", "dataloader-stalls"])
@pytest.mark.parametrize("situation", [drawing("aten::multinomial"), drawing("aten::multinomial", frames=True)])
def test_a_sampler_draws_in_the_process_of_the_program(situation: TraceBuilder, rule: str) -> None:
    found = findings(situation, rule)
    assert all("num_workers" not in (each.code or "") for each in found)
    titles = ["Steps wait while the order of samples is drawn"] if rule == RULE else []
    assert [each.title.text for each in found] == titles


def test_a_sampler_is_named_with_its_operator_and_time() -> None:
    (finding,) = findings(drawing("aten::multinomial"), RULE)
    assert "aten::multinomial" in finding.summary.text
    assert "Workers do not help" in finding.advice.text
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert low == 0
    assert high == pytest.approx(3 * 20_000_000 / 12, rel=0.02), "of all steps"


def test_what_is_drawn_for_each_batch_is_the_work_of_the_dataset() -> None:
    (finding,) = findings(drawing("aten::randperm", each=True), RULE)
    assert "num_workers" in (finding.code or "")
