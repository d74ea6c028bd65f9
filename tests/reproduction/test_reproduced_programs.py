"""Programs that repeat what was recorded: what they say, how long they are, what they cannot contain."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.builders import TraceBuilder
from tests.cli.running import FIXTURES, TRAINING, call
from tests.reading import read
from traceanalyzer.errors import UsageError
from traceanalyzer.reproduction import reproduce
from traceanalyzer.trace.model import Trace

CONVNET = FIXTURES / "captured" / "convnet_everything.json.gz"


def program(trace: Trace, operator: str | None = None, finding: str | None = None) -> str:
    text = reproduce(trace, operator, finding)
    ast.parse(text)
    assert text.count("\n") <= 80
    return text


def calls_of(text: str) -> list[str]:
    lines = text.splitlines()
    listed = "".join(lines[lines.index("CALLS = [") + 1 : lines.index("]")])
    return [f"{made}]),".strip() for made in listed.split("]),")[:-1]]


def one_call(**given: Any) -> Trace:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 1000, **given)
    return read(trace.to_bytes())


def test_shapes_types_strides_and_values() -> None:
    (made,) = calls_of(program(ta.load(CONVNET), "aten::addmm"))
    assert made == ("('addmm', [T((10,), 'float32'), T((4,768), 'float32'), T((768,10), 'float32', (1,768)), 1, 1]),")


def test_what_was_not_recorded_is_said() -> None:
    text = program(one_call(shapes=[[4, 8], [8, 2]], types=["float", "long int"]), "aten::mm")
    said = next(line for line in text.splitlines() if line.startswith("Not recorded:"))
    assert said == (
        "Not recorded: values of tensors (random here), indices (random within the shapes), strides (contiguous here)."
    )
    assert calls_of(text) == ["('mm', [T((4,8), 'float32'), T((8,2), 'int64', below=2)]),"]


def test_times_and_roof() -> None:
    text = program(ta.load(TRAINING), "aten::mm")
    assert (
        "RECORDED = {'recorded on the host': 22.28, 'recorded on the device': 49.98, "
        "'roof of NVIDIA A100-SXM4-40GB': 0.84}  # us" in text
    )
    assert "Recorded: 6 calls with these inputs, 0 with others" in text
    assert '"cuda" if torch.cuda.is_available() else "cpu"' in text
    assert "cuda.is_available" not in program(ta.load(CONVNET), "aten::addmm")


def test_shapes_choose_among_calls() -> None:
    trace = ta.load(TRAINING)
    wanted = program(trace, "aten::convolution[[64,64,48,48], [128,64,3,3]]")
    assert "T((64,64,48,48), 'float32')" in calls_of(wanted)[0]
    with pytest.raises(UsageError, match="no calls of aten::convolution with these shapes; there are"):
        reproduce(trace, "aten::convolution[[1,2]]")


def test_variants_fit_the_operator() -> None:
    trace = ta.load(TRAINING)
    product = program(trace, "aten::mm")
    assert "timed('bfloat16'" in product
    assert "channels_last" not in product
    convolution = program(trace, "aten::convolution")
    assert "timed('channels_last'" in convolution
    assert "timed('padded'" in program(one_call(shapes=[[7, 8], [8, 2]], types=["double"] * 2), "aten::mm")
    assert "timed('float32'" in program(one_call(shapes=[[8, 8], [8, 8]], types=["double"] * 2), "aten::mm")
    transposed = one_call(shapes=[[8, 8]] * 2, types=["c10::Half"] * 2, strides=[[1, 8], [8, 1]])
    text = program(transposed, "aten::mm")
    assert "timed('contiguous'" in text
    assert "bfloat16" not in text
    assert calls_of(text) == ["('mm', [T((8,8), 'float16', (1,8)), T((8,8), 'float16')]),"]


def test_the_variant_of_a_finding_is_marked() -> None:
    text = program(ta.load(TRAINING), finding="mixed-precision-unused")
    assert "Finding: mixed-precision-unused." in text
    assert "timed('bfloat16 (advised)'" in text
    layout = program(ta.load(TRAINING), finding="conv-layout-transposes")
    assert "timed('channels_last (advised)'" in layout


def test_a_chain_feeds_results_on() -> None:
    text = program(ta.load(TRAINING), "aten::cudnn_convolution -> aten::relu")
    assert [made.split(",")[0] for made in calls_of(text)] == ["('cudnn_convolution'", "('relu'"]
    assert "which results are inputs of which operator" in text
    assert "torch.compile" in text


def test_attention_is_fused() -> None:
    trace = TraceBuilder()
    scores, weights, values = [[8, 64, 32], [8, 32, 64]], [[8, 64, 64], [], []], [[8, 64, 64], [8, 64, 32]]
    trace.op("aten::bmm", 0, 90, shapes=scores, types=["float"] * 2)
    trace.op("aten::_softmax", 100, 90, shapes=weights, types=["float", "Scalar", "Scalar"])
    trace.op("aten::bmm", 200, 90, shapes=values, types=["float"] * 2)
    named = "aten::bmm[[8,64,32],[8,32,64]] -> aten::_softmax -> aten::bmm[[8,64,64],[8,64,32]]"
    text = program(read(trace.to_bytes()), named)
    assert "F.scaled_dot_product_attention, q, k, v" in text


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ("aten::mn", "has no calls of aten::mn; did you mean aten::mean, aten::mm"),
        ("autograd::engine", "autograd::engine: is no operator of aten"),
        ("", "nothing: is no operator of aten"),
        ("aten::mm\nimport os", "is no operator of aten"),
        ("aten::x(); import os", "is no operator of aten"),
    ],
)
def test_what_is_no_operator(operator: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        reproduce(ta.load(TRAINING), operator)
    assert said in str(caught.value)


def test_operators_without_inputs() -> None:
    with pytest.raises(UsageError, match="record with record_shapes=True"):
        reproduce(one_call(), "aten::mm")
    with pytest.raises(UsageError, match="record with record_shapes=True"):
        reproduce(one_call(shapes=[[], []]), "aten::mm")


def test_findings_without_an_operator() -> None:
    trace = ta.load(TRAINING)
    with pytest.raises(UsageError, match="is about no operator of aten"):
        reproduce(trace, finding="dataloader-bound")
    with pytest.raises(UsageError, match="has no finding nonsense; there are: h2d-pageable"):
        reproduce(trace, finding="nonsense")
    with pytest.raises(UsageError, match="only one of them"):
        reproduce(trace)


@pytest.mark.parametrize(
    "value", ["__import__('os').system('x')", '"""', "1; import os", "[[[[", "x" * 9, "1e400", "nan", "[1, 2]", "True"]
)
def test_values_of_a_file_are_only_data(value: str) -> None:
    text = program(one_call(shapes=[[4, 8], []], types=["float", "Scalar"], concrete=["", value]), "aten::mm")
    (made,) = [node for node in ast.parse(text).body if isinstance(node, ast.Assign) and "CALLS" in ast.unparse(node)][
        :1
    ]
    called = {ast.unparse(node.func) for node in ast.walk(made) if isinstance(node, ast.Call)}
    assert called <= {"T", "float"}


