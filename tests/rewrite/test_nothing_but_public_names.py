# ruff: noqa: E501 - lists of names read best in long lines
"""Every name that is not an exact public name is hashed, whatever it looks like."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.readers.kineto.fields import CATEGORIES, TableGroup
from traceanalyzer.rewrite.anonymize import anonymize
from traceanalyzer.rewrite.hashed import Secret
from traceanalyzer.rewrite.names import Names

NAMES = Names(Secret("key"))
SECRET = "acmezebra"

PREFIXES = [
    "", "async", "async_", "torch.", "torch::", "torch.nn.", "aten::", "aten::mm", "aten::_", "prims::", "c10d::", "nccl:",
    "nccl:all_reduce", "AOTDispatcher ", "Torch-Compiled Region: ", "Torch-Compiled Region: 0/0 ", "ProfilerStep#", "ProfilerStep#1",
    "PyTorch Profiler (0)", "Optimizer.step#", "Optimizer.", "enumerate(DataLoader)#", "enumerate(DataPipe)#", "FSDP::forward (",
    "## Call CompiledFxGraph ", "autograd::engine::evaluate_function: ", "torch::autograd::", "torch::autograd::CppNode<",
    "numpy/../", "torch/", "torch/nn/modules/", "/x/site-packages/torch/", "site-packages/../", "json/", "logging/",
    "<frozen ", "<frozen importlib.", "<frozen importlib._bootstrap>/", "<ipython-input-", "<eval_with_key>.1", "nn.Module: ",
    "nn.Module: Linear_", "<built-in method ", "<built-in method mm of ", "<built-in function ", "<string>(1): ",
    "threading.py(10): ", "torch/nn/modules/module.py(1): ", "triton_poi_fused_", "triton_poi_fused_add_", "triton_", "triton__0d1d",
    "void at::native::", "void at::native::vectorized_elementwise_kernel<4, ", "at::native::", "cutlass_80_tensorop_", "Cijk_",
    "Cijk_Ailk_Bljk_", "nvjet_", "sm80_xmma_", "ncclDevKernel_", "ncclKernel_AllReduce_", "Memcpy HtoD (", "Memcpy ", "Memset",
    "ampere_sgemm_128x64_", "_ZN2at6native", "cuda", "cudaLaunchKernel", "hip", "cu", "Buffer Flush", "stream 7 ", "thread 1 (",
    "step[DECODE bs=32]", "step[", "step[DECODE bs=3 ", "execute_context_1(2)_generation_0(0)", "execute_", "capture_32_FULL", "capture_",
    "[Executor] _forward_step 7: ", "execute_diffusion_1_256x256_", "[pl][profile]", "[pl][module]", "[param|", "## all2all_data:", "## ",
    "## start_sparse_data_dist ", "gpu_model_runner: ", "vllm::", "sglang::", "npu::", "vllm/", "/x/vllm/v1/", "transformers/models/",
    "/x/site-packages/transformers/", "torchtitan/train.py(1): ", "/x/site-packages/", "nn.Module: DeepSpeedEngine_",
    "thread ", "python3.", "GPU 0", "pt_autograd_", "fwdbwd", "ac2g", "launch", "<forward op>",
]  # fmt: skip
SUFFIXES = [
    "]", "Awaitable wait() ##", "/vllm/v1/worker.py(3): forward",
    "", "Backward0", "Backward", " ##", ".step", ".__next__", "(12): run", ".py(3): forward", "/model.py(1): main", ">(12): run",
    "_0", "<float>", "(int)", "> >(int)", ")", " object at 0x7f00>", " of Tensor object at 0x7f00>", ">", "_kernel", "\n", " (dynamo_timed)",
]  # fmt: skip
GROUPS = [TableGroup.HOST, TableGroup.LAUNCH, TableGroup.DEVICE, TableGroup.GPU_ANNOTATION, TableGroup.FRAME, TableGroup.SYNC, TableGroup.OVERHEAD, TableGroup.FLOW,
          TableGroup.ACCELERATOR, TableGroup.INSTANT, TableGroup.IGNORED, TableGroup.UNKNOWN, TableGroup.SPAN,
          TableGroup.ARROW, TableGroup.GRAPH_NODE, TableGroup.COUNTER]  # fmt: skip

secrets = st.sampled_from(
    [SECRET, f"_{SECRET}_", f"{SECRET}/../x", f"\n{SECRET}", f"{SECRET}\x00", f"x{SECRET}1", f"É{SECRET}"]
)
names = st.builds("".join, st.tuples(st.sampled_from(PREFIXES), secrets, st.sampled_from(SUFFIXES)))


@given(names, st.sampled_from(GROUPS), st.booleans())
def test_a_secret_behind_a_public_prefix_is_hashed(name: str, group: TableGroup, hash_kernels: bool) -> None:
    assert SECRET not in Names(Secret("key"), hash_kernels=hash_kernels).of(group, name)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_secret_between_any_two_public_parts_is_hashed(prefix: str) -> None:
    for suffix in SUFFIXES:
        name = prefix + SECRET + suffix
        hidden = [NAMES.of(group, name) for group in GROUPS]
        hidden += [NAMES.thread(name), NAMES.process(name), NAMES.group(name)]
        assert not [text for text in hidden if SECRET in text]


@pytest.mark.parametrize(
    ("group", "name"),
    [
        (TableGroup.HOST, "async_upload_to_acme_secret_bucket"),
        (TableGroup.HOST, "torch.acme_secret"),
        (TableGroup.HOST, "AOTDispatcher acme secret"),
        (TableGroup.HOST, "acme_secret (dynamo_timed)"),
        (TableGroup.HOST, "nccl:acme_secret"),
        (TableGroup.HOST, "AcmeSecretBackward0"),
        (TableGroup.HOST, "aten::acme_secret"),
        (TableGroup.FRAME, "<frozen acme.secret.loader>(12): run"),
        (TableGroup.FRAME, "numpy/../acme/secret.py(1): run"),
        (TableGroup.FRAME, "json/acme_secret.py(1): run"),
        (TableGroup.FRAME, "torch/nn/modules/acme_secret.py(1): forward"),
        (TableGroup.FRAME, "/home/acme/torch/nn/modules/secret.py(1): forward"),
        (TableGroup.FRAME, "torch/nn/modules/module.py(1): acme_secret"),
        (TableGroup.FRAME, "<built-in method acme_secret of Tensor object at 0x7f00>"),
        (TableGroup.FRAME, "<built-in function acme_secret>"),
        (TableGroup.LAUNCH, "acme_secret"),
        (TableGroup.LAUNCH, "cudaAcmeSecret"),
        (TableGroup.OVERHEAD, "acme secret"),
        (TableGroup.DEVICE, "acme_secret_gemm"),
        (TableGroup.DEVICE, "void at::native::reduce_kernel<acme::Secret>(int)"),
        (TableGroup.DEVICE, "triton_poi_fused_acme_secret_0"),
    ],
)
def test_examples_are_hashed(group: TableGroup, name: str) -> None:
    hidden = NAMES.of(group, name).lower()
    assert "acme" not in hidden
    assert "secret" not in hidden


@pytest.mark.parametrize(
    "name", ["аten::mm", "aten::mm\n", " aten::mm", "aten::ｍｍ", "ProfilerStep#١٢", "Memcpy DtoH\n"]
)
def test_look_alikes_are_no_public_names(name: str) -> None:
    for group in GROUPS:
        assert NAMES.of(group, name) != name


@given(
    st.sampled_from(GROUPS), st.sampled_from(["a", "_", "/", "(1): ", "::", "<", "0", "Backward", "x ", "triton_", "é"])
)
def test_names_of_any_length_are_hashed(group: TableGroup, piece: str) -> None:
    name = piece * (100_000 // len(piece))
    assert len(NAMES.of(group, name)) < 300


values = st.recursive(
    secrets | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(secrets, inner, max_size=2),
)
keys = st.sampled_from(
    ["Input type", "Concrete Inputs", "Input Dims", "Collective name", "dtype", "Process Group Name", "Process Group Ranks",
     "Process Group Description", "name", "labels", "stream", "device", "kernel_file", "Call stack", "Module Hierarchy",
     "Sequence number", "correlation", "External id", "Trace name", "cmd_name", "sort_index"]
) | secrets  # fmt: skip
events = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "M", "i", "s", SECRET]), "cat": st.sampled_from([*CATEGORIES, SECRET, SECRET.upper()]), "ts": st.just(1)},
    optional={
        "name": names | st.sampled_from(["process_name", "thread_name", "process_labels"]),
        "pid": values, "tid": values, "id": values, "bp": secrets, "s": secrets, "cname": secrets, "dur": values,
        "args": st.dictionaries(keys, values, max_size=4),
    },
)  # fmt: skip
metadata = st.dictionaries(
    st.sampled_from(["deviceProperties", "distributedInfo", "displayTimeUnit", "schemaVersion", "hostname", "traceName",
                     "with_stack", "traceanalyzer", "nccl_version"]) | secrets,
    values | st.just([{"name": f"NVIDIA {SECRET}", SECRET: 1, "id": 0, "uuid": SECRET}])
    | st.just({"backend": f"cuda:{SECRET}", "rank": SECRET, SECRET: 2, "nccl_version": SECRET,
               "pg_config": [{"pg_name": SECRET, "backend_config": SECRET, SECRET: 1, "ranks": [SECRET]}]})
    | st.just({"version": 1, "versions": {"torch": SECRET}, "optimizers": [{"name": SECRET, "groups": 1, "tensors": 1}],
               "devices": [{"kind": SECRET, "index": 0, "name": SECRET}], "parallel": [{"name": SECRET}]}),
    max_size=4,
)  # fmt: skip


@given(st.lists(events, max_size=6), metadata)
def test_no_field_of_a_file_lets_a_secret_through(found: list[object], around: dict[str, object]) -> None:
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "t.json"), Path(folder, "shared.json")
        source.write_text(json.dumps({**around, "traceEvents": found}))
        anonymize(str(source), target)
        assert SECRET not in target.read_text().lower()


@pytest.mark.parametrize(
    ("operator", "text", "left"),
    [
        ("aten::einsum", "bhqd,bhkd->bhqk", "abcd,abed->abce"),
        ("aten::einsum", "...ij, ...jk -> ...ik", "...ab, ...bc -> ...ac"),
        ("aten::einsum", "acme,zebra->bear", "abcd,edfga->fdag"),
        ("aten::einsum", "acme,zebra->secret", ""),
        ("aten::einsum", "our launch is on the third of may->so tell no one", ""),
        ("aten::einsum", "mean", "mean"),
        ("acme::einsum", "bhqd,bhkd->bhqk", ""),
        ("aten::copy_", "the launch is in may->so tell no one", ""),
    ],
)
def test_only_equations_of_einsum_stay_and_their_letters_spell_nothing(
    operator: str, text: str, left: str, tmp_path: Path
) -> None:
    args = {"Concrete Inputs": [text, "[1, 2]", "cuda:0"]}
    event = {"ph": "X", "cat": "cpu_op", "name": operator, "ts": 1, "dur": 1, "args": args}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [event]}))
    anonymize(str(tmp_path / "t.json"), tmp_path / "shared.json")
    found = json.loads((tmp_path / "shared.json").read_text())["traceEvents"][0]
    assert found["args"]["Concrete Inputs"] == [left, "[1, 2]", "cuda:0"]
