"""The kernels that cuDNN on Ampere and Volta and MIOpen on CDNA run for a small convolutional network."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..timeline import Work


@dataclass(frozen=True)
class Kernels:
    """What one back end runs; convolutions and matrix products first."""

    conv: tuple[Work, ...]
    conv_data: tuple[Work, ...]
    conv_weight: tuple[Work, ...]
    norm: Work
    norm_back: Work
    relu: Work
    relu_back: Work
    mean: Work
    mean_back: Work
    linear: Work
    linear_back: tuple[Work, ...]
    loss: tuple[Work, ...]
    loss_back: tuple[Work, ...]
    update: Work
    conv_op: str
    conv_node: str
    conv_back_op: str
    norm_op: str
    norm_node: str
    norm_back_op: str


def _elementwise(functor: str, dur: str, blocks: int) -> Work:
    arrays = "std::array<char*, 2ul>"
    name = f"void at::native::vectorized_elementwise_kernel<4, {functor}, {arrays} >(int, {functor}, {arrays})"
    return Work(name, dur, (blocks, 1, 1), (128, 1, 1), 26, 0, 85)


_LOCAL = "at::native::(anonymous namespace)::"
_CLAMP = _LOCAL + "launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar)::{lambda(float)#1}"
_THRESHOLD = _LOCAL + "threshold_kernel_impl<float>(at::TensorIteratorBase&)::{lambda(float)#1}"
_DIVIDE = "at::native::BUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"
_TO_NHWC = Work(
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>"
    "(cudnn::ops::nchw2nhwc_params_t<float>, float const*, float*)",
    "38.4",
    (1152, 1, 1),
    (256, 1, 1),
    40,
    8320,
    62,
)
_MULTI = (
    f"void {_LOCAL}multi_tensor_apply_kernel<{_LOCAL}TensorListMetadata<2>, "
    f"{_LOCAL}BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>"
    f"({_LOCAL}TensorListMetadata<2>)"
)


def _ampere_conv(direction: str, layout: str, dur: str, blocks: int) -> Work:
    tile = "tilesize128x64x16_stage4_warpsize2x2x1_g1_tensor16x8x8"
    name = f"sm80_xmma_{direction}_implicit_gemm_indexed_tf32f32_tf32f32_f32_{layout}_{tile}_kernel_cudnn"
    return Work(name, dur, (blocks, 1, 1), (128, 1, 1), 168, 98_304, 19)


AMPERE = Kernels(
    conv=(_TO_NHWC, _ampere_conv("fprop", "nhwckrsc_nhwc", "212.6", 1152)),
    conv_data=(_ampere_conv("dgrad", "nhwckrsc_nhwc", "246.1", 1152),),
    conv_weight=(_ampere_conv("wgrad", "nhwckrsc_nhwc", "281.9", 216),),
    norm=Work(
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, "
        "float const*, cudnnTensorStruct, float*, float const*, float const*, float, float)",
        "88.3",
        (64, 1, 1),
        (512, 1, 1),
        40,
        72,
        38,
    ),
    norm_back=Work(
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float, "
        "cudnnTensorStruct, float const*, cudnnTensorStruct, float const*)",
        "121.7",
        (64, 1, 1),
        (512, 1, 1),
        48,
        144,
        38,
    ),
    relu=_elementwise(_CLAMP, "51.2", 18_432),
    relu_back=_elementwise(_THRESHOLD, "74.9", 18_432),
    mean=Work(
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
        "float, float, float>, unsigned int, float, 4> >(at::native::ReduceOp<float, "
        "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4>)",
        "29.5",
        (256, 1, 1),
        (32, 16, 1),
        32,
        16,
        79,
    ),
    mean_back=_elementwise(_DIVIDE, "33.8", 4_608),
    linear=Work("ampere_sgemm_64x32_sliced1x4_tn", "24.7", (32, 1, 1), (128, 1, 1), 86, 24_576, 7),
    linear_back=(
        Work("ampere_sgemm_64x32_sliced1x4_nn", "23.1", (2, 4, 1), (128, 1, 1), 86, 24_576, 2),
        Work("ampere_sgemm_32x128_nt", "26.4", (4, 8, 1), (256, 1, 1), 57, 16_512, 8),
    ),
    loss=(
        Work(
            f"void {_LOCAL}cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>(float*)",
            "6.1",
            (64, 1, 1),
            (256, 1, 1),
            32,
            1024,
            15,
        ),
        Work(
            f"void {_LOCAL}nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"
            "(float*, float*, float*, long*, float*, bool, long, long, long, long)",
            "3.4",
            (1, 1, 1),
            (32, 1, 1),
            24,
            256,
            0,
        ),
    ),
    loss_back=(
        Work(
            f"void {_LOCAL}nll_loss_backward_reduce_cuda_kernel_2d<float, long>"
            "(float*, float*, long*, float*, float*, bool, int, int, long, long)",
            "2.9",
            (1, 1, 1),
            (32, 1, 1),
            18,
            0,
            0,
        ),
        Work(
            f"void {_LOCAL}cunn_SoftMaxBackward<4, float, float, float, LogSoftMaxBackwardEpilogue>(float*)",
            "6.6",
            (64, 1, 1),
            (256, 1, 1),
            30,
            1024,
            15,
        ),
    ),
    update=Work(_MULTI, "11.2", (96, 1, 1), (512, 1, 1), 48, 0, 56),
    conv_op="aten::cudnn_convolution",
    conv_node="ConvolutionBackward0",
    conv_back_op="aten::convolution_backward",
    norm_op="aten::cudnn_batch_norm",
    norm_node="CudnnBatchNormBackward0",
    norm_back_op="aten::cudnn_batch_norm_backward",
)

VOLTA = replace(
    AMPERE,
    conv=(Work("volta_scudnn_128x64_relu_medium_nn_v1", "388.2", (288, 2, 1), (256, 1, 1), 126, 9_472, 25),),
    conv_data=(
        Work(
            "volta_scudnn_128x64_stridedB_splitK_medium_nn_v1",
            "431.6",
            (288, 2, 1),
            (256, 1, 1),
            126,
            9_472,
            25,
        ),
    ),
    conv_weight=(Work("volta_scudnn_128x64_stridedB_medium_nn_v1", "473.0", (72, 3, 1), (256, 1, 1), 126, 9_472, 25),),
    linear=replace(AMPERE.linear, name="volta_sgemm_32x32_sliced1x4_tn", occupancy=12),
    linear_back=(
        replace(AMPERE.linear_back[0], name="volta_sgemm_64x32_sliced1x4_nn"),
        replace(AMPERE.linear_back[1], name="volta_sgemm_128x32_sliced1x4_nt"),
    ),
)

VOLTA_2021 = replace(VOLTA, conv_node="CudnnConvolutionBackward", conv_back_op="aten::cudnn_convolution_backward")


def _matrix_core(transposes: str, dur: str) -> Work:
    tile = "MT64x64x16_MI16x16x4x1_SN_K1_PGR2_PLR1_WG16_16_1"
    return Work(f"Cijk_{transposes}_SB_{tile}", dur, (16, 16, 1), (256, 1, 1))


CDNA = replace(
    AMPERE,
    conv=(
        Work(
            "igemm_fwd_gtcx2_nchw_fp32_bx0_ex1_bt128x64x16_wt64x32x1_ws1x1_wr2x1_ta1x1x8x1_1x16x1x16",
            "241.3",
            (2304, 1, 1),
            (256, 1, 1),
        ),
    ),
    conv_data=(
        Work(
            "igemm_bwd_gtcx2_nchw_fp32_bx0_ex1_bt128x64x16_wt64x32x1_ws1x1_wr2x1_ta1x1x8x1_1x16x1x16",
            "266.8",
            (2304, 1, 1),
            (256, 1, 1),
        ),
    ),
    conv_weight=(
        Work(
            "igemm_wrw_gtcx2_nchw_fp32_bx0_ex0_bt64x64x16_wt32x32x1_ws1x1_wr1x1_ta1x1x4x1_1x16x1x16",
            "302.5",
            (432, 1, 1),
            (256, 1, 1),
        ),
    ),
    norm=Work("MIOpenBatchNormFwdTrainSpatial.kd", "97.2", (64, 1, 1), (1024, 1, 1)),
    norm_back=Work("MIOpenBatchNormBwdSpatial.kd", "139.4", (64, 1, 1), (1024, 1, 1)),
    linear=_matrix_core("Alik_Bljk", "21.9"),
    linear_back=(_matrix_core("Ailk_Bljk", "20.8"), _matrix_core("Ailk_Bjlk", "24.6")),
    conv_op="aten::miopen_convolution",
    norm_op="aten::miopen_batch_norm",
    norm_node="MiopenBatchNormBackward0",
    norm_back_op="aten::miopen_batch_norm_backward",
)
