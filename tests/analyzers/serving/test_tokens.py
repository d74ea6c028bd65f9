"""Tokens per second: by marks of servers, or by ids that an attention shows to be tokens."""

from __future__ import annotations

import pytest

from tests.analyzers.serving.loops import ELEMENTWISE, Loop, analyze
from traceanalyzer.analyzers.serving.tokens import TokenRate, Tokens

FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)"
WHOLE = ["float", "long int"]


def model(loop: Loop, batch: int, length: int, *, attends: bool = True) -> None:
    """A pass of a small language model: three tables of embeddings, then an attention."""
    for rows in (1000, 512, 2):
        loop.layer("aten::embedding", [rows, 64], [batch, length], kernel="indexSelectLargeIndex", types=WHOLE)
    if attends:
        query = [batch, 4, length, 16]
        loop.layer("aten::scaled_dot_product_attention", query, query, query, kernel=FLASH)


def passes(*ids: tuple[int, int]) -> Loop:
    """A step for each shape of ids."""
    loop = Loop()
    for batch, length in ids:
        loop.begin()
        model(loop, batch, length)
    return loop


def test_ids_of_the_largest_table_are_tokens() -> None:
    # 2 x 128 tokens in each step of 1 ms
    rate = TokenRate(None, 3, 2, 256, 256_000, None, "shapes")
    assert analyze(passes((2, 128), (2, 128), (2, 128))).tokens == Tokens((rate,), None)


def test_several_passes_a_step_add_up() -> None:
    loop = Loop()
    for _ in range(2):
        loop.begin()
        model(loop, 2, 128)
        model(loop, 2, 128)
    (rate,) = analyze(loop).tokens.rates
    assert (rate.requests_per_step, rate.tokens_per_step, rate.per_s) == (4, 512, 512_000)


@pytest.mark.parametrize("last", [(2, 64), (1, 128)], ids=["length", "batch"])
def test_ids_that_differ_between_steps_are_no_rate(last: tuple[int, int]) -> None:
    assert analyze(passes((2, 128), (2, 128), last)).tokens == Tokens((), "differs")


def test_steps_that_are_left_out_may_differ() -> None:
    found = analyze(passes((2, 128), (2, 128), (2, 128), (2, 64)), reasons=(None, None, None, "edge"))
    assert [(rate.steps, rate.tokens_per_step) for rate in found.tokens.rates] == [(3, 256)]


def test_a_step_without_tokens_is_not_like_the_others() -> None:
    loop = passes((2, 128), (2, 128))
    loop.begin()
    for _ in range(4):
        loop.layer("aten::add", [8], [8], kernel=ELEMENTWISE)
    assert analyze(loop).tokens == Tokens((), "differs")


def test_ids_without_an_attention_may_be_of_users_or_films() -> None:
    loop = Loop()
    loop.begin()
    model(loop, 2, 128, attends=False)
    assert analyze(loop).tokens == Tokens((), "no-tokens")


def test_an_attention_of_another_length_shows_nothing() -> None:
    loop = Loop()
    loop.begin()
    model(loop, 2, 128, attends=False)
    query = [2, 4, 99, 16]
    loop.layer("aten::scaled_dot_product_attention", query, query, query, kernel=FLASH)
    assert analyze(loop).tokens == Tokens((), "no-tokens")


@pytest.mark.parametrize(("others", "unknown"), [(1, None), (2, "no-tokens")])
def test_a_model_of_images_takes_in_no_tokens_although_it_reads_a_text(others: int, unknown: str | None) -> None:
    loop = Loop()
    loop.begin()
    model(loop, 1, 77)
    for _ in range(others):
        query = [1, 4, 4096, 16]
        loop.layer("aten::scaled_dot_product_attention", query, query, query, kernel=FLASH)
    assert analyze(loop).tokens.unknown == unknown


def test_ids_with_one_axis_tell_no_batch() -> None:
    loop = Loop()
    loop.begin()
    loop.layer("aten::embedding", [1000, 64], [256], kernel="indexSelectLargeIndex", types=WHOLE)
    assert analyze(loop).tokens == Tokens((), "no-tokens")


def served(*marks: str) -> Loop:
    """A step for each mark of a server; the host is done long before the device begins."""
    loop = Loop()
    for number, mark in enumerate(marks):
        loop.begin()
        loop.annotation(mark, loop.now + 5, 50)
        loop.launch_kernel("mystery", 1000 * number + 500, 400, at=loop.now + 10)
    return loop


def test_marks_tell_the_tokens_of_each_phase() -> None:
    found = analyze(served("step[EXTEND bs=2 toks=300]", "step[DECODE bs=32]", "step[DECODE bs=16]")).tokens
    decode = TokenRate("decode", 2, 24, 24, 24_000, 24_000, "marks")
    prefill = TokenRate("prefill", 1, 2, 300, 300_000, None, "marks")
    assert found == Tokens((decode, prefill), None)


def test_the_work_of_a_mark_is_in_the_step_in_which_the_device_does_it() -> None:
    # the mark of the second step begins within the first
    loop = Loop()
    loop.begin()
    loop.annotation("step[DECODE bs=8]", 5, 50)
    loop.launch_kernel("mystery", 100, 850, at=10)
    loop.annotation("step[DECODE bs=32]", 960, 80)
    loop.launch_kernel("mystery", 1100, 850, at=1005)
    loop.begin()
    loop.annotation("step[EXTEND bs=1 toks=9]", 1000, 50)
    rates = analyze(loop).tokens.rates
    assert [(rate.phase, rate.tokens_per_step) for rate in rates] == [("decode", 8), ("mixed", 41)]


def test_a_step_with_marks_of_both_phases_is_mixed() -> None:
    loop = Loop()
    loop.begin()
    loop.annotation("step[EXTEND bs=1 toks=100]", 5, 50)
    loop.annotation("step[DECODE bs=8]", 100, 50)
    (rate,) = analyze(loop).tokens.rates
    assert (rate.phase, rate.requests_per_step, rate.tokens_per_step, rate.generated_per_s) == ("mixed", 9, 108, None)


def test_drafted_tokens_that_are_checked_are_not_generated() -> None:
    loop = Loop()
    loop.begin()
    loop.annotation("execute_context_0(0)_generation_8(32)", 5, 50)
    (rate,) = analyze(loop).tokens.rates
    assert (rate.phase, rate.tokens_per_step, rate.generated_per_s) == ("decode", 32, None)


@pytest.mark.parametrize("mark", ["capture_32_DECODE", "step[EXTEND bs=15]", "execute_new_2_cached_30"])
def test_marks_that_do_not_tell_tokens_give_no_rate(mark: str) -> None:
    loop = Loop()
    loop.begin()
    loop.annotation(mark, 5, 50)
    assert analyze(loop).tokens.rates == ()


def test_without_steps_or_shapes_nothing_is_known() -> None:
    whole, shapeless = Loop(), Loop()
    whole.op("aten::add", 0, 10)
    shapeless.begin()
    shapeless.op("aten::add", 0, 10)
    assert [analyze(loop).tokens.unknown for loop in (whole, shapeless)] == ["no-steps", "no-shapes"]
