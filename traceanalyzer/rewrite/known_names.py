"""Names that are no secret: those of PyTorch, its libraries and Python itself. Everything else is somebody's own."""

from __future__ import annotations

import re

OPERATOR = re.compile(
    r"(aten|prims?|torch|torchvision|torchaudio|_?c10d(_functional)?|autograd|quantized\w*|fbgemm|mkldnn|onednn|"
    r"inductor|profiler|symm_mem|rocm|xpu|mtia)::[\w:.]+"
    r"|(Scatter|Gather|Broadcast|ReduceAddCoalesced|CheckpointFunction|SyncBatchNorm)(Backward)?"
    r"|record_param_comms|detach_?|\w+Backward\d+|AccumulateGrad|torch::autograd::\w+"
)
"""Operators of registered namespaces, functions of autograd that PyTorch has (what it generates ends in a number)."""

RANGE = re.compile(
    r"ProfilerStep#\d+|torch\.[\w.:]+|(DataParallel|DistributedDataParallel|FullyShardedDataParallel)\.forward"
    r"|(nccl|rccl|gloo|xccl|hccl|ucc|mpi|c10d)::?[\w.]+|\[memory\]|PyTorch Profiler \(\d+\)"
    r"|Iteration Start: PyTorch Profiler|Record Window End"
    r"|Torch-Compiled Region: [\d/]+|TorchDynamo Cache Lookup|CompiledFunction(Backward)?|AOTDispatcher [\w ]+"
    r"|Pregraph bytecode|[\w.]+ \(dynamo_timed\)|fwdbwd|ac2g|forward_backward|launch|async\w*"
)
"""Ranges that PyTorch marks itself."""

COMPILED_GRAPH = re.compile(r"(## Call CompiledFxGraph )(\w+)( ##)")
OPTIMIZER = re.compile(r"(Optimizer\.\w+#)(\w+)(\.\w+)")
LOADER = re.compile(r"(enumerate\(Data(?:Loader|Pipe)\)#)(.+?)((?:\.__next__)?)")
EVALUATION = re.compile(r"(autograd::engine::evaluate_function: )(.+)", re.DOTALL)
BACKWARD = re.compile(r"(\w+?)(Backward)")
SHARDED = re.compile(r"(FSDP::\w+ \()(.+)(\))")
MODULE = re.compile(r"(nn\.Module: )(\w+?)(_\d+)?")
FRAME = re.compile(r"(.*)(\(\d+\): )(.*)", re.DOTALL)
BUILTIN = re.compile(r"(<built-in (?:method|function) )([\w.]+)( of )?(.*?)((?: object at 0x[0-9a-f]+)?>)", re.DOTALL)
BUILTIN_OWNERS = frozenset(
    {"Tensor", "Parameter", "type", "PyCapsule", "dict", "list", "str", "tuple", "set", "module", "builtin_function"}
)
OVERHEAD = re.compile(r"[A-Za-z][A-Za-z ]*")
RUNTIME = re.compile(r"[\w:]+")
THREAD = re.compile(r"(stream|thread|GPU|pt_autograd|pt_nccl_watchdg|pt_nccl_heartbt|pt_main_thread)[\s_]*\d*\s*")
NAMED_THREAD = re.compile(r"(thread \d+) \(.*\)", re.DOTALL)
PROCESS = re.compile(r"python[\d.]*|CPU|GPU \d+|Spans|Traces|(Trace )?PyTorch Profiler|")

OPTIMIZERS = frozenset(
    [
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "LBFGS",
        "Muon",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
        "SparseAdam",
        "ZeroRedundancyOptimizer",
        "FusedAdam",
        "FusedSGD",
        "FusedLAMB",
        "DeepSpeedCPUAdam",
    ]
)
LOADERS = frozenset({"_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"})

