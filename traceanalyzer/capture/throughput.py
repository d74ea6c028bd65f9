"""Measures samples and steps per second with and without the profiler."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType

from traceanalyzer.capture import require
from traceanalyzer.capture.agent import facts


@dataclass(frozen=True)
class Throughput:
    """Samples, steps and seconds, measured either with or without the profiler."""

    steps: int
    samples: int
    seconds: float

    @property
    def samples_per_s(self) -> float | None:
        """Samples per second; None before the first step."""
        return self.samples / self.seconds if self.seconds else None

    @property
    def steps_per_s(self) -> float | None:
        """Steps per second; None before the first step."""
        return self.steps / self.seconds if self.seconds else None

    def __str__(self) -> str:
        if not self.seconds:
            return "no steps"
        return f"{self.samples_per_s:.4g} samples/s, {self.steps_per_s:.4g} steps/s ({self.steps} steps)"


class ThroughputMeter:
    """Measures samples per second, separately for steps with and without a profiler.

        meter = ThroughputMeter(warmup=3)
        for images, labels in loader:
            ...
            meter.step(len(images))
        print(meter)

    It waits for the devices only when a profiler starts or stops and when a number is read, not at every step.

    Args:
        warmup: Number of steps at the beginning that are not counted.

    Raises:
        MissingDependencyError: torch is not installed.
    """

    def __init__(self, warmup: int = 0) -> None:
        self._torch = require.torch()
        self._left = warmup
        self._sums = {state: Throughput(0, 0, 0.0) for state in (False, True)}
        self._since = 0.0
        self._start()

    def __enter__(self) -> ThroughputMeter:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def step(self, samples: int = 0) -> None:
        """Record that a step with this many samples has ended."""
        state = self._is_profiled()
        if self._left > 0:
            self._left -= 1
            if not self._left:
                self._start()
            return
        if state != self._state:  # a step in which the profiler was switched on or off counts for neither
            self._close()
            self._start()
            return
        now = time.perf_counter()
        self._add(1, samples, now - self._since)
        self._since = now

    @property
    def plain(self) -> Throughput:
        """Throughput of the steps without a profiler."""
        self._close()
        return self._sums[False]

    @property
    def profiled(self) -> Throughput:
        """Throughput of the steps with a profiler."""
        self._close()
        return self._sums[True]

    def __str__(self) -> str:
        self._close()
        return f"plain: {self._sums[False]}; profiled: {self._sums[True]}"

    def _is_profiled(self) -> bool:
        return bool(self._torch.autograd._profiler_enabled())

    def _start(self) -> None:
        facts.synchronize(self._torch)
        self._state = self._is_profiled()
        self._since = time.perf_counter()

    def _close(self) -> None:
        """Wait for the devices, and add that time to the steps before."""
        if self._sums[self._state].steps:
            begin = time.perf_counter()
            facts.synchronize(self._torch)
            caught_up = time.perf_counter() - begin
            self._add(0, 0, caught_up)
            self._since += caught_up

    def _add(self, steps: int, samples: int, seconds: float) -> None:
        sums = self._sums[self._state]
        self._sums[self._state] = Throughput(sums.steps + steps, sums.samples + samples, sums.seconds + seconds)
