"""Questions about the program that rules ask before they advise: its kind, and the settings that a capture recorded."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from traceanalyzer.analyzers.communication import Communication
from traceanalyzer.analyzers.compilation import CompiledCode
from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps
from traceanalyzer.analyzers.kernels.convolution_searches import ConvolutionSearches
from traceanalyzer.analyzers.kernels.stretched_kernels import StretchedKernels
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls
from traceanalyzer.analyzers.loader import DataLoader, in_workers
from traceanalyzer.analyzers.memory.cache_clears import CacheClears
from traceanalyzer.analyzers.modules.python_lines import PythonLines
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.steps.outside import NO_STEP
from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks
from traceanalyzer.knowledge import host_roles
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.knowledge.loaders import LoaderMaker, maker_named
from traceanalyzer.rules.engine.facts import STARTUP_SHARE, Facts, if_known
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.structure.recording import HostPart, Outside, Recording
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.recording.workload import COLD_SHARE, PASSES_ALONE

_VERSION = re.compile(r"(<?)(\d{1,3})\.(\d{1,3})")
_COLLECTION = re.compile(r"<built-in function collect>|^gc(\.py)?\b|\bgarbage.?collect", re.IGNORECASE)
_VALUES = 64
"""Bytes of a copy up to which it reads single values (own choice: eight numbers of the longest type)."""
_SCHEDULERS = frozenset({"megatron", "deepspeed", "torchtitan"})
"""Frameworks that run the stages of a pipeline in a schedule of their own settings."""
_IN_GRAPHS = 0.5
"""Own choice: a program whose kernels mostly come from graphs uses graphs."""
_OF_A_MODEL = frozenset({"training", "inference"})
"""Kinds of programs that a pass of a model is."""
_LATE_NS = 100_000_000
"""Least time before the first event that is more than the profiler itself takes to start (own choice)."""
_SHARED_NAMES, _SHARED_PARTS = 5, 5
"""Least number of different kernels, and of ten parts of the recording, with stretched runs (own choice): one may
work on other data, and a warm-up is at the beginning."""
_MOSTLY_OTHER = 0.5
"""Share of the recording from which on other work than the typical steps is what matters (own choice: most of it)."""
_NO_REASON = frozenset({NO_STEP, OTHER_PHASE, UNKNOWN})
"""Reasons why a time is outside of the typical steps that say less than what the host does."""
_NOT_OWN = frozenset({host_roles.LOADER, host_roles.COMPILATION, host_roles.REQUESTS})
"""Roles of host work that other findings, or the headline, tell of."""
_BEGINS_COLD = 0.05
"""Share of an unmarked single pass from which on first calls show that it is a first one (own choice)."""


def workload(facts: Facts) -> str | None:
    """Kind of the program as in the analysis `recording`; None for a printed table."""
    recording = facts.find("recording", Recording)
    return recording.workload if recording and facts.table is None else None


def frameworks(facts: Facts) -> frozenset[str]:
    """Ids of the frameworks that left a sign."""
    recording = facts.find("recording", Recording)
    return frozenset(found.id for found in recording.frameworks) if recording and facts.table is None else frozenset()


def roles(facts: Facts) -> frozenset[str]:
    """Roles of the frameworks that left a sign."""
    shown = frameworks(facts)
    return frozenset(known.role for known in FRAMEWORKS if known.id in shown)


def serves(facts: Facts) -> bool:
    """Whether it is a server, or runs in the engine of one."""
    return workload(facts) == "serving" or "serving" in roles(facts)


def may_train(facts: Facts) -> bool:
    """Whether there may be gradients: a recording of a forward pass alone may be of a training as well."""
    if serves(facts):
        return False
    if workload(facts) == "start-up" and if_known(lambda: facts.operators) and facts.find("passes", Passes) is None:
        return False  # its operators have no numbers of autograd
    return workload(facts) != "inference" or bool(roles(facts) & {"parallel", "training"})


def trains(facts: Facts) -> bool:
    """Whether something shows that the program trains."""
    return (workload(facts) or "").startswith("training") or "training" in roles(facts)


def steps_may_train(facts: Facts) -> bool:
    """Whether the typical steps may train; those of an evaluation beside a training do not."""
    recording = facts.find("recording", Recording)
    evidence = recording.evidence if recording else ()
    return may_train(facts) and not any(sign.kind == PASSES_ALONE for sign in evidence)


def may_schedule_stages(facts: Facts) -> bool:
    """Whether the program itself may choose the schedule of a pipeline: not where a framework does."""
    return may_train(facts) and not frameworks(facts) & _SCHEDULERS


def is_compiled(facts: Facts) -> bool:
    """Whether code of torch.compile ran."""
    found = facts.find("compilation", CompiledCode)
    return found is not None and bool(found.regions)


def computes_on_cpu(facts: Facts) -> bool:
    """Whether a CPU that uses no device computes the operators."""
    return Processor.of(facts).is_cpu


def launches_graphs(facts: Facts) -> bool:
    """Whether the program launches captured graphs."""
    found = facts.find("launches", LaunchFigures)
    return found is not None and bool(found.graphs.launches)


def replays_graphs(facts: Facts) -> bool:
    """Whether most kernel time is launched by captured graphs."""
    found = facts.find("launches", LaunchFigures)
    return found is not None and (found.graphs.kernel_share or 0.0) >= _IN_GRAPHS


def steps_environment(facts: Facts) -> bool:
    """Whether Python frames show that an environment of reinforcement learning is stepped."""
    checks = facts.find("distribution_checks", DistributionChecks)
    return checks is not None and checks.environment is not None


def collects_garbage(facts: Facts) -> bool:
    """Whether the recording shows Python's garbage collection at work."""
    found = facts.find("python_lines", PythonLines)
    return found is not None and any(_COLLECTION.search(row.name) for row in found.rows)


