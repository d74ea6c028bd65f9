"""Names keep what analyses read of them, and lose everything else."""

from __future__ import annotations

import re

import pytest

from tests.knowledge.framework_examples import FRAMES, MARKS
from tests.knowledge.framework_examples import NAMES as NAMES_OF_FRAMEWORKS
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_names import uses_tensor_cores
from traceanalyzer.readers.kineto.fields import TableGroup
from traceanalyzer.rewrite.hashed import Secret
from traceanalyzer.rewrite.names import Names

NAMES = Names(Secret("key"))


@pytest.mark.parametrize("name", [mark for _, mark, _ in MARKS])
def test_marks_of_steps_keep_their_counts(name: str) -> None:
    for group in (TableGroup.HOST, TableGroup.GPU_ANNOTATION):
        assert NAMES.of(group, name) == name


@pytest.mark.parametrize(("framework", "name"), [example for example in NAMES_OF_FRAMEWORKS if example[0] != "mtia"])
def test_names_tell_of_the_same_framework(framework: str, name: str) -> None:
    known = next(known.names for known in FRAMEWORKS if known.id == framework)
    assert known
    assert known.compiled.search(NAMES.of(TableGroup.HOST, name))


@pytest.mark.parametrize(("framework", "name"), FRAMES)
def test_frames_tell_of_the_same_framework(framework: str, name: str) -> None:
    known = next(known.frames for known in FRAMEWORKS if known.id == framework)
    assert known
    assert known.compiled.search(NAMES.of(TableGroup.FRAME, name))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("zebra/vllm/zebra.py(3): zebra", r"folder_\w{12}/folder_\w{12}/file_\w{12}\.py\(3\): function_\w{12}"),
        (
            "/home/zebra/vllm/v1/zebra/zebra.py(3): zebra",
            r"/folder_\w{12}/folder_\w{12}/vllm/v1/folder_\w{12}/file_\w{12}\.py\(3\): function_\w{12}",
        ),
        ("transformers/zebra.py(3): main", r"transformers/file_\w{12}\.py\(3\): main"),
        ("/zebra/torchtitan/train.py(3): main", r"/folder_\w{12}/torchtitan/train\.py\(3\): main"),
    ],
)
def test_of_a_path_only_the_package_stays(name: str, shape: str) -> None:
    assert re.fullmatch(shape, NAMES.of(TableGroup.FRAME, name))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Optimizer.step#SGD.step", r"Optimizer\.step#SGD\.step"),
        ("Optimizer.step#Mine.step", r"Optimizer\.step#optimizer_\w{12}\.step"),
        ("enumerate(DataLoader)#Mine.__next__", r"enumerate\(DataLoader\)#loader_\w{12}\.__next__"),
        ("MineBackward", r"function_\w{12}Backward"),
        ("MmBackward0", r"MmBackward0"),
        ("autograd::engine::evaluate_function: MineBackward", r"autograd::.*: function_\w{12}Backward"),
        ("mine::op", r"namespace_\w{12}::op_\w{12}"),
        ("mine::a::op<b::c>", r"namespace_\w{12}::op_\w{12}"),
        ("aten::mine", r"aten::op_\w{12}"),
        ("autograd::engine::evaluate_function: mine::op", r"autograd::.*: namespace_\w{12}::op_\w{12}"),
        ("ProfilerStep#12", r"ProfilerStep#12"),
        ("nccl:all_reduce", r"nccl:all_reduce"),
        ("## forward ##", r"# forward_\w{12}"),
        ("FSDP::forward (layers.0.mine)", r"FSDP::forward \(module_\w{12}\)"),
        ("step[1]", r"# range_\w{12}"),
        ("step[DECODE bs=32 user=mine]", r"# range_\w{12}"),
        ("[pl][profile][LightningModule]Mine.training_step", r"\[pl\]\[profile\]mark_\w{12}"),
        ("[param|mine|0|forward]", r"\[param\|mark_\w{12}\]"),
        ("## MineAwaitable wait() ##", r"## mark_\w{12}Awaitable wait\(\) ##"),
        ("## start_sparse_data_dist 12 ##", r"## start_sparse_data_dist 12 ##"),
        ("## start_sparse_data_dist mine ##", r"# range_\w{12}"),
        ("vllm::mine", r"vllm::op_\w{12}"),
    ],
)
def test_ranges_keep_what_analyses_read(name: str, shape: str) -> None:
    assert re.fullmatch(shape, NAMES.of(TableGroup.HOST, name))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("nn.Module: Linear_3", r"nn\.Module: Linear_3"),
        ("nn.Module: Mine_3", r"nn\.Module: Module\w{12}_3"),
        ("mine/model.py(7): attend", r"folder_\w{12}/file_\w{12}\.py\(7\): function_\w{12}"),
        (
            "/opt/lib/site-packages/torch/nn/modules/module.py(1): _call_impl",
            r"/folder_\w{12}/lib/site-packages/torch/nn/modules/module\.py\(1\): _call_impl",
        ),
        (
            "/opt/lib/site-packages/mine/a.py(1): f",
            r".*/site-packages/folder_\w{12}/file_\w{12}\.py\(1\): function_\w{12}",
        ),
        ("threading.py(10): run", r"threading\.py\(10\): run"),
        ("<ipython-input-3-ab>(5): <module>", r"<ipython-input-cell_\w{12}>\(5\): <module>"),
        ("<built-in method item of Tensor object at 0x7f00>", r"<built-in method item of Tensor object at 0x7f00>"),
        (
            "<built-in method f of Mine object at 0x7f00>",
            r"<built-in method method_\w{12} of type_\w{12} object at 0x7f00>",
        ),
    ],
)
def test_frames_keep_what_analyses_read(name: str, shape: str) -> None:
    assert re.fullmatch(shape, NAMES.of(TableGroup.FRAME, name))


