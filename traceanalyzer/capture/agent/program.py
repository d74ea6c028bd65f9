"""The capture in one process: created when torch is imported, and again in a forked child."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

from . import facts
from .endings import Endings
from .hooks import Hooks
from .recorder import Recorder
from .settings import Notes, Settings
from .tools import Tools
from .whole_run import WholeRun


class Program:
    """A process that has imported torch, with its hooks, recorder and exit handlers."""

    def __init__(self, torch: Any, settings: Settings) -> None:
        self._tools = Tools(torch, settings)
        self._hooks = Hooks(self._tools)
        self._endings = Endings(self._finish)
        self._left: list[Any] = []
        self._begin()

    def attach(self) -> None:
        """Start to watch the program."""
        self._hooks.install(with_stack=self._tools.settings.with_stack)
        self._tools.rivals.watch(self._tools.torch.autograd.profiler, self._give_way)
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)
        self._notes.tell()
        if multiprocessing.parent_process() is None:  # a child may be a worker, which must not write any file
            self._endings.watch()
            self._whole_run.begin()

    def _begin(self) -> None:
        self._notes = Notes(self._tools.settings.scratch)
        self._whole_run = WholeRun(self._tools)
        self._recorder: Recorder | None = Recorder(
            self._tools,
            self._notes.tell,
            self._whole_run,
            first_step=self._endings.watch,
            let_go=self._let_go,
            activities=lambda: facts.activities(self._tools.torch, light=self._tools.settings.light),
        )
        self._hooks.recorder = self._recorder

    def _let_go(self) -> None:
        self._hooks.remove()
        self._endings.leave_signals()

    def _give_way(self) -> None:
        if self._recorder is not None:
            self._notes.tell(profiles_itself=True)
            self._recorder.give_way()

    def _finish(self, ended: str) -> None:
        if self._recorder is not None:
            self._recorder.finish(ended)
            self._hooks.recorder = self._recorder = None

    def _before_fork(self) -> None:
        """End the whole-run recording, because a child could neither continue nor stop it."""
        self._whole_run.end()

    def _after_fork(self) -> None:
        """Begin again in a child, unless the profiler is on, because then the child must not record."""
        was_recording = self._whole_run.is_on or (self._recorder is not None and self._recorder.is_recording)
        self._left += [self._whole_run, self._recorder]  # freeing needs threads that a child lacks
        self._endings.leave_signals()
        if was_recording:
            self._recorder = self._hooks.recorder = None
            self._tools.torch.autograd._enable_record_function(False)
            if self._tools.settings.with_stack:
                sys.setprofile(None)
        elif self._recorder is not None:
            has_optimizer = self._recorder.finder.has_optimizer
            self._begin()
            self._recorder.finder.has_optimizer = has_optimizer


def attach(settings: Settings) -> None:
    """Begin the capture of this process, right after it has imported torch."""
    Program(sys.modules["torch"], settings).attach()
