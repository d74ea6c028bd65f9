"""Tests of the rule `work-beside-training`: numbers worked out by hand, and edges of thresholds.

The programs: trainings on a CPU that validate, save, copy or measure something in each step, and some that seem to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.builders.training import Training
from tests.rules.judging import findings, report, skipped, table

RULE = "work-beside-training"
Body = Callable[[Training, int], None]


def training(body: Body, *, steps: int = 6, before: Body | None = None, gpu: bool = False) -> TraceBuilder:
    """Steps that train for some ms, and then do something else; or do it before they train."""
    loop = Training(trace=TraceBuilder() if gpu else TraceBuilder(devices=()), gpu=gpu)
    for number in range(steps):
        with loop.iteration():
            if before is not None:
                before(loop, number)
            loop.zero_grad()
            loop.backward(loop.forward())
            loop.step()
            body(loop, number)
    return loop.finish()


def operators(loop: Training, names: Sequence[str], dur: int = 100, *, grad: bool = False) -> None:
    """Some operators, without autograd unless asked, and 10 us of Python after each."""
    for name in names:
        loop.host.leaf(name, dur, shapes=[[8, 8]], sequence=loop.sequence if grad else None)
        loop.host.work(10)


VALIDATION = ("aten::conv2d", "aten::batch_norm", "aten::relu", "aten::linear", "aten::cross_entropy_loss")
STATE = ("aten::detach",) * 6
COPY = ("aten::clone", "aten::detach") * 4


def validating(loop: Training, number: int) -> None:
    """Eight batches: 8 * 5 * 110 us, less the last 10 us, which no operator follows."""
    operators(loop, VALIDATION * 8)


def saving(loop: Training, number: int) -> None:
    """A state dict, and 3 ms of writing."""
    operators(loop, STATE, 1, grad=True)
    loop.host.work(3000)


def copying(loop: Training, number: int) -> None:
    """Four parameters are cloned and detached."""
    operators(loop, COPY, grad=True)


def ranks(loop: Training, number: int) -> None:
    """The ranks of some matrices."""
    operators(loop, ("aten::linalg_matrix_rank",) * 3, 500, grad=True)


def fires() -> TraceBuilder:
    """The same validation in each step."""
    return training(validating)


def fires_before_the_step() -> TraceBuilder:
    """The same, before the next step trains."""
    return training(lambda loop, number: None, before=validating)


def fires_on_a_checkpoint() -> TraceBuilder:
    """The model is saved in each step."""
    return training(saving)


def fires_on_a_copy() -> TraceBuilder:
    """The model is copied in each step."""
    return training(copying)


def fires_on_linear_algebra() -> TraceBuilder:
    """Ranks are computed in each step."""
    return training(ranks)


def fires_on_histograms() -> TraceBuilder:
    """Histograms of all parameters are computed in each step."""
    return training(lambda loop, number: operators(loop, ("aten::histc",) * 3, 500, grad=True))


MIXING = ("aten::mul", "aten::mul", "aten::add") * 4


def fires_on_an_average() -> TraceBuilder:
    """Behind the update the average of four parameters is computed anew."""
    return training(lambda loop, number: operators(loop, MIXING, grad=True))


def frozen(*names: str) -> TraceBuilder:
    """Four layers, and other operators between them, for which autograd has no function before those that learn."""
    layers = ("aten::linear", "aten::relu") * 4
    return training(
        lambda loop, number: None, before=lambda loop, number: operators(loop, (*layers, *names), grad=True)
    )


def fires_on_frozen_layers() -> TraceBuilder:
    """They are in eval mode."""
    return frozen("aten::dropout")


def fires_on_frozen_layers_with_dropout() -> TraceBuilder:
    """They draw numbers for dropout."""
    return frozen("aten::bernoulli_", "aten::mul_")


def trap_mixing_before_the_update() -> TraceBuilder:
    """Inputs are mixed before the forward pass."""
    return training(lambda loop, number: None, before=lambda loop, number: operators(loop, MIXING, grad=True))


def fires_on_a_collection() -> TraceBuilder:
    """A mark of the program shows that garbage is collected."""

    def body(loop: Training, number: int) -> None:
        with loop.host.annotation("gc.collect"):
            loop.host.work(2000)

    return training(body)


def drawing(loop: Training, number: int) -> None:
    """A function of the program writes a picture with a library."""
    frame = loop.host.frame
    with frame("train.py(16): show"), frame("PIL/Image.py(2593): save"), frame("PIL/ImageFile.py(678): _encode_tile"):
        loop.host.work(2000)


def fires_on_a_picture() -> TraceBuilder:
    """A picture of samples is written in each step."""
    return training(drawing)


def preparing(requests: int, *, each: int = 1) -> TraceBuilder:
    """Requests of 20 ms of a layer, of which each so manieth loads the model for 40 ms."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=0)
    for number in range(requests):
        with host.annotation(f"ProfilerStep#{number}"), host.frame("serve.py(30): handle"):
            if number % each == 0:
                with host.frame("serve.py(12): load_model"), host.frame("copy.py(128): deepcopy"):
                    host.leaf("aten::clone", 1000)
                    host.work(39_000)
            host.leaf("aten::linear", 20_000)
    return finish(trace)


