"""Serving of a language model: decode steps that replay a captured graph."""

from __future__ import annotations

from dataclasses import replace

from ..hardware import H100
from ..timeline import Host, Pace, Stream, Work, finish
from ..trace import TraceBuilder

_LAYERS = 4
_BATCH = 8
_VOCABULARY = 32_000


def _gemm(tile: str, dur: str, blocks: int) -> Work:
    return Work(f"nvjet_tst_{tile}_64x12_2x1_v_bz_TNT", dur, (blocks, 1, 1), (384, 1, 1), 168, 213_248, 18)


_NORM = Work(
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, float, int, int)",
    "2.4",
    (_BATCH, 1, 1),
    (256, 1, 1),
    32,
    132,
    1,
)
_ROPE = Work(
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*)",
    "2.1",
    (_BATCH, 1, 1),
    (512, 1, 1),
    24,
    0,
    3,
)
_CACHE = Work(
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, 0>(__nv_bfloat16 const*)",
    "1.9",
    (_BATCH, 1, 1),
    (256, 1, 1),
    30,
    0,
    1,
)
_ATTENTION = Work(
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t>, "
    "false, false, false, true>(flash::Flash_fwd_params)",
    "7.8",
    (1, 4, 64),
    (128, 1, 1),
    255,
    81_920,
    12,
)
_GATE = Work(
    "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)",
    "2.6",
    (_BATCH, 1, 1),
    (1024, 1, 1),
    28,
    0,
    6,
)
_LAYER = (
    _NORM,
    _gemm("64x8", "6.3", 48),
    _ROPE,
    _CACHE,
    _ATTENTION,
    _gemm("64x8", "5.2", 32),
    _NORM,
    _gemm("128x8", "14.9", 128),
    _GATE,
    _gemm("64x16", "9.7", 64),
)
_GRAPH = _LAYER * _LAYERS + (_NORM, replace(_gemm("192x8", "38.6", 168), registers=152))
_ARGMAX = Work(
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, "
    "at::native::ArgMaxOps<float>, unsigned int, long, 4> >(at::native::ReduceOp<c10::BFloat16>)",
    "9.4",
    (_BATCH, 1, 1),
    (512, 1, 1),
    40,
    4096,
    4,
)


def serving_graphs() -> TraceBuilder:
    """Twelve decode steps, one `cudaGraphLaunch` of 42 kernels each, and no `ProfilerStep`."""
    metadata = {"cuda_runtime_version": 12080, "cuda_driver_version": 12080, "cupti_version": 26}
    trace = TraceBuilder(
        devices=(H100,),
        options=("record_shapes",),
        origin="1419247332972.313",
        metadata=metadata,
        margins=(40, 60),
    )
    pace = Pace(11)
    host, stream = Host(trace, at=50, pace=pace), Stream(7, pace=pace)
    for step in range(12):
        with host.annotation(f"execute_context_0(0)_generation_{_BATCH}({_BATCH + step})", 35, 10):
            _prepare(host, stream)
            host.graph(_GRAPH, stream)
            host.work(25)
        _sample(host, stream)
        host.work(180)
    return finish(trace, stream)


def _prepare(host: Host, stream: Stream) -> None:
    """Copy tokens and positions into the graph's static buffers."""
    for _ in range(2):
        shapes, types = [[_BATCH], [_BATCH], []], ["long int", "long int", "Scalar"]
        with host.op("aten::copy_", 4, 2, shapes=shapes, types=types):
            host.copy("HtoD", 8 * _BATCH, stream, dur="1.2", pinned=True)
        host.work(9)


def _sample(host: Host, stream: Stream) -> None:
    shapes, types = [[_BATCH, _VOCABULARY], [], []], ["c10::BFloat16", "Scalar", "Scalar"]
    with host.op("aten::argmax", 6, 2, shapes=shapes, types=types):
        host.launch(_ARGMAX, stream)
    with host.op("aten::to", 2, 1), host.op("aten::_to_copy", 3, 1), host.op("aten::copy_", 4, 2):
        host.copy("DtoH", 8 * _BATCH, stream, dur="1.6", wait=True)
