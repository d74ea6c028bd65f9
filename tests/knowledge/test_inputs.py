"""The inputs of calls, as torch and others write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.knowledge import inputs
from traceanalyzer.knowledge.inputs import Dims, Inputs, Shape, TensorList, flag, flags, integers
from traceanalyzer.knowledge.op_models.call import size

# A convolution and a concatenation as torch 2.13 writes them, and the latter as torch 2.1 did.
CONVOLUTION = Inputs(
    "[[8, 3, 32, 32], [16, 3, 3, 3], [16], [], [], [], []]",
    '["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar"]',
    "[[3072, 1024, 32, 1], [27, 9, 3, 1], [1], [], [], [], []]",
    '["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]',
)
JOINED = Inputs("[[[8, 4], [8, 2]], []]", '["TensorList", "Scalar"]', "[[[4, 1], [2, 1]], []]", '["", "1"]')
JOINED_BEFORE = Inputs("[[], []]", '["TensorList", "Scalar"]', None, '["", "1"]')


def test_a_convolution() -> None:
    assert CONVOLUTION.shapes == CONVOLUTION.dims == ((8, 3, 32, 32), (16, 3, 3, 3), (16,), (), (), (), ())
    assert CONVOLUTION.tensors == ((8, 3, 32, 32), (16, 3, 3, 3), (16,))
    assert (CONVOLUTION.shape(2), CONVOLUTION.shape(6), CONVOLUTION.shape(7)) == ((16,), (), None)
    assert (CONVOLUTION.type(0), CONVOLUTION.type(6), CONVOLUTION.type(7)) == ("float", "Scalar", "")
    assert CONVOLUTION.strides is not None
    assert CONVOLUTION.strides[:2] == ((3072, 1024, 32, 1), (27, 9, 3, 1))
    assert CONVOLUTION.values == ("", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1")
    assert CONVOLUTION.largest == 8 * 3 * 32 * 32


def test_a_list_of_tensors_has_no_single_shape() -> None:
    assert JOINED.dims == (TensorList(((8, 4), (8, 2))), ())
    assert JOINED.strides == (TensorList(((4, 1), (2, 1))), ())
    assert (JOINED.shapes, JOINED.tensors, JOINED.shape(0), JOINED.shape(1)) == (None, (), None, ())
    assert JOINED.largest == 8 * 4 + 8 * 2


def test_early_versions_write_nothing_of_the_list() -> None:
    assert JOINED_BEFORE.shapes == ((), ())
    assert (JOINED_BEFORE.largest, JOINED_BEFORE.strides) == (0, None)


@pytest.mark.parametrize("text", [None, ""])
def test_what_was_not_recorded_is_unknown(text: str | None) -> None:
    unknown = Inputs(text, text, text, text)
    assert (unknown.dims, unknown.shapes, unknown.types, unknown.strides, unknown.values) == (None,) * 5
    assert (unknown.tensors, unknown.shape(0), unknown.type(0), unknown.largest) == ((), None, "", 0)


def test_a_call_without_inputs_is_known() -> None:
    none = Inputs("[]", "[]", "[]", "[]")
    assert (none.dims, none.shapes, none.types, none.strides, none.values) == ((),) * 5


NO_LISTS = ("null", "7", '"x"', "{}", "[[3,4]", "[[3,4],", "[[1e999]]", r'["\ud800"]', "[NaN]", "\ud800", 100_000 * "[")
"""Texts of files that are cut off, damaged, or made by hand."""


@pytest.mark.parametrize("text", NO_LISTS, ids=range(len(NO_LISTS)))
def test_a_text_that_is_no_list_is_unknown(text: str) -> None:
    broken = Inputs(text, text, text, text)
    assert (broken.dims, broken.shapes, broken.types, broken.strides, broken.values) == (None,) * 5
    assert (broken.shape(0), broken.type(0), broken.largest, flags(text)) == (None, "", 0, None)


NO_SHAPES = ("3", "[true]", "[2.0]", "[-1]", "[9223372036854775808]", '["3"]', "[[[3]]]", "[[3],4]", "{}", "null")


@pytest.mark.parametrize("entry", [*NO_SHAPES, 400 * "[" + 400 * "]"])
def test_an_entry_that_is_no_shape_is_unknown_and_the_others_are_not(entry: str) -> None:
    found = Inputs(f"[[4, 2], {entry}, [2]]")
    assert found.dims == ((4, 2), None, (2,))
    assert (found.shapes, found.tensors, found.shape(0), found.largest) == (None, (), (4, 2), 8)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("__int64", "long int"),  # Windows
        ("unsigned __int64", "unsigned long int"),
        ("long long", "long int"),  # Macs
        ("unsigned long long", "unsigned long int"),
        ("struct c10::BFloat16", "c10::BFloat16"),
        ("struct c10::complex<struct c10::Half>", "c10::complex<c10::Half>"),
        ("long int", "long int"),
        ("c10::Half", "c10::Half"),
    ],
)
def test_types_have_one_name_on_all_systems(written: str, read: str) -> None:
    inputs = Inputs("[[2, 3], []]", json.dumps([written, ""]))
    assert inputs.types == (read, "")
    assert size(6, read) is not None


@pytest.mark.parametrize("entry", ["3", "null", "[]", "{}", "true"])
def test_a_type_or_value_that_is_no_text_is_empty(entry: str) -> None:
    found = Inputs(None, f'["float", {entry}]', None, f'["1", {entry}]')
    assert (found.types, found.values) == (("float", ""), ("1", ""))


@pytest.mark.parametrize(
    ("value", "whole", "truth", "truths"),
    [
        ("1", (1,), None, None),
        ("[1, -1]", (1, -1), None, None),
        ("[]", (), None, ()),
        ("0.5", None, None, None),
        ("[1, 0.5]", None, None, None),
        ("True", None, True, None),
        ("False", None, False, None),
        ("[True, False]", None, None, (True, False)),
        ("[true, 1]", None, None, None),
        ("bij,bjk->bik", None, None, None),
        ("", None, None, None),
        (None, None, None, None),
    ],
)
def test_values(
    value: str | None, whole: tuple[int, ...] | None, truth: bool | None, truths: tuple[bool, ...] | None
) -> None:
    assert (integers(value), flag(value), flags(value)) == (whole, truth, truths)


def test_a_text_is_parsed_once_and_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = inputs._parsed

    def counted(text: str) -> object:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(inputs, "_parsed", counted)
    texts = ('[[["once"]]]', '["only once"]', None, '["this once"]')
    calls = [Inputs(*texts) for _ in range(3)]
    assert parsed == []
    assert [(call.dims, call.types, call.type(0)) for call in calls] == 3 * [((None,), ("only once",), "only once")]
    assert parsed == ['[[["once"]]]', '["only once"]']
    assert calls[2].values == ("this once",)
    assert parsed[2:] == ['["this once"]']


SHAPES = st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple)
LISTS = st.lists(SHAPES, min_size=1, max_size=3).map(lambda shapes: TensorList(tuple(shapes)))
TEXTS = st.text(max_size=8)


def written(dims: Dims) -> object:
    return dims.shapes if isinstance(dims, TensorList) else dims


@given(st.lists(SHAPES | LISTS, max_size=4), st.lists(TEXTS, max_size=4), st.sampled_from([None, (",", ":")]))
def test_what_is_written_is_read(dims: list[Dims], texts: list[str], separators: tuple[str, str] | None) -> None:
    sizes = json.dumps(list(map(written, dims)), separators=separators)
    named = json.dumps(texts, separators=separators, ensure_ascii=False)
    found = Inputs(sizes, named, sizes, named)
    assert (found.dims, found.strides) == (tuple(dims), tuple(dims))
    assert (found.types, found.values) == (tuple(texts), tuple(texts))
    plain = [shape for shape in dims if isinstance(shape, tuple)]
    assert found.shapes == (tuple(plain) if plain == dims else None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(TEXTS, parts, max_size=2),
    max_leaves=8,
)


@given(st.text() | st.text(alphabet='[]{}",:-0123456789eE.\\u tfn') | JSON.map(json.dumps))
def test_no_text_is_an_error(text: str) -> None:
    found = Inputs(text, text, text, text)
    positions = range(len(found.dims or ()) + 1)
    shapes: list[Shape | None] = [found.shape(position) for position in positions]
    assert shapes[-1] is None
    assert found.shapes is None or list(found.shapes) == shapes[:-1]
    assert all(size >= 0 for shape in (*shapes, found.tensors[:1] and found.tensors[0]) for size in shape or ())
    assert found.largest >= 0
    assert all(isinstance(one, str) for one in (*(found.types or ()), *(found.values or ())))
    assert all(type(one) is int for one in integers(text) or ())
    assert all(type(one) is bool for one in flags(text) or ())
