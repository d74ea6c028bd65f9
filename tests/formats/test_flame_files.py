"""Flame graphs as files: speedscope's JSON and collapsed stacks."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.formats.samples import HOSTILE, TRAINING
from tests.reading import read, read_built
from traceanalyzer.analyzers.host import flame_graphs
from traceanalyzer.analyzers.host.flame_graphs import FlameGraph, FlameGraphs
from traceanalyzer.formats import flame_files, language
from traceanalyzer.output import is_ours
from traceanalyzer.structure.context import Context

FIXTURES = TRAINING.parents[1]
SITUATIONS = ("synthetic/gpu_training.json.gz", "captured/modules_and_stacks.json.gz", "synthetic/cpu_only.json")


@cache
def graphs_of(name: str) -> FlameGraphs:
    return flame_graphs.of_steps(Context(read((FIXTURES / name).read_bytes())))


def speedscope_of(name: str) -> dict[str, Any]:
    return dict(json.loads(flame_files.speedscope(graphs_of(name), name)))


def host_of(trace: TraceBuilder) -> FlameGraph:
    graph = flame_graphs.of_steps(Context(read_built(trace))).of("host")
    assert graph is not None
    return graph


def read_collapsed(text: str) -> dict[tuple[str, ...], int]:
    """What a reader of collapsed stacks understands: the last blank is before the number."""
    parts = [line.rpartition(" ") for line in text.splitlines()]
    found = {tuple(stack.split(";")): int(number) for stack, _, number in parts}
    assert len(found) == len(parts)
    return found


@pytest.mark.parametrize("name", SITUATIONS)
def test_profiles_hold_the_stacks_and_their_sums(name: str) -> None:
    file, found = speedscope_of(name), graphs_of(name)
    frames = file["shared"]["frames"]
    assert len({json.dumps(frame) for frame in frames}) == len(frames)
    assert len(file["profiles"]) == len(found.graphs) > 0
    for profile, graph in zip(file["profiles"], found.graphs, strict=True):
        assert profile["unit"] == "nanoseconds"
        assert (profile["startValue"], profile["endValue"]) == (0, sum(profile["weights"]))
        stacks = [[frames[number]["name"] for number in sample] for sample in profile["samples"]]
        assert stacks == [[flame_files.frame_name(frame) for frame in stack] for stack in graph.stacks]
        assert profile["weights"] == [*graph.weights]


@pytest.mark.parametrize("name", SITUATIONS)
def test_collapsed_stacks_hold_the_same_times(name: str) -> None:
    graphs = graphs_of(name).graphs
    assert graphs
    assert [read_collapsed(flame_files.collapsed(graph)) for graph in graphs] == [*map(by_name, graphs)]


def by_name(graph: FlameGraph) -> Counter[tuple[str, ...]]:
    """Time by the names and places of frames."""
    found: Counter[tuple[str, ...]] = Counter()
    for stack, weight in zip(graph.stacks, graph.weights, strict=True):
        found[tuple(flame_files.frame_with_place(frame) for frame in stack)] += weight
    return found


def test_a_file_says_what_it_is_of_in_the_language_of_the_reader() -> None:
    found = graphs_of("synthetic/gpu_training.json.gz")
    english = speedscope_of("synthetic/gpu_training.json.gz")
    assert english["name"] == f"synthetic/gpu_training.json.gz: {found.steps} typical steps"
    assert [profile["name"] for profile in english["profiles"]][:2] == ["CPU time", "GPU time by what launched it"]
    russian = json.loads(flame_files.speedscope(found, "x", language=language.of("ru")))
    assert russian["profiles"][0]["name"] not in ("", "CPU time")
    whole = FlameGraphs(None, found.graphs)
    assert json.loads(flame_files.speedscope(whole, "x.json"))["name"] == "x.json: whole trace"


def test_files_are_known_to_be_written_by_this_program() -> None:
    assert is_ours(flame_files.speedscope(graphs_of("synthetic/cpu_only.json"), "x").encode())


def test_frames_tell_file_line_role_and_backward() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.python_function("data.py(3): preprocess", 0, 30)
    trace.module("Linear_0", 40, 20)
    trace.op("aten::addmm", 45, 10, sequence=7)
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 70, 20, sequence=7, fwd_thread=1, tid=4202)
    assert read_collapsed(flame_files.collapsed(host_of(trace))) == {
        ("preprocess [preprocessing] (data.py:3)",): 30_000,
        ("Linear",): 10_000,
        ("Linear", "aten::addmm"): 10_000,
        ("autograd", "Linear (backward)", "AddmmBackward0"): 20_000,
        ("[unknown]",): 30_000,
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_in_their_line_and_their_frame(name: str) -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation(f"{name};x 7", 0, 60)
    trace.annotation(name, 10, 20)
    graph = host_of(trace)
    stacks = read_collapsed(flame_files.collapsed(graph))
    assert sorted(map(len, stacks)) == sorted(map(len, graph.stacks))
    assert sum(stacks.values()) == 100_000
    file = json.loads(flame_files.speedscope(flame_graphs.FlameGraphs(1, (graph,)), name))
    assert all(frame["name"].isprintable() for frame in file["shared"]["frames"])


def test_the_same_trace_gives_the_same_bytes() -> None:
    again = flame_graphs.of_steps(Context(read(TRAINING.read_bytes())))
    assert flame_files.speedscope(again, "x") == flame_files.speedscope(
        graphs_of("synthetic/gpu_training.json.gz"), "x"
    )


def test_of_the_first_steps_the_device_is_idle_that_is_busiest_in_all() -> None:
    """Device 1 is the busiest of four steps, device 0 of the first one, in which device 1 works for 100 of 1,000 us."""
    trace = TraceBuilder()
    for number in range(4):
        start, first = 1000 * number, number == 0
        trace.step(number, start, 1000)
        for row in range(10):
            trace.op("aten::a", start + 100 * row, 80)
        trace.memcpy("HtoD", 4096, start + 10, 600 if first else 100, device=0)
        trace.memcpy("HtoD", 4096, start + 300, 100 if first else 600, device=1)
    found = flame_graphs.of_steps(Context(read_built(trace)), most_events=15)
    idle = found.of("idle")
    assert idle is not None
    assert (found.steps, idle.total_ns) == (1, 900_000)
