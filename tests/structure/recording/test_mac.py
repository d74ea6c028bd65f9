"""Programs on the GPU of a Mac, which no profiler of torch records."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import plain, read_built
from traceanalyzer.pipeline import analyze

LAYERS = 4


def on_a_mac(*, waits: bool = True, name: str = "aten::_mps_linear") -> TraceBuilder:
    """Five passes of a model; each has four equal layers, and ends with a copy to the CPU that takes 800 us."""
    trace = TraceBuilder(devices=())
    for begin in range(0, 5000, 1000):
        for layer in range(LAYERS):
            at = begin + 40 * layer
            trace.op("aten::linear", at, 20, shapes=[[8, 8], [8, 8]], types=["float", "float"])
            trace.op(name, at + 2, 15, shapes=[[8, 8], [8, 8]], types=["float", "float"])
            trace.op("aten::gelu", at + 25, 10, shapes=[[8, 8]], types=["float"])
        if waits:
            trace.op("aten::_copy_from", begin + 170, 800, shapes=[[8, 8], [8, 8]], types=["float", "float"])
    return trace


def test_the_copies_are_waits_and_end_passes() -> None:
    report = analyze(read_built(on_a_mac()))
    recording = plain(report)["recording"]
    assert (recording["workload"], recording["steps_from"], len(recording["steps"])) == (
        "inference",
        "repeated operators",
        5,
    )
    said = {warning.id: warning.message.params for warning in report.warnings}
    assert said["q-mac-not-recorded"]["sign"] == "aten::_mps_linear"
    assert said["q-mac-waits"]["names"] == "aten::_copy_from"
    assert said["q-mac-waits"]["time"] == 800_000
    assert "q-gpu-not-recorded" not in said


def test_nothing_is_said_about_cuda() -> None:
    report = analyze(read_built(on_a_mac()))
    texts = [*(w.message for w in report.warnings), *(h.message for h in report.headlines)]
    assert not [text for text in map(str, texts) if "CUDA" in text]


def test_without_copies_there_are_no_waits() -> None:
    report = analyze(read_built(on_a_mac(waits=False)))
    assert "q-mac-not-recorded" in {warning.id for warning in report.warnings}
    assert "q-mac-waits" not in {warning.id for warning in report.warnings}


def test_a_copy_of_another_back_end_is_no_wait_for_a_mac() -> None:
    report = analyze(read_built(on_a_mac(name="aten::cudnn_convolution")))
    ids = {warning.id for warning in report.warnings}
    assert "q-gpu-not-recorded" in ids
    assert not {"q-mac-not-recorded", "q-mac-waits"} & ids
