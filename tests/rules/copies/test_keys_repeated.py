"""Tests of the rule `keys-repeated`: numbers worked out by hand.

The programs: attention with fewer heads of keys than of queries, and other tensors of five axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.rules.copies.test_copies_materialized import COPY
from tests.rules.gpu_work import MATRIX_UNITS, Call, kernel, product, training
from tests.rules.judging import findings, report, table

B, KV, R, S, D = 4, 2, 7, 512, 64
HEADS = KV * R
ONCE, EXPANDED = (B, KV, 1, S, D), (B, KV, R, S, D)
QUERIES, KEYS = (B, HEADS, S, D), (B, KV, S, D)
ATTENTION = "aten::scaled_dot_product_attention"
FLASH, EFFICIENT = "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention"
MATH = "aten::_scaled_dot_product_attention_math"
TYPE = "c10::BFloat16"

Shapes = Sequence[Sequence[object]]


def expansion(before: Sequence[int] = ONCE) -> Call:
    """A view with an axis that is repeated."""
    return Call("aten::expand", [], [list(before), [], []], [TYPE, "", "Scalar"])


def copy(shape: Sequence[int] = EXPANDED, dur: int = 50, within: Sequence[str] = ("aten::reshape",)) -> Call:
    """The copy that a reshape of it needs."""
    return Call(
        "aten::copy_", [kernel(COPY, dur)], [list(shape), list(shape), []], [TYPE, TYPE, "Scalar"], within=within
    )


def attention(by: str = FLASH, queries: Sequence[int] = QUERIES, keys: Sequence[int] = QUERIES, dur: int = 300) -> Call:
    """Attention by torch's operator."""
    shapes = [list(queries), list(keys), list(keys), [], [], [], []]
    return Call(by, [kernel("flash_fwd_kernel", dur)], shapes, [TYPE] * 3 + ["Scalar"] * 4, within=(ATTENTION,))


def model(*calls: Call) -> TraceBuilder:
    """Three steps of attention with products of 600 us around it."""
    return training([product(MATRIX_UNITS, 600, dtype=TYPE), *calls])


def fires() -> TraceBuilder:
    """Keys and values are repeated in 50 us each, beside 900 us of other work."""
    return model(expansion(), copy(), expansion(), copy(), attention())


def fires_without_a_flash_kernel() -> TraceBuilder:
    """The memory-efficient kernel takes no grouped queries."""
    return model(expansion(), copy(), expansion(), copy(), attention(EFFICIENT))


def fires_on_batched_products() -> TraceBuilder:
    """Attention written out: the repeated keys are the second factor, transposed."""
    scores = product(MATRIX_UNITS, 150, [[B * HEADS, S, D], [B * HEADS, D, S]], TYPE)
    values = product(MATRIX_UNITS, 150, [[B * HEADS, S, S], [B * HEADS, S, D]], TYPE)
    return model(expansion(), copy(), scores, expansion(), copy(), values)


def fires_with_heads_after_the_sequence() -> TraceBuilder:
    """[batch, sequence, heads, repeats, size], transposed after the copy."""
    once, repeated = (B, S, KV, 1, D), (B, S, KV, R, D)
    return model(expansion(once), copy(repeated), expansion(once), copy(repeated), attention())


def fires_in_a_table() -> str:
    """A tenth of the device time is copies of expanded keys."""
    return printed(str([list(ONCE), [], []]))


def fires_in_a_table_with_other_copies() -> str:
    """Other copies below `reshape` take 60 ms."""
    return printed(str([list(ONCE), [], []]), others=60)


def quiet() -> TraceBuilder:
    """Copies that take little time."""
    return model(expansion(), copy(dur=5), expansion(), copy(dur=5), attention())


def quiet_in_a_table() -> str:
    """Copies of tensors without an expanded axis."""
    return printed(str([[B, KV, S, D], [], []]))


def trap_windows() -> TraceBuilder:
    """A vision model cuts an image into windows: five axes, none of them expanded."""
    return model(copy((B, 8, 7, 56, 64), 100), attention())


def trap_expanded_but_no_heads() -> TraceBuilder:
    """An expanded tensor of other sizes is copied, and attention has nothing to do with it."""
    return model(expansion((B, 3, 1, S, D)), copy((B, 3, 4, S, D), 100), attention())


