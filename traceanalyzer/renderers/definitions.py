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
                    "From the start of the first to the end of the last step. Shares are of the window unless said "
                    "otherwise.",
                ),
            ),
            (
                Text("define-parts", "Parts of a step"),
                Text(
                    "define-parts-say",
                    "Every nanosecond belongs to the first of these that is active: Kernel, Memcpy, Memset, "
                    "Communication, Runtime, DataLoader, CPU Exec, Other. So the parts sum to the step, and a part is "
                    "only what nothing before it hides.",
                ),
            ),
        ),
    ),
    (
        "phases",
        (
            (
                Text("define-phases", "Phases"),
                Text(
                    "define-phases-say",
                    "Ranges that people or frameworks set. Host is their duration, Device the time of what was "
                    "launched inside them, each in full, Idle the time in which no device works meanwhile; self is "
                    "without the ranges inside. Times per step are those of the whole trace over all its steps. What "
                    "autograd launches on its own threads belongs to the range that waits for it. A pass that has no "
                    "range is inferred from what autograd does.",
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
                Text("define-busy-say", "Share in which a kernel, copy or fill runs; idle is the rest."),
            ),
            (
                Text("define-efficiency", "Est. SM efficiency"),
                Text(
                    "define-efficiency-say",
                    "Integral over the window of min(1, sum of the blocks per SM of the running kernels), over the "
                    "length of the window. An estimate of the profiler.",
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
                    "Share of kernel time in kernels whose names tell that they use matrix units.",
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
                    "Every nanosecond of idle time belongs to one cause: what the launching thread did while the GPU "
                    "waited for it, or a pause between kernels that were queued already. The causes of a GPU sum to "
                    "its idle time.",
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
                    "Durations of what an operator itself launched, each in full, overlap or not; the total includes "
                    "the operators that it calls. Totals of recursive operators count twice.",
                ),
            ),
            (
                Text("define-host-self", "Host self, total"),
                Text(
                    "define-host-self-say",
                    "The total is the duration on the host; self is without the operators and runtime calls inside.",
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
                    "Every kernel of the trace counts, inside a step or not. Means of blocks per SM and occupancy are "
                    "weighted by duration.",
                ),
            ),
        ),
    ),
    (
        "kernel_classes",
        (
            (
                Text("define-classes", "Kind of work"),
                Text("define-classes-say", "By the name of the kernel; a name that does not tell counts as Other."),
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
                    "The achieved rate over what the device can do at the operator's FLOP per byte, by its data sheet. "
                    "FLOPs and bytes follow from the input shapes.",
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
                    "Time of the host in calls that wait for the device. A wait costs only where the GPU has nothing "
                    "to do after it.",
                ),
            ),
        ),
    ),
    (
        "copies",
        (
            (
                Text("define-exposed-copies", "Exposed copies"),
                Text("define-exposed-copies-say", "Time of copies and fills in which no kernel runs."),
            ),
        ),
    ),
    (
        "communication",
        (
            (
                Text("define-exposed", "Exposed communication"),
                Text("define-exposed-say", "Time of collectives in which no other kernel of the same GPU runs."),
            ),
            (
                Text("define-bandwidth", "Algorithm and bus GB/s"),
                Text(
                    "define-bandwidth-say",
                    "As nccl-tests define them: size over time, and that times a factor of the operation and the "
                    "number of ranks. Durations include waiting for other ranks.",
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
                    "What the allocator of PyTorch handed out, and what it holds from the driver. What other libraries "
                    "take is in neither.",
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
                    "What a call launches belongs to the innermost module around it; the backward pass belongs to the "
                    "module whose forward pass made it necessary.",
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
                    "The step whose duration is nearest to the median. Slices shorter than a thousandth of it are "
                    "drawn together and say how many they are.",
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
                    "A printed table holds sums only. Host and device work at the same time, so a step takes at least "
                    "the larger of the two sums, over the number of steps.",
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
                    "In a collective that needs all ranks, the one that comes last has the shortest duration: that is "
                    "transfer, and what the others take longer is waiting for it. Exposed is the part in which no "
                    "other kernel runs.",
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
            "What a step gets shorter by, at least and at most: never more than the other resources allow, because "
            "they take their time whatever one of them does.",
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