def fires_on_a_model() -> TraceBuilder:
    """Each request loads the model."""
    return preparing(6)


def trap_once() -> TraceBuilder:
    """The first request loads the model."""
    return preparing(6, each=6)


def quiet() -> TraceBuilder:
    """Nothing else is done."""
    return training(lambda loop, number: None)


def trap_now_and_then() -> TraceBuilder:
    """One step of six validates."""
    return training(lambda loop, number: validating(loop, number) if number == 3 else None)


def trap_teacher() -> TraceBuilder:
    """A network without gradients makes targets: no loss is computed without gradients."""
    return training(lambda loop, number: None, before=lambda loop, number: operators(loop, VALIDATION[:-1] * 8))


def trap_state_without_a_pause() -> TraceBuilder:
    """Tensors are detached, and the program goes on at once."""
    return training(lambda loop, number: operators(loop, STATE, grad=True))


def trap_average() -> TraceBuilder:
    """An average of parameters detaches and clones the small ones."""
    return training(lambda loop, number: operators(loop, ("aten::detach", "aten::clone") * 4, grad=True))


def trap_whitening() -> TraceBuilder:
    """The forward pass contains a decomposition, which the backward pass differentiates."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(6):
        with loop.iteration():
            loop.zero_grad()
            made = loop.forward()
            loop.host.leaf("aten::linalg_eigh", 3000, shapes=[[8, 8]], sequence=loop.sequence)
            made.append(loop.sequence)
            loop.sequence += 1
            loop.backward(made)
            loop.step()
    return loop.finish()


def trap_optimizer() -> TraceBuilder:
    """The optimizer decomposes matrices."""

    def body(loop: Training, number: int) -> None:
        with loop.host.annotation("Optimizer.step#Shampoo.step"):
            operators(loop, ("aten::linalg_eigh",) * 4, 500)

    return training(body)


def trap_device() -> TraceBuilder:
    """A GPU works beside the host, which other rules are about."""
    return training(validating, gpu=True)


def trap_inference() -> TraceBuilder:
    """Nothing is trained: an evaluation is all that it does."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(6):
        with loop.iteration():
            validating(loop, 0)
    return loop.finish()


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


@pytest.mark.parametrize(
    ("trace", "shown"),
    [
        (fires(), "validate(model)"),
        (fires_on_a_checkpoint(), "torch.save("),
        (fires_on_a_copy(), "torch._foreach_lerp_("),
        (fires_on_histograms(), ""),
        (fires_on_a_collection(), ""),
    ],
)
def test_the_code_is_of_the_same_kind_of_work(trace: TraceBuilder, shown: str) -> None:
    (finding,) = findings(trace, RULE)
    assert bool(finding.code) == bool(shown)
    assert shown in (finding.code or "")
    assert bool(finding.code_before) == ("foreach" in shown)


@pytest.mark.parametrize(
    ("build", "what", "time_us"),
    [
        (fires, "validation", 8 * 5 * 110 - 10),
        (fires_before_the_step, "validation", 8 * 5 * 110 - 10),
        (fires_on_a_checkpoint, "checkpoint", 6 * 11 + 3000 + 1),
        (fires_on_a_copy, "deep copy", 8 * 110 - 10),
        (fires_on_linear_algebra, "linear algebra", 3 * 500),
        (fires_on_histograms, "histograms", 3 * 500),
        (fires_on_a_collection, "garbage", 2003),
        (fires_on_a_picture, "writing pictures", 2008),
    ],
)
def test_time_of_each_kind(build: Callable[[], TraceBuilder], what: str, time_us: int) -> None:
    (finding,) = findings(build(), RULE)
    assert what in finding.summary.text
    assert finding.evidence[0].where[0].value == pytest.approx(time_us * 1000, abs=2000)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert 0.75 * time_us * 1000 <= low <= 0.8 * time_us * 1000
    assert high == pytest.approx(time_us * 1000, abs=2000)


