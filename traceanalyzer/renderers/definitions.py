"""Explains each number in a sentence, for reports that travel without the documentation (docs/metrics.md)."""

from __future__ import annotations

from traceanalyzer.renderers.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report

_DEFINITIONS: tuple[tuple[str, tuple[tuple[Text, Text], ...]], ...] = (
    (
        "step_breakdown",
        (
            (
                Text("define-step", "Step"),
                Text(
                    "define-step-say",
                    "A ProfilerStep range on the host, extended to the end of the last kernel that it launched. "
                    "Without such marks the whole trace counts as one step.",
                ),
            ),
            (
                Text("define-window", "Window"),
                Text(
                    "define-window-say",
                    "From the start of the first to the end of the last step. Shares are of the window unless stated "
                    "otherwise.",
                ),
            ),
            (
                Text("define-parts", "Parts of a step"),
                Text(
                    "define-parts-say",
                    "Every nanosecond belongs to the first of these that is active: Kernel, Memcpy, Memset, "
                    "Communication, Runtime, DataLoader, CPU Exec, Other. So the parts sum to the step, and each "
                    "part counts only time that no part before it covers.",
                ),
            ),
        ),
    ),
    (
        "gpu",
        (
            (
                Text("define-utilization", "Utilization"),
                Text(
                    "define-utilization-say",
                    "Share of the window in which at least one kernel runs. One tiny kernel at a time gives 100 %.",
                ),
            ),
            (
                Text("define-busy", "Busy, Idle"),
                Text("define-busy-say", "Share of the window in which a kernel, copy or fill runs; idle is the rest."),
            ),
            (
                Text("define-efficiency", "Est. SM efficiency"),
                Text(
                    "define-efficiency-say",
                    "The profiler's estimate of how many multiprocessors have work: min(1, blocks per SM of all "
                    "running kernels), averaged over the window.",
                ),
            ),
            (
                Text("define-occupancy", "Est. occupancy"),
                Text(
                    "define-occupancy-say",
                    "The profiler's estimate of achieved occupancy, weighted by the time of the kernels. Low values "
                    "are normal for matrix kernels.",
                ),
            ),
            (
                Text("define-tensor-cores", "Tensor cores"),
                Text(
                    "define-tensor-cores-say",
                    "Share of kernel time in kernels whose names show that they use matrix units.",
                ),
            ),
        ),
    ),
    (
        "idle",
        (
            (
                Text("define-idle", "Idle causes"),
                Text(
                    "define-idle-say",
                    "Every nanosecond of idle time has one cause: what the launching thread did while the GPU waited "
                    "for it, or a pause between kernels that were already queued. The causes of a GPU sum to its "
                    "idle time.",
                ),
            ),
        ),
    ),
    (
        "operators",
        (
            (
                Text("define-device-self", "Device self, total"),
                Text(
                    "define-device-self-say",
                    "Self is the sum of the durations of everything that the operator itself launched, each in full "
                    "even if they overlap. The total includes the operators that it calls. Totals of recursive "
                    "operators count twice.",
                ),
            ),
            (
                Text("define-host-self", "Host self, total"),
                Text(
                    "define-host-self-say",
                    "The total is the operator's duration on the host; self excludes the operators and runtime calls "
                    "inside it.",
                ),
            ),
        ),
    ),
    (
        "kernels",
        (
            (
                Text("define-kernels", "Kernels"),
                Text(
                    "define-kernels-say",
                    "Every kernel of the trace counts, inside or outside of a step. Means of blocks per SM and "
                    "occupancy are weighted by duration.",
                ),
            ),
        ),
    ),
    (
        "kernel_classes",
        (
            (
                Text("define-classes", "Kind of work"),
                Text(
                    "define-classes-say",
                    "Derived from the kernel's name. Kernels whose name does not show their kind count as Other.",
                ),
            ),
        ),
    ),
    (
        "roofline",
        (
            (
                Text("define-limit", "Of the limit"),
                Text(
                    "define-limit-say",
                    "The achieved rate as a share of what the device can reach at the operator's FLOP per byte, "
                    "according to its data sheet. FLOPs and bytes are computed from the input shapes.",
                ),
            ),
        ),
    ),
    (
        "launches",
        (
            (
                Text("define-delay", "Launch delay"),
                Text(
                    "define-delay-say",
                    "From the end of the launch call to the start of the kernel. Long delays mean that work queues up, "
                    "which is good for a GPU.",
                ),
            ),
        ),
    ),
    (
        "synchronizations",
        (
            (
                Text("define-waits", "Waits of the host"),
                Text(
                    "define-waits-say",
                    "Time that the host spends in calls that wait for the device. A wait is costly only if the GPU "
                    "has nothing to do after it.",
                ),
            ),
        ),
    ),
    (
        "copies",
        (
            (
                Text("define-exposed-copies", "Exposed copies"),
                Text("define-exposed-copies-say", "Time of copies and fills while no kernel runs."),
            ),
        ),
    ),
    (
        "communication",
        (
            (
                Text("define-exposed", "Exposed communication"),
                Text("define-exposed-say", "Time of collectives while no other kernel runs on the same GPU."),
            ),
            (
                Text("define-bandwidth", "Algorithm and bus GB/s"),
                Text(
                    "define-bandwidth-say",
                    "As nccl-tests define them: algorithm bandwidth is size over time; bus bandwidth multiplies it "
                    "by a factor that depends on the operation and the number of ranks. Durations include waiting "
                    "for other ranks.",
                ),
            ),
        ),
    ),
    (
        "memory",
        (
            (
                Text("define-allocated", "Allocated, Reserved"),
                Text(
                    "define-allocated-say",
                    "Allocated is what the allocator of PyTorch handed out; reserved is what it holds from the "
                    "driver. Memory of other libraries is in neither.",
                ),
            ),
        ),
    ),
    (
        "modules",
        (
            (
                Text("define-modules", "Modules"),
                Text(
                    "define-modules-say",
                    "Work belongs to the innermost module whose call launched it. The backward pass belongs to the "
                    "module whose forward pass it belongs to.",
                ),
            ),
        ),
    ),
    (
        "timeline",
        (
            (
                Text("define-timeline", "Timeline"),
                Text(
                    "define-timeline-say",
                    "The step whose duration is closest to the median. Slices shorter than a thousandth of it are "
                    "drawn together, with their number.",
                ),
            ),
        ),
    ),
    (
        "runs",
        (
            (
                Text("define-runs", "Profiled time, estimate"),
                Text(
                    "define-runs-say",
                    "A printed table contains only sums. Host and device work at the same time, so a step takes at "
                    "least the larger of the two sums divided by the number of steps.",
                ),
            ),
        ),
    ),
    (
        "ranks",
        (
            (
                Text("define-waiting", "Waiting, Transfer"),
                Text(
                    "define-waiting-say",
                    "In a collective that needs all ranks, the last rank to arrive has the shortest duration, which "
                    "is the transfer. The longer durations of the other ranks include waiting for it. Exposed is the "
                    "part in which no other kernel runs.",
                ),
            ),
        ),
    ),
)
"""Terms by the analysis that a report must have for them to mean anything."""

_SAVING = (
    (
        Text("define-saving", "Saving"),
        Text(
            "define-saving-say",
            "How much shorter a step gets, at least and at most. The other resources limit it, because they still "
            "need their own time.",
        ),
    ),
    (
        Text("define-severity", "Severity, Confidence"),
        Text(
            "define-severity-say",
            "Severity is how much is at stake. Confidence A is exact evidence, B is inferred from names and shapes, C "
            "is a heuristic.",
        ),
    ),
)


def of(report: Report, language: Language) -> list[tuple[str, str]]:
    """Terms of this report with their meaning."""
    pairs = [pair for key, known in _DEFINITIONS if report.analyses.get(key) is not None for pair in known]
    return [(language.text(term), language.text(say)) for term, say in (*pairs, *(_SAVING if report.findings else ()))]
