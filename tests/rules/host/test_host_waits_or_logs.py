"""Tests of the rule `host-waits-or-logs`: numbers worked out by hand, and edges of thresholds.

The programs: programs on a CPU that print, sleep or wait in each step, and some that only seem to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped, table

Body = Callable[[Host, int], None]


def on_cpu(body: Body, *, steps: int = 6, **header: Any) -> TraceBuilder:
    """Marked steps of a program without a device; each has 2 ms of operators before its body."""
    trace = TraceBuilder(devices=(), **header)
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            for _ in range(20):
                host.leaf("aten::addmm", 100)
            body(host, number)
    return finish(trace)


def printing(host: Host, values: int = 40) -> None:
    """Prints a tensor as torch/_tensor_str.py does: 30 us, and 5 us for each value."""
    for name in ("aten::isfinite", "aten::ne", "aten::__and__", "aten::masked_select", "aten::abs", "aten::min"):
        host.leaf(name, 5)
    for _ in range(values):
        host.leaf("aten::select", 3)
        with host.op("aten::item", 1, 0):
            host.leaf("aten::_local_scalar_dense", 1)


def pausing(dur: int, *, every: int = 1, steps: int = 6, **header: Any) -> TraceBuilder:
    """Steps of 2 ms, some of which do nothing for so many us at their end."""
    return on_cpu(lambda host, number: host.work(dur) if number % every == 0 else None, steps=steps, **header)


def fires() -> TraceBuilder:
    """Each step prints a tensor and sleeps for 2 ms."""

    def body(host: Host, number: int) -> None:
        printing(host)
        host.work(2000)

    return on_cpu(body)


def fires_where_it_only_prints() -> TraceBuilder:
    """Each step prints a tensor."""
    return on_cpu(lambda host, number: printing(host))


def fires_in_a_function() -> TraceBuilder:
    """A function of the program sleeps, and stacks were recorded."""

    def body(host: Host, number: int) -> None:
        with host.frame("train.py(40): write_log", before=0, after=0), host.frame("<built-in function sleep>"):
            host.work(2000)

    return on_cpu(body, options=("with_stack",))


def fires_where_a_function_computes() -> TraceBuilder:
    """A function of the program runs Python code, and calls nothing that waits."""

    def body(host: Host, number: int) -> None:
        with host.frame("train.py(40): count", before=0, after=0), host.frame("copy.py(128): deepcopy"):
            host.work(2000)

    return on_cpu(body, options=("with_stack",))


def trap_at_ever_other_places() -> TraceBuilder:
    """Another program has the core for 5 ms of each step, now between these tiny operators, now between those."""

    def body(host: Host, number: int) -> None:
        for call in range(400):
            host.leaf(("aten::select", "aten::item")[call % 2], 5)
            host.work(5000 if call == 61 * (number + 1) else 2)

    return on_cpu(body)


def trap_in_a_module_of_torch() -> TraceBuilder:
    """Where torch's own layer prepares its arguments nothing sleeps: another program had the core."""

    def body(host: Host, number: int) -> None:
        with (
            host.frame("nn.Module: TransformerEncoderLayer_0", module=0, before=0, after=0),
            host.frame("torch/nn/modules/transformer.py(690): forward", before=0, after=0),
        ):
            host.work(2000)

    return on_cpu(body, options=("with_stack",))


def quiet() -> TraceBuilder:
    """One operator after the other, with a little Python between them."""
    return pausing(50)


def trap_now_and_then() -> TraceBuilder:
    """One step of six writes a checkpoint."""
    return pausing(5000, every=6)


def trap_ranks() -> TraceBuilder:
    """A rank of two waits for the other."""
    return pausing(2000, distributed={"rank": 0, "world_size": 2, "backend": "gloo"})


def trap_device() -> TraceBuilder:
    """The host sleeps while the GPU works."""

    def body(host: Host, stream: Any, number: int) -> None:
        compute(host, stream, 3000)
        host.work(2000)
        host.wait(stream)

    return looping(body)


def beside_a_gpu(kernel: int, *, values: int = 40, pause: int = 0) -> TraceBuilder:
    """Steps that launch a kernel of so long, print a tensor, pause, and wait for the kernel.

    The kernel starts 14 us after its operator, which takes 15 us; then the printing begins.
    """

    def body(host: Host, stream: Any, number: int) -> None:
        compute(host, stream, kernel)
        printing(host, values)
        host.work(pause)
        host.wait(stream)

    return looping(body)


def fires_where_it_prints_beside_a_gpu() -> TraceBuilder:
    """Of 230 us of printing the GPU works in the first 50 us."""
    return beside_a_gpu(51)


def trap_prints_while_the_gpu_works() -> TraceBuilder:
    """The kernel takes longer than the printing."""
    return beside_a_gpu(300)


def trap_unread_device() -> TraceBuilder:
    """A GPU was not recorded, for which the program may be waiting."""

    def body(host: Host, number: int) -> None:
        host.leaf("aten::cudnn_convolution", 20)
        host.work(2000)

    return on_cpu(body)


