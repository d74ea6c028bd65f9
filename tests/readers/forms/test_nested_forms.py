"""Tables whose rows contain each other, and tables that belong together: what counts once, and in which whole."""

from __future__ import annotations

import pytest

from tests.readers.forms import examples
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
        "Limited by communication: 2.3 of the 4.0 s are collectives, according to DeepSpeed's wall clock breakdown."
    )


def test_timers_of_micro_steps_alone_are_what_they_are() -> None:
    log = MICRO.format(fwd="100.00", bwd="300.00", sync="50.00", step=" | step_microstep: 200.00") * 2
    assert run_of(log).wall_estimate_ns_per_step == 600e6


SECTION = """\
Profile stats for: {name}
         {calls} function calls in {time} seconds

   Ordered by: cumulative time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      100    {own}    0.001    {time}    0.090 {function}


"""


def advanced(*sections: tuple[str, str, str, str]) -> str:
    """What Lightning's AdvancedProfiler prints of sections: their names, times, and a function with its own time."""
    return "FIT Profiler Report\n\n" + "".join(
        SECTION.format(name=name, calls=500, time=time, own=own, function=function)
        for name, time, own, function in sections
    )


NEXT = ("[_TrainingEpochLoop].train_dataloader_next", "6.000", "5.900", "{method 'acquire' of '_thread.lock' objects}")
BACKWARD = ("[Strategy]SingleDeviceStrategy.backward", "2.000", "1.900", "{method 'run_backward' of 'torch'}")
STEP = ("[LightningModule]Net.optimizer_step", "2.500", "0.400", "adamw.py:7(step)")
EPOCH = ("run_training_epoch", "9.000", "0.100", "fit_loop.py:1(advance)")
SETUP = ("[LightningModule]Net.configure_optimizers", "0.002", "0.000", "adamw.py:17(__init__)")


def test_sections_of_a_profiler_are_one_run() -> None:
    run = run_of(advanced(SETUP, NEXT, BACKWARD))
    assert (run.tool, run.cpu_ns, run.dataloader_ns) == ("Lightning's AdvancedProfiler", 8_002_000_000, 6_000_000_000)
    assert headlines(advanced(SETUP, NEXT, BACKWARD)) == [
        "Waiting for data: 6.0 of the 8.0 s, according to Lightning's AdvancedProfiler."
    ]


def test_times_of_sections_add_up() -> None:
    """While one section is profiled, those around it are not: cProfile knows one at a time."""
    run = run_of(advanced(EPOCH, STEP, BACKWARD, NEXT))
    assert run.cpu_ns == (9_000 + 2_500 + 2_000 + 6_000) * 1_000_000
    assert {part.name: part.within for part in run.parts if part.kind == "function"} == {
        row[3]: row[0] for row in (EPOCH, STEP, BACKWARD, NEXT)
    }


def test_a_section_that_comes_again_begins_another_report() -> None:
    assert len(document_of(advanced(NEXT, BACKWARD) + advanced(NEXT, BACKWARD)).tables) == 2


def test_a_sentence_about_parts_is_never_empty() -> None:
    (said,) = headlines(advanced(SETUP).replace("Profile stats for", "about"))
    assert said == "Of 2.0 ms, according to cProfile: `adamw.py:17(__init__)` 2.0 ms."


def test_one_profile_that_is_printed_twice_counts_once() -> None:
    by_own = examples.CPROFILE.replace("cumulative time", "internal time")
    more = by_own.replace("     12/3    0.100    0.008   10.000    3.333 train.py:1(<module>)\n", "")
    run = run_of(examples.CPROFILE + "\n" + more)
    assert (run.cpu_ns, run.parts) == (10_000_000_000, run_of(examples.CPROFILE).parts)


def test_two_profilers_of_lightning_are_two_runs() -> None:
    assert len(headlines(examples.LIGHTNING + "\n" + advanced(NEXT, BACKWARD))) == 2


def test_lightning_computes_gradients_within_the_step_of_its_optimizer() -> None:
    text = examples.LIGHTNING.replace(
        "0.84             |  100       |  84.0           |  84 ",
        "0.01             |  100       |  1.0            |  1  ",
    )
    text = text.replace(
        "0.12             |  100       |  12.0           |  12 ",
        "0.95             |  100       |  95.0           |  95 ",
    )
    (said,) = headlines(text)
    assert said == (
        "Of 100 s, according to Lightning's SimpleProfiler: update (`[LightningModule]Net.optimizer_step`) 95 s, "
        "forward (`[Strategy]SingleDeviceStrategy.training_step`) 5.0 s of it. Further: backward "
        "(`[Strategy]SingleDeviceStrategy.backward`) 4.0 s of it."
    )


def test_gradients_beyond_the_step_of_the_optimizer_are_not_within_it() -> None:
    text = examples.LIGHTNING.replace(
        "0.04             |  100       |  4.0            |  4  ",
        "0.40             |  100       |  40.0           |  40 ",
    )
    assert {part.within for part in run_of(text).parts if part.name.endswith("backward")} == {None}
