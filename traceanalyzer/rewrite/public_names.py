# ruff: noqa: E501 - lists of names read best in long lines
"""Public names: those of PyTorch, its libraries and Python itself. Every other name is private.

The lists in `public/` contain exact names (scripts/public_names.py collects them). A pattern never lets free text pass:
its matches are looked up, or consist of numbers.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

LONGEST = 8192
"""Greatest length of a name that is examined; longer ones are hashed as a whole."""


@cache
def public(kind: str) -> frozenset[str]:
    """The names of a list: those that were collected, and in `.more.txt` what older releases and other packages have."""
    folder = files("traceanalyzer.rewrite") / "public"
    texts = [path.read_text("ascii") for name in (kind, f"{kind}.more") if (path := folder / f"{name}.txt").is_file()]
    return frozenset(line for text in texts for line in text.split("\n")) - {""}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STEP = re.compile(r"ProfilerStep#[0-9]{1,18}", re.ASCII)
PROFILER = re.compile(r"(PyTorch Profiler|__cupti_profiler__) \(-?[0-9]{1,9}\)", re.ASCII)
COMPILED_REGION = re.compile(r"Torch-Compiled Region: [0-9]{1,6}/[0-9]{1,6}(_[0-9]{1,6})?", re.ASCII)
SPARSE_DATA_DIST = re.compile(r"## (start_|wait_)?sparse_data_dist( [0-9]{1,18})? ##", re.ASCII)
NUMBERED = (STEP, PROFILER, COMPILED_REGION, SPARSE_DATA_DIST)
"""Marks of public words with numbers in them."""

NAMESPACES = _words(
    "aten prim prims torch torchvision torchaudio c10d _c10d_functional c10d_functional autograd quantized fbgemm mkldnn "
    "onednn inductor profiler symm_mem rocm xpu mtia npu vllm sglang sglang_profiler sgl_kernel trtllm tensorrt_llm fsdp"
)
"""Before the `::` of an operator."""

OVERHEADS = frozenset(
    [
        "Buffer Flush", "Command Buffer Full", "Unrecognized", "Instrumentation", "Resource", "Driver Compiler",
        "Runtime Triggered Module Loading", "Lazy Function Loading", "Activity Buffer Request", "UVM Activity Init",
        "Context Sync", "Event Sync", "Stream Sync", "Stream Wait Event", "Unknown Sync",
    ]
)  # fmt: skip
"""Names of the profiler's overhead, and kinds of synchronization."""

CATEGORIES = _words("mtia_ccp_events cuda_profiler_range")
"""Kinds of events that kineto writes and no analysis uses, but that show what ran."""

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
"""Parts of a path that are kept at any place."""

FILES = _words("<string> <stdin> <__array_function__")
FUNCTIONS = _words(
    "launcher dynamic_func <module> <lambda> <genexpr> <listcomp> <dictcomp> <setcomp> forward backward main"
)

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

BACKENDS = _words("nccl rccl gloo xccl hccl ucc mpi undefined custom fake threaded cpu cuda hip xpu mtia mps meta")
"""Back ends of groups, and the devices they are for."""

CAPTURED = frozenset(
    _words("cpu cuda hip xpu mps mtia meta highest high medium DataParallel DistributedDataParallel DeepSpeedEngine "
           "FullyShardedDataParallel FSDPModule nccl gloo mpi ucc xccl float16 bfloat16 float32 float64 int8 uint8 int16 "
           "int32 int64 bool complex64 complex128 float8_e4m3fn float8_e5m2 torch.float16 torch.bfloat16 torch.float32 "
           "torch.float64 torch.int8 torch.uint8 torch.int64 torch.int32 torch.bool prof.step optimizer dataloader "
           "complete exit exception signal gave-way")
)  # fmt: skip
"""Words in the facts that a capture records."""

GPU_WORDS = _words(
    "nvidia amd intel intel(r) (tm) instinct tesla geforce rtx gtx quadro radeon pro graphics data center gpu max "
    "arc ada generation blackwell server workstation edition laptop mig ti super xt xtx hbm2 hbm2e hbm3 hbm3e pcie "
    "sxm sxm2 sxm3 sxm4 sxm5 sxm6 dgxs nvl oam vf hvm pg509 pg506 titan v t4 t4g l4 l40 l40s a2 a10 a10g a16 a30 "
    "a40 a100 a100x a800 h20 h100 h800 h200 gh200 gb200 gb300 b100 b200 b300 v100 p4 p40 p100 k80 m40 m60 mi50 mi60 "
    "mi100 mi210 mi250 mi250x mi300 mi300a mi300x mi308x mi325x mi350x mi355x pg50 sxm-64gb rx gre x xp (pascal) d sff "
    "mx150 mx250 mx330 gv100 a2000 a4000 a4500 a5000 a5500 a6000 orin xavier gb10"
)
"""Words in names of GPUs, in lower case."""

TASKS = _words(
    "event_wait event_record dma_request pe_exe AI_CORE AI_CPU AI_VECTOR_CORE MIX_AIC MIX_AIV AIV_SQE C_CORE_SQE DSA_SQE "
    "KERNEL_AICORE KERNEL_AICPU KERNEL_AIVEC KERNEL_MIX_AIC KERNEL_MIX_AIV FFTS_PLUS HCCL COMMUNICATION ROCCE_SQE RDMA "
    "EVENT_WAIT EVENT_RECORD EVENT_RESET EVENT_WAIT_SQE EVENT_RECORD_SQE NOTIFY_WAIT NOTIFY_RECORD NOTIFY_WAIT_SQE "
    "NOTIFY_RECORD_SQE WRITE_VALUE_SQE PLACE_HOLDER_SQE CONDITION_SQE END_SQE MEM_WAIT_VALUE MEM_WRITE_VALUE "
    "CAPTURE_WAIT CAPTURE_RECORD MODEL_EXECUTE MODEL_MAINTAINCE SDMA SDMA_SQE PCIE_DMA_SQE MEMCPY_ASYNC TPC MME DMA NIC"
)
"""What queues of devices that are not GPUs run by themselves, types of task of Ascend NPUs, engines of Gaudi."""

ENGINE = re.compile(r"(TPC|MME|DMA|NIC)|STM_[0-9]_(RX|TX|QPC)", re.ASCII)
"""Words in names of events on Gaudi's engines."""

THREAD = re.compile(
    r"(stream|Stream|thread|Thread|GPU|MTIA|Device|pt_autograd|pt_nccl_watchdg|pt_nccl_heartbt|pt_main_thread)"
    r"[\s_]{0,2}[0-9]{0,20} {0,2}( Submission Queue)?",
    re.ASCII,
)
NAMED_THREAD = re.compile(r"(thread [0-9]{1,20}) \(.*\)", re.DOTALL | re.ASCII)
PROCESS = re.compile(r"python([0-9](\.[0-9]{1,2})?)?|CPU|GPU [0-9]{1,4}|(MTIA|NPU|HPU) [0-9]{1,4}|NPU|CANN|Ascend Hardware|Communication|Overlap Analysis|Spans|Traces|"
                     r"(Trace )?(PyTorch Profiler|__cupti_profiler__)|", re.ASCII)  # fmt: skip
