"""Names of kernels as profilers show them, and what is known of each.

Sources: kernel names in public traces and reports; the sources of cuBLAS' and cuDNN's open front ends,
CUTLASS, PyTorch, FlashAttention, Composable Kernel, Tensile, MIOpen, NCCL and RCCL.
"""

from __future__ import annotations

MATRIX_UNITS: dict[str, tuple[str, ...]] = {
    "volta": (
        "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn",
        "volta_h884gemm_256x64_ldg8_nn",
        "volta_h884cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1",
        "volta_s884cudnn_fp16_128x128_ldg8_wgrad_idx_exp_interior_nhwc_nt_v1",
        "void cutlass::Kernel<cutlass_70_tensorop_f16_s884gemm_f16_128x128_32x2_nn_align8>(Params)",
        "sm70_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage1_warpsize2x2x1",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm70(AttentionKernel<cutlass::half_t, cutlass::arch::Sm70>::Params)",
        "void cudnn::cnn::first_layer_wgrad_kernel<7, 7, 2, 2>(__half const*, __half*)",
        "xmma_cudnn::dgrad_1x1_stride_2x2::kernel(Params)",
    ),
    "turing": (
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "turing_h1688cudnn_256x128_ldg8_relu_exp_interior_nhwc_tn_v1",
        "turing_fp16_s1688cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        "turing_int8_i8816cudnn_int8_256x128_ldg16_relu_singleBuffer_medium_nt_v1",
        "sm75_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_nchw_vect_c_32_imma",
    ),
    "ampere": (
        "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
        "ampere_bf16_s16816gemm_bf16_256x64_ldg8_relu_f2f_stages_64x3_tn",
        "ampere_h16816gemm_128x64_ldg8_stages_64x3_nn",
        "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_tn",
        "ampere_int8_i16832gemm_int8_128x128_ldg16_stages_64x3_nt",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_cublas",
        "sm80_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize64x64x16_stage4_warpsize2x2x1_tensor8x8x4_cublas",
        "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(Params)",
        "void cutlass::Kernel<cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1>(Params)",
        "void cutlass::Kernel<cutlass_80_tensorop_c1688gemm_64x64_16x3_nn_align1>(Params)",
        "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4>",
        (
            "void cutlass::Kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::half_t, cutlass::arch::OpClassTensorOp,"
            " cutlass::arch::Sm80> >(Params)"
        ),
        (
            "void cute_kernel<cute::MMA_Atom<cute::SM80_16x8x16_F32F16F16F32_TN>,"
            " cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, cutlass::half_t> >(Params)"
        ),
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >(Params)",
        "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8> >(Params)",
        # fp32 attention multiplies in three tf32 products from sm80 on (OpMultiplyAddFastF32)
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(AttentionKernel<float, cutlass::arch::Sm80>::Params)",
        "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(AttentionBackwardKernel<cutlass::bfloat16_t>::Params)",
        "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<3>, at::native::BLayout_TC_int4>",
        "void marlin::Marlin<__nv_bfloat16, 256, 1, 8, 8, 4, false>(int4 const*, int4 const*, int4*)",
        "conv2d_c1_k1_nhwc_kernel_specialized<__half, 3, 3>",
    ),
    "hopper": (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
        "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128_warpgroupsize1x1x1_bias_bf16_execute_kernel",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT",
        "nvjet_tst_192x208_64x4_2x1_v_bz_coopA_bias_TNN",
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::collective::CollectiveMma<"
            "cutlass::gemm::MainloopSm90TmaGmmaWarpSpecializedFP8<4>, cute::Copy_Atom<cute::SM90_TMA_LOAD> > > >"
        ),
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop> > >",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x128_4x1x1_cga1x1x1_kernel0_0",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 24576u, 1536u, 1u, 128u, 128u>(float*, int*)",
        "void machete::KernelWrapper<cutlass::gemm::kernel::GemmUniversal<machete::MacheteCollectiveMma> >",
    ),
    "blackwell": (
        "nvjet_sm100_tst_256x256_64x3_2x1_2cta_v_bz_TNT",
        "cutlass3x_sm100_tensorop_s128x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_4x4x1_0_tnn_align8_1sm",
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::collective::CollectiveMma<"
            "cutlass::gemm::MainloopSm100TmaUmmaWarpSpecialized<13, 2, 4>, cute::SM100_MMA_F16BF16_SS,"
            " cute::Copy_Atom<cute::SM100_TMA_LOAD> > > >"
        ),
        (
            "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective"
            "13CollectiveMmaINS1_35MainloopSm100TmaUmmaWarpSpecializedILi13ELi2ELi4EEENS4_9Copy_Atom"
        ),
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128PersistentContext",
        "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128_4x1x1_cga1x1x1_kernel0_0",
    ),
    "amd": (
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SE_1LDSB0_APM1_ABV0_ACED0_AF0EM8_AF1EM1_AMAS3",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x224x64_MI16x16x1_SN_LDSB1_AFC0_AFEM1",
        "Custom_Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HA_S_SAB_SCD_SAV_UserArgs_MT256x256x128_MI16x16x1",
        "Cijk_Alik_Bljk_SB_MT64x64x16_MI32x32x2x1_SN_K1",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_137kernel_gemm_xdl_cshuffle_v3INS_34GridwiseGemm",
        "void ck::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<ck::GridwiseGemmMultipleABD_xdl_cshuffle>",
        "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync> >",
        "void ck_tile::kentry<256, 1, ck_tile::GemmKernel<ck_tile::GemmTile1DPartitioner> >",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, __hip_bfloat16, 16, 128, 256, false>",
        "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt256x128x32_wt32x32x8_ws2x1_wr2x2_ta1x8x4x1_1x4x1x64_gkgs",
        "igemm_wrw_gtcx3_nhwc_fp16_bx0_ex1_bt256x256x32_wt32x32x8_ws2x2_wr2x2_ta1x4x1x8_1x8x1x32",
        "gridwise_convolution_implicit_gemm_v4r4_xdlops_nchw_kcyx_nkhw_lds_double_buffer",
        "_ZN5aiter38fmha_bwd_hd128_bf16_causal_a32_psskddvE",
    ),
}