def has_loader(facts: Facts) -> bool:
    """Whether the recording shows waits for a DataLoader, or a capture recorded one."""
    if facts.capture is not None and facts.capture.facts.loaders:
        return True
    if facts.table is not None:
        return bool(facts.table.dataloader_ns)
    return bool(facts.resources.loader_ns) or facts.find("dataloader", DataLoader) is not None


def loader_maker(facts: Facts) -> LoaderMaker | None:
    """The library that makes the loader which is waited for longest; None for the program's own, or unknown."""
    found = facts.find("dataloader", DataLoader)
    return maker_named(found.loaders[0].made_by) if found and found.loaders else None


def has_torch(facts: Facts, version: tuple[int, int]) -> bool:
    """Whether the program may have run on this version of torch or a newer one; what is unknown may."""
    found = _VERSION.match((facts.summary.torch_version if facts.summary else None) or "")
    if found is None:
        return True
    older, *numbers = found.groups()
    known = int(numbers[0]), int(numbers[1])
    return known > version if older else known >= version


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


def searches(facts: Facts) -> ConvolutionSearches | None:
    """The search for algorithms of convolutions, if it comes again in most typical steps; else None."""
    recording, found = facts.find("recording", Recording), facts.find("convolution_searches", ConvolutionSearches)
    if recording is None or recording.typical is None or found is None:
        return None
    steps = recording.typical.steps
    return found if steps > 1 and 2 * found.steps > steps else None


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


def is_cold_pass(facts: Facts) -> bool:
    """Whether a trace has one step, in which first uses take a good part of the time: others take less."""
    recording = facts.find("recording", Recording)
    if recording is None or len(recording.steps) > 1 or not facts.step_ns:
        return False
    return max(facts.startup_per_step, recording.first_calls_ns) >= COLD_SHARE * facts.step_ns


def begins_cold(facts: Facts) -> bool:
    """Whether first calls show that a trace of one unmarked pass has the first of a program, whatever they take."""
    recording = facts.find("recording", Recording)
    if recording is None or recording.steps_from != WHOLE or recording.workload not in _OF_A_MODEL:
        return False
    return recording.first_calls_ns >= _BEGINS_COLD * facts.step_ns > 0


_WITH_WEIGHTS = frozenset({"aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d"})
"""Operators whose second input is a layer's weight."""
_EXPERTS = range(4, 513)
"""Own choice: numbers of experts; a choice among more is one of tokens."""
_MOST_EXPERTS = 0.5
"""Part of the experts for which a size is asked for, if a loop goes over them (own choice: no token may choose one)."""


def start_up(facts: Facts) -> tuple[float, float] | None:
    """Loading and compiling of a recording of one typical step, and its length, in ns, if that is most of it.

    Steps that end with an optimizer's begin after the first of them; what comes before them is start-up, too.
    """
    recording, calls = facts.find("recording", Recording), facts.find("runtime_calls", RuntimeCalls)
    if recording is None or calls is None or recording.window is None or recording.typical is None:
        return None
    if recording.steps_from == WHOLE:
        return None  # all of it is in the step
    whole = recording.window.end_ns
    is_most = recording.typical.steps == 1 and whole > 0 and calls.code_ns >= STARTUP_SHARE * whole
    return (float(calls.code_ns), float(whole)) if is_most else None


def has_warm_steps(facts: Facts) -> bool:
    """Whether steps are left out, and others are typical ones, which say what the program does after its start."""
    recording = facts.find("recording", Recording)
    if recording is None or recording.typical is None or start_up(facts) is not None:
        return False
    return recording.typical.steps < len(recording.steps)


def set_up_of_steps(facts: Facts, calls: RuntimeCalls) -> tuple[float, float]:
    """Loading and compiling within the steps of a recording, and their time, in ns."""
    recording = facts.find("recording", Recording)
    code_ns = calls.code_ns if recording is None else min(calls.code_ns, recording.startup_ns)
    return float(code_ns), facts.recorded_steps_ns