def trap_loader() -> TraceBuilder:
    """The pause is a wait for the loader, which other rules are about."""

    def body(host: Host, number: int) -> None:
        host.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2000)

    return on_cpu(body)


def trap_few_values() -> TraceBuilder:
    """The loss and the accuracy are read."""

    def body(host: Host, number: int) -> None:
        for _ in range(2):
            host.leaf("aten::item", 2)

    return on_cpu(body)


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::item", "Self CPU": "1.000ms", "# of Calls": 300}], cpu="1.000ms")


RULE = "host-waits-or-logs"
PRINTING = 6 * 5_000 + 40 * 5_000
"""Time of `printing`: six operators of 5 us, and 3 + 2 us for each value."""


def test_printing_and_pauses_add_up() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == PRINTING + 2_000_000
    # without what recording 6 + 3 * 40 operators cost at least, 303.7 ns each (profiler_overhead.json), in a step of
    # 4.23 ms that is shorter by that of all of its 146
    kept = (0.8 * PRINTING + 0.5 * 2_000_000) / high
    assert low == pytest.approx(kept * (high - 126 * 303.7) * 4_230_000 / (4_230_000 - 146 * 303.7))
    assert "230 us printing" in finding.summary.text
    assert "2.0 ms in long pauses" in finding.summary.text
    assert finding.confidence == "C", "nothing tells what the pause is"
    assert finding.evidence[0].where[0].name == "aten::item", "what was done before it"
    assert "GPU" not in finding.summary.text + finding.advice.text + finding.not_when.text


def test_printing_alone() -> None:
    (finding,) = findings(fires_where_it_only_prints(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == PRINTING
    assert finding.confidence == "B"
    assert finding.summary.text.startswith("Tensors are printed")


def test_a_function_is_named() -> None:
    (finding,) = findings(fires_in_a_function(), RULE)
    assert finding.evidence[0].where[0].name == "train.py(40): write_log"
    assert finding.confidence == "B"
    assert "with_stack" not in finding.advice.text, "the recording has stacks"
    assert finding.summary.text.startswith("For 2.0")


def test_a_pause_counts_for_the_function_in_which_most_of_it_is() -> None:
    def body(host: Host, number: int) -> None:
        with host.frame("train.py(15): train_step", before=0, after=100):
            host.leaf("aten::item", 5)
        with host.frame("train.py(40): write_log", before=0, after=0), host.frame("<built-in function sleep>"):
            host.work(2000)

    (finding,) = findings(on_cpu(body, options=("with_stack",)), RULE)
    assert [line.name for line in finding.where[0].lines] == ["train.py(40): write_log", "train.py(15): train_step"]


def test_code_in_which_nothing_waits_computes() -> None:
    (finding,) = findings(fires_where_a_function_computes(), RULE)
    assert "the thread does not sleep" in finding.summary.text
    assert finding.action is not None
    assert finding.action.text == "Do less in Python: see the lines below"
    (sleeping,) = findings(fires_in_a_function(), RULE)
    assert "the program sleeps" in sleeping.summary.text


def test_pauses_that_do_not_come_back_are_not_of_the_program() -> None:
    assert not findings(trap_at_ever_other_places(), RULE)


def test_without_stacks_the_advice_is_to_record_them() -> None:
    (finding,) = findings(pausing(2000), RULE)
    assert "sleep" not in finding.title.text + finding.summary.text, "nothing shows what it is"
    assert "with_stack=True" in finding.advice.text
    assert "print" not in finding.advice.text, "nothing was printed"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] < 0.51 * finding.saving.direct_ns_per_step[1]


def test_control_steps_of_a_capture_make_it_a_larger_part() -> None:
    (plain,) = findings(pausing(2000), RULE)
    times = {
        "profiled": {"steps": 5, "mean_ns": 11, "median_ns": 11},
        "after": {"steps": 5, "mean_ns": 10, "median_ns": 10},
    }
    (told,) = findings(pausing(2000, metadata={"traceanalyzer": {"version": 1, "timing": times}}), RULE)
    assert plain.saving is not None
    assert told.saving is not None
    assert told.saving.direct_ns_per_step[1] == pytest.approx(1.1 * plain.saving.direct_ns_per_step[1])
    assert told.saving.direct_ns_per_step[0] == plain.saving.direct_ns_per_step[0]


def test_printing_beside_a_gpu_that_has_nothing_to_do() -> None:
    (finding,) = findings(fires_where_it_prints_beside_a_gpu(), RULE)
    # 2 us until the operator, its 15 us, the printing, 1.5 us of the wait, 1 us until the step ends
    step, alone = 19_500 + PRINTING, PRINTING - 50_000
    assert finding.evidence[0].observed == pytest.approx(alone / step)
    assert finding.evidence[0].where[0].name == "aten::item"
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    # without what recording 6 + 3 * 40 operators cost at least, 303.7 ns each, in a step without that of all of its 127
    kept = (alone - 126 * 303.7) * step / (step - 127 * 303.7)
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * kept, PRINTING))
    assert alone <= finding.saving.wall_ns_per_step[1] <= step - 51_000, "the kernel stays"
    assert finding.summary.text.startswith("Tensors are printed or formatted for 230 us of a step of 250 us")
    assert "while no device works" in finding.evidence[0].subject.text


