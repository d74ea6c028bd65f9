"""Names that are no secret: those of PyTorch, its libraries and Python itself. Everything else is somebody's own.

The lists in `public/` hold exact names (scripts/public_names.py collects them). A pattern never lets free text pass: what
it finds is looked up, or consists of numbers.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

LONGEST = 8192
"""Characters of a name that is looked at; longer ones are hashed whole."""


@cache
def public(kind: str) -> frozenset[str]:
    """The names of a list in `public/`, with what the project knows beside."""
    text = (files("traceanalyzer.rewrite") / "public" / f"{kind}.txt").read_text("ascii")
    return frozenset(text.split("\n")) - {""} | _MORE.get(kind, frozenset())


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BACKENDS = ("nccl", "rccl", "gloo", "xccl", "hccl", "ucc", "mpi")
_COLLECTIVES = _words(
    "all_reduce all_reduce_coalesced all_reduce_barrier all_reduce_sparse all_gather all_gather_base _all_gather_base "
    "all_gather_coalesced all_gather_into_tensor all_gather_into_tensor_coalesced all_to_all all_to_all_base alltoall "
    "alltoall_base barrier broadcast broadcast_coalesced _broadcast_oop coalesced gather recv recvAnySource reduce "
    "_reduce_oop reduce_scatter reduce_scatter_base _reduce_scatter_base reduce_scatter_coalesced scatter send "
    "reduce_scatter_tensor reduce_scatter_tensor_coalesced sparse_all_reduce monitored_barrier recv_any_source"
)

_MORE: dict[str, frozenset[str]] = {
    "operators": _words(
        "aten::cudnn_batch_norm_backward aten::cudnn_convolution_backward aten::cudnn_convolution_backward_input "
        "aten::cudnn_convolution_backward_weight aten::cudnn_convolution_backward_bias aten::miopen_convolution_backward "
        "aten::miopen_convolution_backward_input aten::miopen_convolution_backward_weight aten::mkldnn_convolution_backward "
        "aten::mkldnn_convolution_backward_input aten::mkldnn_convolution_backward_weights aten::cudnn_convolution_bias "
        "aten::mkldnn_linear_backward_input aten::mkldnn_linear_backward_weights aten::cudnn_convolution_transpose_backward "
        "aten::thnn_conv2d aten::thnn_conv2d_forward aten::thnn_conv2d_backward aten::slow_conv2d_backward aten::_log_softmax_backward_data "
        "aten::_softmax_backward_data aten::nll_loss aten::convolution_overrideable aten::convolution_backward_overrideable "
        "aten::_cudnn_rnn_backward aten::native_batch_norm_backward aten::conv_depthwise3d_backward aten::_cat aten::stack "
        "aten::_baddbmm_mkl_ aten::_bmm aten::_addmm_ aten::_index_put_impl_ aten::_index_copy_ aten::_var aten::_std "
        "aten::_thnn_fused_lstm_cell_backward aten::max_pool2d_with_indices_backward aten::_amp_non_finite_check_and_unscale_ "
        "aten::_amp_update_scale aten::_flash_attention aten::_scaled_dot_product_attention aten::_fused_moving_avg_obs_fq_helper "
        "aten::_nnpack_available aten::is_floating_point aten::is_complex aten::contiguous aten::to aten::floor_divide "
        "torchvision::nms torchvision::roi_align torchvision::_roi_align_backward torchvision::roi_pool "
        "torchvision::_roi_pool_backward torchvision::ps_roi_align torchvision::ps_roi_pool torchvision::deform_conv2d "
        "torchvision::_deform_conv2d_backward torchvision::decode_image torchvision::decode_jpeg "
        "fbgemm::asynchronous_complete_cumsum fbgemm::asynchronous_exclusive_cumsum fbgemm::asynchronous_inclusive_cumsum "
        "fbgemm::bounds_check_indices fbgemm::permute_1D_sparse_data fbgemm::permute_2D_sparse_data "
        "fbgemm::permute_sparse_data fbgemm::permute_sparse_features fbgemm::permute_pooled_embs "
        "fbgemm::permute_pooled_embs_auto_grad fbgemm::jagged_to_padded_dense fbgemm::jagged_2d_to_dense "
        "fbgemm::block_bucketize_sparse_features fbgemm::expand_into_jagged_permute fbgemm::segment_sum_csr "
        "fbgemm::FloatToFP8RowwiseQuantized fbgemm::FP8RowwiseQuantizedToFloat fbgemm::FloatToHFP8Quantized "
        "fbgemm::HFP8QuantizedToFloat fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function "
        "fbgemm::split_embedding_codegen_forward_unweighted_cuda fbgemm::dense_to_jagged fbgemm::jagged_to_dense "
        "fbgemm::split_embedding_backward_codegen_rowwise_adagrad_unweighted_exact_cuda fbgemm::jagged_index_select "
        "c10d::_allgather_base_ c10d::_reduce_scatter_base_ c10d_functional::wait_tensor c10d_functional::all_reduce "
        "c10d_functional::all_gather_into_tensor c10d_functional::reduce_scatter_tensor c10d_functional::all_to_all_single "
        "record_param_comms detach detach_ inductor::_reinterpret_tensor"
    ),
    "autograd": _words(
        "AccumulateGrad torch::autograd::AccumulateGrad torch::autograd::CopyBackwards torch::autograd::CopySlices "
        "torch::autograd::GraphRoot torch::autograd::UndefinedGrad torch::autograd::Error torch::autograd::NotImplemented "
        "torch::autograd::DelayedError torch::autograd::ForwardADError CompiledFunction CompiledFunctionBackward "
        "CudnnBatchNormBackward CudnnConvolutionBackward MiopenConvolutionBackward MkldnnConvolutionBackward "
        "CudnnConvolutionBackward0 MiopenConvolutionBackward0 MkldnnConvolutionBackward0 ThnnConv2DBackward "
        "TBackward TBackward0 CudnnConvolutionTransposeBackward NativeBatchNormBackward SlowConv2DBackward "
        "Scatter ScatterBackward Gather GatherBackward Broadcast BroadcastBackward ReduceAddCoalesced "
        "ReduceAddCoalescedBackward CheckpointFunction CheckpointFunctionBackward SyncBatchNorm SyncBatchNormBackward "
        "SwapBackward0 BmmBackward MmBackward AddBackward LogSoftmaxBackward"
    ),
    "marks": frozenset(
        [f"{backend}:{operation}" for backend in (*_BACKENDS, "c10d") for operation in _COLLECTIVES]
        + [
            "DataParallel.forward", "DistributedDataParallel.forward", "FullyShardedDataParallel.forward", "[memory]",
            "Iteration Start: PyTorch Profiler", "Record Window End", "TorchDynamo Cache Lookup", "Pregraph bytecode",
            "Iteration Start: __cupti_profiler__", "Torch-Compiled Region", "fwdbwd", "ac2g", "forward_backward",
            "launch", "async_cpu_to_gpu", "async_gpu", "cpu_to_cuda", "AOTDispatcher Runtime Wrapper Prologue",
            "torch.distributed.ddp.reducer::copy_bucket_to_grad", "torch.distributed.ddp.reducer::search_unused_parameters",
            "torch::distributed::reducer::mul_out", "torch::distributed::reducer::copy_bucket_to_grad",
            "torch::jit::(anonymous namespace)::DifferentiableGraphBackward", "<forward op>", "<backward op>",
            "PyTorch Profiler (0)", "async", "forward", "backward", "__missing__",
        ]
    ),
    "modules": _words("DataParallel DistributedDataParallel FullyShardedDataParallel Container CrossMapLRN2d SyncBatchNorm"),
    "optimizers": _words("Muon ZeroRedundancyOptimizer FusedAdam FusedSGD FusedLAMB DeepSpeedCPUAdam Shampoo DistAdam"),
    "runtime": _words(
        "hipExtModuleLaunchKernel hipExtLaunchKernel hipMemcpyWithStream hipGetDevicePropertiesR0600 recordEvent synchronize "
        "synchronizeStream hipCtxGetCurrent cudaLaunchKernelExC cuLaunchKernelEx urEnqueueKernelLaunch urQueueFinish "
        "urEventWait urUSMDeviceAlloc urUSMHostAlloc urUSMSharedAlloc urUSMFree urEnqueueUSMMemcpy urEnqueueUSMFill "
        "urEnqueueKernelLaunchWithArgsExp urProgramBuild urProgramCreateWithIL urProgramLink urKernelCreate piEventsWait "
        "piQueueFinish zeCommandListAppendLaunchKernel zeCommandListAppendMemoryCopy zeCommandListAppendMemoryFill "
        "zeCommandQueueExecuteCommandLists zeCommandQueueSynchronize zeEventHostSynchronize zeMemAllocDevice "
        "zeMemAllocHost zeMemAllocShared zeMemFree zeModuleCreate zeKernelCreate zeFenceHostSynchronize "
        "aclrtSynchronizeStream aclrtSynchronizeDevice aclrtMalloc aclrtFree aclrtMemcpyAsync aclrtMemcpy "
        "musaLaunchKernel musaMemcpyAsync musaMemcpy musaMalloc musaFree musaStreamSynchronize musaDeviceSynchronize "
        "musaMemsetAsync musaGraphLaunch"
    ),
    "kernels": _words(
        "void int long short char float double bool unsigned signed const volatile std complex enable_if type nullptr decltype "
        "half half2 float2 float4 __half __half2 __nv_bfloat16 __nv_bfloat162 __hip_bfloat16 __nv_fp8_e4m3 __nv_fp8_e5m2 "
        "anonymous namespace lambda operator at native cuda c10 BFloat16 Half Float8_e4m3fn Float8_e5m2 detail Array "
        "Kernel Kernel2 device_kernel elementwise_kernel_manual_unroll CatArrayBatchedCopy_aligned16_contig FixedDivisor "
        "cublasGemvTensorStridedBatched cublasSplitKParams splitKreduce_kernel cublasGemvParams cublasGemvParamsEx gemvx "
        "cublasGemmSmallNParams gemvNSP_kernel gemv2T_kernel_val gemv2N_kernel gemmSN_NN_kernel gemmSN_TN_kernel "
        "gemmk1_kernel cublasGemmk1Params cublasTransposeParams cublasDotParams cublasPointerMode_t dot_kernel "
        "reduce_1Block_kernel scal_kernel cublasLt cublasLtEpilogue_t epilogue impl globalKernel biasType sgemm_largek_lds64 "
        "cudnn cnn ops detail cudnnKernelDataType_t cudnnTensorStruct cudnnTensor4dStruct cudnnConvolutionStruct "
        "kernel_grad_params kernel_conv_params reduced_divisor wgrad_alg0_engine wgrad_alg1_engine dgrad_engine "
        "dgrad_alg1_engine nchwToNhwcKernel nhwcToNchwKernel nchw2nhwc_params_t nhwc2nchw_params_t computeOffsetsKernel "
        "computeOffsetsKernel3D computeBOffsetsKernel computeWgradSplitKOffsetsKernel computeWgradBOffsetsKernel "
        "ComputeOffsetsParams ComputeBOffsetsParams ComputeSplitKOffsetsParams ComputeWgradBOffsetsParams "
        "implicit_convolve_sgemm explicit_convolve_sgemm precomputed_convolve_sgemm kern_precompute_indices "
        "im2col4d_kernel im2col4d_params winograd winograd_nonfused winogradForwardData4x4 winogradForwardFilter4x4 "
        "winogradForwardOutput4x4 winogradWgradData4x4 winogradWgradDelta4x4 winogradWgradOutput4x4 "
        "generateWinogradTilesKernel GenerateWinogradTilesParams WinogradDataParams WinogradFilterParams "
        "WinogradOutputParams WinogradDeltaParams WinogradWgradOutputParams engines_precompiled convertTensor_kernel "
        "scalePackedTensor_kernel bn_fw_tr_1C11_kernel_NCHW bn_fw_tr_1C11_singleread bn_fw_inf_1C11_kernel_NCHW "
        "bn_bw_1C11_kernel_new bn_bw_1C11_singleread bn_fw_tr_1C11_args bn_bw_1C11_args bnFwPersistentState "
        "bnBwPersistentState reduce_wgrad_nchw_helper fft2d_r2c_32x32 fft2d_c2r_32x32 nhwcToFoldedNhwcKernel "
        "foldedNhwcToNhwcKernel cutlass_cudnn_infer cutlass_cudnn_train cutlass__5x_cudnn cask_cudnn cask_cudnn_infer "
        "cask_cudnn_train cask__5x_cudnn xmma__5x_cudnn xmma_new xmma_cudnn implicit_gemm strided_dgrad_indexed "
        "kernel_helper_stage_0 kernel_helper_stage_1 kernel_helper_stage_2 kernel_helper_stage_3 Params_pre_hopper "
        "cunn_ClassNLLCriterion_updateOutput_kernel cunn_ClassNLLCriterion_updateGradInput_kernel multi_tensor_apply_kernel "
        "TensorListMetadata FusedOptimizerTensorListMetadata fbgemm_gpu vllm flash flashinfer deep_gemm deep_ep vision ops "
        "nms_kernel_impl reshape_and_cache_flash_kernel rotary_embedding_kernel fp8_gemm_kernel GemmType Fp8KVCacheDataType "
        "paged_attention_ll4mi_QKV_mfma16_kernel paged_attention_ll4mi_reduce_kernel ck ck_tile rocprim cub thrust cutlass "
        "trampoline_kernel target_arch ROCPRIM_400200_NS default_config wrapped_scan_config scan_impl "
        "lookback_scan_determinism indexSelectLargeIndex indexSelectSmallIndex ncclDevKernelArgsStorage CUtensorMap_st "
        "ncclWork ncclDevComm StoreKVCacheParams enable_sm90_or_later FlashAttnFwdSm90 FlashAttnBwdSm90 FlashAttnBwdPreprocess FlashAttnBwdPostprocessConvertdQ SingleTileScheduler "
        "CollectiveMainloopFwdSm90 CollectiveMainloopBwdSm90 CollectiveEpilogueFwd CollectiveEpilogueBwd FastDivmod "
        "prepare_varlen_num_blocks_kernel VarlenDynamicPersistentTileScheduler TransformInputIterator DeviceReducePolicy "
        "ConstantInputIterator CountingInputIterator DeviceScanPolicy DeviceRadixSortPolicy AgentScanPolicy Policy800 "
        "MemBoundScaling BlockScanAlgorithm BlockStoreAlgorithm BlockLoadAlgorithm CacheLoadModifier Sum Equality "
        "DispatchSelectIf DispatchReduceByKey PtxSelectIfPolicyT PtxReduceByKeyPolicy HIP_vector_type compute_cuda_kernel "
        "cuComputePartGradGammaBeta cuComputeGradGammaBeta GammaBetaBackwardSimpleCUDAKernel GammaBetaBackwardCUDAKernel "
        "GammaBetaBackwardCUDAKernel_32x32 AddFunctor MulScalarFunctor MMA_Atom GMMA Major ScaleIn TiledMMA SM90 "
        "copy_device_to_device clamp_min_scalar_kernel_impl bfloat16tofloat32_copy_kernel_cuda hiprandStatePhilox4_32_10 "
        "Im2d2Col_v2 batched_transpose_16x32_half batched_transpose_32x16_half batched_transpose_16x16_half "
        "MIOpenBatchNormFwdTrainSpatial MIOpenBatchNormBwdSpatial MIOpenBatchNormFwdInferSpatialEst "
        "MIOpenBatchNormFwdTrainSpatialMeanVariance MIOpenBatchNormFwdTrainSpatialFinalMeanVariance "
        "MIOpenBatchNormFwdTrainSpatialNorm __amd_rocclr_copyBuffer __amd_rocclr_fillBufferAligned Memset Memcpy "
        "linearize_index_kernel bounds_check_indices_kernel permute_pooled_embs_kernel permute_2D_data_kernel "
        "permute_2D_lengths_kernel permute_indices_weights_kernel _offsets_range_cuda_kernel store_kvcache "
        "split_embedding_codegen_forward_unweighted_kernel split_embedding_codegen_forward_weighted_kernel "
        "ROCPRIM_NS vectorized_elementwise_kernel elementwise_kernel unrolled_elementwise_kernel reduce_kernel"
    ),
    "kernel_words": _words(
        "ampere volta turing maxwell pascal hopper blackwell sm# cutlass cutlass# nvjet xmma cudnn fmha cask gemm sgemm hgemm "
        "dgemm cgemm gcgemm scudnn hcudnn icudnn bf# f# s# h# i# e#m# tf# nn nt tn tt n t nhwc nchw nhwckrsc nchwkcrs "
        "align# tilesize#x#x# stage# warpsize#x#x# warpgroupsize#x#x# tensor#x#x# g# execute kernel infer train fprop "
        "dgrad wgrad implicit indexed wo smem tensorop wmma simt relu interior small medium large xregs v# "
        "sliced#x# ldg# exp stridedb splitk stridedB splitK winograd tile#t segment k off split aligned rf "
        "cudnn cublas #x #x# #x#x# #x#x#x# # Cijk Ailk Alik Bljk Bjlk RING TREE NVLS PAT COLLNET DIRECT CHAIN LL LL# "
        "SIMPLE Sum Prod Min Max MinMax PreMulSum SumPostDiv AllReduce AllGather ReduceScatter Broadcast Reduce SendRecv "
        "Generic float double half bfloat# int#_t uint#_t int# uint# u# t r#s# 3dconv #dconv bz bx coopA coopB algo# splitK "
        "NNN NNT NTN NTT TNN TNT TTN TTT hsh hss sss tss tst ttt qqtst qrtst qqsss rqsss bss bst hshs dss ddd zzz v h UserArgs "
        "B S H D C Z SB DB HB BBS BSS HHS HSS I#HS B# BH HBH Bias HA HS AS SAV SN 1LDSB# #LDSB# LDSB# AFC# AFEM# AF#EM# ASEM# "
        "ASE ASGT ASLT ASM ASAE# ASCE# AAC# APM# ABV# ACED# AMAS# BL# BS# CLR# CADS# DTLA# DTLB# DTVA# DTVB# DPKF# DVO# "
        "ELFLR# EMLL# EPS# ETSP FDSI# FL# FSSC# GRCGA# GRCGB# GRPM# GRVW# GRVWA# GRVWB# GSU# GSUAMB GSUAMBS GSUASB GSUAS GSUC# "
        "GSUWGMRR# GLS# IPD# ISA# ISA#a IU# K# KLA KLS LBSPP# LBSPPA# LBSPPB# LBSPPM# LPA# LPB# LPM# LRVW# LWPM# LDL# LDW# "
        "LDTI# MAC MDA# MGWG# MIAV# MIWT# MKFGSU# MMFGLC MMFSC MO# NLCA# NLCB# NR# NT# NTA# NTB# NTC# NTD# NTE# NTM# NTWS# "
        "NEPBS# NVn# ONLL# OLL# OPLV# PAP# PBD# PGR# PKA# PLR# PSD# RK# SIA# SS# SU# SUM# SUS# SCIUI# SPO# SRVW# SSO# SVW# "
        "SK# SKA# SKFTR# SKXCCM# SNLL# STA# TSGRA# TSGRB# TT# TLDS# TLDSMn# UMLDSA# UMLDSB# UMF# USFGRO# USFGROn# USLWC# USI# U# UIOFGRO# ULSGRO# VAW# VS# "
        "VSn# VW# VWA# VWB# VFLRP# WSGRA# WSGRB# WSK# WG# WGM# WGMXCC# WGMXCCG# WGMXCCGn# WGR# WS# MT#x#x# MI#x#x# MI#x#x#x# "
        "MIArchVgpr# XF#S"
    ),
}

STEP = re.compile(r"ProfilerStep#[0-9]{1,18}", re.ASCII)
PROFILER = re.compile(r"(PyTorch Profiler|__cupti_profiler__) \(-?[0-9]{1,9}\)", re.ASCII)
COMPILED_REGION = re.compile(r"Torch-Compiled Region: [0-9]{1,6}/[0-9]{1,6}(_[0-9]{1,6})?", re.ASCII)

NAMESPACES = _words(
    "aten prim prims torch torchvision torchaudio c10d _c10d_functional c10d_functional autograd quantized fbgemm mkldnn "
    "onednn inductor profiler symm_mem rocm xpu mtia"
)
"""Before the `::` of an operator."""

OVERHEADS = frozenset(
    [
        "Buffer Flush", "Command Buffer Full", "Unrecognized", "Instrumentation", "Resource", "Driver Compiler",
        "Runtime Triggered Module Loading", "Lazy Function Loading", "Activity Buffer Request", "UVM Activity Init",
        "Context Sync", "Event Sync", "Stream Sync", "Stream Wait Event", "Unknown Sync",
    ]
)  # fmt: skip
"""Of the profiler, and kinds of synchronization."""

BUILTIN_OWNERS = _words(
    "Tensor Parameter type PyCapsule dict list str tuple set frozenset bytes int float bool module builtin_function "
    "mappingproxy torch.Event torch.storage.UntypedStorage torch._C._EngineBase torch._C._profiler.RecordFunctionFast "
    "torch._C.DisableTorchFunctionSubclass torch.cuda.Stream torch.cuda.Event torch._C.Generator torch.Generator "
    "_thread.lock _thread.RLock _multiprocessing.SemLock collections.deque collections.defaultdict numpy.ndarray "
    "numpy.ufunc numpy.nditer re.Pattern re.Match _contextvars.ContextVar collections.OrderedDict ImagingCore ImagingDecoder ImagingEncoder numpy.int32 numpy.int64 "
    "numpy.float32 numpy.float64 pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1 "
    "FunctionMeta _ParameterMeta Event Stream object"
)

LOADERS = _words("_SingleProcessDataLoaderIter _MultiProcessingDataLoaderIter")
FOLDERS = _words("torch triton compiler site-packages dist-packages lib lib64 _inductor _dynamo parallel")
"""Parts of a path that stay, wherever they stand."""

FILES = _words("<string> <stdin> <__array_function__")
FUNCTIONS = _words("launcher dynamic_func <module> <lambda> <genexpr> <listcomp> <dictcomp> <setcomp> forward backward main")

TYPES = _words(
    "Scalar ScalarList GenericList TensorList Tensor Device Int Bool Double Long Float Half BFloat16 Byte Char Short "
    "float double bool int long short unsigned signed char c10::BFloat16 c10::Half c10::Float8_e4m3fn "
    "c10::Float8_e5m2 c10::Float8_e4m3fnuz c10::Float8_e5m2fnuz c10::Float8_e8m0fnu c10::complex<float> "
    "c10::complex<double> c10::complex<c10::Half> c10::quint8 c10::qint8 c10::qint32 c10::quint4x2 c10::quint2x4 "
    "ComplexFloat ComplexDouble Float8_e4m3fn Float8_e5m2 Float8_e4m3fnuz Float8_e5m2fnuz QInt8 QUInt8 QInt32 "
    "UInt16 UInt32 UInt64 None String"
)
"""Words of types in arguments."""

CONSTANTS = frozenset(
    _words(
        "none mean sum tanh constant reflect replicate circular floor trunc add max min nearest linear bilinear bicubic "
        "trilinear True False None nan inf -inf cpu cuda hip xpu mps mtia meta"
    )
    | {""}
)
"""Values of arguments that are words."""

COLLECTIVES = frozenset(
    _COLLECTIVES
    | _words("allreduce allgather broadcast wait _allgather_base _reduce_scatter_base reduce_scatter alltoall all_to_all "
             "allreduce_coalesced allgather_coalesced allgather_into_tensor_coalesced reduce_scatter_tensor_coalesced "
             "alltoallv barrier send recv gather scatter reduce all_to_allv init")
)  # fmt: skip

BACKENDS = _words("nccl rccl gloo xccl hccl ucc mpi undefined custom fake threaded cpu cuda hip xpu mtia mps meta")
"""Back ends of groups, and the devices they are for."""

CAPTURED = frozenset(
    _words("cpu cuda hip xpu mps mtia meta highest high medium DataParallel DistributedDataParallel DeepSpeedEngine "
           "FullyShardedDataParallel FSDPModule nccl gloo mpi ucc xccl float16 bfloat16 float32 float64 int8 uint8 int16 "
           "int32 int64 bool complex64 complex128 float8_e4m3fn float8_e5m2 torch.float16 torch.bfloat16 torch.float32 "
           "torch.float64 torch.int8 torch.uint8 torch.int64 torch.int32 torch.bool prof.step optimizer dataloader "
           "complete exit exception signal gave-way")
)  # fmt: skip
"""Words in what a capture records."""

GPU_WORDS = frozenset(
    word.lower()
    for word in (
        "NVIDIA AMD Intel Instinct Tesla GeForce RTX GTX Quadro Radeon Pro Graphics Data Center GPU Max Arc Ada Generation "
        "Blackwell Server Workstation Edition Laptop MIG Ti Super XT XTX HBM2 HBM2e HBM3 HBM3e PCIe SXM SXM2 SXM3 SXM4 SXM5 "
        "SXM6 DGXS NVL OAM VF HVM PG509 PG506 Titan V T4 T4G L4 L40 L40S A2 A10 A10G A16 A30 A40 A100 A100X A800 H20 H100 "
        "H800 H200 GH200 GB200 GB300 B100 B200 B300 V100 P4 P40 P100 K80 M40 M60 MI50 MI60 MI100 MI210 MI250 MI250X MI300 "
        "MI300A MI300X MI308X MI325X MI350X MI355X PG50 SXM-64GB"
    ).split()
)

THREAD = re.compile(
    r"(stream|Stream|thread|Thread|GPU|MTIA|Device|pt_autograd|pt_nccl_watchdg|pt_nccl_heartbt|pt_main_thread)"
    r"[\s_]{0,2}[0-9]{0,20} {0,2}( Submission Queue)?",
    re.ASCII,
)
NAMED_THREAD = re.compile(r"(thread [0-9]{1,20}) \(.*\)", re.DOTALL | re.ASCII)
PROCESS = re.compile(r"python([0-9](\.[0-9]{1,2})?)?|CPU|GPU [0-9]{1,4}|MTIA [0-9]{1,4}|Spans|Traces|"
                     r"(Trace )?(PyTorch Profiler|__cupti_profiler__)|", re.ASCII)  # fmt: skip
