"""Runs each training of `trainings` and prints what ends its steps, and the author's steps within each."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import trainings

sys.path.append(str(Path(__file__).parents[3]))

from traceanalyzer.capture.agent.hooks import Hooks
from traceanalyzer.capture.agent.seen import Seen
from traceanalyzer.capture.agent.settings import Settings
from traceanalyzer.capture.agent.steps import StepFinder
from traceanalyzer.capture.agent.tools import Tools
from traceanalyzer.capture.agent.updates import Updates


class Counting:
    """A recorder that only counts: how many steps of the author began within each step that it sees."""

    is_recording = False

    def __init__(self) -> None:
        self.finder, self.seen = StepFinder(Updates(torch)), Seen()
        self.marks, self.source = 0, None
        self.within: list[int] = []

    @property
    def needs_calls(self) -> bool:
        return self.finder.needs_calls

    def step_ended(self) -> None:
        if self.source != self.finder.source:
            self.source = self.finder.source
            self.within.clear()
        else:
            self.within.append(self.marks)
        self.marks = 0

    def discard(self) -> None:
        self.source = None
        self.within.clear()


torch.set_num_threads(1)
for kind in sys.argv[1:] or trainings.KINDS:
    counting, hooks = Counting(), Hooks(Tools(torch, Settings("")))

    def mark(counting: Counting = counting) -> None:
        counting.marks += 1

    trainings.mark = mark
    hooks.recorder = counting  # type: ignore[assignment]
    hooks.install()
    trainings.KINDS[kind]()
    hooks.remove()
    print(kind, counting.finder.source, len(counting.within), *sorted(set(counting.within)))  # noqa: T201