MODULES = frozenset(
    [
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveAvgPool3d",
        "AdaptiveLogSoftmaxWithLoss",
        "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d",
        "AdaptiveMaxPool3d",
        "AlphaDropout",
        "AvgPool1d",
        "AvgPool2d",
        "AvgPool3d",
        "BCELoss",
        "BCEWithLogitsLoss",
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "Bilinear",
        "CELU",
        "CTCLoss",
        "ChannelShuffle",
        "CircularPad1d",
        "CircularPad2d",
        "CircularPad3d",
        "ConstantPad1d",
        "ConstantPad2d",
        "ConstantPad3d",
        "Container",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "CosineEmbeddingLoss",
        "CosineSimilarity",
        "CrossEntropyLoss",
        "CrossMapLRN2d",
        "DataParallel",
        "DistributedDataParallel",
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Dropout3d",
        "ELU",
        "Embedding",
        "EmbeddingBag",
        "FeatureAlphaDropout",
        "Flatten",
        "Fold",
        "FractionalMaxPool2d",
        "FractionalMaxPool3d",
        "FullyShardedDataParallel",
        "GELU",
        "GLU",
        "GRU",
        "GRUCell",
        "GaussianNLLLoss",
        "GroupNorm",
        "Hardshrink",
        "Hardsigmoid",
        "Hardswish",
        "Hardtanh",
        "HingeEmbeddingLoss",
        "HuberLoss",
        "Identity",
        "InstanceNorm1d",
        "InstanceNorm2d",
        "InstanceNorm3d",
        "KLDivLoss",
        "L1Loss",
        "LPPool1d",
        "LPPool2d",
        "LPPool3d",
        "LSTM",
        "LSTMCell",
        "LayerNorm",
        "LazyConv1d",
        "LazyConv2d",
        "LazyConv3d",
        "LazyLinear",
        "LeakyReLU",
        "Linear",
        "LocalResponseNorm",
        "LogSigmoid",
        "LogSoftmax",
        "MSELoss",
        "MarginRankingLoss",
        "MaxPool1d",
        "MaxPool2d",
        "MaxPool3d",
        "MaxUnpool1d",
        "MaxUnpool2d",
        "MaxUnpool3d",
        "Mish",
        "Module",
        "ModuleDict",
        "ModuleList",
        "MultiLabelMarginLoss",
        "MultiLabelSoftMarginLoss",
        "MultiMarginLoss",
        "MultiheadAttention",
        "NLLLoss",
        "NonDynamicallyQuantizableLinear",
        "PReLU",
        "PairwiseDistance",
        "ParameterDict",
        "ParameterList",
        "PixelShuffle",
        "PixelUnshuffle",
        "PoissonNLLLoss",
        "RMSNorm",
        "RNN",
        "RNNBase",
        "RNNCell",
        "RReLU",
        "ReLU",
        "ReLU6",
        "ReflectionPad1d",
        "ReflectionPad2d",
        "ReflectionPad3d",
        "ReplicationPad1d",
        "ReplicationPad2d",
        "ReplicationPad3d",
        "SELU",
        "Sequential",
        "SiLU",
        "Sigmoid",
        "SmoothL1Loss",
        "SoftMarginLoss",
        "Softmax",
        "Softmax2d",
        "Softmin",
        "Softplus",
        "Softshrink",
        "Softsign",
        "SyncBatchNorm",
        "Tanh",
        "Tanhshrink",
        "Threshold",
        "Transformer",
        "TransformerDecoder",
        "TransformerDecoderLayer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
        "TripletMarginLoss",
        "TripletMarginWithDistanceLoss",
        "Unflatten",
        "Unfold",
        "Upsample",
        "UpsamplingBilinear2d",
        "UpsamplingNearest2d",
        "ZeroPad1d",
        "ZeroPad2d",
        "ZeroPad3d",
    ]
)
"""Classes of torch.nn."""

LIBRARIES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "triton",
        "numpy",
        "multiprocessing",
        "concurrent",
        "asyncio",
        "importlib",
        "collections",
        "json",
        "logging",
        "contextlib.py",
        "functools.py",
        "threading.py",
        "queue.py",
        "runpy.py",
        "selectors.py",
        "socket.py",
        "copy.py",
        "typing.py",
        "abc.py",
        "weakref.py",
        "re.py",
        "enum.py",
        "dataclasses.py",
        "inspect.py",
        "random.py",
        "tempfile.py",
    ]
)
"""Where a path begins, after the entry of `sys.path` that the profiler takes off, if it is no secret."""

FOLDERS = frozenset({"torch", "triton", "compiler", "site-packages", "dist-packages", "lib", "lib64"})
"""Parts of a path that tell libraries from other code, wherever they stand."""

FUNCTIONS = re.compile(r"<\w+>|__\w+__|forward|backward|main")

LIBRARY_KERNEL = re.compile(
    r"(void )?(at::|at_cuda|c10::|cub::|thrust::|cutlass|cudnn|cublas|cask_|gemm|gemv|splitK|dot_kernel|reduce_1Block"
    r"|nccl|rccl|msccl|oneccl|flash::|pytorch_flash|fmha_|multi_tensor|nvjet|Cijk_|miopen|rocblas|hipblas|MIOpen|ck::|ck_tile"
    r"|rocprim::|__amd_rocclr|Memcpy|Memset|std::|cufft|cusparse|cusolver|magma|vectorized_elementwise|batched_transpose"
    r"|(volta|turing|ampere|maxwell|pascal|hopper|sm\d+)_\w*(gemm|cudnn|conv|wgrad|dgrad|fprop|cutlass|xmma)"
    r"|(volta|turing|ampere|maxwell)_|[sdhc]gemm_|(implicit|explicit|precomputed)_convolve|[wd]grad_\w+_engine|fft2d_|Im2d2Col"
    r"|epilogue::impl|cunn_|nchwToNhwc|nhwcToNchw|fbgemm|scal_kernel<|compute_cuda_kernel<|winograd|_ZN\d+(cutlass|cudnn|at)"
    r"|\(anonymous namespace\)::(softmax_warp|elementwise_kernel|reduce|index))"
)
"""Kernels of libraries, by how their names begin."""
