"""Tables whose rows contain each other, and tables that belong together: what counts once, and in which whole."""

from __future__ import annotations

import pytest

from tests.readers.forms.test_forms import document_of, headlines, run_of

MICRO = "[Rank 0] time (ms) | fwd_microstep: {fwd} | bwd_microstep: {bwd} | bwd_allreduce_microstep: {sync}{step}\n"
GLOBAL = "[Rank 0] time (ms) | fwd: {fwd} | bwd: {bwd} | bwd_inner: {inner} | bwd_allreduce: {sync} | step: {step}\n"


def deepspeed(micro: int, steps: int) -> str:
    """The log of so many steps with so many micro steps each, as DeepSpeed prints timers of both."""
    one = MICRO.format(fwd="100.00", bwd="300.00", sync="250.00", step=" | step_microstep: {}")
    lines = [one.format("0.02")] * (micro - 1) + [one.format("400.00")]
    whole = GLOBAL.format(
        fwd=f"{100 * micro}.00",
        bwd=f"{300 * micro}.00",
        inner=f"{50 * micro}.00",
        sync=f"{250 * micro}.00",
        step="400.00",
    )
    return ("".join(lines) + whole) * steps


@pytest.mark.parametrize("micro", [1, 2, 4])
def test_timers_of_micro_steps_are_within_those_of_steps(micro: int) -> None:
    run = run_of(deepspeed(micro, steps=3))
    assert (run.steps, run.wall_estimate_ns_per_step) == (3, (400 * micro + 400) * 1e6)
    assert {part.name: part.within for part in run.parts if "micro" in part.name} == {
        "fwd_microstep": "fwd",
        "bwd_microstep": "bwd",
        "bwd_allreduce_microstep": "bwd_allreduce",
        "step_microstep": "step",
    }


def test_collectives_of_micro_steps_count_once() -> None:
    (said,) = headlines(deepspeed(9, steps=2))
    assert said == (
        "Bound by communication: 2.2 of the 4.0 s are collectives, according to DeepSpeed's wall clock breakdown."
    )


def test_timers_of_micro_steps_alone_are_what_they_are() -> None:
    log = MICRO.format(fwd="100.00", bwd="300.00", sync="50.00", step=" | step_microstep: 200.00") * 2
    assert run_of(log).wall_estimate_ns_per_step == 600e6