PLAIN_ARITHMETIC: dict[str, tuple[str, ...]] = {
    "nvidia libraries": (
        "maxwell_sgemm_128x64_nn",
        "volta_sgemm_128x32_sliced1x4_tn",
        "volta_scudnn_128x64_relu_xregs_large_nn_v1",
        "volta_fp16_scudnn_fp16_128x64_relu_small_nn_v1",
        "volta_fp16_sgemm_fp16_128x64_nn",
        "volta_dgemm_64x64_nn",
        "volta_gcgemm_32x32_nt",
        "ampere_sgemm_32x128_tn",
        "ampere_gcgemm_64x64_nt",
        "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
        "ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        # xmma kernels without tensor cores say ffma
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4"
            "_execute_kernel__5x_cublas"
        ),
        (
            "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1"
            "_ffma_aligna4_alignc4_execute_kernel__5x_cudnn"
        ),
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x...",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
        (
            "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::MmaPipelined<"
            "cutlass::gemm::GemmShape<128, 128, 8>, cutlass::gemm::warp::MmaSimt<float> > > >(Params)"
        ),
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, float, false, 7>",
        "void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16, 4, 4, false, false>",
        "void gemmSN_NN_kernel<float, 128, 2, 4, 8, 3, 4, false>(cublasGemmSmallNParams<float>)",
        "void gemmk1_kernel<float, 256, 5, false, false, false, false>(cublasGemmk1Params<float>)",
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const> > >",
        "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>",
        "void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, __nv_bfloat16, float, __nv_bfloat16, true>",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*)",
        "void wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int, int, int, float const*)",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int)",
        "void precomputed_convolve_sgemm<float, 512, 6, 8, 3, 3, 5, 1, false>(int, int, int)",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*)",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(WinogradDataParams<float, float>)",
        "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)2>",
        "void cudnn::bn_fw_tr_1C11_singleread<__half, 512, true, 1, 2, 0>(cudnnTensorStruct, __half const*)",
    ),
    "attention beside the products": (
        # simt where the architecture has no tensor instruction for the type (PyTorch's gemm_kernel_utils.h)
        "fmha_cutlassF_f32_aligned_64x64_rf_sm70(AttentionKernel<float, cutlass::arch::Sm70>::Params)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm75(AttentionKernel<float, cutlass::arch::Sm75>::Params)",
        "fmha_cutlassB_f32_aligned_64x64_k64_sm50(AttentionBackwardKernel<float, cutlass::arch::Sm50>::Params)",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, pytorch_flash::Flash_bwd_kernel_traits<64> >(Params)",
        "void flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2> >(Params, int)",
        "void pytorch_flash::flash_fwd_splitkv_combine_kernel<pytorch_flash::Flash_fwd_kernel_traits<64> >",
        "void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<128>, cute::C<128> > > >",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 4> >",
        "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, __hip_bfloat16, 128, 128, 256, 8, false>",
        "void flash::prepare_varlen_num_blocks_kernel<8, false>(int, int, int, int const*)",
        "SubTensorOpWithCastTensor1d",
    ),
    "torch": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1688> >",
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4> >",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long, long)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)",
        "void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var, float, float, 4>",
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<long, int>(int*)",
        "void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int>, int>(int*)",
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent>",
        "void fbgemm_gpu::permute_pooled_embs_kernel<float>(float const*)",
        "split_embedding_backward_codegen_rowwise_adagrad_unweighted_find_long_segments(int)",
        "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "void vllm::act_and_mul_kernel<c10::Half, &(silu_kernel), true>(c10::Half*)",
        "void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*, unsigned int*)",
    ),
    "inductor": (
        "triton_poi_fused_add_relu_0",
        "triton_poi_fused_add_1688",
        "triton_per_fused__softmax_884",
        "triton_red_fused_native_layer_norm_16816",
        "triton_poi_fused_convolution_hardtanh_5",
        "triton_for_fused_3",
    ),
    "amd": (
        "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_1LDSB0_APM1_ABV0_ACED0_AF0EM1_AF1EM1",
        "Cijk_SB_BiasS_HAS_PostGSU8_VW4",
        "MIOpenBatchNormFwdTrainSpatial",
        "miopenGcnAsmConv1x1U",
        "miopenGcnAsmConv1x1WrW",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEv",
        "void ck_tile::kentry<256, 1, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdPipelineOnePass> >",
        "__amd_rocclr_copyBuffer",
        "__amd_rocclr_fillBufferAligned",
    ),
}

