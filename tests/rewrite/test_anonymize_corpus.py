# ruff: noqa: E501, SIM905 - lists of names read best in long lines
"""Copies of real traces hold no name of the source that an independent list of public words does not know."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.rewrite.anonymize import anonymize

_SMALL = 200_000
"""Bytes of a packed trace that the ordinary run copies; TRACEANALYZER_FULL=1 takes all."""
_WORD = re.compile(r"[^\W\d]\w{2,}")
_HASH = re.compile(r"[a-z]*_?[0-9a-f]{12}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_TENSILE = re.compile(r"Cijk_[A-Z][a-z]{3}_[A-Z][a-z]{3}_[A-Z0-9][A-Za-z0-9_]*")
"""AMD's names of products are made of codes, each a few letters and a number; their first parts are the layout."""
_CODE = re.compile(r"(User|Args|Bias|Arch|Vgpr|Ailk|Alik|Bljk|Bjlk|Cijk|[A-Z]{1,9}[a-z]{0,2}|x|a|n|\d+)*")

_LIBRARIES = frozenset(
    """cudnn cublas nvjet xmma scudnn hcudnn sgemm hgemm gcgemm sliced ldg tensorop simt wmma fprop dgrad wgrad nhwc nchw
    nhwckrsc nchwkcrs tilesize warpsize warpgroupsize stridedB splitK xregs winograd fmha cutlassF aligned ampere volta turing
    sm_ tst qqtst qrtst rqsss coopA coopB TNN TNT NNN NNT NTN NTT TTN algo infer train aligna alignb alignc execute
    Cijk MIOpen miopen rocclr amd_rocclr HIP_vector_type hiprandStatePhilox rocprim ROCPRIM_ ROCPRIM_NS trampoline_kernel
    ncclKernel ncclDevKernel ncclDevComm ncclWork ncclDevKernelArgsStorage AllReduce AllGather SendRecv RING SIMPLE
    Memcpy Memset DtoD DtoH HtoD Pageable Pinned memcpy Instinct Tesla NVIDIA GeForce Radeon DGXS HBM PCIE SXM SXM2 SXM4
    fbgemm fbgemm_gpu vllm flash flashinfer deep_gemm vision nms rowwise adagrad kvcache store_kvcache mfma QKV
    paged_attention_ll mi_QKV_mfma _kernel Fp KVCacheDataType codegen gemv gemmSN gemmk cublasLt epilogue globalKernel
    BatchNormFwdTrainSpatial BatchNormBwdSpatial FinalMeanVariance MeanVariance Norm fft convolve kern nchwToNhwcKernel
    nhwcToNchwKernel FoldedNhwc im col Col Im batched transpose cunn ClassNLLCriterion updateOutput updateGradInput
    kernel_helper_stage strided_dgrad_indexed implicit_gemm Params_pre_hopper cask MTIA Submission Queue Spans Traces
    __cupti_profiler__ cupti_profiler Device Stream stream thread python CPU GPU Thread
    poi triton tem onesweep dconv conv gemv nsp kreduce splitk nonfused singleread region wgrad cnn gemvx cunn nn postprocess convertd varlen divmod gmma tofloat postprocessconvertd
    genexpr listcomp aligned contig scal embs pooled cmpkey stance cdna imaging nhwcto hfp permute mla xqa reduce_wgrad_nchw_helper largek lds half
    rerecord""".split()
)
"""Words of name schemes of cuDNN, cuBLAS, CUTLASS, NCCL, MIOpen, rocPRIM, FBGEMM and vLLM, of Kineto's own rows, and of torch/_inductor/cudagraph_trees.py."""

_FRAMEWORKS = re.compile(
    r"transformers|diffusers|xfuser|models|pipelines|generation|vllm|v1|model_executor|compilation|sglang|srt|jit_kernel|sgl_kernel|sglang_profiler"
    r"|execute_\d+_context_\d+|_generation_\d+|sq\d+sk\d+sqsq\d+sqsk\d+|capture_\d+_(FULL|DECODE)|step|DECODE|data_dist"
)
"""Words of the packages of frameworks, and of their marks of steps, whose numbers are counts."""