def test_printing_that_launches_work_takes_it_along() -> None:
    """Each of forty values is selected on the GPU, for 10 us; without these kernels it is the whole printing."""

    def body(host: Host, stream: Any, number: int) -> None:
        for name in ("aten::isfinite", "aten::masked_select"):
            compute(host, stream, 10, name)
        for _ in range(40):
            compute(host, stream, 10, "aten::select")
            host.leaf("aten::item", 5)

    (finding,) = findings(looping(body), RULE)
    assert finding.saving is not None
    printed, gaps = 42 * 15_000 + 40 * 5_000, 42 * 900
    assert finding.saving.direct_ns_per_step[1] == printed
    assert printed - gaps <= finding.saving.wall_ns_per_step[1] <= printed, "the GPU works for 420 us of it"


def test_a_gpu_that_works_while_it_prints_makes_it_silent_not_skipped() -> None:
    assert skipped(trap_prints_while_the_gpu_works(), RULE) is None
    assert findings(trap_prints_while_the_gpu_works(), RULE, {"share": 0.0}) == []


def test_pauses_beside_a_gpu_are_no_matter_of_this_rule() -> None:
    """A pause of 2 ms counts neither in the share, nor in the saving."""
    (finding,) = findings(beside_a_gpu(51, pause=2000), RULE)
    assert finding.evidence[0].observed == pytest.approx((PRINTING - 50_000) / (2_019_500 + PRINTING))
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == PRINTING


def test_what_it_cannot_judge() -> None:
    assert "another rank" in (skipped(trap_ranks(), RULE) or "")
    assert "a device works" in (skipped(trap_device(), RULE) or "")
    assert "left no events" in (skipped(trap_unread_device(), RULE) or "")
    assert "no timeline" in (skipped(in_a_table(), RULE) or "")
    assert "fewer than three steps" in (skipped(pausing(2000, steps=2), RULE) or "")


def test_edge_paused_share() -> None:
    assert findings(pausing(2000, every=2), RULE), "three of six steps"
    assert findings(pausing(2000, every=2), RULE, {"paused_share": 0.51}) == []


def test_trap_the_thread_of_autograd_loses_its_core() -> None:
    """Between two functions of autograd no code of the program runs."""

    def body(host: Host, number: int) -> None:
        host.leaf("aten::ones_like", 5)
        for name in ("AddmmBackward0", "TBackward0"):
            host.work(2000)
            host.leaf(f"autograd::engine::evaluate_function: {name}", 50)

    assert findings(on_cpu(body), RULE) == []


def test_trap_a_mark_prepares_inputs() -> None:
    """Its time is the mark's, which preprocessing-in-step reports."""

    def body(host: Host, number: int) -> None:
        with host.annotation("tokenize", 0, 0):
            host.work(2000)

    assert findings(on_cpu(body), RULE) == []
    assert findings(on_cpu(body), "preprocessing-in-step")


def disturbed(*queued_ms: float) -> TraceBuilder:
    """Steps of 4 ms, 2 of them without an operator, that wait for a core for so long each, by a capture."""
    recorded = [{"ns": 4_000_000, "cpu_ns": 0, "queued_ns": int(ms * 1e6)} for ms in queued_ms]
    mean = sum(step["queued_ns"] for step in recorded) // len(recorded)
    times = {"steps": 6, "mean_ns": 4_000_000, "median_ns": 4_000_000, "cpu_ns": 4_000_000 - mean, "queued_ns": mean}
    return pausing(
        2000, metadata={"traceanalyzer": {"version": 1, "timing": {"profiled": times}, "recorded": recorded}}
    )


def test_operators_that_are_on_a_core_do_not_go_away() -> None:
    """On average half of a step waits for a core, so that 2 ms in no operator could be all of the rest.

    But one step waited for 0.4 ms only: 1.6 ms of its operators were on a core, so 0.4 ms of 2 can go away.
    """
    (loose,) = findings(disturbed(2, 2, 2, 2, 2, 2), RULE)
    assert loose.saving is not None
    assert loose.saving.direct_ns_per_step[1] == pytest.approx(4_000_000)
    (bound,) = findings(disturbed(0.4, 2, 2, 2, 2, 3.6), RULE)
    assert bound.saving is not None
    assert bound.saving.direct_ns_per_step[1] == pytest.approx(4_000_000 - 2 * 1_600_000)


def test_waiting_for_a_core_is_no_reason_for_silence() -> None:
    """Half of each step waits for a core; each has a pause of 2 ms, of which operators leave 0.8 of 4 at most."""
    (finding,) = findings(disturbed(0.4, 2, 2, 2, 2, 3.6), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.2)
    slept = disturbed(2, 2, 2, 2, 2, 2)
    slept.metadata["traceanalyzer"]["timing"]["profiled"]["cpu_ns"] = 500_000
    (finding,) = findings(slept, RULE)
    assert finding.evidence[0].observed == pytest.approx(1.0), "of 2 ms that do not wait for a core 1.5 are sleep"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] > 0.7 * 0.75 * 4_000_000