def waited_before_ns(facts: Facts) -> int:
    """Time before the first event of a trace, in ns, if it is most of the recording; else 0."""
    recording = facts.find("recording", Recording)
    before = (recording and recording.window and recording.window.before_first_event_ns) or 0
    whole = before + (facts.summary.span_ns if facts.summary else before)
    return before if 2 * before >= whole and before >= _LATE_NS else 0


def is_one_process_of_several_gpus(facts: Facts) -> bool:
    """Whether one process drives all GPUs that communicate, as in nn.DataParallel: it has no other ranks."""
    world = facts.summary.world_size if facts.summary is not None else None
    found = facts.find("communication", Communication)
    return found is not None and len(found.devices) > 1 and (world or 1) == 1 and facts.find("ranks", Ranks) is None


def may_hide_waits(facts: Facts) -> bool:
    """Whether other ranks that are not recorded may be waited for."""
    return "ranks" not in facts.results and not is_one_process_of_several_gpus(facts)


def shares_gpu(facts: Facts, found: StretchedKernels, runs: float = 10, share: float = 0.03) -> bool:
    """Whether so many runs of so many kernels are stretched, for so much of a step, that another process is why."""
    if found.stretched < runs or found.names < _SHARED_NAMES or found.parts < _SHARED_PARTS:
        return False
    return facts.step_share(facts.per_step(found.beyond_ns)) > share


def share_of_recording(facts: Facts, share: float) -> float:
    """A share of a step as one of the recording, if that is one step after a long wait for what comes but once.

    So it is where most of the recording is other work, which comes again and again between the steps.
    """
    recording = facts.find("recording", Recording)
    if (steps := steps_share(facts)) is not None:
        return share * steps
    waited = waited_before_ns(facts)
    if not waited or recording is None or recording.steps_from != WHOLE:
        return share
    return share * facts.step_ns / (facts.step_ns + waited)


def steps_share(facts: Facts) -> float | None:
    """Share of the recording that the typical steps are, where most of it is other work that comes again; else None."""
    recording = facts.find("recording", Recording)
    if recording is None or facts.summary is None or not other_work(facts):
        return None
    return 1 - (recording.outside_ns or 0) / facts.summary.span_ns


def other_work(facts: Facts) -> tuple[Outside, ...]:
    """Times outside of the typical steps with the same owner, if they come again and are most of the recording."""
    recording, summary = facts.find("recording", Recording), facts.summary
    if recording is None or summary is None or recording.steps_from == WHOLE:
        return ()
    found: defaultdict[HostPart, list[Outside]] = defaultdict(list)
    for part in recording.outside:
        if part.owner is not None and part.reason in _NO_REASON and part.owner.role not in _NOT_OWN:
            found[replace(part.owner, time_ns=0)].append(part)
    parts = max(found.values(), key=_time_of, default=[])
    is_most = _time_of(parts) >= _MOSTLY_OTHER * summary.span_ns
    return tuple(parts) if len(parts) > 1 and is_most else ()


def _time_of(parts: Sequence[Outside]) -> int:
    return sum((part.duration_ns for part in parts), 0)


def copies_weights(facts: Facts) -> bool:
    """Whether most of what copies bring has the sizes of weights of layers: a model that is kept on the CPU.

    The weights of a layer may lie in one flat tensor, so that their numbers of elements count, not their shapes.
    """
    shaped = if_known(lambda: facts.shaped)
    weights = {prod(row.inputs.shape(1) or (0,)) for row in shaped if row.name in _WITH_WEIGHTS} - {0}
    copied = [
        (row.device_self_ns, prod(row.inputs.shape(0) or (0,)) in weights)
        for row in shaped
        if row.name == "aten::copy_"
    ]
    of_weights = sum(ns for ns, is_weight in copied if is_weight)
    return 2 * of_weights > sum(ns for ns, _ in copied)


def loops_over_experts(facts: Facts) -> bool:
    """Whether operators that wait for a size are called for about each expert that tokens choose among."""
    shaped = if_known(lambda: facts.shaped)
    chosen = [(row.inputs.shape(0) or (0,), row.calls) for row in shaped if row.name == "aten::topk"]
    experts = sum(last * calls for (*tokens, last), calls in chosen if last in _EXPERTS and prod(tokens) > 1)
    sized = sum(row.calls for row in if_known(lambda: facts.operators) if row.name == "aten::nonzero")
    return sized >= _MOST_EXPERTS * experts > 0


def reads_only_values(facts: Facts) -> bool:
    """Whether the program copies something from its device, and nothing larger than a few values."""
    copies = facts.find("copies", Copies)
    read = [row for row in (copies.rows if copies else ()) if row.kind == "DtoH"]
    return bool(read) and all(row.bytes is not None and row.bytes <= _VALUES * row.calls for row in read)


def cache_clears(facts: Facts) -> CacheClears | None:
    """How often the allocator's cache is emptied; None of a program that never does."""
    return facts.find("cache_clears", CacheClears)