_MARKS = re.compile(
    r"ProfilerStep#\d+|Optimizer\.\w+#\w+\.\w+|enumerate\(Data(Loader|Pipe)\)#\S+|autograd::engine::evaluate_function: \S.*"
    r"|Torch-Compiled Region(: [\d/_]+)?|TorchDynamo Cache Lookup|Pregraph bytecode|PyTorch Profiler \(\d+\)|Record Window End"
    r"|AOTDispatcher Runtime Wrapper Prologue|__cupti_profiler__ \(-?\d+\)|Iteration Start: (PyTorch Profiler|__cupti_profiler__)"
    r"|<(forward|backward) op>|torch::jit::\(anonymous namespace\)::DifferentiableGraphBackward|(Context|Event|Stream) Sync"
    r"|Stream Wait Event|## Call CompiledFxGraph graph_\w{12} ##"
    r"|Driver Compiler|Buffer Flush|Runtime Triggered Module Loading|Lazy Function Loading|Command Buffer Full"
    r"|Activity Buffer Request|UVM Activity Init"
    r"|step\[(EXTEND|DECODE|MIXED)( [a-z_]+=\d+)+\]|## ((start|wait)_)?sparse_data_dist( \d+)? ##"
)
"""Names with spaces that PyTorch and frameworks record themselves. `Driver Compiler` and those after it are what Kineto
calls the kinds of overhead (`overheadKindString` in libkineto's cupti_strings.cpp) that CUPTI numbers
(`CUpti_ActivityOverheadKind` in cupti_activity.h)."""

_ON_HOST = ("cpu_op", "operator", "user_annotation", "gpu_user_annotation", "overhead", "cuda_runtime", "cuda_driver")


@cache
def public_words() -> frozenset[str]:
    """Identifiers of public sources, and their parts."""
    text = gzip.decompress(Path(__file__).with_name("public_tokens.txt.gz").read_bytes()).decode()
    words = {*text.split(), *sys.stdlib_module_names, *_LIBRARIES}
    return frozenset(words | {part for word in words for part in _parts(word)})


def _parts(word: str) -> list[str]:
    return [part.lower() for part in _PART.findall(word) if len(part) > 1]


def is_public(word: str) -> bool:
    """It is in the list, consists of parts of the list, or is a code of Tensile."""
    if word in public_words() or all(part in public_words() for part in _parts(word)):
        return True
    return bool(_TENSILE.fullmatch(word)) and all(_CODE.fullmatch(part) for part in word.split("_"))


def texts(value: Any) -> Iterator[str]:
    """All texts of a document, keys too."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def words(document: Any) -> set[str]:
    """Words of all texts of a document."""
    return {word for text in set(texts(document)) for word in _WORD.findall(text)}


def loaded(path: Path) -> Any:
    with gzip.open(path) as file:
        return json.load(file)


def names_on_host(document: Any) -> set[str]:
    events = document if isinstance(document, list) else document["traceEvents"]
    return {str(event.get("name")) for event in events if str(event.get("cat", "")).lower() in _ON_HOST}


def traces() -> list[Path]:
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    if not folder:
        return []
    found = sorted([*Path(folder, "corpus").glob("*.json.gz"), *Path(folder, "field").glob("*/*.json.gz")])
    everything = os.environ.get("TRACEANALYZER_FULL") == "1"
    return [path for path in found if everything or path.stat().st_size < _SMALL]


NO_CORPUS = pytest.param(None, id="no corpus", marks=pytest.mark.skip(reason="TRACEANALYZER_CORPUS is not set"))


@pytest.mark.corpus
@pytest.mark.parametrize("path", traces() or [NO_CORPUS], ids=lambda path: path.name)
def test_no_name_of_a_real_trace_remains_but_public_ones(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "shared.json.gz"
    anonymize(str(path), target, key="key")
    source, copy = loaded(path), loaded(target)
    left = {word for word in words(source) & words(copy) if not is_public(word) and not _HASH.fullmatch(word)}
    assert {word for word in left if not _FRAMEWORKS.fullmatch(word)} == set()
    marks = {
        name for name in names_on_host(source) & names_on_host(copy) if " " in name and not name.startswith("triton_")
    }
    assert {name for name in marks if not _MARKS.fullmatch(name)} == set()


def test_the_list_knows_no_secret() -> None:
    assert is_public("vectorized_elementwise_kernel")
    assert is_public("cudaLaunchKernel")
    assert is_public("cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4")
    for secret in ("owlv2", "dper3", "pyper", "sglang", "Cijk_Ailk_Bljk_acmesecret", "nanogpt"):
        assert not is_public(secret)
