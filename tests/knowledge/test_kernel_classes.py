"""What kernels do, by examples of every library: at least one for each line of the table."""

from __future__ import annotations

import pytest
from kernel_examples import COMMUNICATION, MATRIX_UNITS, NOT_TOLD, PLAIN_ARITHMETIC

from traceanalyzer.knowledge import kernel_classes
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class

_ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::"
EXAMPLES: dict[str, tuple[str, ...]] = {
    "gemm": (
        "ampere_bf16_s16816gemm_bf16_256x64_ldg8_relu_f2f_stages_64x3_tn",
        "nvjet_tst_192x208_64x4_2x1_v_bz_coopA_bias_TNN",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x224x64_MI16x16x1_SN",
        "rocblas_gemvn_kernel<256, 4, long, float const*, float*>",
        "void cutlass::device_kernel<Sm90::CollectiveMma<Mainloop> >",
        "void dot_kernel<float, 128, 0, DotParams>",
        "void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*)",
        "void marlin::Marlin<__nv_bfloat16, 256, 1, 8, 8, 4, false>(int4 const*, int4 const*, int4*)",
        "fused_moe_kernel",
    ),
    "convolution": (
        "volta_scudnn_128x64_relu_xregs_large_nn_v1",
        "sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(WinogradDataParams<float, float>)",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f3x2_stride1",
        "void at::native::conv_depthwise2d_forward_kernel<3, float, int>(float const*)",
        "void at::native::(anonymous namespace)::conv2d_grouped_direct<float>",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, c10::BFloat16> >(ConvParams)",
        "void ck::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<GridwiseGemm>",
    ),
    "attention": (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >(Params)",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(AttentionKernel<bfloat16_t>::Params)",
        "attn_fwd",
        "bwd_kernel_dk_dv",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, 16, 128, 256, false>",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<true, 2, 8>",
        "void SinglePrefillWithKVCacheKernel<1, 2, 8>",
    ),
    "normalization": (
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnnTensorStruct, float const*)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long, long)",
        "void layer::ln_fwd_kernel<Kernel_traits<float, 1024> >",
        "void welford_kernel<float, float, float>(float const*)",
        "MIOpenBatchNormFwdTrainSpatial",
        # part of an elementwise kernel's name, and the more telling one
        "void at::native::elementwise_kernel<128, 4, at::native::GroupNormBackwardKernelImplInternal<float> >",
    ),
    "elementwise": (
        _ELEMENTWISE + "CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >",
        _ELEMENTWISE + "(anonymous namespace)::masked_fill_kernel(at::TensorIterator&, c10::Scalar const&)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "void fbgemm_gpu::(anonymous namespace)::_FP8rowwise_to_float_cuda_kernel<float>(unsigned char const*)",
        "void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)",
        "MIOpenOpTensor::Op1dTensorGeneric",
        "void vllm::act_and_mul_kernel<c10::Half, &(silu_kernel), true>(c10::Half*)",
        "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(c10::BFloat16*)",
        "void axpy_kernel<float>(float*)",
    ),
    "reduction": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float> > >",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)",
        "void at::native::(anonymous namespace)::nll_loss_forward_no_reduce_cuda_kernel<float>(float const*)",
        "reduce_columns",
    ),
    "copy": (
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)2>",
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>",
        _ELEMENTWISE + "FillFunctor<float>, std::array<char*, 1> >",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 3, 64, 64>(float*)",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<IndexPut> >",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
        "batched_transpose_32x32_dword",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(__nv_bfloat16 const*)",
        "void compute_cuda_kernel<long>(long*, long*, long*, long, long)",
        "void at::native::(anonymous namespace)::chunk_cat_cuda_kernel<float, c10::BFloat16>(unsigned char**)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<float> >",
        "concat_kernel",
        "__amd_rocclr_fillBufferAligned",
    ),
    "optimizer": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, PointwiseOpScalar>",
        "void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >",
        "void adam_cuda_kernel<float>(float*)",
        "fused_adam_kernel",
    ),
    "triton": (
        "triton_poi_fused_convolution_hardtanh_5",
        "triton_tem_fused_addmm_gelu_relu_5",
        "triton_red_fused_native_layer_norm_16816",
        "kernel_0d1d2d3de4de",
        "create_flashinfer_kv_indices_triton",
        "CudaCodeGen::kernel1688(CudaCodeGen::Tensor<float, 1>)",
    ),
    "other": (
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*)",
        # carries an optimizer and the name of a library for products
        "split_embedding_backward_codegen_rowwise_adagrad_unweighted_find_long_segments(int)",
        "_combined_routing_compute",
        "void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int, int, int)",
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<long, int>(int*)",
        "void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int>, int>(int*)",
        "void at::native::lstm_cell_forward<float, float, int, 1>(float*)",
        "void regular_fft<256u, 8u, 32u>(kernel_arguments_t)",
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent>",
    ),
    "communication": COMMUNICATION,
}
ALL = [*(name for names in EXAMPLES.values() for name in names), *NOT_TOLD]


@pytest.mark.parametrize(("wanted", "name"), [(k, name) for k, names in EXAMPLES.items() for name in names])
def test_class(wanted: str, name: str) -> None:
    found = kernel_class(name)
    assert found is not None
    assert found.value == wanted


def test_every_class_has_examples() -> None:
    assert set(EXAMPLES) == {found.value for found in KernelClass}


@pytest.mark.parametrize("line", range(len(kernel_classes._TABLE.patterns)))
def test_every_line_of_the_table_decides_about_an_example(line: int) -> None:
    def decides(name: str) -> bool:
        return next((i for i, (p, _) in enumerate(kernel_classes._TABLE.patterns) if p.search(name)), None) == line

    assert any(map(decides, ALL)), kernel_classes._TABLE.patterns[line][0].pattern


@pytest.mark.parametrize("name", ["my_kernel", "", "kernel", "{lambda(int)#1}", "unknown"])
def test_names_that_do_not_tell(name: str) -> None:
    assert kernel_class(name) is None


@pytest.mark.parametrize("name", [name for names in MATRIX_UNITS.values() for name in names])
def test_what_uses_matrix_units_multiplies(name: str) -> None:
    multiplies = (KernelClass.GEMM, KernelClass.CONVOLUTION, KernelClass.ATTENTION)
    assert kernel_class(name) in multiplies


@pytest.mark.parametrize("name", [name for names in PLAIN_ARITHMETIC.values() for name in names])
def test_known_kernels_have_a_class(name: str) -> None:
    assert kernel_class(name) is not None
