"""GPUs that people have, and how long kernels take on them: what their data sheets allow, less what kernels reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from tests.builders import A100, H100, Device, Work

Shape = tuple[int, ...]
_SHARED = {"regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 101376, "sharedMemPerMultiprocessor": 102400}
_LOCAL = "at::native::(anonymous namespace)::"
WIDTHS = {"float": 4, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "int": 4, "bool": 1, "unsigned char": 1}
"""Bytes of an element by the name that torch gives its type."""
_KERNEL_TYPES = {"c10::Half": "c10::Half", "c10::BFloat16": "c10::BFloat16"}


@dataclass(frozen=True)
class Card:
    """A GPU with what its kernels reach. Products: a type to TFLOP/s; memory: GB/s."""

    device: Device
    products: Mapping[str, float]
    memory: float
    gemm: Mapping[str, str]
    """From a type to the name of the library's kernel; {} is how its operands lie."""
    convolution: Mapping[str, str]
    """From a pass (fprop, dgrad, wgrad) to the name of the library's kernel."""
    convolved: float
    """TFLOP/s of convolutions, which use TF32 where there is any."""
    bus: float = 12.0
    """GB/s of a copy from pinned memory."""

    def product(self, m: int, n: int, k: int, dtype: str = "float", layout: str = "tn") -> Work:
        """The product of matrices of m x k and k x n."""
        dur = 2.0 * m * n * k / self.products[dtype] / 1e6
        moved = WIDTHS[dtype] * (m * k + k * n + m * n) / self.memory / 1e3
        tiles = ceil(m / 128) * ceil(n / 64)
        return Work(self.gemm[dtype].format(layout), took(dur, moved, 4.0), (tiles, 1, 1), (256, 1, 1), 122, 32_768, 25)

    def convolve(self, image: Shape, kernel: Shape, out: Shape, kind: str = "fprop") -> Work:
        """A convolution of an image (n, c, h, w) with a kernel (out, in, r, s), or a pass back through it."""
        dur = 2.0 * prod(out) * prod(kernel[1:]) / self.convolved / 1e6
        moved = 4 * (prod(image) + prod(out) + prod(kernel)) / self.memory / 1e3
        blocks = ceil(prod(out) / kernel[0] / 128) * ceil(kernel[0] / 64)
        return Work(self.convolution[kind], took(dur, moved, 6.0), (blocks, 1, 1), (256, 1, 1), 168, 49_152, 19)

    def pointwise(self, functor: str, shape: Shape, *, tensors: int = 2, dtype: str = "float") -> Work:
        """An elementwise kernel that reads and writes so many tensors altogether."""
        dur = WIDTHS[dtype] * prod(shape) * tensors / self.memory / 1e3
        typed = functor.format(_KERNEL_TYPES.get(dtype, dtype))
        arrays = f"std::array<char*, {tensors}ul>"
        name = f"void at::native::vectorized_elementwise_kernel<4, {typed}, {arrays} >(int, {typed}, {arrays})"
        return Work(name, took(dur, 1.7), (max(1, ceil(prod(shape) / 512)), 1, 1), (128, 1, 1), 26, 0, 85)

    def moving(self, name: str, shape: Shape, *, passes: float = 2, dtype: str = "float", block: int = 256) -> Work:
        """A kernel that is bound by memory and passes so often over its tensor."""
        dur = WIDTHS[dtype] * prod(shape) * passes / self.memory / 1e3
        return Work(name, took(dur, 2.4), (max(1, ceil(prod(shape) / 2048)), 1, 1), (block, 1, 1), 32, 1024, 75)


def took(*bounds: float) -> str:
    """The longest of durations in microseconds, as the builders take them."""
    return f"{max(bounds):.1f}"