def trap_split_of_queries_keys_values() -> TraceBuilder:
    """One product makes queries, keys and values: [batch, sequence, 3, heads, size]."""
    return model(copy((B, S, 3, HEADS, D), 100), attention())


def trap_attention_repeats_by_itself() -> TraceBuilder:
    """With enable_gqa=True, the fallback repeats keys and values by itself."""
    inside = (ATTENTION, MATH, "aten::repeat_interleave", "aten::clone")
    scores = product(MATRIX_UNITS, 150, [[B * HEADS, S, D], [B * HEADS, D, S]], TYPE)
    outer = attention(MATH, keys=KEYS, dur=10)
    return model(outer, expansion(), copy(within=inside), expansion(), copy(within=inside), scores)


def trap_without_attention() -> TraceBuilder:
    """The copies in a program without attention."""
    return model(expansion(), copy(), expansion(), copy())


def printed(before: str, others: int = 0) -> str:
    """A table of one second of device time; `others`: milliseconds of copies that have nothing to do with attention."""

    def row(name: str, own: int, shapes: str, calls: int, total: int | None = None) -> dict[str, object]:
        below = own if total is None else total
        times = {"Self CPU": "1.000ms", "CPU total": "2.000ms", "Self CUDA": f"{own}ms", "CUDA total": f"{below}ms"}
        return {"Name": name, **times, "# of Calls": calls, "Input Shapes": shapes}

    shape, query = list(EXPANDED), list(QUERIES)
    rows = [
        row("aten::expand", 0, before, 20),
        row("aten::reshape", 0, str([shape, []]), 20, 100 + others),
        row("aten::copy_", 100, str([shape, shape, []]), 20),
        row("aten::copy_", others, "[[512, 512], [512, 512], []]", 20),
        row(ATTENTION, 0, str([query, query, query, [], [], [], []]), 10, 300),
        row(FLASH, 300, str([query, query, query, [], [], []]), 10),
        row("aten::mm", 600 - others, "[[2048, 2048], [2048, 2048]]", 100),
    ]
    return table(rows, cpu="100.000ms", device="1.000s")


RULE = "keys-repeated"


def test_half_to_all_of_the_copies_before_a_flash_kernel() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(100 / 1000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000, 100_000))
    assert (finding.summary.params["heads"], finding.summary.params["queries"]) == (2, 14)
    assert finding.summary.params["copies"] == 2
    shape = str(list(EXPANDED)).replace(" ", "")
    assert finding.evidence[0].where[0].shapes == f"[{shape},{shape},[]]"
    assert finding.stage == "preview"


@pytest.mark.parametrize("build", [fires_without_a_flash_kernel, fires_on_batched_products])
def test_other_kernels_may_not_take_fewer_heads(build) -> None:  # type: ignore[no-untyped-def]
    (finding,) = findings(build(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(100_000))


def test_heads_after_the_sequence() -> None:
    (finding,) = findings(fires_with_heads_after_the_sequence(), RULE)
    assert (finding.summary.params["heads"], finding.summary.params["queries"]) == (2, 14)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000, 100_000))


def test_a_table_tells_as_much() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000_000, 100_000_000))


@pytest.mark.parametrize("build", [fires, fires_in_a_table])
def test_the_same_copies_are_no_other_finding(build) -> None:  # type: ignore[no-untyped-def]
    rules = {finding.rule for finding in report(build()).findings}
    assert RULE in rules
    assert "copies-materialized" not in rules


def test_an_older_torch_gets_no_code_that_it_lacks() -> None:
    trace = fires()
    trace.metadata["traceanalyzer"] = {"version": 1, "versions": {"torch": "2.4.1"}}
    (finding,) = findings(trace, RULE)
    assert not finding.code
    assert "2.5" in finding.advice.text


def test_other_copies_of_a_table_stay_another_finding() -> None:
    # 160 ms of copies below reshape, of which keys and values are 100 ms
    (finding,) = findings(fires_in_a_table_with_other_copies(), "copies-materialized")
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((30_000_000, 60_000_000))
    assert [place.shapes for place in finding.evidence[0].where] == ["[[512, 512], [512, 512], []]"]