def test_a_picture_is_written_at_the_line_of_the_program_and_prepares_no_inputs() -> None:
    (finding,) = findings(fires_on_a_picture(), RULE)
    assert finding.evidence[0].where[0].name == "train.py(16): show"
    assert [line.name for entry in finding.where for line in entry.lines] == ["train.py(16): show"]
    assert not findings(fires_on_a_picture(), "preprocessing-in-step")
    assert not findings(fires_on_a_picture(), "host-waits-or-logs")


def test_a_model_is_prepared_once_before_the_loop() -> None:
    (finding,) = findings(fires_on_a_model(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((32_000_000, 40_000_000), rel=0.01)
    assert finding.action is not None
    assert finding.action.text == "Prepare the model once, before the loop"
    assert finding.evidence[0].where[0].name == "serve.py(12): load_model"
    assert not findings(fires_on_a_model(), "host-waits-or-logs")
    assert "mostly preparing the model, 40 of the 60 ms" in report(fires_on_a_model()).headlines[0].message.text
    assert not findings(trap_once(), RULE)


def test_the_pass_of_another_rule_is_not_told_again() -> None:
    from tests.rules.optimizer.test_redundant_passes import logging  # noqa: PLC0415 - a program of its own

    assert {finding.rule for finding in report(logging()).findings} & {RULE, "redundant-passes"} == {"redundant-passes"}


def test_what_a_checkpoint_takes_is_no_pause() -> None:
    assert "host-waits-or-logs" not in {finding.rule for finding in report(fires_on_a_checkpoint()).findings}


def test_edge_steps_share() -> None:
    def two_of_three(loop: Training, number: int) -> None:
        if number % 3:
            operators(loop, VALIDATION, 30)

    found = training(two_of_three, steps=9)
    assert findings(found, RULE, {"steps_share": 0.5})
    assert not findings(found, RULE, {"steps_share": 0.9})


def paused(*, queued_ns: int, collections: int = 6) -> TraceBuilder:
    """Steps that pause for 3 ms, of which a capture knows what they did."""
    found = training(lambda loop, number: loop.host.work(3000))
    times = {"steps": 6, "mean_ns": 6_000_000, "median_ns": 6_000_000, "cpu_ns": 2_000_000, "queued_ns": queued_ns}
    garbage = {"collections": collections, "ns": collections * 2_500_000}
    timing = {"profiled": times}
    found.metadata["traceanalyzer"] = {"version": 1, "steps": 6, "timing": timing, "garbage": garbage}
    return found


def test_a_capture_sees_collections() -> None:
    (finding,) = findings(paused(queued_ns=0), RULE)
    assert "collecting garbage" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * 2_500_000, 2_500_000))
    (rest,) = findings(paused(queued_ns=0), "host-waits-or-logs")
    assert rest.summary.params["waiting"] == pytest.approx(500_000, rel=0.01)
    assert not findings(paused(queued_ns=0, collections=2), RULE), "Python itself collects now and then"


def test_waiting_for_a_core_is_taken_out_and_no_reason_for_silence() -> None:
    (alone,) = findings(paused(queued_ns=0, collections=0), "host-waits-or-logs")
    (busy,) = findings(paused(queued_ns=3_000_000, collections=0), "host-waits-or-logs")
    assert busy.summary.params["waiting"] == pytest.approx(alone.summary.params["waiting"] / 2)
    assert alone.saving is not None
    assert busy.saving is not None
    assert 0 < busy.saving.direct_ns_per_step[0] < alone.saving.direct_ns_per_step[0]
    assert busy.saving.direct_ns_per_step[1] > alone.saving.direct_ns_per_step[1]


def test_other_situations_are_skipped() -> None:
    assert "does not train" in (skipped(trap_inference(), RULE) or "")
    assert "no timeline" in (skipped(in_a_table(), RULE) or "")


def test_an_average_is_told_with_one_call_for_all() -> None:
    (finding,) = findings(fires_on_an_average(), RULE)
    assert "an average of the parameters" in finding.summary.text
    assert "_foreach_lerp_" in (finding.code or "")
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == pytest.approx(12 * 110_000 - 10_000, rel=0.01)
    assert low == pytest.approx(high / 2, rel=0.1)


def test_frozen_layers_may_save_nothing_but_their_dropout() -> None:
    (still,) = findings(fires_on_frozen_layers(), RULE)
    (drawn,) = findings(fires_on_frozen_layers_with_dropout(), RULE)
    assert still.saving is not None
    assert drawn.saving is not None
    assert still.saving.direct_ns_per_step[0] == 0
    assert drawn.saving.direct_ns_per_step[0] == pytest.approx(100_000, rel=0.05)
    assert "eval()" in drawn.advice.text
