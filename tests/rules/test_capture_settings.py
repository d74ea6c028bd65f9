"""Findings depend on the settings that a capture recorded; each case has the expected change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import findings, situations
from traceanalyzer.report.model import Finding

PROFILED = {"profiled": {"steps": 5, "mean_ns": 1500, "median_ns": 1500}}


def captured(rule: str, situation: str = "fires", **block: Any) -> list[Finding]:
    """What a rule says of one of its situations, had it been captured with these settings."""
    trace: TraceBuilder = getattr(situations(rule), situation)()
    trace.metadata["traceanalyzer"] = {"version": 1, **block}
    return findings(trace, rule)


def one(rule: str, situation: str = "fires", **block: Any) -> Finding:
    (finding,) = captured(rule, situation, **block)
    return finding


def loader(**settings: Any) -> dict[str, Any]:
    return {"loaders": [{"epochs": 1, **settings}]}


def timed(overhead: float) -> dict[str, Any]:
    """Recorded steps are longer by this share than those without the profiler."""
    control = round(1500 / (1 + overhead))
    return {"timing": {**PROFILED, "after": {"steps": 5, "mean_ns": control, "median_ns": control}}}


@pytest.mark.parametrize(
    "rule",
    [
        "dataloader-bound",
        "h2d-pageable",
        "tensor-cores-unused",
        "tf32-disabled",
        "mixed-precision-unused",
        "optimizer-not-fused",
        "cudnn-benchmark-off",
        "host-python-gap",
        "launch-bound-small-kernels",
    ],
)
def test_a_capture_that_knows_nothing_changes_nothing(rule: str) -> None:
    assert captured(rule) == findings(situations(rule).fires(), rule)


def test_a_loader_with_workers_is_not_told_to_use_workers() -> None:
    before, after = one("dataloader-bound"), one("dataloader-bound", **loader(workers=4))
    assert before.advice.id == "dataloader-bound-advice"
    assert after.advice.text.startswith("The 4 workers of the loader cannot keep up.")
    assert after.code == "DataLoader(dataset, num_workers=8, prefetch_factor=4, persistent_workers=True)"
    assert before.saving is not None
    assert after.saving is not None
    assert before.saving.wall_ns_per_step[0] > after.saving.wall_ns_per_step[0] == 0
    assert after.saving.basis.id == "dataloader-bound-basis-workers"
    assert after.saving.direct_ns_per_step[1] == before.saving.direct_ns_per_step[1]


def test_a_loader_without_workers_is_told_as_before() -> None:
    assert one("dataloader-bound", **loader(workers=0)).advice.id == "dataloader-bound-advice"


def test_workers_to_start_with_follow_the_cores_and_pinning_is_not_repeated() -> None:
    rule = "dataloader-single-process"
    assert one(rule, host={"cpus": 12}).code == (
        "DataLoader(dataset, num_workers=6, pin_memory=True, persistent_workers=True)"
    )
    pinned = one(rule, host={"cpus": 1}, **loader(workers=0, pin_memory=True))
    assert pinned.code == "DataLoader(dataset, num_workers=1, persistent_workers=True)"


def test_a_loader_that_pins_is_not_told_to_pin() -> None:
    unpinned, pinned = (one("h2d-pageable", **loader(pin_memory=value)) for value in (False, True))
    assert unpinned.advice.id == "h2d-pageable-advice"
    assert pinned.advice.id == "h2d-pageable-advice-pinned"
    assert "pin_memory()" in (pinned.code or "")


def test_a_program_under_autocast_is_told_to_find_what_leaves_it() -> None:
    on_gpu = one("tensor-cores-unused", autocast=[{"device": "cuda", "dtype": "float16"}])
    assert on_gpu.advice.id == "tensor-cores-unused-advice-partly"
    on_cpu = one("tensor-cores-unused", autocast=[{"device": "cpu", "dtype": "bfloat16"}])
    assert on_cpu.advice.id == "tensor-cores-unused-advice-inference"


def test_where_tf32_is_allowed_nobody_is_told_to_allow_it() -> None:
    allowed = {"numerics": {"matmul_allows_tf32": True}}
    assert not captured("tf32-disabled", **allowed)
    assert captured("tf32-disabled", numerics={"matmul_allows_tf32": False})
    rule = "mixed-precision-unused"
    assert "second choice is TF32" in one(rule).advice.text
    assert "second choice" not in one(rule, **allowed).advice.text
    assert not captured(rule, autocast=[{"device": "cuda", "dtype": "bfloat16"}]), "it is entered already"


def test_an_optimizer_that_was_made_to_loop_is_told_what_to_leave_out() -> None:
    optimizer = {"name": "AdamW", "groups": 1, "tensors": 200}
    refused = one("optimizer-not-fused", optimizers=[{**optimizer, "foreach": False}])
    assert refused.advice.id == "optimizer-not-fused-advice-refused"
    left_open = one("optimizer-not-fused", optimizers=[optimizer])
    assert left_open.advice.id == "optimizer-not-fused-advice"


@pytest.mark.parametrize("numerics", [{"cudnn_benchmark": True}, {"cudnn_deterministic": True}])
def test_where_cudnn_measures_or_must_repeat_nothing_is_said(numerics: dict[str, bool]) -> None:
    assert not captured("cudnn-benchmark-off", numerics=numerics)
    assert captured("cudnn-benchmark-off", numerics=dict.fromkeys(numerics, False))


@pytest.mark.parametrize("rule", ["host-python-gap", "launch-bound-small-kernels"])
def test_time_that_the_profiler_took_is_taken_off_the_gaps(rule: str) -> None:
    plain, cheap, dear = one(rule), one(rule, **timed(0.0)), one(rule, **timed(0.1))
    assert plain.saving is not None
    assert cheap.saving is not None
    assert dear.saving is not None
    assert cheap.saving.basis.id == "saving-without-profiler"
    # the gaps may have got longer than the rest of the step, so that up to all idle time may go away
    assert dear.saving.basis.id == "saving-no-more"
    assert "the same share of a step without the profiler" in dear.saving.basis.text
    assert plain.saving.step_ns is None
    assert cheap.saving.step_ns is not None
    # 1500 us are recorded where 1364 us pass without the profiler; nearly all host events are launches, whose cost to
    # record nobody measured, so that the saving is the same share of either step
    assert dear.saving.step_ns == pytest.approx(cheap.saving.step_ns * 1364 / 1500)
    assert dear.saving.direct_ns_per_step == cheap.saving.direct_ns_per_step
    assert dear.saving.wall_share == pytest.approx(cheap.saving.wall_share, rel=0.1)
    assert dear.saving.wall_ns_per_step[1] == pytest.approx(dear.saving.wall_share[1] * dear.saving.step_ns)
    assert not captured(rule, **timed(50.0)), "the step without the profiler is no longer than what the device works"


def test_steps_that_others_disturbed_after_the_recording_make_no_saving_longer() -> None:
    """What recording costs is not known then, so that less is promised, never more."""
    disturbed, cheap = (one("host-python-gap", **timed(overhead)).saving for overhead in (-0.2, 0.0))
    assert disturbed is not None
    assert cheap is not None
    for end in (0, 1):
        assert disturbed.wall_ns_per_step[end] <= cheap.wall_ns_per_step[end]


def test_stacks_are_no_guess_where_steps_without_them_were_timed() -> None:
    """With stacks only a part of the gaps is promised, unless control steps show that they cost little.

    The device works for a fifth of the step: a host that is twice as fast leaves a quarter of the gaps.
    """
    guessed = one("launch-bound-small-kernels", "fires_with_stacks")
    measured = one("launch-bound-small-kernels", "fires_with_stacks", **timed(0.0))
    assert (guessed.confidence, measured.confidence) == ("C", "B")
    assert guessed.saving is not None
    assert measured.saving is not None
    promised = 0.75 * measured.saving.direct_ns_per_step[1]
    assert guessed.saving.direct_ns_per_step[1] == pytest.approx(promised, rel=0.005)
