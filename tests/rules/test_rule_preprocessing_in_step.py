"""Tests of the rule `preprocessing-in-step`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report
from tests.rules.situations.preprocessing_in_step import (
    fires,
    fires_in_a_function_of_the_program,
    fires_in_a_pipeline,
    fires_on_a_cpu,
)

RULE = "preprocessing-in-step"


def test_the_processor_is_named_and_worth_at_most_the_idle_time() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    step = report(fires()).headlines[0].resources.step_ns
    low, high = finding.saving.direct_ns_per_step
    # of 4 ms some are hidden by the kernels of the step before; the first of four steps has none of these
    assert 2_000_000 < high <= 4_004_000
    assert low == pytest.approx(0.5 * 0.69 * min(high, step - high))
    assert finding.evidence[0].where[0].name == "transformers/models/vit/image_processing_vit.py(150): preprocess"
    assert "`image_processing_vit.py: preprocess`" in finding.summary.text
    assert "use_fast=True" in (finding.code or "")


def test_a_function_of_the_program_gets_no_code_of_a_library() -> None:
    (finding,) = findings(fires_in_a_function_of_the_program(), RULE)
    assert not finding.code
    assert "`train.py: preprocess_images`" in report(fires_in_a_function_of_the_program()).headlines[0].message.text


def test_what_a_pipeline_loads_is_said_once() -> None:
    rules = [finding.rule for finding in report(fires_in_a_pipeline()).findings]
    assert RULE in rules
    assert not {"dataloader-bound", "dataloader-single-process", "host-python-gap"} & set(rules)


def test_on_a_cpu_it_is_worth_at_most_its_time() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 1_000_000)
    assert "`train.py: preprocess_images`" in finding.summary.text
    assert "GPU" not in "".join(
        text.text for text in (finding.title, finding.summary, finding.advice, finding.not_when)
    )


def test_edge_idle_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"idle_share": share}) == []
    assert findings(fires(), RULE, {"idle_share": share - 1e-9})
