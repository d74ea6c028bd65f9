"""Findings of medium severity and more on real traces, held against the raw events of the same files.

A few traces by default, all of them with TRACEANALYZER_FULL=1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests import corpus_files
from tests.rules.raw.case import Case, Figure
from tests.rules.raw.checks import CHECKS
from tests.rules.raw.events import Raw

NO_CORPUS = "TRACEANALYZER_CORPUS is not set"
FEW = (
    "bert_small_h100_inference",
    "colossalai_inference_a800",
    "ddp_a100_nccl_rank0",
    "deepep_h200_decode_rank0",
    "megatron_tp8_a100_rank0",
    "nanogpt_h100_compiled_rank0",
    "particle_transformer_a100_bs128",
    "qwen_0_5b_h100_inference",
    "resnet18_no_caching_mi300",
    "resnet50_v100_workers0_golden",
    "resnet50_v100_workers4_golden",
    "sam2_map_before",
    "sam_batched_after",
    "timesformer_h100_inference",
    "torch_compile_triton_mi300",
    "vit_a100_bf16_compiled",
)
"""Traces with a finding of each rule that has a check."""
SEVERE = ("critical", "high", "medium")
UNCHECKED: dict[str, str] = {}
"""Rules of which raw events say nothing, and why."""
KNOWN: dict[tuple[str, str], str] = {}
"""Rules and figures that do not hold yet, and why; to be emptied."""


def traces() -> list[Any]:
    """The traces to try."""
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    if not folder:
        return [pytest.param(Path(), id="no corpus", marks=pytest.mark.skip(reason=NO_CORPUS))]
    paths = sorted(path for part in ("corpus", "field") for path in Path(folder, part).rglob("*.json.gz"))
    every = os.environ.get("TRACEANALYZER_FULL") == "1"
    return [pytest.param(path, id=name_of(path)) for path in paths if every or name_of(path) in FEW]


def name_of(path: Path) -> str:
    """The name of a trace."""
    return path.name.removesuffix(".json.gz")


def severe(report: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The findings that are checked."""
    yield from (finding for finding in report["findings"] if finding["severity"] in SEVERE)


def wrong(raw: Raw, report: dict[str, Any]) -> Iterator[str]:
    """What findings say otherwise than the events do, and rules without a check."""
    for finding in severe(report):
        rule = finding["rule"]
        if rule in UNCHECKED:
            continue
        if rule not in CHECKS:
            yield f"{rule}: no check, and no reason"
            continue
        for figure in CHECKS[rule](Case(raw, report, finding)):
            if not figure.holds and (rule, figure.name) not in KNOWN:
                yield f"{rule}: {figure.name}: {figure.said:,.1f}, raw events {figure.raw:,.1f}"


@pytest.mark.corpus
@pytest.mark.parametrize("path", traces())
def test_findings_say_what_raw_events_say(path: Path) -> None:
    report = json.loads(ta.render(corpus_files.report_of(path), "json"))
    if not any(severe(report)):
        pytest.skip("nothing to compare: no finding of medium severity or more")
    assert list(wrong(Raw.of(path), report)) == []


@pytest.mark.corpus
@pytest.mark.parametrize("share", [0.9, 1.1])
def test_a_figure_that_is_off_is_found(corpus: Path, share: float) -> None:
    """No check passes because it compares nothing."""
    path = corpus / "field/second/deepep_h200_decode_rank0.json.gz"
    report = json.loads(ta.render(corpus_files.report_of(path), "json"))
    (finding,) = (one for one in severe(report) if one["rule"] == "comm-exposed")
    finding["summary"]["params"]["exposed"] *= share
    assert len(list(wrong(Raw.of(path), report))) == 1


@pytest.mark.corpus
def test_a_rule_without_a_check_is_found(corpus: Path) -> None:
    path = corpus / "field/second/deepep_h200_decode_rank0.json.gz"
    report = {"findings": [{"rule": "new-rule", "severity": "medium"}]}
    assert list(wrong(Raw.of(path), report)) == ["new-rule: no check, and no reason"]


@pytest.mark.parametrize(
    ("figure", "holds"),
    [
        (Figure("time", 1000, 1002), True),
        (Figure("time", 1000, 1003), False),
        (Figure("time", 1000, 1010, 0.01), True),
        (Figure("time", 1000, 1020, 0.01), False),
        (Figure("time", 1000, 2000, is_limit=True), True),
        (Figure("time", 2000, 1000, is_limit=True), False),
        (Figure("time", 0, 1000, is_limit=True), False),
    ],
)
def test_figures_agree_within_their_tolerance(figure: Figure, holds: bool) -> None:
    assert figure.holds is holds