ADD = "at::native::CUDAFunctor_add<{}>"
MUL = "at::native::BinaryFunctor<{0}, {0}, {0}, at::native::binary_internal::MulFunctor<float> >"
CLAMP = _LOCAL + "launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar)::{{lambda({})#1}}"
THRESHOLD = _LOCAL + "threshold_kernel_impl<{0}>(at::TensorIteratorBase&, {0}, {0})::{{lambda({0}, {0})#1}}"
FILL = "at::native::FillFunctor<{}>"
GELU = "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{{lambda({})#1}}"
GELU_BACK = (
    "at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{{lambda({0}, {0})#1}}"
)
COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{{lambda({})#1}}"
CAST = "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{{lambda(float)#1}}"
COMPARE = _LOCAL + "CompareEqFunctor<{}>"
BN_TRAIN = (
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, "
    "float const*, cudnnTensorStruct, float*, float const*, float const*, float, float)"
)
BN_BACK = (
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float, "
    "cudnnTensorStruct, float const*, cudnnTensorStruct, float const*)"
)
BN_EVAL = (
    "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float, float, cudnnTensorStruct, float const*, "
    "cudnnTensorStruct, float*, cudnnTensorStruct, float const*, float const*, float const*, float const*, float)"
)
LAYER_NORM = f"void {_LOCAL}vectorized_layer_norm_kernel<{{0}}, float>(int, float, {{0}} const*, {{0}}*)"
LAYER_NORM_BACK = f"void {_LOCAL}layer_norm_grad_input_kernel_vectorized<{{0}}, float>({{0}} const*, float*)"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::{0}, "
    "Flash_kernel_traits<64, 128, 128, 4, cutlass::{0}> >, false, true>(pytorch_flash::Flash_fwd_params)"
)
FLASH_BACK = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, "
    "4, false, false, cutlass::{0}> >(pytorch_flash::Flash_bwd_params)"
)
SOFTMAX = (
    f"void {_LOCAL}cunn_SoftMaxForward<4, float, float, float, {_LOCAL}LogSoftMaxForwardEpilogue>(float*, "
    "float const*, int)"
)
SOFTMAX_BACK = (
    f"void {_LOCAL}cunn_SoftMaxBackward<4, float, float, float, "
    f"{_LOCAL}LogSoftMaxBackwardEpilogue>(float*, float const*)"
)
NLL = (
    f"void {_LOCAL}nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*, float*, float "
    "const*, long const*)"
)
NLL_BACK = f"void {_LOCAL}nll_loss_backward_reduce_cuda_kernel_2d<float, long>(float*, float const*, long const*)"
MEAN = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, "
    "float>, unsigned int, float, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, "
    "unsigned int>)"
)
ARGMAX = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, "
    "long, 4> >(at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4>)"
)
SUM = MEAN.replace(
    "MeanOps<float, float, float, float>", "func_wrapper_t<float, at::native::sum_functor<float, float, float> >"
)
ROWS = (
    f"void {_LOCAL}indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(float*, float const*, "
    "long const*, int, int, unsigned int, unsigned int, long)"
)
ROWS_BACK = (
    f"void {_LOCAL}embedding_backward_feature_kernel<float, float, long>(long const*, float const*, "
    "float*, int, long, int)"
)
MULTI = (
    f"void {_LOCAL}multi_tensor_apply_kernel<{_LOCAL}TensorListMetadata<{{0}}>, {_LOCAL}{{1}}, float>"
    f"({_LOCAL}TensorListMetadata<{{0}}>, {_LOCAL}{{1}}, float)"
)
FUSED_ADAM = MULTI.format(4, "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)0, false>")
FOREACH = MULTI.format(2, "BinaryOpListAlphaFunctor<float, 2, 2, 0>")

_AMPERE_CONV = {
    kind: f"sm80_xmma_{kind}_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x16_stage4_warpsize2x2x1_g1_"
    "tensor16x8x8_t1r3s3_kernel_cudnn"
    for kind in ("fprop", "dgrad", "wgrad")
}
_VOLTA_CONV = {
    "fprop": "volta_scudnn_128x64_relu_medium_nn_v1",
    "dgrad": "volta_scudnn_128x64_stridedB_small_nn_v1",
    "wgrad": "volta_scudnn_128x64_stridedB_splitK_medium_nn_v1",
}
_AMPERE_GEMM = {
    "float": "ampere_sgemm_128x64_{}",
    "c10::Half": "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_{}",
    "c10::BFloat16": "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_{}",
}
_VOLTA_GEMM = {
    "float": "volta_sgemm_128x64_{}",
    "c10::Half": "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_{}",
}

BIG = Card(A100, {"float": 14.5, "c10::Half": 180, "c10::BFloat16": 180}, 1250, _AMPERE_GEMM, _AMPERE_CONV, 80, 22)
"""A100: products of single precision do without tensor cores, as torch sets it; convolutions get TF32."""
HOPPER = Card(
    H100,
    {"float": 40, "c10::Half": 560, "c10::BFloat16": 560},
    2600,
    {
        "float": (
            "sm80_xmma_gemm_f32f32_f32f32_f32_{}_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_"
            "alignc4_execute_kernel__5x_cublas"
        ),
        "c10::Half": "nvjet_hsh_128x256_64x4_1x2_h_bz_{}",
        "c10::BFloat16": "nvjet_tst_128x256_64x4_1x2_h_bz_{}",
    },
    _AMPERE_CONV,
    200,
    45,
)
T4 = Card(
    Device("Tesla T4", 15_835_660_288, 40, 7, 5, properties=_SHARED),
    {"float": 4.4, "c10::Half": 26},
    250,
    _VOLTA_GEMM,
    _VOLTA_CONV,
    4.6,
    6.0,
)
"""What free notebooks get."""
LAPTOP = Card(
    Device("NVIDIA GeForce RTX 3060 Laptop GPU", 6_441_926_656, 30, 8, 6, properties=_SHARED),
    {"float": 7.0, "c10::Half": 30, "c10::BFloat16": 30},
    270,
    _AMPERE_GEMM,
    _AMPERE_CONV,
    11,
    6.2,
)
DESKTOP = Card(
    Device("NVIDIA GeForce RTX 4090", 25_393_692_672, 128, 8, 9, properties=_SHARED),
    {"float": 52, "c10::Half": 145, "c10::BFloat16": 145},
    850,
    _AMPERE_GEMM,
    _AMPERE_CONV,
    60,
    22,
)