NOT_TOLD: tuple[str, ...] = (
    # matrix templates use tensor cores for 16 bits and tf32, and plain arithmetic for strict fp32
    "triton_tem_fused_mm_0",
    "triton_tem_fused_addmm_gelu_relu_5",
    "triton_tem_fused__to_copy_mm_t_884",
    "triton_tem_fused_flex_attention_1688",
    "matmul_kernel_persistent",
    "fused_moe_kernel",
    "_attn_fwd",
    "attn_fwd",
    "CudaCodeGen::kernel1688(CudaCodeGen::Tensor<float, 1>)",
    "kernel_0d1d2d3de4de",
    "cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)",
    "my_kernel",
    "grouped_gemm_scatter_copy",
    "Cijk_a_name_that_was_cut",
    "",
)

CUSTOM_COMMUNICATION: tuple[str, ...] = (
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(AllReduceParams)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<Pattern, __half, 8>(Params)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half> >(__half const*)",
    "void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*, void*, int*)",
    "void deep_ep::intranode::notify_dispatch<8>(int const*, int*)",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(mori::moe::EpDispatchCombineArgs)",
    "nvshmemi_proxy_quiet_kernel",
    "void userbuffers_fp16_sum_inplace_gpu_rw<16>(int, int)",
    "moeAllToAllKernel",
)

COMMUNICATION: tuple[str, ...] = (
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "void ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)",
    "rcclGenericKernel_4(ncclDevKernelArgsStorage<4096ul>)",
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
    "oneccl_allreduce_pcie<half, Rt64_128_PCIE, RingTransmit>",
    "void oneapi::ccl::allreduce_kernel<float>(float*)",
    "HcclAllReduce",
    *CUSTOM_COMMUNICATION,
)

COMPUTATION: tuple[str, ...] = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NcclLike> >",
    "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*, void const*, float, int, int)",
    "triton_red_fused_all_reduce_0",
    "void splitKreduce_kernel<32, 16, int, float, float, float, float, true>",
    "void at::native::scatter_gather_elementwise_kernel<128, 8>",
    "Memcpy PtoP (Device -> Device)",
    "void deep_ep::layout::get_dispatch_layout<256, 8>(long const*, int*)",
    # a functor's name among the arguments of the template decides nothing
    "void flash::softmax_kernel<flash::Allreduce<4>, AllReduceKernelTraits>(float*)",
)
