"""What findings say, computed once more from raw events: one function per rule.

An oracle: it shares no code with the package. Each function follows the page of its rule in its own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from tests.rules.raw.case import Case, Figure, dims, named, types
from tests.rules.raw.events import CALLS, Event, Span, between, common, length, union, without
from tests.rules.raw.passes import elementwise_fusion_chain

_EXCHANGES = re.compile(
    r"^(nccl|rccl)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|(internode|intranode)|nvshmem|deep_ep|symm_mem",
    re.I,
)
_PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::_scaled_mm")
_ALLOCATES = re.compile(
    r"^(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree|MallocAsync|FreeAsync|MallocHost|HostRegister)"
)
_WAITS = re.compile(r"Synchronize|WithStream|^(cuda|hip)Memcpy$")


def allocator_malloc_in_step(case: Case) -> Iterator[Figure]:
    """The calls of the driver that allocate or free, by thread."""
    found = [call for call in case.raw.host if call.category in CALLS and _ALLOCATES.match(call.name)]
    threads = {place["thread"] for place in case.finding["where"]}
    own = [call for call in found if f"{call.place[0]}/{call.place[1]}" in threads]
    yield Figure("calls take", case.params["all"], case.events_per_step(own), 0.01)
    yield Figure("calls", case.params["calls"], len(case.marks(_ALLOCATES.pattern)) / len(case.typical), 0.01)
    yield case.stray([call.span for call in found], "call")


def attention_unfused(case: Case) -> Iterator[Figure]:
    """Kernels of operators on tensors with the shape of the scores, and of the products that make them."""
    scores = [int(size) for size in re.findall(r"\d+", case.params["shape"])]

    def is_on_scores(operator: Event) -> bool:
        shapes = dims(operator)
        if any(shape[-2:] == scores[-2:] and prod(shape) == prod(scores) for shape in shapes):
            return True
        if operator.name not in _PRODUCTS or len(shapes) < 2:
            return False
        rows, columns = shapes[-2][-2], shapes[-1][-1]
        return [rows, columns] == scores[-2:] and prod(shapes[-2][:-2]) == prod(scores[:-2])

    own = [work for work in case.work if any(is_on_scores(operator) for operator in work.operators[:1])]
    yield Figure("work on scores", case.params["time"], case.events_per_step(own), 0.01)
    yield Figure("its share", case.params["share"], case.events_per_step(own) / case.events_per_step(case.work), 0.01)
    yield case.stray([work.span for work in own], "device")


def comm_exposed(case: Case) -> Iterator[Figure]:
    """Kernels that communicate, and the part of them beside which nothing else runs on the device."""
    own = union(kernel.span for kernel in case.kernels if _EXCHANGES.search(kernel.name))
    others = union(work.span for work in case.work if not _EXCHANGES.search(work.name))
    exposed = case.per_step(without(own, others))
    yield Figure("communication", case.params["total"], case.per_step(own))
    yield Figure("exposed", case.params["exposed"], exposed)
    yield Figure("share in ppm", case.params["share"] * 1e6, exposed / case.step_ns * 1e6)
    yield case.stray(own, "device")


def copies_materialized(case: Case) -> Iterator[Figure]:
    """Copies on the device that change no type, below operators that make a tensor contiguous."""
    asks = re.compile(r"aten::(contiguous|clone|reshape|repeat|_reshape_copy|flatten|tile)$")

    def is_one(work: Event) -> bool:
        above = work.operators
        if not above or not any(asks.match(operator.name) for operator in above):
            return False
        copies = [operator for operator in above if operator.name == "aten::copy_"]
        return bool(copies) and len(set(types(copies[0])[:2])) < 2

    own = [work for work in case.work if is_one(work)]
    yield Figure("copies", case.params["copies"], len(own) / len(case.typical), is_limit=True)
    yield Figure("their time", case.params["time"], case.events_per_step(own), 0.01)
    yield case.stray([work.span for work in own], "device")


def dataloader_bound(case: Case) -> Iterator[Figure]:
    """Calls that wait for a batch, while the device does nothing."""
    waits = union(call.span for call in named(case.raw.host, r"^enumerate\(Data(Loader|Pipe)\)"))
    yield Figure("waits", case.params["wait"], case.per_step(common(waits, case.idle)), 0.01)
    yield case.stray(common(waits, case.idle), "host")


def ddp_buffer_broadcast(case: Case) -> Iterator[Figure]:
    """The begin of DistributedDataParallel.forward, up to the last copy of a broadcast buffer."""
    parts = []
    for call in case.marks(r"^DistributedDataParallel\.forward"):
        inside = [c for c in case.raw.threads[f"{call.place[0]}/{call.place[1]}"] if c.parent is call]
        first = next((c for c in inside if re.search(r"conv|linear|embedding|batch_norm", c.name)), None)
        before = [c for c in inside if first is None or c.start < first.start]
        last = max((c.end for c in before if re.search(r"copy_|unflatten|broadcast", c.name)), default=call.start)
        parts.append((call.start, last))
    yield Figure("host", case.params["host"], case.per_step(parts), 0.02)
    yield Figure("idle", case.params["time"], case.per_step(common(union(parts), case.idle)), 0.02)
    yield case.stray(common(union(parts), case.idle), "idle")


def fp64_on_gpu(case: Case) -> Iterator[Figure]:
    """Kernels on doubles, by their names or the types of their operators; what only converts to doubles is left out."""

    def is_double(kernel: Event) -> bool:
        if any(operator.name == "aten::copy_" for operator in kernel.operators[:1]):
            return False
        is_named = re.search(r"\bdouble\b|dgemm|_f64", kernel.name) is not None
        return is_named or any(types(operator)[:1] == ["double"] for operator in kernel.operators[:1])

    own = [kernel for kernel in case.kernels if is_double(kernel)]
    yield Figure("in fp64", case.params["time"], case.events_per_step(own), 0.01)
    yield case.stray([kernel.span for kernel in own], "device")


def gemm_below_roof(case: Case) -> Iterator[Figure]:
    """Products: their time, and what they multiply by the shapes of their operators."""
    own = [kernel for kernel in case.kernels if any(o.name in _PRODUCTS for o in kernel.operators[:1])]
    flops = 0
    for kernel in own:
        operator = kernel.operators[0]
        one, other = dims(operator)[1:3] if "add" in operator.name else dims(operator)[:2]
        flops += 2 * prod(one) * other[-1]
    time = case.events_per_step(own)
    yield Figure("products", case.params["time"], time, 0.01)
    yield Figure("GFLOP/s", case.params["rate"] * 1000, flops / time / len(case.typical), 0.01)
    yield case.stray([kernel.span for kernel in own], "device")


def h2d_pageable(case: Case) -> Iterator[Figure]:
    """Copies from pageable memory, and the part of them beside which no kernel runs."""
    own = [work for work in case.work if "HtoD (Pageable" in work.name]
    alone = without(union(work.span for work in own), union(kernel.span for kernel in case.kernels))
    here = [work for work in own if common([work.span], case.times)]
    yield Figure("alone", case.params["time"], case.per_step(alone), 0.01)
    yield Figure("bytes", case.params["bytes"], sum(int(w.args["bytes"]) for w in here) / len(case.typical), 0.01)
    yield case.stray(alone, "device")


def _open_calls(case: Case) -> list[Span]:
    """When threads that launch work have an operator or a call of the driver open."""
    threads = {call.place for call in case.raw.launches if call.category in CALLS}
    wanted = (*CALLS, "cpu_op", "operator")
    return union(call.span for call in case.raw.host if call.place in threads and call.category in wanted)


def host_python_gap(case: Case) -> Iterator[Figure]:
    """Idle time of the device in which no call launches anything, and its part without a call."""
    listed = case.spans("idle")
    total = case.params["time"] * len(case.typical)
    omitted = sum(place["omitted_ns"] for place in case.finding["where"])
    yield Figure("gaps", total, length(listed) + omitted)
    yield case.stray(case.idle, "idle")
    launches = union(call.span for call in case.raw.launches if call.category in CALLS)
    yield Figure("no launch inside", length(listed), length(without(listed, launches)), 0.05)
    if not omitted:
        silent = length(without(listed, _open_calls(case)))
        yield Figure("without a call", case.params["silent"] * len(case.typical), silent, 0.07, is_limit=True)


def host_stalls(case: Case) -> Iterator[Figure]:
    """Operators and launch calls with at least 3 ms in which nothing is recorded inside: those that are listed."""
    inside: dict[int, list[Span]] = {}
    for call in case.raw.host:
        if call.parent is not None:
            inside.setdefault(id(call.parent), []).append(call.span)
    listed, found = case.spans("host"), []
    for call in case.raw.host:
        if call.category in ("cpu_op", *CALLS) and call.ns >= 3_000_000:
            alone = common(without([call.span], union(inside.get(id(call), []))), case.times)
            if length(alone) >= 3_000_000 and common(alone, listed):
                found.append((length(alone), alone))
    yield Figure("stalls", case.params["stalls"], len(found) / len(case.typical), 0.01)
    yield Figure("longest", case.params["longest"], max(ns for ns, _ in found), 0.01)
    yield Figure("time", case.params["time"], sum(ns for ns, _ in found) / len(case.typical), 0.01)
    yield case.stray((span for _, alone in found for span in alone), "host")


def launch_bound_small_kernels(case: Case) -> Iterator[Figure]:
    """Idle time that ends with a kernel whose launch came after the device had nothing to do."""
    late = []
    for start, end in case.idle:
        following = between(case.work, end, end + 1)
        if any(work.parent is None or work.parent.end > start for work in following):
            late.append((start, end))
    listed = case.spans("idle")
    yield case.stray(late, "idle")
    omitted = sum(place["omitted_ns"] for place in case.finding["where"])
    yield Figure("gaps", case.params["time"] * len(case.typical), length(listed) + omitted)
    launched = [w for w in case.work if any(s <= w.start < e for s, e in case.times)]
    yield Figure("launches", case.params["launches"], len(launched) / len(case.typical), 0.01)


def _fp32(kernel: Event) -> str | None:
    """What kind of fp32 product a kernel is."""
    if re.search(r"fmha.*f32|flash.*float\b|efficient_attention.*float", kernel.name):
        return "attention"
    if re.search(r"tf32|s1688", kernel.name):
        return "tf32"
    if re.search(r"sgemm|scudnn|simt|gemmSN|ffma|winograd|(dgrad|wgrad|fprop)\w*engine<float", kernel.name):
        return "products"
    return None


_BANDWIDTH = {"A100": (19.5e12, 1.555e12), "V100": (14e12, 0.9e12)}
"""Operations in fp32 and bytes of memory, per second (data sheets of NVIDIA)."""


def is_bound_by_memory(case: Case, kernel: Event) -> bool:
    """Whether the operands of a product take longer than its arithmetic."""
    operator = next((o for o in kernel.operators[:1] if o.name in _PRODUCTS), None)
    if operator is None:
        return False
    one, other = dims(operator)[1:3] if "add" in operator.name else dims(operator)[:2]
    flops, sizes = 2 * prod(one) * other[-1], prod(one) + prod(other) + prod(one[:-1]) * other[-1]
    name = next(one["name"] for one in case.raw.properties)
    rate, bandwidth = next(known for part, known in _BANDWIDTH.items() if part in name)
    return 4 * sizes / bandwidth > flops / rate


def mixed_precision_unused(case: Case) -> Iterator[Figure]:
    """Products and attention in fp32, by the names of their kernels."""
    own = [k for k in case.kernels if (kind := _fp32(k)) and (kind != "products" or not is_bound_by_memory(case, k))]
    yield Figure("in fp32", case.params["time"], case.events_per_step(own), 0.01)
    for part in case.params["parts"]:
        kind = part["id"].rpartition("-")[2]
        some = [kernel for kernel in own if _fp32(kernel) == kind]
        yield Figure(kind, part["params"]["time"], case.events_per_step(some), 0.01)
    yield case.stray([kernel.span for kernel in own], "device")


def optimizer_not_fused(case: Case) -> Iterator[Figure]:
    """The marks of the optimizer, and what is launched in them."""
    marks = case.marks("^" + re.escape(case.params["optimizer"]) + "$")
    own = [kernel for kernel in case.raw.device if any(call in marks for call in kernel.above())]
    yield Figure("launches", case.params["launches"], len(own) / len(case.typical), 0.01)
    # times in which a thread stands still are not counted
    yield Figure("host", case.params["host"], case.events_per_step(marks), 0.1)
    yield Figure("device", case.params["device"], sum(k.ns for k in own) / len(case.typical), 0.01)
    yield case.stray([call.span for call in marks], "host")


_INPUTS = r"image_processing|video_processing|video_utils|transforms|tokeniz|preprocess"


def preprocessing_in_step(case: Case) -> Iterator[Figure]:
    """Idle time of the device within the function that the finding names."""
    listed = case.spans("idle", "host")
    file, function = re.findall(r"[\w.]+", case.params["owner"])
    inputs = union(call.span for call in case.raw.host if re.search(_INPUTS, call.name))
    named_one = union(
        call.span for call in case.raw.host if f"{file}(" in call.name and call.name.endswith(f": {function}")
    )
    yield Figure("idle", case.params["time"], case.per_step(common(inputs, case.idle)), 0.06)
    yield Figure("in the function at least", length(listed) / 10, length(common(named_one, listed)), is_limit=True)
    yield case.stray(inputs, "idle", "host", tolerance=0.03)


def sm_underfilled(case: Case) -> Iterator[Figure]:
    """Kernels with fewer blocks than the device has multiprocessors, if they take 10 us or more as a mean."""
    number = next(one["numSms"] for one in case.raw.properties if one["id"] == case.device)
    kinds: dict[Any, list[Event]] = {}
    for kernel in case.kernels:
        if 0 < prod(kernel.args.get("grid") or [0]) < number and common([kernel.span], case.times):
            kinds.setdefault((kernel.name, str(kernel.args["grid"])), []).append(kernel)
    own = [kernel for kind in kinds.values() if sum(k.ns for k in kind) >= 10_000 * len(kind) for kernel in kind]
    time = case.events_per_step(own)
    fill = sum(case.events_per_step([kernel]) * prod(kernel.args["grid"]) / number for kernel in own) / time
    yield Figure("underfilled", case.params["time"], time, 0.01)
    yield Figure("fill in ppm", case.params["fill"] * 1e6, fill * 1e6, 0.01)
    yield case.stray([kernel.span for kernel in own], "device")


def sync_between_launches(case: Case) -> Iterator[Figure]:
    """Waits, what is launched, and idle time after waits."""
    waits = [call for call in case.marks(_WAITS.pattern) if call.category in CALLS]
    yield Figure("waits", case.params["waits"], len(waits) / len(case.typical), 0.01)
    launched = [w for w in case.work if any(s <= w.start < e for s, e in case.times)]
    yield Figure("launches", case.params["launches"], len(launched) / len(case.typical), 0.01)
    yield case.stray(case.idle, "idle")


def tensor_cores_unused(case: Case) -> Iterator[Figure]:
    """Products and convolutions in fp32 on ordinary cores, by the names of their kernels."""
    own = [kernel for kernel in case.kernels if _fp32(kernel) == "products"]
    yield Figure("in fp32", case.params["time"], case.events_per_step(own), 0.02)
    yield case.stray([kernel.span for kernel in own], "device")


def dtype_cast_churn(case: Case) -> Iterator[Figure]:
    """Copies between two floating types of tensors that the forward pass casts there and back."""
    floating = {"double", "float", "c10::Half", "c10::BFloat16"}
    made = [work for work in case.kernels if work.operators and work.operators[0].name == "aten::copy_"]
    kinds = [(str(dims(work.operators[0])), *types(work.operators[0])[:2]) for work in made]
    casts = [(kind, work) for kind, work in zip(kinds, made, strict=True) if len(set(kind[1:]) & floating) == 2]
    forward = {kind for kind, work in casts if not any("autograd::" in above.name for above in work.operators)}
    both = {shape for shape, to, source in forward if (shape, source, to) in forward}
    own = [work for kind, work in casts if kind[0] in both]
    yield Figure("casts", case.params["casts"], len(own) / len(case.typical), 0.01)
    yield Figure("their time", case.params["time"], case.events_per_step(own), 0.01)
    yield case.stray([work.span for work in own], "device")


def weights_cast_in_step(case: Case) -> Iterator[Figure]:
    """Copies from float to 16 bits that an operator with weights makes."""
    own = []
    calls = named(case.raw.host, r"^aten::(linear|conv1d|conv2d)$")
    inputs = {str(dims(layer)[0]) for layer in calls if dims(layer)}
    for kernel in case.kernels:
        above = kernel.operators
        layers = [o for o in above if o.name in ("aten::linear", "aten::conv1d", "aten::conv2d", "aten::_convolution")]
        if not layers or above[0].name != "aten::copy_" or len(dims(layers[-1])) < 2:
            continue
        is_cast = types(above[0])[:2] in (["c10::Half", "float"], ["c10::BFloat16", "float"])
        shape = dims(above[0])[0]
        if is_cast and shape in dims(layers[-1])[1:] and str(shape) not in inputs:
            own.append(kernel)
    yield Figure("casts", case.params["casts"], len(own) / len(case.typical), 0.01)
    yield Figure("their time", case.params["time"], case.events_per_step(own), 0.01)
    yield case.stray([kernel.span for kernel in own], "device")


def zero_grad_fill(case: Case) -> Iterator[Figure]:
    """The marks of zero_grad, what is filled in them, and when the device does nothing meanwhile."""
    marks = case.marks(r"Optimizer\.zero_grad")
    spans = union(call.span for call in marks)
    fills = [c for start, end in spans for c in between(named(case.raw.host, r"^aten::(zero_|fill_)$"), start, end)]
    outermost = [call for call in fills if not any(above.name == "aten::zero_" for above in call.above())]
    yield Figure("fills", case.params["fills"], len(outermost) / len(marks), 0.01)
    yield Figure("host", case.params["host"], case.per_step(spans), 0.01)
    yield Figure("idle", case.params["idle"], case.per_step(common(spans, case.idle)), 0.02)
    yield case.stray(spans, "host")


CHECKS: dict[str, Callable[[Case], Iterator[Figure]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        allocator_malloc_in_step,
        attention_unfused,
        comm_exposed,
        copies_materialized,
        dataloader_bound,
        ddp_buffer_broadcast,
        dtype_cast_churn,
        elementwise_fusion_chain,
        fp64_on_gpu,
        gemm_below_roof,
        h2d_pageable,
        host_python_gap,
        host_stalls,
        launch_bound_small_kernels,
        mixed_precision_unused,
        optimizer_not_fused,
        preprocessing_in_step,
        sm_underfilled,
        sync_between_launches,
        tensor_cores_unused,
        weights_cast_in_step,
        zero_grad_fill,
    )
}
