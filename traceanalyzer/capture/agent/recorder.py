"""Records one process: waits, warms up, records, saves, and then measures unprofiled steps for comparison."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import facts, steps
from .endings import deferred_signals
from .recording import ProfilerRun
from .seen import Seen
from .settings import recordings_asked_for
from .threads import OtherThreads
from .tools import Tools
from .tracefile import remove, save
from .updates import Updates
from .whole_run import WholeRun

COMPLETE, GAVE_WAY, LARGE = "complete", "gave-way", "large"

_BEFORE, _ON, _AFTER, _OVER = "before", "on", "after", "over"


class Recorder:
    """Decides what to record in one process, and when.

    Args:
        tools: Objects that all recordings in this process share.
        tell: Sends keys and values to the parent, see `Notes`.
        whole_run: The recording of the whole run, for programs that make no steps.
        first_step: Called when the first step has been detected.
        let_go: Called when nothing more will be recorded, so that hooks can be removed.
        activities: Returns the activities to record; called when the recording starts.
    """

    def __init__(
        self,
        tools: Tools,
        tell: Callable[..., None],
        whole_run: WholeRun,
        first_step: Callable[[], None],
        let_go: Callable[[], None],
        activities: Callable[[], list[Any] | None],
    ) -> None:
        self.finder = steps.StepFinder(Updates(tools.torch))
        self.seen = Seen()
        self._tools, self._torch, self._settings, self._tell = tools, tools.torch, tools.settings, tell
        self._whole_run, self._first_step, self._let_go = whole_run, first_step, let_go
        self._activities = activities
        self._threads = OtherThreads(tools.settings.project)
        self._clock = steps.StepClock(self._threads)
        self._phase = _BEFORE
        self._source: str | None = None
        self._thread: int | None = None
        self._count = 0
        self._recording: ProfilerRun | None = None
        self._recorded_steps = 0
        self._slowest: tuple[ProfilerRun, steps.RecordedLaps] | None = None
        self._looked_at = self._answered = 0
        self._due = self._settings.skipped
        self._trace: Path | None = None
        self._earlier: list[tuple[str, dict[str, Any]]] = []
        self._facts: dict[str, Any] = {}
        self._rank: int | None = None

    @property
    def _scratch(self) -> Path | None:
        return Path(self._settings.scratch) if self._settings.scratch else None

    @property
    def is_recording(self) -> bool:
        """Whether the profiler is recording now."""
        return self._recording is not None and self._recording.is_on

    @property
    def needs_calls(self) -> bool:
        """Whether calls of modules may still mark steps that are recorded or measured."""
        return self._phase != _OVER and self.finder.needs_calls

    def step_ended(self) -> None:
        """End a step and begin the next. An error of the capture ends the capture, not the program."""
        if not self._is_stepping(_thread.get_ident()):
            return
        try:
            self._take_over()
            if self._phase != _OVER:
                self._count += 1
                {_BEFORE: self._before, _ON: self._on, _AFTER: self._after}[self._phase]()
        except Exception as error:  # whatever it is, the program goes on
            self._fail(error)

    def _is_stepping(self, thread: int) -> bool:
        """Whether a thread makes the steps: the first, until it has ended and another continues."""
        if thread != self._thread:
            if self._thread in sys._current_frames():
                return False
            self._thread = thread
            self._clock.restart()
        return True

    def _take_over(self) -> None:
        """Replace the whole-run recording at the first step, and what was recorded of other steps."""
        if self._source == self.finder.source:
            return
        self._whole_run.end()
        self._throw_away()
        self._source = self.finder.source
        self._first_step()

    def discard(self) -> None:
        """Throw away what was recorded, because the program turns out to train: what it did before were no steps."""
        if self._recording is not None and self._recording.is_on and not self._can_stop:
            return  # the thread that can stop it throws it away with its next step
        try:
            self._throw_away()
        except Exception as error:  # whatever it is, the program goes on
            self._fail(error)

    def _throw_away(self) -> None:
        """Begin anew, without the recordings so far, complete or not, and their control steps."""
        if self._recording is not None and self._recording.is_on:
            with deferred_signals():
                self._recording.stop()
        written = [*(trace for trace, _ in self._earlier), *([] if self._trace is None else [str(self._trace)])]
        self._recording = self._slowest = self._trace = None
        self._source, self._phase, self._count = None, _BEFORE, 0
        self._looked_at, self._recorded_steps = 0, 0
        self._due = self._settings.skipped
        self._earlier, self._facts, self._clock = [], {}, self._new_clock()
        self.seen.start_counting()
        if written:
            self._tell(trace=None, facts=None, earlier=[], steps=None, wanted=None, ended=None)
        for trace in written:
            remove(Path(trace))

    def start_marked(self) -> None:
        """Record that the program marks its steps itself; the first one is already being recorded."""
        self.finder.marked()
        self._source = steps.MARKED
        self._rank = facts.rank(self._torch)
        self._start(warmup=0)

    def _before(self) -> None:
        warmup = 1 if self._settings.skipped > 1 else 0
        is_free = not self._tools.rivals.is_on and not self._whole_run.is_on
        is_time = is_free and self._count >= self._due - warmup and self._is_wanted()
        if self._count == 1 or is_time:
            facts.synchronize(self._torch)
        self._lap(steps.BEFORE if self._count > 1 else None)
        if self._count <= self._settings.control:
            self._ask_for_lock()
        if self._count == 1:
            self._rank = facts.rank(self._torch)
            self.seen.frames = facts.package_frames()
        if is_time:
            self._start(warmup)

    def _is_wanted(self) -> bool:
        """Whether a recording may begin now; where a signal asks for it, once for each signal."""
        if not self._settings.on_signal:
            return True
        asked = recordings_asked_for(self._settings.scratch)
        is_new, self._answered = asked > self._answered, asked
        return is_new

    def _start(self, warmup: int) -> None:
        activities = self._activities()
        if activities == []:  # only devices are to be recorded, and there is none
            self._tell(has_no_device=True)
            self._phase = _OVER
            self._let_go()
            return
        with deferred_signals():
            self._recording = ProfilerRun(
                self._tools,
                warmup=warmup,
                active=self._settings.steps,
                activities=activities,
                all_threads=threading.current_thread() is not threading.main_thread(),
            )
            self._recording.start()
        self._phase = _ON
        self._clock.restart()

    def _on(self) -> None:
        assert self._recording is not None  # noqa: S101 - what the phase means
        self._lap(steps.PROFILED if self._recording.is_recording else None)
        with deferred_signals():
            if self._recording.step():
                self._complete()
            elif self._recording.is_large and self._recording.steps > 1:
                self._stop_and_save(LARGE, at_least=1)
                self._phase, self._count = _AFTER, 0
        self._clock.restart()

    def _complete(self) -> None:
        """Save the recording, or compare it with others until enough steps were looked at."""
        assert self._recording is not None  # noqa: S101 - only called when there is one
        self._looked_at += self._recording.steps
        if self._looked_at < self._settings.slowest:
            self._keep_slower()
            self._start(warmup=1)
            return
        self._save(COMPLETE)
        self._phase, self._count = _AFTER, 0

    def _keep_slower(self) -> None:
        """Keep the recording if it has the slowest step so far, otherwise drop it."""
        assert self._recording is not None  # noqa: S101 - only called when there is one
        recording, self._recording = self._recording, None
        laps = self._clock.take_recorded()
        if not recording.steps:
            return
        if self._slowest is None or max(laps.durations_ns) > max(self._slowest[1].durations_ns):
            self._slowest = recording, laps

    def _take_slowest(self) -> None:
        """Make the recording with the slowest step the current one."""
        if self._slowest is None:
            return
        self._keep_slower()
        self._recording, laps = self._slowest
        self._clock.put_recorded(laps)
        self._slowest = None

    def _after(self) -> None:
        """Time steps after the recording, except the first, which still contains its cost."""
        is_last = self._count > self._settings.control
        if self._count == 1 or is_last:
            facts.synchronize(self._torch)
        self._lap(steps.AFTER if self._count > 1 else None)
        self._ask_for_lock()
        if is_last:
            self._end()

    def _ask_for_lock(self) -> None:
        """Measure, between two steps without the profiler, whether another thread keeps the interpreter."""
        self._threads.ask_for_lock()
        self._clock.restart()

    def _new_clock(self) -> steps.StepClock:
        return steps.StepClock(self._threads)

    def _lap(self, phase: str | None) -> None:
        self._clock.lap(phase)
        self.seen.step_ended(counts=phase is not None, is_recorded=phase == steps.PROFILED)

    def _end(self) -> None:
        self._tell_timings()
        if self._settings.repeats:
            self._again()
            return
        self._phase = _OVER
        if self._source in {steps.OPTIMIZER, steps.UPDATE, steps.MARKED}:  # other programs may still begin to train
            self._let_go()

    def _again(self) -> None:
        """Wait for the next recording."""
        if self._trace is not None:
            self._earlier.append((str(self._trace), self._facts))
        self._phase, self._count, self._looked_at = _BEFORE, 0, 0
        self._due = self._settings.every
        self._clock = self._new_clock()
        self.seen.start_counting()

    def _tell_timings(self) -> None:
        """Send the step times measured after the trace was written to the parent, which adds them to the trace."""
        self._facts |= {"timing": self._clock.facts()} | self._threads.facts()
        self._tell(facts=self._facts)

    def _save(self, ended: str) -> None:
        """Write the trace of what was recorded, with its facts."""
        assert self._recording is not None  # noqa: S101 - only called when there is one
        self._take_slowest()
        self._recorded_steps = self._recording.steps
        self._facts = self.facts(ended)
        self._tell(is_writing=True)
        trace = save(
            self._recording,
            Path(self._settings.folder),
            self._rank or 0,
            self._facts,
            self._settings.project,
            scratch=self._scratch,
        )
        self._recording = None
        self._tell(is_writing=False)
        if trace is None:
            return
        self._trace = trace
        self._whole_run.drop()
        self._tell(
            rank=self._rank,
            trace=str(trace),
            facts=self._facts,
            earlier=self._earlier,
            steps=self._recorded_steps,
            wanted=self._settings.steps,
            ended=ended,
        )

    def facts(self, ended: str) -> dict[str, Any]:
        """Facts about the program that the trace lacks, as of now."""
        stepping = [o for ref in self.seen.optimizers.values() if (o := ref()) is not None]
        asked = self._settings
        recorded = {
            "may_train": self.finder.trains or self.finder.has_optimizer,
            "steps_from": self._source,
            "steps": self._recorded_steps,
            "asked": {"wait": asked.wait, "warmup": asked.warmup, "steps": asked.steps},
            "ended": ended,
            "is_light": asked.light,
            "timing": self._clock.facts(),
            "recorded": self._clock.recorded(),
        }
        seen = self.seen.facts() | self._threads.facts()
        return facts.gather(self._torch, stepping) | seen | recorded

    @property
    def _can_stop(self) -> bool:
        """Whether the profiler is recording, and this thread can stop it."""
        if self._recording is None or not self._recording.is_on:
            return False
        return self._recording.stops_anywhere or _thread.get_ident() == self._thread

    def give_way(self) -> None:
        """Stop for the program's own profiler: save what was recorded, or begin again after that profiler."""
        self._whole_run.end()
        if not self._can_stop:
            return
        try:
            with deferred_signals():
                self._stop_and_save(GAVE_WAY, at_least=1)
        except Exception as error:  # whatever it is, the program goes on
            self._fail(error)
            return
        self._phase = _BEFORE if self._trace is None else _OVER
        self._count = 0

    def _stop_and_save(self, ended: str, at_least: int) -> None:
        assert self._recording is not None  # noqa: S101 - only called when there is one
        worth_it = (self._recording.is_recording and self._recording.steps >= at_least) or self._slowest is not None
        self._recording.stop()
        if worth_it:
            self._save(ended)

    def finish(self, ended: str) -> None:
        """Save what would be lost when the program ends."""
        self._tell(counted=self._count if self._phase in {_BEFORE, _ON} else 0)
        if self._phase == _AFTER and self._clock.durations_ns[steps.AFTER]:
            self._tell_timings()
        self._phase = _OVER
        try:
            with deferred_signals():
                if self._can_stop:
                    self._stop_and_save(ended, at_least=0)
                if self._trace is None:
                    self._save_whole_run(ended)
            self._tell(finished=True, is_writing=False)
        except Exception as error:  # the program must end as it would without the capture
            self._fail(error)

    def _save_whole_run(self, ended: str) -> None:
        """Save the whole-run recording; if there is a parent, for it to decide whether another process made steps."""
        self._whole_run.end()
        if self._whole_run.held is None:
            if self._settings.light and not facts.activities(self._torch, light=True):
                self._tell(has_no_device=True)
            return
        self._tell(is_writing=True)
        rank = facts.rank(self._torch)
        trace = save(
            self._whole_run.held,
            Path(self._settings.folder) if self._scratch is None else self._scratch / "whole",
            rank or 0,
            self.facts(ended),
            self._settings.project,
            scratch=self._scratch,
            with_tables=False,
        )
        self._whole_run.drop()
        if trace is not None:
            self._tell(
                rank=rank,
                whole_run=str(trace),
                steps=self._count,
                cut_by=self._whole_run.cut_by,
                length_s=self._whole_run.length_s,
                signs=dict(self.finder.counts),
            )

    def _fail(self, error: Exception) -> None:
        self._phase = _OVER
        self._tell(error=f"{type(error).__name__}: {error}")
        self._let_go()