def test_names_of_files_end_no_docstring(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10, shapes=[[4, 8], [8, 2]], types=["float"] * 2)
    file = trace.write(tmp_path / '""" + bad() + """\\.json')
    tree = ast.parse(program(ta.load(file), "aten::mm"))
    assert "bad()" in str(ast.get_docstring(tree))
    assert "bad" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_too_many_operators() -> None:
    with pytest.raises(UsageError, match="does not fit into a program of 80 lines"):
        reproduce(ta.load(TRAINING), " -> ".join(["aten::relu"] * 40))


def test_command_writes_a_program(tmp_path: Path) -> None:
    file = tmp_path / "mm.py"
    assert call("reproduce", TRAINING, "--op", "aten::mm", "-o", file).code == 0
    assert file.read_text("utf-8") == call("reproduce", TRAINING, "--op", "aten::mm").out
    assert call("reproduce", TRAINING, "--op", "aten::relu", "-o", file).code == 0  # it is ours
    file.write_text("print()", "utf-8")
    assert call("reproduce", TRAINING, "--op", "aten::mm", "-o", file).code == 2
    assert "only one of them" in call("reproduce", TRAINING).err
    assert (
        "contains printed tables" in call("reproduce", FIXTURES / "key_averages" / "article.md", "--op", "aten::mm").err
    )
