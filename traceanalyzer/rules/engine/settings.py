"""Settings of the program that a capture recorded; None means unknown."""

from __future__ import annotations

from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps
from traceanalyzer.analyzers.loader import in_workers
from traceanalyzer.rules.engine.facts import Facts


def workers(facts: Facts) -> int | None:
    """Number of worker processes of the loader with the fewest."""
    return in_workers.fewest_workers(facts.capture.facts if facts.capture else None)


def all_pinned(facts: Facts) -> bool | None:
    """Whether every loader puts its batches into pinned memory."""
    loaders = facts.capture.facts.loaders if facts.capture else None
    known = [loader.pin_memory for loader in loaders or () if loader.pin_memory is not None]
    return all(known) if known else None


def starting_workers(facts: Facts) -> int | None:
    """Number of workers to start with: one per two cores that the program may use."""
    cpus = facts.capture.facts.host.cpus if facts.capture else None
    return None if cpus is None else max(1, cpus // 2)


def uses_autocast(facts: Facts) -> bool | None:
    """Whether automatic mixed precision was entered on a GPU."""
    entered = facts.capture.facts.autocast if facts.capture else None
    return None if entered is None else any(region.device != "cpu" for region in entered)


def matmul_tf32(facts: Facts) -> bool | None:
    """Whether products of float32 matrices may use TF32."""
    return facts.capture.facts.numerics.matmul_allows_tf32 if facts.capture else None


def wants_cudnn_choice(facts: Facts) -> bool:
    """Whether cuDNN is set to measure which algorithm is fastest, or to be deterministic."""
    numerics = facts.capture.facts.numerics if facts.capture else None
    return numerics is not None and bool(numerics.cudnn_benchmark or numerics.cudnn_deterministic)


def refuses_lists(facts: Facts) -> bool | None:
    """Whether an optimizer was made with `foreach=False`."""
    optimizers = facts.capture.facts.optimizers if facts.capture else ()
    return any(optimizer.foreach is False for optimizer in optimizers) if optimizers else None


def gaps_without_profiler(facts: Facts, device: DeviceInSteps) -> tuple[float, float] | None:
    """Least and greatest share of the device's waiting for the host that remains without the profiler.

    A capture also times control steps of the same run without recording them. If they are shorter, the profiler slowed
    the host down, because it does not slow the device down. The least share is half of the greatest, as where the
    profiler is known to be cheap.
    """
    overhead, idle = facts.capture.overhead_share if facts.capture else None, device.time_ns - device.busy_ns
    if overhead is None or idle <= 0:
        return None
    step = device.time_ns / (1 + max(0.0, overhead))
    left = min(1.0, max(0.0, step - device.busy_ns) / idle)
    return 0.5 * left, left