@pytest.mark.parametrize("hash_kernels", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_mine_0",
        "my_gemm_kernel",
        "mine",
        "mine_flash_fwd_kernel",
        "void mine::reduce_rows<float>(int)",
    ],
)
def test_kernels_keep_their_class_and_lose_their_name(name: str, hash_kernels: bool) -> None:
    for key in range(50):
        hidden = Names(Secret(str(key)), hash_kernels=hash_kernels).of(TableGroup.DEVICE, name)
        assert "mine" not in hidden
        assert "my" not in hidden
        assert kernel_class(hidden) == kernel_class(name)
        assert uses_tensor_cores(hidden) == uses_tensor_cores(name)


def test_operators_that_the_compiler_fused_stay_unless_they_are_to_be_hashed() -> None:
    name = "triton_poi_fused__to_copy_add_relu_3"
    assert NAMES.of(TableGroup.DEVICE, name) == name
    hidden = Names(Secret("key"), hash_kernels=True).of(TableGroup.DEVICE, name)
    assert "relu" not in hidden
    assert kernel_class(hidden) == kernel_class(name)


def test_a_type_of_somebody_in_a_kernel_of_a_library_is_hashed_alone() -> None:
    hidden = NAMES.of(
        TableGroup.DEVICE, "void at::native::vectorized_elementwise_kernel<4, acme::SecretFunctor<float> >(int)"
    )
    shape = r"void at::native::vectorized_elementwise_kernel<4, type_\w{12}::type_\w{12}<float> >\(int\)"
    assert re.fullmatch(shape, hidden)


@pytest.mark.parametrize(
    "name", ["void at::native::vectorized_elementwise_kernel<4>()", "ampere_sgemm_128x64_nn", "Memset"]
)
def test_kernels_of_libraries_stay(name: str) -> None:
    assert Names(Secret("x"), hash_kernels=True).of(TableGroup.DEVICE, name) == name
